//! Somebody with write access to the database changes what a person was shown or approved, and `verify` names the call.

use pes::service::audit::chain;
use pes::service::audit::verify::{VerifyAsk, verify};
use pes::store::Store;
use serde_json::json;

use super::tampered::Tampered;
use crate::support::app::App;

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
