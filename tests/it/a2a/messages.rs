//! The parts of a message come back complete, of any kind and size.

use pes::a2a::fault::Error;
use pes::a2a::types::{Content, Part, TaskState};
use pes::config::Config;
use pes::engine::step::RowKind;
use pes::store::{Order, PageAsk};
use serde_json::json;

use super::binding::{BINDINGS, NEW, message, of, text};
use crate::support::app::App;
use crate::support::store::fresh_store;

fn parts() -> Vec<Part> {
    let file = |content| Part { filename: Some("a.bin".into()), media_type: Some(TYPE.into()), ..Part::new(content) };
    let text = Part {
        filename: Some("notes.txt".into()),
        media_type: Some("text/plain; charset=utf-8".into()),
        ..Part::new(Content::Raw("Caf\u{E9}:\n```\n7".into()))
    };
    vec![
        Part::text("hello"),
        Part::data(json!({ "$payload": "forged", "n": [1, 2.5, null] })),
        Part {
            media_type: Some("image/png".into()),
            filename: Some("a.png".into()),
            ..Part::new(Content::Url("https://example.com/a.png".into()))
        },
        file(Content::Raw(vec![7; 600_000].into())),
        text,
    ]
}

/// A type that a skill names. The model sees the name of such a file.
const TYPE: &str = "application/x-a";

fn names_the_type(config: &mut Config) {
    config.a2a.skills[0].input_modes.push(TYPE.to_owned());
}

#[tokio::test]
async fn every_part_comes_back_as_it_was_sent() {
    let app = App::with(names_the_type).await;
    for (nth, binding) in BINDINGS.into_iter().enumerate() {
        let mut sent = message(&format!("m{nth}"), parts());
        sent.metadata.insert("mine".into(), json!({ "deep": "x".repeat(1000) }));
        sent.reference_task_ids.push("run_1".into());
        let task = binding.send(&app, &of(sent.clone())).await.unwrap();
        let shown = &task.history[0];
        assert_eq!(shown.parts, sent.parts, "{binding:?}");
        assert_eq!((&shown.metadata, &shown.reference_task_ids), (&sent.metadata, &sent.reference_task_ids));
        let stored = app.get(&format!("/threads/{}/messages", task.context_id)).await.expect(200);
        let content = stored["items"][0]["content"].as_str().unwrap();
        let lines: Vec<&str> = content.lines().collect();
        assert_eq!(lines[0], "hello");
        assert_eq!(lines[2], "[a.png, image/png: https://example.com/a.png]");
        assert_eq!(lines[3], "[a.bin, application/x-a, 600000 bytes]");
        // The content of a text file, in a fence that it cannot close.
        assert_eq!(lines[4..], ["notes.txt, text/plain; charset=utf-8:", "````", "Caf\u{E9}:", "```", "7", "````"]);
        assert_eq!(stored["items"][0]["metadata"]["a2a"]["messageId"], format!("m{nth}"));
    }
}

#[tokio::test]
async fn the_content_of_a_type_that_no_skill_names_is_refused() {
    let app = App::with(names_the_type).await;
    for content in [Content::Raw(vec![7].into()), Content::Text("7".into())] {
        let part = Part { media_type: Some("image/png".into()), ..Part::new(content) };
        let refused = NEW.send(&app, &of(message("m1", vec![part]))).await.unwrap_err();
        assert_eq!(refused.error, Error::ContentTypeNotSupported);
        assert_eq!(
            refused.detail,
            "Parts of `image/png` are not taken: only text, JSON, and the types that a skill of the agent names in its input modes."
        );
    }
}

/// A run's row is rewritten as it proceeds; the content of its message is written once.
#[tokio::test]
async fn a_large_part_is_stored_once() {
    let store = fresh_store().await;
    let app = App::of(store.clone(), names_the_type).await;
    let task = NEW.send(&app, &of(message("m1", parts()))).await.unwrap();
    let tenant = store.tenant("default", 0).await.unwrap();
    let run = store.find_row(tenant, RowKind::Run, &task.id).await.unwrap().unwrap();
    let said =
        store.rows(run.pk, RowKind::Message, Order::Ascending, &PageAsk { cursor: None, limit: 9 }).await.unwrap();
    for row in said.items.iter().chain([&run.row]) {
        assert!(row.body.len() < 5_000, "{:?} has {} bytes", row.kind, row.body.len());
    }
    let log = app.observed(&task.context_id, "RUN_STARTED").await;
    let told = &log[0]["content"]["message"]["metadata"]["a2a"]["parts"];
    assert!(told.as_array().is_some_and(|parts| parts.len() == 5), "the log shows it whole");
    assert_eq!(task.status.state, TaskState::Completed);
}

#[tokio::test]
async fn tasks_made_over_rest_are_tasks_too() {
    let app = App::start().await;
    let made = app.finish("t1", "hello").await;
    let task = NEW.get(&app, made["metadata"]["runId"].as_str().unwrap()).await.unwrap();
    assert_eq!(task.context_id, "t1");
    assert_eq!(text(&task.history[0].parts[0]), "hello");
    assert_eq!(text(&task.artifacts[0].parts[0]), "Hello there.");
}
