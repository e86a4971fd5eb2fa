//! A thread is exported to a file and imported as another thread, on both databases.

use std::sync::Arc;

use bytes::Bytes;
use pes::AgentProps;
use pes::domain::fault::{Code, Fault};
use pes::domain::message::MessageRole;
use pes::domain::retention::Kept;
use pes::domain::usage::UsageGroup;
use pes::service::feed::{self, After, FeedAsk};
use pes::service::runs::ContinueAt;
use pes::service::transfer::{self, ImportAsk, ImportTurn, Imported};
use pes::service::{audit, fork, offers, retention, runs, threads, usage};
use pes::store::{PageAsk, Store};
use serde_json::{Value, json};

use crate::recovery::probe::ask;
use crate::support::clocked::{Clocked, DAY};
use crate::support::http::soon;
use crate::support::postgres::Database;
use crate::support::store::{Moody, fresh_store, store_on};

/// An instance that keeps threads for ever.
async fn clocked(store: Arc<dyn Store>) -> Clocked {
    Clocked::on(store, |config| config.retention.thread_days = Kept::FOREVER).await
}

impl Clocked {
    async fn put_state(&self, thread: &str, data: Value) {
        let (service, caller) = (self.instance.service(), self.instance.caller());
        threads::put_agent_state(service, caller, &thread.into(), data, None).await.unwrap();
    }

    async fn export(&self, thread: &str) -> Vec<u8> {
        let (service, caller) = (self.instance.service(), self.instance.caller());
        let mut export = transfer::export(service, caller, &thread.into()).await.unwrap();
        let mut text = Vec::new();
        while let Some(lines) = soon(export.next()).await.unwrap() {
            text.extend_from_slice(&lines);
        }
        text
    }

    async fn import(&self, text: &[u8], id: Option<&str>) -> Result<Imported, Fault> {
        let ask = ImportAsk { thread_id: id.map(Into::into), dry_run: false };
        let (service, caller) = (self.instance.service(), self.instance.caller());
        transfer::import(
            service,
            caller,
            ImportTurn::wait(service, caller).await.unwrap(),
            Bytes::copy_from_slice(text),
            ask,
        )
        .await
    }
}

fn lines(text: &[u8]) -> Vec<Value> {
    text.split_inclusive(|byte| *byte == b'\n').map(|line| serde_json::from_slice(line).unwrap()).collect()
}

/// The common part of two exports of the same thread: without the hashes, the time, the thread's id, the importer and
/// import time in the audit, and later messages.
fn alike(text: &[u8], id: &str) -> Vec<Value> {
    let mut all = Vec::new();
    for mut line in lines(text) {
        line["sum"] = Value::Null;
        if line["format"].is_string() {
            (line["exportedAt"], line["createdAt"]) = (Value::Null, Value::Null);
        }
        if line["audit"]["action"] == "imported" {
            line["audit"] = line["audit"]["detail"].take();
        }
        if line["audit"]["action"] == "import" || line["end"].is_object() {
            continue;
        }
        renamed(&mut line, id);
        all.push(line);
    }
    // Entries of the same moment may be in any order.
    all.sort_by_key(|line| line["usage"].is_object().then(|| line["id"].to_string()));
    all
}

#[track_caller]
fn assert_alike((one, id): (&[u8], &str), (other, other_id): (&[u8], &str)) {
    let (one, other) = (alike(one, id), alike(other, other_id));
    one.iter().zip(&other).for_each(|(one, other)| assert_eq!(one, other));
    assert_eq!(one.len(), other.len());
}

fn renamed(value: &mut Value, id: &str) {
    match value {
        Value::Object(members) => {
            if members.get("threadId").is_some_and(|thread| thread == id) {
                members.insert("threadId".to_owned(), Value::Null);
            }
            members.values_mut().for_each(|member| renamed(member, id));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| renamed(item, id)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

async fn on_both(case: impl AsyncFn(Clocked)) {
    case(clocked(fresh_store().await).await).await;
    let database = Database::fresh().await;
    case(clocked(store_on(&database).await).await).await;
}

/// A thread with a bit of everything.
async fn lived(clocked: &Clocked) {
    clocked.finish("t").await;
    let answer = clocked.suspend("t").await;
    clocked.resume("t", answer).await;
    // Too long for its row, and similar to what our own storage writes.
    clocked.put_state("t", json!({ "long": "x".repeat(5_000), "odd": { "$payload": "message" } })).await;
    clocked.ask("t", "hello again").await;
    // Earlier messages are superseded.
    let again = AgentProps { continue_at: Some(ContinueAt::Start), ..AgentProps::new("t", "hello") };
    clocked.instance.process(again).await.unwrap();
    let answer = clocked.suspend("t").await;
    clocked.resume("t", answer).await;
}

#[tokio::test]
async fn what_was_exported_comes_back_as_it_was() {
    on_both(async |clocked: Clocked| {
        lived(&clocked).await;
        let text = clocked.export("t").await;
        let imported = clocked.import(&text, Some("copy")).await.unwrap();
        assert_eq!((imported.thread_id.as_str(), imported.min_seq, imported.cancelled), ("copy", 1, None));
        let again = clocked.export("copy").await;
        assert_alike((&text, "t"), (&again, "copy"));

        let same = |mut state: Value| {
            state["threadId"] = Value::Null;
            state
        };
        assert_eq!(same(clocked.state("copy", None).await.unwrap()), same(clocked.state("t", None).await.unwrap()));
        for at in [1, imported.last_seq / 2, imported.last_seq] {
            assert_eq!(
                same(clocked.state("copy", Some(at)).await.unwrap()),
                same(clocked.state("t", Some(at)).await.unwrap()),
                "{at}"
            );
        }
        let (service, caller) = (clocked.instance.service(), clocked.instance.caller());
        let calls = async |thread: &str| {
            let (thread, all) = (thread.into(), (i64::MIN, i64::MAX));
            let page = PageAsk { limit: 100, ..PageAsk::default() };
            usage::sums(service, caller, UsageGroup::Model, Some(&thread), all, page).await.unwrap().items
        };
        assert!(!calls("t").await.is_empty());
        assert_eq!(calls("copy").await, [], "it was paid elsewhere");

        // It continues, and is a thread like others.
        clocked.finish("copy").await;
        fork::fork(service, caller, &"copy".into(), Some(imported.last_seq), Some("fork".into()), None).await.unwrap();
        let feed = FeedAsk { after: After::Seq(0), ..FeedAsk::default() };
        let page = feed::page(service, caller, &"copy".into(), feed, 1_000).await.unwrap();
        let seqs: Vec<i64> = page.items.iter().map(|seen| seen.seq).collect();
        assert_eq!(seqs, (1..=page.last_seq).collect::<Vec<_>>());

        // And once more, from the copy.
        let text = clocked.export("copy").await;
        clocked.import(&text, Some("third")).await.unwrap();
        assert_alike((&text, "copy"), (&clocked.export("third").await, "third"));
        clocked.instance.close().await;
    })
    .await;
}

#[tokio::test]
async fn a_run_that_was_not_over_is_cancelled_in_the_new_thread() {
    on_both(async |clocked: Clocked| {
        clocked.finish("t").await;
        clocked.suspend("t").await;
        let text = clocked.export("t").await;
        let imported = clocked.import(&text, Some("copy")).await.unwrap();
        let run = imported.cancelled.expect("one was open");
        let told = lines(&clocked.export("copy").await);
        let end = told
            .iter()
            .find(|line| line["observation"]["type"] == "RUN_FINISHED" && line["observation"]["runId"] == run.as_str());
        assert_eq!(end.unwrap()["observation"]["content"]["status"], "cancelled");
        let state = clocked.state("copy", None).await.unwrap();
        assert_eq!((&state["status"], &state["suspensions"]), (&json!("idle"), &json!([])));
        let folded = clocked.state("copy", Some(imported.last_seq)).await.unwrap();
        assert_eq!((&folded["status"], &folded["todoList"]), (&json!("idle"), &state["todoList"]));
        clocked.finish("copy").await;
        let asked = clocked.state("t", None).await.unwrap();
        assert_eq!(asked["status"], "suspended", "the other one waits as before");
        clocked.instance.close().await;
    })
    .await;
}

#[tokio::test]
async fn a_log_that_begins_later_comes_back_with_what_stands_for_its_beginning() {
    on_both(async |clocked: Clocked| {
        clocked.finish("t").await;
        clocked.ask("t", "hello again").await;
        clocked.clock.advance(50 * DAY);
        clocked.finish("t").await;
        clocked.days_pass(50).await;
        let text = clocked.export("t").await;
        let header = &lines(&text)[0];
        assert!(header["minSeq"].as_i64().unwrap() > 1 && header["base"].is_object(), "{header:#}");
        let imported = clocked.import(&text, Some("copy")).await.unwrap();
        assert_eq!(json!(imported.min_seq), header["minSeq"]);
        assert_alike((&text, "t"), (&clocked.export("copy").await, "copy"));
        let (service, caller) = (clocked.instance.service(), clocked.instance.caller());
        let early = threads::state(service, caller, &"copy".into(), Some(1)).await.unwrap_err();
        assert_eq!(early.code, Code::HistoryCompacted);
        clocked.instance.close().await;
    })
    .await;
}

/// No run of it ended here, and its observations are older than the thread.
#[tokio::test]
async fn an_imported_log_is_kept_as_long_as_others_from_then_on() {
    on_both(async |clocked: Clocked| {
        let min_seq = async |thread: &str| clocked.state(thread, None).await.unwrap()["minSeq"].as_i64().unwrap();
        clocked.finish("t").await;
        let text = clocked.export("t").await;
        clocked.clock.advance(100 * DAY);
        clocked.import(&text, Some("copy")).await.unwrap();
        retention::sweep(clocked.instance.service()).await.unwrap();
        assert!(min_seq("t").await > 1, "its run ended long ago");
        assert_eq!(min_seq("copy").await, 1);
        clocked.days_pass(91).await;
        assert!(min_seq("copy").await > 1);
        let told = lines(&clocked.export("copy").await).into_iter().filter(|line| line.get("observation").is_some());
        assert_eq!(told.count(), 0, "all of it is of the run that is over");
        clocked.instance.close().await;
    })
    .await;
}

#[tokio::test]
async fn nothing_is_stored_of_what_is_refused() {
    on_both(async |clocked: Clocked| {
        lived(&clocked).await;
        let text = clocked.export("t").await;
        let taken = clocked.import(&text, None).await.unwrap_err();
        assert_eq!(taken.code, Code::ThreadExists);
        let cut = &text[..text.len() - 1];
        let count = lines(&text).len();
        let refused = clocked.import(cut, Some("copy")).await.unwrap_err();
        assert_eq!((refused.code, &refused.extra.unwrap()["line"]), (Code::ImportInvalid, &json!(count)));
        assert!(!clocked.is_there("copy").await);
        let ask = ImportAsk { thread_id: Some("copy".into()), dry_run: true };
        let (service, caller) = (clocked.instance.service(), clocked.instance.caller());
        let tried = transfer::import(
            service,
            caller,
            ImportTurn::wait(service, caller).await.unwrap(),
            Bytes::from(text.clone()),
            ask,
        )
        .await
        .unwrap();
        assert!(tried.dry_run && !clocked.is_there("copy").await);
        let at_once = [clocked.import(&text, Some("copy")), clocked.import(&text, Some("copy"))];
        let made = futures_util::future::join_all(at_once).await;
        assert_eq!(made.iter().filter(|made| made.is_ok()).count(), 1, "{made:?}");
        let lines = audit::of_thread(service, caller, &"copy".into(), PageAsk { limit: 100, ..PageAsk::default() })
            .await
            .unwrap()
            .items;
        let imported: Vec<_> = lines.iter().filter(|line| line.action == "import").collect();
        let [line] = imported.as_slice() else { panic!("{lines:?}") };
        assert_eq!((line.actor.as_str(), &line.detail["from"]), ("library", &json!("t")));
        assert!(lines.iter().any(|line| line.action == "imported" && line.detail["action"] == "approved"), "{lines:?}");
        clocked.instance.close().await;
    })
    .await;
}

/// However long a thread is, an export holds one page of it in memory.
#[tokio::test]
async fn an_export_reads_as_it_is_taken() {
    let store = Moody::fresh().await;
    let clocked = clocked(store.clone()).await;
    for _ in 0..100 {
        clocked.finish("t").await;
    }
    let (service, caller) = (clocked.instance.service(), clocked.instance.caller());
    store.observations_read();
    let mut export = transfer::export(service, caller, &"t".into()).await.unwrap();
    export.next().await.unwrap().unwrap();
    export.next().await.unwrap().unwrap();
    let first = store.observations_read();
    while export.next().await.unwrap().is_some() {}
    let others = store.observations_read();
    assert!(first > 0 && others > 2 * first, "{first} were read for the first lines, then {others}");
    clocked.instance.close().await;
}

#[tokio::test]
async fn an_export_whose_log_is_shortened_meanwhile_says_so() {
    let clocked = clocked(fresh_store().await).await;
    clocked.finish("t").await;
    clocked.finish("t").await;
    let (service, caller) = (clocked.instance.service(), clocked.instance.caller());
    let mut export = transfer::export(service, caller, &"t".into()).await.unwrap();
    export.next().await.unwrap().unwrap();
    clocked.days_pass(100).await;
    assert_eq!(export.next().await.unwrap_err().code, Code::StoreUnavailable);
    assert_eq!(export.next().await.unwrap(), None, "and has no end");
    clocked.instance.close().await;
}

/// Its messages are gone by then, and nothing of the file shows that there were some.
#[tokio::test]
async fn an_export_whose_thread_is_deleted_after_its_log_was_read_has_no_end() {
    on_both(async |clocked: Clocked| {
        clocked.finish("t").await;
        let (service, caller) = (clocked.instance.service(), clocked.instance.caller());
        let mut export = transfer::export(service, caller, &"t".into()).await.unwrap();
        let mut text = Vec::new();
        for _ in ["header", "log"] {
            text.extend_from_slice(&export.next().await.unwrap().unwrap());
        }
        assert!(String::from_utf8_lossy(&text).contains("RUN_FINISHED"), "the whole log was read");
        threads::delete(service, caller, &"t".into()).await.unwrap();
        let refused = loop {
            match export.next().await {
                Ok(lines) => text.extend_from_slice(&lines.expect("it does not end as if it were whole")),
                Err(fault) => break fault,
            }
        };
        assert_eq!(refused.code, Code::StoreUnavailable);
        assert_eq!(clocked.import(&text, Some("copy")).await.unwrap_err().code, Code::ImportInvalid);
        clocked.instance.close().await;
    })
    .await;
}

/// The queued run of an active thread is not exported as ended, and the copy does not show what was never asked.
#[tokio::test]
async fn a_thread_at_work_can_be_exported() {
    let clocked = clocked(fresh_store().await).await;
    clocked.suspend("t").await;
    let queued = ask(&clocked.instance, "t", "delete the staging data").await;
    let text = clocked.export("t").await;
    clocked.import(&text, Some("copy")).await.unwrap();
    clocked.finish("copy").await;
    let (service, caller) = (clocked.instance.service(), clocked.instance.caller());
    assert_eq!(runs::get(service, caller, &queued).await.unwrap().status.as_str(), "queued");
    let messages = PageAsk { limit: 100, ..PageAsk::default() };
    let said = threads::messages(service, caller, &"copy".into(), messages).await.unwrap().items;
    let gated = offers::models(service)[0].prompts[1].clone();
    let asked = said.iter().filter(|message| message.role == MessageRole::User);
    assert_eq!(asked.map(|message| message.content.as_str()).collect::<Vec<_>>(), [gated.as_str(), "hello"]);
    let again = lines(&clocked.export("copy").await);
    let kept = again.iter().find(|line| line["message"]["content"] == "delete the staging data").unwrap();
    assert_eq!(kept["superseded"], true, "it stays in the export of the copy");
    clocked.instance.close().await;
}
