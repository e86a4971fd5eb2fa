//! A run is found again by a lookup key of what its client sent.

use pes::Instance;
use pes::domain::fault::Code;
use pes::domain::lookup::{LookupKey, RunLookups};
use pes::domain::run::OnBusy;
use pes::service::lookups;
use pes::service::once::Answered;
use pes::service::runs::{self, ContinueAt, ProcessAsk, Receipt};

use super::instance;

fn key(digest: &str) -> LookupKey {
    LookupKey { kind: "chat", digest: digest.to_owned() }
}

async fn ask(instance: &Instance, on_busy: OnBusy, digest: &str) -> Result<Receipt, Code> {
    let query = pes::service::offers::models(instance.service())[0].prompts[1].clone();
    let ask = ProcessAsk { query, on_busy, lookups: vec![key(digest)], ..ProcessAsk::default() };
    match runs::process(instance.service(), instance.caller(), &"t".into(), ask, None).await {
        Ok(Answered::Fresh(receipt)) => Ok(receipt),
        Ok(Answered::Replayed(_)) => panic!("no key was sent"),
        Err(fault) => Err(fault.code),
    }
}

/// Also for a thread that exists, and for a query that joins the active run; not for a refused query.
#[tokio::test]
async fn what_was_accepted_is_found_and_what_was_refused_is_not() {
    let instance = instance().await;
    let (service, caller) = (instance.service(), instance.caller());
    let found = async |digest: &str| lookups::find(service, caller, &key(digest), 9).await.unwrap();
    let first = ask(&instance, OnBusy::Enqueue, "first").await.unwrap();
    runs::wait(service, caller, &first.run_id, std::time::Duration::from_secs(30)).await.unwrap();
    let second = ask(&instance, OnBusy::Enqueue, "second").await.unwrap();
    ask(&instance, OnBusy::Steer, "steered").await.unwrap();
    assert_eq!(ask(&instance, OnBusy::Reject, "refused").await, Err(Code::ThreadBusy));
    for (digest, run) in [("first", &first), ("second", &second), ("steered", &first)] {
        let runs = found(digest).await;
        assert_eq!((runs.len(), &runs[0].run_id, runs[0].thread_id.as_str()), (1, &run.run_id, "t"), "{digest}");
    }
    assert_eq!(found("refused").await, []);

    let waited = runs::wait(service, caller, &first.run_id, std::time::Duration::ZERO).await.unwrap();
    let asked = waited.suspensions[0]["suspensionId"].clone();
    let answer = serde_json::from_value(serde_json::json!({ "suspensionId": asked, "approved": true })).unwrap();
    let under = RunLookups { run: first.run_id.clone(), keys: vec![key("answered")] };
    runs::resume_with_lookups(service, caller, &"t".into(), answer, under, None).await.unwrap();
    assert_eq!(found("answered").await[0].run_id, first.run_id);

    assert!(lookups::listen(service, caller, &key("first"), &first.run_id, 60_000).await.unwrap());
    let listened = &found("first").await[0];
    assert!(listened.listening_until >= listened.created_at + 60_000);
    assert!(!lookups::listen(service, caller, &key("first"), &second.run_id, 60_000).await.unwrap());
    instance.close().await;
}

/// A client that continues where it saw the conversation end does so there or not at all.
#[tokio::test]
async fn a_conversation_that_went_on_does_not_end_there() {
    let instance = instance().await;
    let (service, caller) = (instance.service(), instance.caller());
    let first = instance.process(pes::AgentProps::new("t", "hello")).await.unwrap();
    let end = ContinueAt::End(first.response.message_id);
    let again = || pes::AgentProps { continue_at: Some(end.clone()), ..pes::AgentProps::new("t", "hello") };
    instance.process(again()).await.unwrap();
    let refused = instance.process(again()).await.unwrap_err();
    assert_eq!(refused.code, Code::PreconditionFailed);
    let page = pes::store::PageAsk { limit: 9, ..Default::default() };
    let said = pes::service::threads::messages(service, caller, &"t".into(), page).await.unwrap();
    assert_eq!(said.items.len(), 4);
    instance.close().await;
}
