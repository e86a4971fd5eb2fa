//! A conversation of any length goes on; what is copied of it or taken back at once is bounded.

use pes::domain::fault::Code;
use pes::domain::ids::ThreadId;
use pes::service::fork::fork;
use pes::service::runs::{self, ContinueAt, ProcessAsk};
use pes::service::threads;
use pes::store::PageAsk;

use crate::support::clocked::Clocked;
use crate::support::store::fresh_store;

#[tokio::test]
async fn as_much_of_a_conversation_as_fits_into_a_transaction_is_copied_or_taken_back_and_no_more() {
    let clocked = Clocked::on(fresh_store().await, |_| {}).await;
    let (service, caller, id) = (clocked.instance.service(), clocked.instance.caller(), ThreadId::from("long"));
    let last_seq = async || threads::get(service, caller, &id).await.unwrap().last_seq;
    clocked.ask("long", &"x".repeat(34 << 20)).await;
    let early = last_seq().await;
    clocked.ask("long", &"x".repeat(34 << 20)).await;

    let copy = async |at, new: &str| fork(service, caller, &id, at, Some(new.into()), None).await;
    let refused = copy(None, "whole").await.unwrap_err();
    assert_eq!((refused.code, refused.errors[0].pointer.as_str()), (Code::Invalid, "/at"), "{refused:?}");
    assert!(!clocked.is_there("whole").await);
    copy(Some(early), "early").await.unwrap();

    let back = async |at| {
        let ask = ProcessAsk { continue_at: Some(at), query: "hello".to_owned(), ..ProcessAsk::default() };
        runs::process(service, caller, &id, ask, None).await
    };
    let refused = back(ContinueAt::Start).await.unwrap_err();
    assert_eq!((refused.code, refused.errors[0].pointer.as_str()), (Code::Invalid, "/after"), "{refused:?}");
    let first = threads::messages(service, caller, &id, PageAsk::first(1)).await.unwrap().items.remove(0);
    back(ContinueAt::After(first.message_id)).await.unwrap();
    clocked.instance.close().await;
}
