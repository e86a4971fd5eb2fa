//! A thread is exported to a file and imported as another thread, on both databases.

use std::sync::Arc;

use bytes::Bytes;
use pes::config::Config;
use pes::domain::fault::{Code, Fault};
use pes::domain::message::MessageRole;
use pes::domain::retention::Kept;
use pes::domain::usage::UsageGroup;
use pes::runtime::clock::Manual;
use pes::service::feed::{self, After, FeedAsk};
use pes::service::runs::ContinueAt;
use pes::service::transfer::{self, ImportAsk, ImportTurn, Imported};
use pes::service::{audit, fork, offers, retention, runs, threads, usage};
use pes::store::postgres::Postgres;
use pes::store::{PageAsk, Store};
use pes::{AgentProps, Instance};
use serde_json::{Value, json};

use crate::recovery::probe::ask;
use crate::support::http::soon;
use crate::support::postgres::Database;
use crate::support::store::{Moody, fresh_store};

/// 2026-11-21T00:00:00Z
const TODAY: i64 = 1_795_219_200_000;
const DAY: i64 = 86_400_000;

struct Place {
    instance: Instance,
    clock: Arc<Manual>,
}

impl Place {
    async fn on(store: Arc<dyn Store>) -> Self {
        let clock = Arc::new(Manual::at(TODAY));
        let mut config = Config::default();
        config.models.demo.pace_ms = 0;
        config.retention.thread_days = Kept::FOREVER;
        let instance = Instance::build(config).store(store).clock(clock.clone()).open().await.unwrap();
        Self { instance, clock }
    }

    async fn finish(&self, thread: &str, query: &str) {
        self.instance.process(AgentProps::new(thread, query)).await.unwrap();
    }

    /// A run that waits for a person, and the answer that resumes it.
    async fn suspend(&self, thread: &str) -> Value {
        let gated = offers::models(self.instance.service())[0].prompts[1].clone();
        let fault = self.instance.process(AgentProps::new(thread, gated)).await.unwrap_err();
        assert_eq!(fault.code, Code::Suspended, "{fault:?}");
        let state = self.state(thread).await;
        json!({ "suspensionId": state["suspensions"][0]["suspensionId"], "approved": true })
    }

    async fn resume(&self, thread: &str, answer: Value) {
        self.instance.resume(thread, serde_json::from_value(answer).unwrap()).await.unwrap();
    }

    async fn state(&self, thread: &str) -> Value {
        let (service, caller) = (self.instance.service(), self.instance.caller());
        threads::state(service, caller, &thread.into(), None).await.unwrap()
    }

    async fn state_at(&self, thread: &str, at: i64) -> Value {
        let (service, caller) = (self.instance.service(), self.instance.caller());
        threads::state(service, caller, &thread.into(), Some(at)).await.unwrap()
    }

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

    async fn is_there(&self, thread: &str) -> bool {
        threads::get(self.instance.service(), self.instance.caller(), &thread.into()).await.is_ok()
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

async fn on_both(case: impl AsyncFn(Place)) {
    case(Place::on(fresh_store().await).await).await;
    let database = Database::fresh().await;
    case(Place::on(Arc::new(Postgres::open(&database.url().into(), 4).await.unwrap())).await).await;
}

/// A thread with a bit of everything.
async fn lived(place: &Place) {
    place.finish("t", "hello").await;
    let answer = place.suspend("t").await;
    place.resume("t", answer).await;
    // Too long for its row, and similar to what our own storage writes.
    place.put_state("t", json!({ "long": "x".repeat(5_000), "odd": { "$payload": "message" } })).await;
    place.finish("t", "hello again").await;
    // Earlier messages are superseded.
    let again = AgentProps { continue_at: Some(ContinueAt::Start), ..AgentProps::new("t", "hello") };
    place.instance.process(again).await.unwrap();
    let answer = place.suspend("t").await;
    place.resume("t", answer).await;
}

#[tokio::test]
async fn what_was_exported_comes_back_as_it_was() {
    on_both(async |place: Place| {
        lived(&place).await;
        let text = place.export("t").await;
        let imported = place.import(&text, Some("copy")).await.unwrap();
        assert_eq!((imported.thread_id.as_str(), imported.min_seq, imported.cancelled), ("copy", 1, None));
        let again = place.export("copy").await;
        assert_alike((&text, "t"), (&again, "copy"));

        let same = |mut state: Value| {
            state["threadId"] = Value::Null;
            state
        };
        assert_eq!(same(place.state("copy").await), same(place.state("t").await));
        for at in [1, imported.last_seq / 2, imported.last_seq] {
            assert_eq!(same(place.state_at("copy", at).await), same(place.state_at("t", at).await), "{at}");
        }
        let (service, caller) = (place.instance.service(), place.instance.caller());
        let calls = async |thread: &str| {
            let (thread, all) = (thread.into(), (i64::MIN, i64::MAX));
            let page = PageAsk { limit: 100, ..PageAsk::default() };
            usage::sums(service, caller, UsageGroup::Model, Some(&thread), all, page).await.unwrap().items
        };
        assert!(!calls("t").await.is_empty());
        assert_eq!(calls("copy").await, [], "it was paid elsewhere");

        // It continues, and is a thread like others.
        place.finish("copy", "hello").await;
        fork::fork(service, caller, &"copy".into(), Some(imported.last_seq), Some("fork".into()), None).await.unwrap();
        let feed = FeedAsk { after: After::Seq(0), ..FeedAsk::default() };
        let page = feed::page(service, caller, &"copy".into(), feed, 1_000).await.unwrap();
        let seqs: Vec<i64> = page.items.iter().map(|seen| seen.seq).collect();
        assert_eq!(seqs, (1..=page.last_seq).collect::<Vec<_>>());

        // And once more, from the copy.
        let text = place.export("copy").await;
        place.import(&text, Some("third")).await.unwrap();
        assert_alike((&text, "copy"), (&place.export("third").await, "third"));
        place.instance.close().await;
    })
    .await;
}

#[tokio::test]
async fn a_run_that_was_not_over_is_cancelled_in_the_new_thread() {
    on_both(async |place: Place| {
        place.finish("t", "hello").await;
        place.suspend("t").await;
        let text = place.export("t").await;
        let imported = place.import(&text, Some("copy")).await.unwrap();
        let run = imported.cancelled.expect("one was open");
        let told = lines(&place.export("copy").await);
        let end = told
            .iter()
            .find(|line| line["observation"]["type"] == "RUN_FINISHED" && line["observation"]["runId"] == run.as_str());
        assert_eq!(end.unwrap()["observation"]["content"]["status"], "cancelled");
        let state = place.state("copy").await;
        assert_eq!((&state["status"], &state["suspensions"]), (&json!("idle"), &json!([])));
        let folded = place.state_at("copy", imported.last_seq).await;
        assert_eq!((&folded["status"], &folded["todoList"]), (&json!("idle"), &state["todoList"]));
        place.finish("copy", "hello").await;
        let asked = place.state("t").await;
        assert_eq!(asked["status"], "suspended", "the other one waits as before");
        place.instance.close().await;
    })
    .await;
}

#[tokio::test]
async fn a_log_that_begins_later_comes_back_with_what_stands_for_its_beginning() {
    on_both(async |place: Place| {
        place.finish("t", "hello").await;
        place.finish("t", "hello again").await;
        place.clock.advance(50 * DAY);
        place.finish("t", "hello").await;
        place.clock.advance(50 * DAY);
        retention::sweep(place.instance.service()).await.unwrap();
        let text = place.export("t").await;
        let header = &lines(&text)[0];
        assert!(header["minSeq"].as_i64().unwrap() > 1 && header["base"].is_object(), "{header:#}");
        let imported = place.import(&text, Some("copy")).await.unwrap();
        assert_eq!(json!(imported.min_seq), header["minSeq"]);
        assert_alike((&text, "t"), (&place.export("copy").await, "copy"));
        let (service, caller) = (place.instance.service(), place.instance.caller());
        let early = threads::state(service, caller, &"copy".into(), Some(1)).await.unwrap_err();
        assert_eq!(early.code, Code::HistoryCompacted);
        place.instance.close().await;
    })
    .await;
}

/// No run of it ended here, and its observations are older than the thread.
#[tokio::test]
async fn an_imported_log_is_kept_as_long_as_others_from_then_on() {
    on_both(async |place| {
        let min_seq = async |thread: &str| place.state(thread).await["minSeq"].as_i64().unwrap();
        place.finish("t", "hello").await;
        let text = place.export("t").await;
        place.clock.advance(100 * DAY);
        place.import(&text, Some("copy")).await.unwrap();
        retention::sweep(place.instance.service()).await.unwrap();
        assert!(min_seq("t").await > 1, "its run ended long ago");
        assert_eq!(min_seq("copy").await, 1);
        place.clock.advance(91 * DAY);
        retention::sweep(place.instance.service()).await.unwrap();
        assert!(min_seq("copy").await > 1);
        let told = lines(&place.export("copy").await).into_iter().filter(|line| line.get("observation").is_some());
        assert_eq!(told.count(), 0, "all of it is of the run that is over");
        place.instance.close().await;
    })
    .await;
}

#[tokio::test]
async fn nothing_is_stored_of_what_is_refused() {
    on_both(async |place: Place| {
        lived(&place).await;
        let text = place.export("t").await;
        let taken = place.import(&text, None).await.unwrap_err();
        assert_eq!(taken.code, Code::ThreadExists);
        let cut = &text[..text.len() - 1];
        let count = lines(&text).len();
        let refused = place.import(cut, Some("copy")).await.unwrap_err();
        assert_eq!((refused.code, &refused.extra.unwrap()["line"]), (Code::ImportInvalid, &json!(count)));
        assert!(!place.is_there("copy").await);
        let ask = ImportAsk { thread_id: Some("copy".into()), dry_run: true };
        let (service, caller) = (place.instance.service(), place.instance.caller());
        let tried = transfer::import(
            service,
            caller,
            ImportTurn::wait(service, caller).await.unwrap(),
            Bytes::from(text.clone()),
            ask,
        )
        .await
        .unwrap();
        assert!(tried.dry_run && !place.is_there("copy").await);
        let at_once = [place.import(&text, Some("copy")), place.import(&text, Some("copy"))];
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
        place.instance.close().await;
    })
    .await;
}

/// However long a thread is, an export holds one page of it in memory.
#[tokio::test]
async fn an_export_reads_as_it_is_taken() {
    let store = Moody::fresh().await;
    let place = Place::on(store.clone()).await;
    for _ in 0..100 {
        place.finish("t", "hello").await;
    }
    let (service, caller) = (place.instance.service(), place.instance.caller());
    store.observations_read();
    let mut export = transfer::export(service, caller, &"t".into()).await.unwrap();
    export.next().await.unwrap().unwrap();
    export.next().await.unwrap().unwrap();
    let first = store.observations_read();
    while export.next().await.unwrap().is_some() {}
    let others = store.observations_read();
    assert!(first > 0 && others > 2 * first, "{first} were read for the first lines, then {others}");
    place.instance.close().await;
}

#[tokio::test]
async fn an_export_whose_log_is_shortened_meanwhile_says_so() {
    let place = Place::on(fresh_store().await).await;
    place.finish("t", "hello").await;
    place.finish("t", "hello").await;
    let (service, caller) = (place.instance.service(), place.instance.caller());
    let mut export = transfer::export(service, caller, &"t".into()).await.unwrap();
    export.next().await.unwrap().unwrap();
    place.clock.advance(100 * DAY);
    retention::sweep(service).await.unwrap();
    assert_eq!(export.next().await.unwrap_err().code, Code::StoreUnavailable);
    assert_eq!(export.next().await.unwrap(), None, "and has no end");
    place.instance.close().await;
}

/// The queued run of an active thread is not exported as ended, and the copy does not show what was never asked.
#[tokio::test]
async fn a_thread_at_work_can_be_exported() {
    let place = Place::on(fresh_store().await).await;
    place.suspend("t").await;
    let queued = ask(&place.instance, "t", "delete the staging data").await;
    let text = place.export("t").await;
    place.import(&text, Some("copy")).await.unwrap();
    place.finish("copy", "hello").await;
    let (service, caller) = (place.instance.service(), place.instance.caller());
    assert_eq!(runs::get(service, caller, &queued).await.unwrap().status.as_str(), "queued");
    let messages = PageAsk { limit: 100, ..PageAsk::default() };
    let said = threads::messages(service, caller, &"copy".into(), messages).await.unwrap().items;
    let gated = offers::models(service)[0].prompts[1].clone();
    let asked = said.iter().filter(|message| message.role == MessageRole::User);
    assert_eq!(asked.map(|message| message.content.as_str()).collect::<Vec<_>>(), [gated.as_str(), "hello"]);
    let again = lines(&place.export("copy").await);
    let kept = again.iter().find(|line| line["message"]["content"] == "delete the staging data").unwrap();
    assert_eq!(kept["superseded"], true, "it stays in the export of the copy");
    place.instance.close().await;
}
