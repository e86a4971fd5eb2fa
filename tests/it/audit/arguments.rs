//! Somebody with write access to the database changes what a person was shown or approved, and `verify` names the call.

use std::time::Duration;

use pes::domain::caller::Caller;
use pes::engine::step::RowKind;
use pes::runtime::clock::Clock as _;
use pes::service::audit::chain;
use pes::service::audit::verify::{VerifyAsk, verify};
use pes::service::once::Answered;
use pes::service::runs::{self, Receipt};
use pes::store::{Order, PageAsk, Store};
use serde_json::{Value, json};

use super::tampered::Tampered;
use crate::support::app::App;
use crate::support::clocked::Clocked;
use crate::support::exported::rewritten;
use crate::support::store::fresh_store;

async fn broken(store: &dyn Store) -> Option<String> {
    verify(store, &VerifyAsk::default()).await.unwrap().remove(0).broken
}

#[tokio::test]
async fn a_call_whose_stored_arguments_were_changed_is_named() {
    for place in [Tampered::sqlite().await, Tampered::postgres().await] {
        let store = place.bed.store.clone();
        let app = App::of(store.clone(), |_| {}).await;
        let to_another = json!({ "to": "b@example.com", "subject": "s", "body": "b" });
        for (thread, edited) in [("t1", None), ("t2", Some(to_another))] {
            let asked = app.suspend(thread, "send").await;
            let call = asked["callId"].as_str().unwrap();
            let mut answer = json!({ "suspensionId": asked["suspensionId"], "approved": true });
            let shown = match edited {
                Some(edited) => {
                    answer["modifiedArgs"] = edited;
                    "b@example.com"
                }
                None => asked["toolInput"]["to"].as_str().unwrap(),
            };
            let resume = app.ask("POST", &format!("/threads/{thread}/resume")).header("prefer", "wait=20");
            resume.json(&answer).send().await.expect(200);
            chain(&*store, None, 1).await.unwrap();
            assert_eq!(broken(&*store).await, None, "{thread}");
            let write = |from: &str, to: &str| {
                format!("UPDATE thread_rows SET body = replace(body, '{from}', '{to}') WHERE id = '{call}'")
            };
            place.write(&write(shown, "mallory@evil.example")).await;
            let why = broken(&*store).await.expect("it is not what was approved");
            let named = format!("the stored arguments of the call {call} of thread {thread} were changed");
            assert!(why.starts_with(&named), "{why}");
            place.write(&write("mallory@evil.example", shown)).await;
            assert_eq!(broken(&*store).await, None);
        }
    }
}

/// Which thread a line belongs to stands in it twice: as its id, which is hashed, and as the key of its row, which is not.
#[tokio::test]
async fn a_line_with_the_key_of_another_thread_hides_no_changed_arguments() {
    for place in [Tampered::sqlite().await, Tampered::postgres().await] {
        let store = place.bed.store.clone();
        let app = App::of(store.clone(), |_| {}).await;
        let asked = app.suspend("t", "send").await;
        let call = asked["callId"].as_str().unwrap();
        let answer = json!({ "suspensionId": asked["suspensionId"], "approved": true });
        let resume = app.ask("POST", "/threads/t/resume").header("prefer", "wait=20");
        resume.json(&answer).send().await.expect(200);
        chain(&*store, None, 1).await.unwrap();
        place.write("UPDATE audit SET pk = 4711 WHERE pk <> 0").await;
        assert_eq!(broken(&*store).await, None);
        let receipt = app.get(&format!("/threads/t/tool-calls/{call}/receipt")).await.expect(200);
        assert_eq!(receipt["receipt"]["lines"].as_array().unwrap().len(), 2, "the question and the answer");
        // Under that key there is a copy of the call as it was.
        let copied = "INSERT INTO thread_rows (pk, kind, id, tenant, ord, keep, body)
            SELECT 4711, kind, id, tenant, ord, keep, body FROM thread_rows";
        place.write(&format!("{copied} WHERE id = '{call}'")).await;
        let change = "UPDATE thread_rows SET body = replace(body, 'a@example.com', 'mallory@evil.example')";
        place.write(&format!("{change} WHERE id = '{call}' AND pk <> 4711")).await;
        let why = broken(&*store).await.expect("it is not what was approved");
        assert!(why.starts_with(&format!("the stored arguments of the call {call} of thread t were changed")), "{why}");
    }
}

/// The model's arguments, those of ann and those of bob, whom eve approves. The log is compacted, and the questions that had
/// shown those of ann are deleted with it.
#[tokio::test]
async fn arguments_that_two_people_edited_are_those_of_the_last() {
    for place in [Tampered::sqlite().await, Tampered::postgres().await] {
        let four_eyes = json!({ "tool": "demo_*", "action": "ask", "fourEyes": true });
        let clocked = Clocked::on(place.bed.store.clone(), |config| {
            config.policy.rules.push(serde_json::from_value(four_eyes).unwrap());
        })
        .await;
        clocked.suspend("t").await;
        let asked = clocked.state("t", None).await.unwrap()["suspensions"][0].clone();
        let (call, to) = (asked["callId"].as_str().unwrap(), asked["toolInput"]["to"].as_str().unwrap());
        for (who, to) in [("ann", Some("b@example.com")), ("bob", Some("c@example.com")), ("eve", None)] {
            approve(&clocked, who, to).await;
        }
        chain(&*clocked.store, None, clocked.clock.now()).await.unwrap();
        assert_eq!(broken(&*clocked.store).await, None, "while the questions are there");
        clocked.days_pass(91).await;
        let row = clocked.store.thread(place.bed.tenant, &"t".into()).await.unwrap().unwrap();
        let page = PageAsk { limit: 10, ..PageAsk::default() };
        let questions = clocked.store.rows(row.pk, RowKind::Suspension, Order::Ascending, &page).await.unwrap();
        assert_eq!(questions.items.len(), 0, "they went with the log");
        assert_eq!(broken(&*clocked.store).await, None);
        for stored in [to, "c@example.com"] {
            let write = |from: &str, to: &str| {
                format!("UPDATE thread_rows SET body = replace(body, '{from}', '{to}') WHERE id = '{call}'")
            };
            place.write(&write(stored, "mallory@evil.example")).await;
            let why = broken(&*clocked.store).await.expect("it is not what was shown or approved");
            assert!(
                why.starts_with(&format!("the stored arguments of the call {call} of thread t were changed")),
                "{why}"
            );
            place.write(&write("mallory@evil.example", stored)).await;
        }
        assert_eq!(broken(&*clocked.store).await, None);
        clocked.instance.close().await;
    }
}

/// An export with one more line of the audit.
fn with_line(export: &str, line: Value) -> String {
    rewritten(export, |objects| {
        let at = objects.iter().position(|object| object.get("usage").is_some()).unwrap_or(objects.len());
        objects.insert(at, json!({ "audit": line }));
    })
}

/// Only what this server recorded is compared with the calls; a file can say anything.
#[tokio::test]
async fn an_imported_line_says_nothing_about_the_calls_that_come_with_it() {
    let store = fresh_store().await;
    let app = App::of(store.clone(), |_| {}).await;
    app.finish("t", "count").await;
    let log = app.observed("t", "TOOL_CALL").await;
    let call = &log[0]["content"]["toolCalls"][0]["callId"];
    let claimed = json!({ "callId": call, "digest": "00" });
    let line = json!({ "at": 1, "actor": "x", "action": "imported", "detail": claimed });
    let file = with_line(&app.get("/threads/t/export").await.text(), line.clone());
    let import = app.ask("POST", "/imports?threadId=copy").typed("application/x-ndjson", &file);
    import.send().await.expect(201);
    app.get(&format!("/threads/copy/tool-calls/{}", call.as_str().unwrap())).await.expect(200);
    let audit = app.get("/threads/copy/audit").await.expect(200);
    let imported = audit["items"].as_array().unwrap().iter().find(|shown| shown["detail"]["actor"] == "x");
    assert_eq!(imported.expect("it is there")["detail"], line, "{audit:#}");
    chain(&*store, None, 1).await.unwrap();
    assert_eq!(broken(&*store).await, None);
}

/// Approves the open call, with another receiver if there is one, and waits for what follows.
async fn approve(clocked: &Clocked, who: &str, to: Option<&str>) {
    let asked = clocked.state("t", None).await.unwrap()["suspensions"][0].clone();
    let mut answer = json!({ "suspensionId": asked["suspensionId"], "approved": true });
    if let Some(to) = to {
        answer["modifiedArgs"] = asked["toolInput"].clone();
        answer["modifiedArgs"]["to"] = json!(to);
    }
    let (service, caller) = (clocked.instance.service(), clocked.instance.caller());
    let caller = Caller { name: who.to_owned(), ..caller.clone() };
    let answer = serde_json::from_value(answer).unwrap();
    let answered = runs::resume(service, &caller, &"t".into(), answer, None).await.unwrap();
    let Answered::Fresh(Receipt { run_id, .. }) = answered else { panic!("it was answered once") };
    runs::wait(service, &caller, &run_id, Duration::from_secs(30)).await.unwrap();
}
