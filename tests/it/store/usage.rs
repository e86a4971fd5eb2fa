//! Usage of model calls, summed by any requested group, of one tenant only.

use pes::domain::model::Usage;
use pes::domain::spend::Unit;
use pes::domain::usage::{ModelUse, UsageGroup, UsageSum};
use pes::engine::step::{Keep, Row, RowKind};
use pes::store::{CallPosition, Erasure, SpendChange, SpendKey, UsageAsk};
use serde_json::json;

use super::bed::{Bed, page};
use crate::support::clocked::{DAY, TODAY};

super::on_every_store!(
    usage_is_summed_by_every_group,
    usage_has_pages,
    a_page_of_sums_has_all_calls_of_its_groups,
    usage_of_others_and_of_other_times_is_left_out,
    usage_of_deleted_threads_still_counts,
    calls_of_no_thread_count,
    what_was_stopped_for_a_deletion_counts_with_it,
    the_latest_calls_are_read_and_no_others,
    a_call_that_cannot_be_read_is_left_out,
    old_usage_is_forgotten,
    usage_that_has_to_stay_is_examined_a_few_calls_at_a_time,
);

fn used(id: &str, at: i64, run: &str, item: Option<&str>, model: &str, cost: Option<i64>) -> Row {
    let mut body = json!({
        "run": run, "provider": "p", "model": model, "inputTokens": 10, "outputTokens": 5, "thinkingTokens": 2,
        "cachedInputTokens": 1,
    });
    if let Some(item) = item {
        body["item"] = item.into();
    }
    if let Some(cost) = cost {
        body["costNanos"] = cost.into();
    }
    Row { kind: RowKind::Usage, id: id.into(), ord: at, keep: Keep::Never, body: body.to_string() }
}

async fn four_calls(bed: &Bed) {
    let pk = bed.thread("t1").await;
    bed.write(
        pk,
        vec![
            used("str_1", TODAY, "run_1", None, "m", Some(100)),
            used("str_2", TODAY + 1, "run_1", Some("a"), "m", Some(1_000_000_000_000)),
            used("str_3", TODAY + DAY, "run_1", Some("a"), "n", None),
        ],
    )
    .await;
    let pk = bed.thread("t2").await;
    bed.write(pk, vec![used("str_4", TODAY - 1, "run_2", Some("a"), "m", Some(7))]).await;
}

fn ask(bed: &Bed, group: UsageGroup) -> UsageAsk {
    UsageAsk { tenant: bed.tenant, group, thread: None, from: i64::MIN, to: i64::MAX, page: page(100) }
}

/// Key, sub-key, calls, cost, unpriced.
fn shown(sums: &[UsageSum]) -> Vec<(&str, &str, u64, i64, u64)> {
    sums.iter().map(|sum| (&*sum.key, &*sum.sub, sum.calls, sum.cost_nanos, sum.unpriced)).collect()
}

async fn sums(bed: &Bed, ask: &UsageAsk) -> Vec<UsageSum> {
    bed.store.usage(ask).await.unwrap().items
}

async fn usage_is_summed_by_every_group(bed: Bed) {
    assert_eq!(sums(&bed, &ask(&bed, UsageGroup::Run)).await, []);
    four_calls(&bed).await;
    let runs = sums(&bed, &ask(&bed, UsageGroup::Run)).await;
    assert_eq!(shown(&runs), [("run_1", "", 3, 1_000_000_000_100, 1), ("run_2", "", 1, 7, 0)]);
    let usage = &runs[0].usage;
    let counted = (usage.input_tokens, usage.output_tokens, usage.thinking_tokens, usage.cached_input_tokens);
    assert_eq!(counted, (30, 15, 6, 3));
    let items = sums(&bed, &ask(&bed, UsageGroup::Item)).await;
    let expected = [("run_1", "", 1, 100, 0), ("run_1", "a", 2, 1_000_000_000_000, 1), ("run_2", "a", 1, 7, 0)];
    assert_eq!(shown(&items), expected);
    let models = sums(&bed, &ask(&bed, UsageGroup::Model)).await;
    assert_eq!(shown(&models), [("p", "m", 3, 1_000_000_000_107, 0), ("p", "n", 1, 0, 1)]);
    let tenants = sums(&bed, &ask(&bed, UsageGroup::Tenant)).await;
    assert_eq!(shown(&tenants), [("default", "", 4, 1_000_000_000_107, 1)]);
    let days = sums(&bed, &ask(&bed, UsageGroup::Day)).await;
    let expected =
        [("2026-11-20", "", 1, 7, 0), ("2026-11-21", "", 2, 1_000_000_000_100, 0), ("2026-11-22", "", 1, 0, 1)];
    assert_eq!(shown(&days), expected);
}

async fn usage_has_pages(bed: Bed) {
    four_calls(&bed).await;
    let mut asked = UsageAsk { page: page(1), ..ask(&bed, UsageGroup::Item) };
    let mut seen = Vec::new();
    loop {
        let found = bed.store.usage(&asked).await.unwrap();
        assert_eq!(found.items.len(), 1);
        seen.extend(found.items);
        match found.next_cursor {
            Some(cursor) => asked.page.cursor = Some(cursor),
            None => break,
        }
    }
    assert_eq!(seen, sums(&bed, &ask(&bed, UsageGroup::Item)).await);
}

/// However the calls of the groups are stored among each other.
async fn a_page_of_sums_has_all_calls_of_its_groups(bed: Bed) {
    let pk = bed.thread("t1").await;
    let runs = ["d", "c", "a", "d", "b", "a", "c", "e", "a"];
    let calls =
        runs.iter().enumerate().map(|(n, run)| used(&format!("str_{n}"), TODAY + n as i64, run, None, "m", None));
    bed.write(pk, calls.collect()).await;
    let mut asked = UsageAsk { page: page(2), ..ask(&bed, UsageGroup::Run) };
    let mut pages = Vec::new();
    loop {
        let found = bed.store.usage(&asked).await.unwrap();
        pages.push(found.items.iter().map(|sum| format!("{}{}", sum.key, sum.calls)).collect::<Vec<_>>().join(" "));
        match found.next_cursor {
            Some(cursor) => asked.page.cursor = Some(cursor),
            None => break,
        }
    }
    assert_eq!(pages, ["a3 b1", "c2 d2", "e1"]);
}

async fn usage_of_others_and_of_other_times_is_left_out(bed: Bed) {
    four_calls(&bed).await;
    let other = bed.other_tenant().await;
    assert_eq!(sums(&other, &ask(&other, UsageGroup::Run)).await, []);
    let within = UsageAsk { from: TODAY, to: TODAY + 1, ..ask(&bed, UsageGroup::Run) };
    assert_eq!(shown(&sums(&bed, &within).await), [("run_1", "", 1, 100, 0)]);
}

async fn usage_of_deleted_threads_still_counts(bed: Bed) {
    four_calls(&bed).await;
    let groups = [UsageGroup::Model, UsageGroup::Tenant, UsageGroup::Day];
    let mut before = Vec::new();
    for group in groups {
        before.push(sums(&bed, &ask(&bed, group)).await);
    }
    let thread = bed.store.thread(bed.tenant, &"t1".into()).await.unwrap().unwrap();
    assert!(bed.erase(thread.pk).await);
    assert!(!bed.erase(thread.pk).await);
    for (group, before) in groups.into_iter().zip(before) {
        assert_eq!(sums(&bed, &ask(&bed, group)).await, before, "{group:?}");
    }
    let items = sums(&bed, &ask(&bed, UsageGroup::Item)).await;
    assert_eq!(shown(&items), [("deleted", "", 3, 1_000_000_000_100, 1), ("run_2", "a", 1, 7, 0)]);
    let other = bed.other_tenant().await;
    assert_eq!(sums(&other, &ask(&other, UsageGroup::Model)).await, []);
    let within = UsageAsk { from: TODAY, to: TODAY + 1, ..ask(&bed, UsageGroup::Run) };
    assert_eq!(shown(&sums(&bed, &within).await), [("deleted", "", 1, 100, 0)]);
}

async fn what_was_stopped_for_a_deletion_counts_with_it(bed: Bed) {
    let pk = bed.thread("t1").await;
    let took = used("str_1", TODAY, "run_1", Some("a"), "m", Some(100));
    let took: Vec<(i64, ModelUse)> = vec![(took.ord, serde_json::from_str(&took.body).unwrap())];
    let version = bed.read(pk).await.fence.version;
    let erasure = |version| Erasure { calls: took.clone(), ..bed.erasure(pk, version) };
    assert!(!bed.store.delete_thread(erasure(version - 1)).await.unwrap());
    assert_eq!(sums(&bed, &ask(&bed, UsageGroup::Item)).await, []);
    assert!(bed.store.delete_thread(erasure(version)).await.unwrap());
    assert_eq!(shown(&sums(&bed, &ask(&bed, UsageGroup::Item)).await), [("deleted", "", 1, 100, 0)]);
}

async fn the_latest_calls_are_read_and_no_others(bed: Bed) {
    four_calls(&bed).await;
    let latest = async |bed: &Bed, from, limit| {
        let calls = bed.store.latest_calls(bed.tenant, from, limit).await.unwrap();
        calls.into_iter().map(|call| (call.run.to_string(), call.model, call.cost_nanos)).collect::<Vec<_>>()
    };
    let of = |run: &str, model: &str, cost| (run.to_owned(), model.to_owned(), cost);
    let newest = [of("run_1", "n", None), of("run_1", "m", Some(1_000_000_000_000))];
    assert_eq!(latest(&bed, i64::MIN, 2).await, newest);
    assert_eq!(latest(&bed, TODAY + 1, 9).await, newest, "none that is older");
    assert_eq!(latest(&bed, i64::MIN, 9).await.len(), 4);
    assert_eq!(latest(&bed.other_tenant().await, i64::MIN, 9).await, []);
    let thread = bed.store.thread(bed.tenant, &"t1".into()).await.unwrap().unwrap();
    assert!(bed.erase(thread.pk).await);
    assert_eq!(latest(&bed, i64::MIN, 9).await, [of("run_2", "m", Some(7))]);
}

async fn a_call_that_cannot_be_read_is_left_out(bed: Bed) {
    four_calls(&bed).await;
    let all = async || {
        let mut all = Vec::new();
        for group in UsageGroup::ALL {
            all.push(sums(&bed, &ask(&bed, group)).await);
        }
        all
    };
    let pk = bed.thread("t3").await;
    let without_numbers = json!({ "run": "run_3", "provider": "p", "model": "m" }).to_string();
    bed.write(pk, vec![Row { body: without_numbers, ..used("str_5", TODAY, "run_3", None, "m", None) }]).await;
    let by_run = sums(&bed, &ask(&bed, UsageGroup::Run)).await;
    let bare = by_run.iter().find(|sum| sum.key == "run_3").expect("it counts");
    assert_eq!((bare.calls, &bare.usage), (1, &Usage::default()));
    let legible = all().await;
    let of_another_shape = json!({
        "run": "run_1", "provider": "p", "model": "m", "inputTokens": "many", "outputTokens": 1, "thinkingTokens": 1,
        "cachedInputTokens": 1,
    });
    for body in [String::new(), "{".to_owned(), "[]".to_owned(), of_another_shape.to_string()] {
        bed.write(pk, vec![Row { body: body.clone(), ..used("str_6", TODAY, "run_1", None, "m", None) }]).await;
        assert_eq!(all().await, legible, "{body}");
    }
}

async fn old_usage_is_forgotten(bed: Bed) {
    four_calls(&bed).await;
    let thread = bed.store.thread(bed.tenant, &"t1".into()).await.unwrap().unwrap();
    assert!(bed.erase(thread.pk).await);
    let other = bed.other_tenant().await;
    assert_eq!(forget(&other, TODAY * 2, &CallPosition::beginning(), 100).await, (0, None));
    let (deleted, next) = forget(&bed, TODAY + DAY, &CallPosition::beginning(), 1).await;
    assert_eq!(deleted, 1, "no more at once");
    let (deleted, next) = forget(&bed, TODAY + DAY, &next.unwrap(), 100).await;
    assert_eq!((deleted, next), (2, None), "of threads that are there, too");
    let left = sums(&bed, &ask(&bed, UsageGroup::Item)).await;
    assert_eq!(shown(&left), [("deleted", "", 1, 0, 1)]);
}

async fn forget(bed: &Bed, before: i64, behind: &CallPosition, limit: u32) -> (u64, Option<CallPosition>) {
    let forgotten = bed.store.forget_usage(bed.tenant, before, behind, limit).await.unwrap();
    (forgotten.deleted, forgotten.next)
}

/// However much of it there is: a step reads no more of what stays, and many calls may have the same time.
async fn usage_that_has_to_stay_is_examined_a_few_calls_at_a_time(bed: Bed) {
    let (held, free) = (bed.thread("held").await, bed.thread("free").await);
    let calls =
        |from: i64, to: i64| (from..to).map(|n| used(&format!("str_{n}"), TODAY + n / 1_500, "r", None, "m", None));
    bed.write(held, calls(0, 4_500).collect()).await;
    bed.write(free, calls(4_500, 4_510).collect()).await;
    let terms = json!({ "terms": {}, "hold": { "reason": "a lawsuit", "by": "ann", "at": 1 } }).to_string();
    bed.write(held, vec![Row { kind: RowKind::Retention, id: "".into(), ord: 0, keep: Keep::Never, body: terms }])
        .await;
    let (mut behind, mut steps) = (CallPosition::beginning(), Vec::new());
    loop {
        let (deleted, next) = forget(&bed, TODAY + 10, &behind, 4).await;
        steps.push(deleted);
        match next {
            Some(next) => behind = next,
            None => break,
        }
    }
    assert_eq!(steps, [0, 0, 4, 4, 2]);
    let left = sums(&bed, &ask(&bed, UsageGroup::Run)).await;
    assert_eq!(shown(&left), [("r", "", 4_500, 0, 4_500)]);
}

async fn calls_of_no_thread_count(bed: Bed) {
    let of = SpendKey { tenant: bed.tenant, key_name: "ann".into(), period: "2026-11".into(), unit: Unit::Usd };
    let took = ["m", "n"].map(|model| ModelUse {
        run: "check".into(),
        item: None,
        provider: "p".into(),
        model: model.into(),
        usage: Usage { input_tokens: 10, output_tokens: 5, ..Usage::default() },
        cost_nanos: Some(100),
    });
    for _ in 0..2 {
        let spend = SpendChange { key: of.clone(), used: 200, held: 0, cap: None, notices: Vec::new() };
        bed.store.add_usage(bed.tenant, TODAY, took.to_vec(), vec![spend]).await.unwrap();
    }
    let sums = bed.store.usage(&ask(&bed, UsageGroup::Run)).await.unwrap().items;
    let shown: Vec<_> = sums.iter().map(|sum| (sum.key.as_str(), sum.calls, sum.usage.input_tokens)).collect();
    assert_eq!((shown, sums[0].cost_nanos), (vec![("check", 4, 40)], 400));
    let spent = bed.store.spent(&[of]).await.unwrap().remove(0);
    assert_eq!((spent.used, spent.held), (400, 0));
    let other = bed.other_tenant().await;
    assert_eq!(other.store.usage(&ask(&other, UsageGroup::Run)).await.unwrap().items, []);
}
