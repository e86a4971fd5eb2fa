//! Expired threads and beginnings of logs are deleted, and what must be kept stays. The tests advance the clock.

use std::sync::Arc;

use pes::config::{Config, TenantRetention};
use pes::domain::fault::Code;
use pes::domain::ids::ThreadId;
use pes::domain::retention::{Kept, Terms};
use pes::domain::spend::Capped;
use pes::domain::usage::{Price, UsageGroup};
use pes::live::EncodedKind;
use pes::runtime::clock::Clock;
use pes::service::audit::verify::{VerifyAsk, verify};
use pes::service::feed::{self, After, EventsPage, FeedAsk};
use pes::service::{audit, fork, runs, threads};
use pes::store::{PageAsk, SpendKey, Store, UsageAsk};
use serde_json::{Value, json};

use crate::recovery::probe::ask;
use crate::support::clocked::{Clocked, DAY, TODAY};
use crate::support::http::soon;
use crate::support::postgres::Database;
use crate::support::store::{fresh_store, store_on};

fn from(seq: i64) -> FeedAsk {
    FeedAsk { after: After::Seq(seq), ..FeedAsk::default() }
}

pub(super) fn of_threads(days: u32) -> Terms {
    Terms { thread_days: Some(Kept::Days(days)), ..Terms::default() }
}

#[tokio::test]
async fn threads_that_nobody_used_for_longer_than_they_are_kept_are_deleted() {
    let clocked = Clocked::on(fresh_store().await, |_| {}).await;
    for thread in ["old", "used", "held", "short", "ever"] {
        clocked.finish(thread).await;
    }
    clocked.suspend("waits").await;
    clocked.keep("held", Terms::default(), Some("case 4711")).await;
    clocked.keep("short", of_threads(10), None).await;
    clocked.suspend("asks").await;
    clocked.keep("asks", of_threads(10), None).await;
    clocked.keep("ever", Terms { thread_days: Some(Kept::FOREVER), ..Terms::default() }, None).await;
    clocked.days_pass(11).await;
    assert!(!clocked.is_there("short").await, "a thread may be kept for a shorter time");
    assert!(clocked.is_there("asks").await, "a person may still answer");
    assert!(clocked.is_there("old").await);
    clocked.days_pass(300).await;
    clocked.finish("used").await;
    clocked.days_pass(100).await;
    assert!(!clocked.is_there("old").await);
    for thread in ["used", "held", "ever", "waits"] {
        assert!(clocked.is_there(thread).await, "{thread}");
    }
    let (service, caller) = (clocked.instance.service(), clocked.instance.caller());
    let lines = audit::of_thread(service, caller, &"old".into(), PageAsk { limit: 100, ..PageAsk::default() })
        .await
        .unwrap()
        .items;
    let last = json!(lines.last().unwrap());
    assert_eq!((&last["actor"], &last["action"]), (&json!("retention"), &json!("delete thread")));

    let refused = threads::delete(service, caller, &"held".into()).await.unwrap_err();
    assert_eq!(refused.code, Code::OnHold, "{refused:?}");
    clocked.keep("held", Terms::default(), None).await;
    clocked.days_pass(1).await;
    assert!(!clocked.is_there("held").await, "its time was over before the hold was");
    clocked.instance.close().await;
}

#[tokio::test]
async fn what_was_used_and_spent_is_forgotten_after_the_thread() {
    let clocked = Clocked::on(fresh_store().await, |config| {
        config.prices.insert("demo:*".to_owned(), Price { output_per_million: 10.0, ..Price::default() });
        config.limits.spend.tenant_day_usd = Some(100.0);
        config.limits.spend.server_day_tokens = Some(1_000_000);
        config.retention.usage_days = Kept::Days(500);
    })
    .await;
    clocked.finish("t").await;
    let (store, tenant) = (clocked.store.clone(), clocked.instance.caller().tenant);
    let day = SpendKey::of(Capped::TenantDay, tenant, None, TODAY).unwrap();
    let servers = SpendKey::of(Capped::ServerDayTokens, tenant, None, TODAY).unwrap();
    let calls = async || {
        let (from, to, page) = (i64::MIN, i64::MAX, PageAsk { limit: 10, ..PageAsk::default() });
        let ask = UsageAsk { tenant, group: UsageGroup::Tenant, thread: None, from, to, page };
        let sums = store.usage(&ask).await.unwrap().items;
        let spent = store.spent(&[day.clone(), servers.clone()]).await.unwrap();
        (sums.iter().map(|sum| sum.calls).sum::<u64>(), [spent[0].used, spent[1].used])
    };
    let (before, used) = calls().await;
    assert!(before > 0 && used[0] > 0 && used[1] > 0, "{before} {used:?}");
    clocked.days_pass(450).await;
    assert!(!clocked.is_there("t").await);
    assert_eq!(calls().await, (before, used), "both outlive the thread");
    clocked.days_pass(52).await;
    assert_eq!(calls().await, (0, [0, 0]));
}

#[tokio::test]
async fn a_tenant_has_terms_of_its_own_and_may_be_on_hold() {
    let hold = |config: &mut Config| {
        let (days, hold) = (Some(Kept::Days(5)), Some("audit".into()));
        config.retention.tenants.insert("default".into(), TenantRetention { thread_days: days, log_days: days, hold });
    };
    let clocked = Clocked::on(fresh_store().await, hold).await;
    clocked.finish("t").await;
    clocked.finish("own").await;
    let days = Some(Kept::Days(5));
    clocked.keep("own", Terms { log_days: days, thread_days: days }, None).await;
    clocked.days_pass(1_000).await;
    for thread in ["t", "own"] {
        assert!(clocked.is_there(thread).await, "{thread}");
        assert_eq!(clocked.page(thread, 0).await.unwrap().min_seq, 1, "nor is anything of its log deleted: {thread}");
    }
    let (service, caller) = (clocked.instance.service(), clocked.instance.caller());
    let refused = threads::delete(service, caller, &"t".into()).await.unwrap_err();
    assert_eq!(refused.code, Code::OnHold, "{refused:?}");
    clocked.instance.close().await;

    let short = |config: &mut Config| {
        let own = TenantRetention { thread_days: Some(Kept::Days(5)), ..Default::default() };
        config.retention.tenants.insert("default".into(), own);
    };
    let clocked = Clocked::on(fresh_store().await, short).await;
    clocked.finish("t").await;
    clocked.days_pass(6).await;
    assert!(!clocked.is_there("t").await);
    clocked.instance.close().await;
}

#[tokio::test]
async fn a_tenants_logs_are_kept_as_it_says_unless_a_thread_says_otherwise() {
    let clocked = Clocked::on(fresh_store().await, |config| {
        let own = TenantRetention { log_days: Some(Kept::Days(5)), ..Default::default() };
        config.retention.tenants.insert("default".into(), own);
    })
    .await;
    clocked.finish("t").await;
    clocked.finish("longer").await;
    clocked.keep("longer", Terms { log_days: Some(Kept::Days(20)), ..Terms::default() }, None).await;
    clocked.days_pass(4).await;
    assert_eq!(clocked.page("t", 0).await.unwrap().min_seq, 1);
    clocked.days_pass(2).await;
    assert!(clocked.page("t", 0).await.unwrap().min_seq > 1, "its days are over, and the server's are not");
    assert_eq!(clocked.page("longer", 0).await.unwrap().min_seq, 1);
    clocked.instance.close().await;
}

#[tokio::test]
async fn a_log_that_is_too_old_begins_later_and_all_else_is_as_before() {
    an_old_log_begins_later(fresh_store().await).await;
}

#[tokio::test]
async fn a_log_that_is_too_old_begins_later_and_all_else_is_as_before_on_postgresql() {
    let database = Database::fresh().await;
    an_old_log_begins_later(store_on(&database).await).await;
}

async fn an_old_log_begins_later(store: Arc<dyn Store>) {
    let clocked = Clocked::on(store, |_| {}).await;
    let (service, caller) = (clocked.instance.service(), clocked.instance.caller());
    let thread: ThreadId = "t".into();
    clocked.finish("t").await;
    clocked.finish("t").await;
    clocked.days_pass(50).await;
    clocked.finish("t").await;
    let whole = clocked.page("t", 0).await.unwrap();
    let (state, messages) = (clocked.state("t", None).await.unwrap(), clocked.messages("t").await);
    let middle = whole.last_seq - 3;
    let then = clocked.state("t", Some(middle)).await.unwrap();

    clocked.days_pass(50).await;
    let left = clocked.page("t", 0).await.unwrap();
    let floor = left.min_seq;
    assert!(floor > 1 && floor <= left.items[0].seq && left.items.len() < whole.items.len(), "{floor}");
    let tail: Vec<Value> = whole.items.iter().filter(|seen| seen.seq >= floor).map(|seen| json!(seen)).collect();
    assert_eq!(left.items.iter().map(|seen| json!(seen)).collect::<Vec<_>>(), tail, "what is left is as it was");
    let same = |mut shown: Value| {
        shown["minSeq"] = json!(null);
        shown
    };
    assert_eq!(same(clocked.state("t", None).await.unwrap()), same(state));
    assert_eq!(same(clocked.state("t", Some(middle)).await.unwrap()), same(then), "it begins with what was before");
    assert_eq!(clocked.messages("t").await, messages);

    for at in [1, floor - 2] {
        assert_eq!(clocked.page("t", at).await.unwrap_err(), Code::HistoryCompacted, "{at}");
        assert_eq!(clocked.state("t", Some(at)).await.unwrap_err(), Code::HistoryCompacted);
        let forked = fork::fork(service, caller, &thread, Some(at), None, None).await.map(drop);
        assert_eq!(forked.unwrap_err().code, Code::HistoryCompacted);
    }
    assert_eq!(clocked.page("t", floor - 1).await.unwrap().items.len(), tail.len());
    let mut feed = feed::open(service, caller, &thread, from(1)).await.unwrap();
    let first = soon(feed.next()).await.unwrap();
    assert_eq!(first.kind, EncodedKind::Gap);
    assert_eq!(serde_json::from_slice::<Value>(&first.data()).unwrap()["fromSeq"], floor);
    let copy: ThreadId = "copy".into();
    fork::fork(service, caller, &thread, Some(middle), Some(copy), None).await.unwrap();
    clocked.finish("t").await;
    clocked.finish("copy").await;
    clocked.days_pass(91).await;
    assert!(clocked.page("t", 0).await.unwrap().min_seq > floor, "it goes on, from what stood for the beginning");
    assert_eq!(clocked.messages("t").await.as_array().unwrap().len(), messages.as_array().unwrap().len() + 2);
    clocked.instance.close().await;
}

#[tokio::test]
async fn nothing_of_an_unfinished_run_is_deleted() {
    let clocked = Clocked::on(fresh_store().await, |_| {}).await;
    clocked.finish("t").await;
    clocked.suspend("t").await;
    let whole = clocked.page("t", 0).await.unwrap();
    clocked.days_pass(1_000).await;
    let left = clocked.page("t", 0).await.unwrap();
    let began = whole.items.iter().rposition(|seen| seen.kind.as_str() == "RUN_STARTED").unwrap();
    assert!(left.min_seq > 1 && left.min_seq <= whole.items[began].seq, "{}", left.min_seq);
    let state = clocked.state("t", None).await.unwrap();
    let asked = state["suspensions"][0]["suspensionId"].clone();
    let answer = json!({ "suspensionId": asked, "approved": true });
    let answer = clocked.instance.resume("t", serde_json::from_value(answer).unwrap()).await.unwrap();
    assert_eq!(answer.metadata.tool_calls, 1);
    clocked.instance.close().await;
}

#[tokio::test]
async fn the_end_of_a_later_run_deletes_nothing_of_one_that_still_waits() {
    let store = fresh_store().await;
    let clocked = Clocked::on(store.clone(), |_| {}).await;
    let (service, caller) = (clocked.instance.service(), clocked.instance.caller());
    clocked.finish("t").await;
    clocked.suspend("t").await;
    let later = ask(&clocked.instance, "t", "hello").await;
    runs::cancel(service, caller, &later, None).await.map(drop).unwrap();
    let whole = clocked.page("t", 0).await.unwrap();
    let (started, ended): (Vec<_>, Vec<_>) = (positions(&whole, "RUN_STARTED"), positions(&whole, "RUN_FINISHED"));
    assert!(ended[1] > started[1], "the later one ended within the one that waits: {started:?} {ended:?}");
    clocked.days_pass(1_000).await;
    let left = clocked.page("t", 0).await.unwrap();
    assert!(left.min_seq > 1 && left.min_seq <= started[1], "{} {started:?}", left.min_seq);
    let pk = store.thread(caller.tenant, &"t".into()).await.unwrap().unwrap().pk;
    let waits = &whole.items.iter().find(|seen| seen.seq == started[1]).unwrap().run_id;
    assert_eq!(store.run_began(pk, waits).await.unwrap(), Some(started[1]));

    let state = clocked.state("t", None).await.unwrap();
    let asked = state["suspensions"][0]["suspensionId"].clone();
    let answer = json!({ "suspensionId": asked, "approved": true });
    let answer = clocked.instance.resume("t", serde_json::from_value(answer).unwrap()).await.unwrap();
    assert_eq!(answer.metadata.tool_calls, 1);
    clocked.days_pass(91).await;
    let min_seq = clocked.page("t", 0).await.unwrap().min_seq;
    assert!(min_seq > ended[1], "{min_seq}: once it is over, its time comes, too");
    clocked.instance.close().await;
}

fn positions(page: &EventsPage, kind: &str) -> Vec<i64> {
    page.items.iter().filter(|seen| seen.kind.as_str() == kind).map(|seen| seen.seq).collect()
}

#[tokio::test]
async fn old_lines_of_the_audit_are_forgotten_and_the_rest_is_verified() {
    an_old_audit_begins_later(fresh_store().await).await;
}

#[tokio::test]
async fn old_lines_of_the_audit_are_forgotten_and_the_rest_is_verified_on_postgresql() {
    let database = Database::fresh().await;
    an_old_audit_begins_later(store_on(&database).await).await;
}

async fn an_old_audit_begins_later(store: Arc<dyn Store>) {
    let clocked = Clocked::on(store, |config| {
        (config.retention.log_days, config.retention.thread_days) = (Kept::FOREVER, Kept::FOREVER);
        config.retention.audit_days = Kept::Days(100);
    })
    .await;
    let told = async |thread: &str, hold: Option<&str>| {
        clocked.keep(thread, of_threads(5_000), hold).await;
        audit::chain(&*clocked.store, None, clocked.clock.now()).await.unwrap();
    };
    // How much of it was deleted, and how many lines are left.
    let verified = async || {
        let found = verify(&*clocked.store, &VerifyAsk::default()).await.unwrap().remove(0);
        assert_eq!(found.broken, None);
        (found.forgotten, found.lines)
    };
    clocked.finish("a").await;
    clocked.finish("b").await;
    told("a", None).await;
    told("a", None).await;
    clocked.days_pass(60).await;
    told("b", None).await;
    clocked.days_pass(40).await;
    assert_eq!(verified().await, (0, 3));
    clocked.clock.advance(DAY / 2);
    clocked.days_pass(0).await;
    assert_eq!(verified().await, (0, 3), "each time leaves a line: it is done for a day at once");
    clocked.days_pass(2).await;
    assert_eq!(verified().await, (2, 2), "what is left, and a line that says so");
    let (service, caller) = (clocked.instance.service(), clocked.instance.caller());
    assert_eq!(
        audit::of_thread(service, caller, &"a".into(), PageAsk { limit: 100, ..PageAsk::default() })
            .await
            .unwrap()
            .items,
        []
    );
    let mut export = audit::export(service, caller, 0);
    let text = String::from_utf8(export.next().await.unwrap().unwrap().to_vec()).unwrap();
    assert!(text.starts_with("{\"checkpoint\":"), "what the rest is verified from comes first: {text}");
    let young = VerifyAsk { oldest: Some(TODAY - 1), ..VerifyAsk::default() };
    let why = verify(&*clocked.store, &young).await.unwrap().remove(0).broken.unwrap();
    assert!(why.starts_with("lines 1 to 2 were taken away before they were as old"), "{why}");
    told("b", Some("case 4711")).await;
    clocked.days_pass(101).await;
    assert_eq!(verified().await, (2, 3), "nothing of a thread on hold, and nothing behind");
    told("b", None).await;
    clocked.days_pass(1).await;
    assert_eq!(verified().await, (5, 2));
    // No other log begins later.
    audit::chain(&*clocked.store, None, clocked.clock.now()).await.unwrap();
    clocked.store.forget_lines(caller.tenant, 6).await.unwrap();
    let found = verify(&*clocked.store, &VerifyAsk::default()).await.unwrap().remove(0);
    assert_eq!(found.broken.as_deref(), Some("lines 1 to 6 are missing"));
    clocked.instance.close().await;
}
