//! Each audit line is chained once, in one order, however many processes chain.

use pes::domain::ids::{TenantPk, ThreadPk};
use pes::engine::step::{Keep, Row, RowKind};
use pes::service::audit::chain;
use pes::store::chain::{NO_HASH, link};
use pes::store::{AuditRow, ChainedLine, Checkpoint, Commit, KeyAdded, KeyRow, NewLinks, PageAsk, TenantRenamed};
use serde_json::{Value, json};

use super::bed::{Bed, row};
use crate::support::together;

super::on_every_store!(
    lines_are_chained_in_their_order_with_a_checkpoint,
    of_many_that_chain_at_once_one_wins,
    nothing_is_chained_where_the_chain_ends_elsewhere,
    a_chain_goes_on_where_its_last_line_is_known,
    each_tenant_has_a_chain_of_its_own,
    lines_of_a_tenant_that_is_taken_over_are_chained_behind_the_others,
    more_lines_than_are_chained_at_once_have_more_checkpoints,
    a_checkpoint_of_a_slow_clock_makes_no_earlier_line_old,
    lines_are_read_and_forgotten_of_one_tenant,
    the_first_line_of_a_thread_on_hold_is_found,
    the_chained_lines_of_a_thread_come_in_pages,
);

/// Writes a line for each actor, in one commit each.
async fn told(bed: &Bed, pk: ThreadPk, actors: &[&str]) {
    for actor in actors {
        let audit = vec![bed.audit_line(pk, actor)];
        bed.done(Commit { audit, ..bed.next(pk).await }).await;
    }
}

async fn chained(bed: &Bed, tenant: TenantPk) -> Vec<ChainedLine> {
    bed.store.chained_lines(tenant, 0, 1_000).await.unwrap()
}

fn actors(lines: &[ChainedLine]) -> Vec<(i64, &str)> {
    lines.iter().map(|line| (line.n, line.line.actor.as_str())).collect()
}

async fn lines_are_chained_in_their_order_with_a_checkpoint(bed: Bed) {
    let pk = bed.thread("t").await;
    chain(&*bed.store, None, 50).await.unwrap();
    assert_eq!(bed.store.chain_end(bed.tenant).await.unwrap().n, 0);
    told(&bed, pk, &["ann", "bob\0"]).await;
    chain(&*bed.store, None, 60).await.unwrap();
    told(&bed, pk, &["eve"]).await;
    chain(&*bed.store, None, 70).await.unwrap();
    let lines = chained(&bed, bed.tenant).await;
    assert_eq!(actors(&lines), [(1, "ann"), (2, "bob\0"), (3, "eve")]);
    let mut hash = NO_HASH.to_owned();
    for line in &lines {
        hash = link(&hash, &line.line.digest());
        assert_eq!(line.hash, hash);
    }
    let kept = |n: usize, at| Checkpoint { n: n as i64, hash: lines[n - 1].hash.clone(), at, jws: None };
    assert_eq!(bed.store.checkpoints(bed.tenant, 0, 10).await.unwrap(), [kept(2, 60), kept(3, 70)]);
    assert_eq!(bed.store.checkpoints(bed.tenant, 2, 10).await.unwrap(), [kept(3, 70)]);
    assert_eq!(actors(&bed.store.chained_lines(bed.tenant, 1, 1).await.unwrap()), [(2, "bob\0")]);
    assert_eq!(bed.store.tenants_to_chain().await.unwrap(), []);
    assert!(bed.erase(pk).await);
    assert_eq!(bed.store.tenants_to_chain().await.unwrap(), [bed.tenant], "erasing it is told");
    assert_eq!(chained(&bed, bed.tenant).await, lines, "and its lines stay");
}

/// The clock was 50 after it had been 900.
async fn a_checkpoint_of_a_slow_clock_makes_no_earlier_line_old(bed: Bed) {
    let pk = bed.thread("t").await;
    for at in [100, 200, 900, 50, 1_000] {
        told(&bed, pk, &["ann"]).await;
        chain(&*bed.store, None, at).await.unwrap();
    }
    for (before, last) in [(100, None), (101, Some(1)), (500, Some(2)), (901, Some(4)), (1_001, Some(5))] {
        let found = bed.store.checkpoint_before(bed.tenant, before).await.unwrap();
        assert_eq!(found.map(|found| found.n), last, "{before}");
    }
}

/// The other's clock is ahead.
async fn lines_are_read_and_forgotten_of_one_tenant(bed: Bed) {
    let (other, empty) = (bed.other_tenant().await, bed.of_tenant("empty").await);
    let (pk, theirs) = (bed.thread("t").await, other.thread("t").await);
    for (bed, pk, at) in [(&bed, pk, 50), (&bed, pk, 60), (&other, theirs, 1_000), (&other, theirs, 1_001)] {
        told(bed, pk, &["ann"]).await;
        chain(&*bed.store, None, at).await.unwrap();
    }
    assert_eq!(bed.audit(theirs).await, [], "neither of that tenant nor of another thread");
    let before = async |tenant| bed.store.checkpoint_before(tenant, 100).await.unwrap().map(|found| found.n);
    assert_eq!(
        (before(bed.tenant).await, before(other.tenant).await, before(empty.tenant).await),
        (Some(2), None, None)
    );
    let all = async |tenant| (chained(&bed, tenant).await, bed.store.checkpoints(tenant, 0, 9).await.unwrap());
    let untouched = all(other.tenant).await;
    assert_eq!((untouched.0.len(), untouched.1.len()), (2, 2));
    assert_eq!(bed.store.forget_lines(bed.tenant, 2).await.unwrap(), 2);
    assert_eq!(all(other.tenant).await, untouched);
    let (lines, checkpoints) = all(bed.tenant).await;
    assert_eq!((lines.len(), checkpoints.len()), (0, 1));
}

async fn the_first_line_of_a_thread_on_hold_is_found(bed: Bed) {
    let other = bed.other_tenant().await;
    let (a, b, theirs) = (bed.thread("a").await, bed.thread("b").await, other.thread("a").await);
    for (bed, pk, id) in [(&bed, a, "a"), (&bed, b, "b"), (&bed, b, "b"), (&other, theirs, "a")] {
        let line = AuditRow { thread_id: Some(id.into()), ..bed.audit_line(pk, "ann") };
        bed.done(Commit { audit: vec![line], ..bed.next(pk).await }).await;
    }
    chain(&*bed.store, None, 1).await.unwrap();
    let keep = async |bed: &Bed, pk, terms: Value| {
        bed.write(pk, vec![Row { body: terms.to_string(), ..row(RowKind::Retention, "", 0, Keep::Never) }]).await;
    };
    let hold = json!({ "reason": "case 4711", "by": "ann", "at": 1 });
    keep(&bed, a, json!({ "terms": { "logDays": 7 } })).await;
    keep(&other, theirs, json!({ "terms": {}, "hold": hold })).await;
    assert_eq!(bed.store.first_held_line(bed.tenant).await.unwrap(), None);
    keep(&bed, b, json!({ "terms": {}, "hold": hold })).await;
    assert_eq!(bed.store.first_held_line(bed.tenant).await.unwrap(), Some(2));
    assert_eq!(bed.store.first_held_line(other.tenant).await.unwrap(), Some(1));
    bed.write(a, vec![Row { body: "{".to_owned(), ..row(RowKind::Retention, "", 0, Keep::Never) }]).await;
    assert_eq!(bed.store.first_held_line(bed.tenant).await.unwrap(), Some(1), "what cannot be read may be a hold");
    assert_eq!(bed.store.first_held_line(other.tenant).await.unwrap(), Some(1));
}

async fn the_chained_lines_of_a_thread_come_in_pages(bed: Bed) {
    let (t, other) = (bed.thread("t").await, bed.thread("other").await);
    for (pk, id, actor) in [(t, "t", "ann"), (other, "other", "bob"), (t, "t", "eve"), (t, "t", "dan")] {
        let line = AuditRow { thread_id: Some(id.into()), ..bed.audit_line(pk, actor) };
        bed.done(Commit { audit: vec![line], ..bed.next(pk).await }).await;
        if actor == "eve" {
            chain(&*bed.store, None, 50).await.unwrap();
        }
    }
    let page = async |ask: &PageAsk| bed.store.chained_lines_of_thread(bed.tenant, &"t".into(), ask).await.unwrap();
    let first = page(&PageAsk::first(1)).await;
    assert_eq!(actors(&first.items), [(1, "ann")]);
    let next = page(&PageAsk { cursor: first.next_cursor, limit: 2 }).await;
    assert_eq!((actors(&next.items), next.next_cursor), (vec![(3, "eve")], None), "the last line is not chained");
}

async fn of_many_that_chain_at_once_one_wins(bed: Bed) {
    let pk = bed.thread("t").await;
    told(&bed, pk, &["a", "b", "c"]).await;
    let ids: Vec<i64> = bed.store.unchained_lines(bed.tenant, 10).await.unwrap().iter().map(|line| line.id).collect();
    // Each process saw other lines: those committed when it read.
    let tries = (0..20).map(|n: usize| {
        let links: Vec<_> = ids[n % 3..=n % 3].iter().map(|id| (*id, format!("{n:064}"))).collect();
        let checkpoint = Checkpoint { n: 1, hash: format!("{n:064}"), at: 1, jws: None };
        let (store, tenant) = (bed.store.clone(), bed.tenant);
        async move {
            let new = NewLinks {
                tenant,
                behind: 0,
                links,
                checkpoint,
                deliveries: Vec::new(),
                is_chore: n.is_multiple_of(2),
            };
            store.add_links(new).await.unwrap()
        }
    });
    let done = together(tries).await;
    assert_eq!(done.iter().filter(|done| **done).count(), 1, "{done:?}");
    let lines = chained(&bed, bed.tenant).await;
    assert_eq!((lines.len(), lines[0].n), (1, 1));
    let winner = done.iter().position(|done| *done).unwrap();
    assert_eq!(lines[0].hash, format!("{winner:064}"));
    assert_eq!(bed.store.unchained_lines(bed.tenant, 10).await.unwrap().len(), 2);
}

async fn nothing_is_chained_where_the_chain_ends_elsewhere(bed: Bed) {
    let pk = bed.thread("t").await;
    told(&bed, pk, &["a", "b"]).await;
    let lines = bed.store.unchained_lines(bed.tenant, 10).await.unwrap();
    let new = |behind: i64, ids: &[i64]| NewLinks {
        tenant: bed.tenant,
        behind,
        links: ids.iter().map(|id| (*id, NO_HASH.to_owned())).collect(),
        checkpoint: Checkpoint { n: behind + ids.len() as i64, hash: NO_HASH.to_owned(), at: 1, jws: None },
        deliveries: Vec::new(),
        is_chore: true,
    };
    assert!(!bed.store.add_links(new(1, &[lines[0].id])).await.unwrap());
    assert!(!bed.store.add_links(new(0, &[lines[0].id, 4_711])).await.unwrap());
    assert_eq!(chained(&bed, bed.tenant).await, [], "of lines of which one is not there none is chained");
    assert!(bed.store.add_links(new(0, &[lines[0].id])).await.unwrap());
    assert!(!bed.store.add_links(new(1, &[lines[0].id])).await.unwrap(), "it is chained");
    let signed = Checkpoint { jws: Some("a.b.c".into()), ..new(0, &[lines[0].id]).checkpoint };
    assert!(bed.store.add_links(NewLinks { checkpoint: signed.clone(), ..new(1, &[]) }).await.unwrap());
    assert_eq!(bed.store.checkpoints(bed.tenant, 0, 10).await.unwrap(), [signed], "in the place of the other");
}

/// A chain whose end was removed does not start again.
async fn a_chain_goes_on_where_its_last_line_is_known(bed: Bed) {
    let pk = bed.thread("t").await;
    told(&bed, pk, &["a", "b"]).await;
    let hash = "ab".repeat(32);
    let links = vec![(bed.store.unchained_lines(bed.tenant, 1).await.unwrap()[0].id, NO_HASH.to_owned())];
    let checkpoint = Checkpoint { n: 9, hash: hash.clone(), at: 1, jws: None };
    let new = NewLinks { tenant: bed.tenant, behind: 0, links, checkpoint, deliveries: Vec::new(), is_chore: true };
    assert!(bed.store.add_links(new).await.unwrap());
    let end = bed.store.chain_end(bed.tenant).await.unwrap();
    assert_eq!((end.n, &end.hash), (9, &hash));
    chain(&*bed.store, None, 2).await.unwrap();
    let lines = chained(&bed, bed.tenant).await;
    assert_eq!(actors(&lines), [(1, "a"), (10, "b")]);
    assert_eq!(lines[1].hash, link(&hash, &lines[1].line.digest()));
}

async fn each_tenant_has_a_chain_of_its_own(bed: Bed) {
    let other = bed.other_tenant().await;
    for bed in [&bed, &other] {
        let pk = bed.thread("t").await;
        told(bed, pk, &["a", "b"]).await;
    }
    chain(&*bed.store, None, 1).await.unwrap();
    for bed in [&bed, &other] {
        assert_eq!(actors(&chained(bed, bed.tenant).await), [(1, "a"), (2, "b")]);
    }
}

async fn lines_of_a_tenant_that_is_taken_over_are_chained_behind_the_others(bed: Bed) {
    let pk = bed.thread("t").await;
    told(&bed, pk, &["a"]).await;
    let acme = bed.store.tenant("acme", 1).await.unwrap();
    let key = KeyRow {
        key_id: "k".into(),
        tenant: acme,
        tenant_name: "acme".into(),
        name: "k".into(),
        hash: "h".into(),
        scopes: "read".into(),
        created_at: 1,
        revoked_at: None,
        expires_at: None,
        used_at: None,
        former_hash: None,
        former_until: None,
    };
    let line = AuditRow { tenant: acme, ..bed.audit_line(ThreadPk::NONE, "k") };
    assert_eq!(bed.store.add_key(key, usize::MAX, line).await.unwrap(), KeyAdded::Stored);
    chain(&*bed.store, None, 1).await.unwrap();
    assert_eq!(bed.store.rename_tenant("default", "acme", "ann", 2).await.unwrap(), TenantRenamed::Done);
    chain(&*bed.store, None, 3).await.unwrap();
    let lines = chained(&bed, bed.tenant).await;
    assert_eq!(actors(&lines), [(1, "a"), (2, "k"), (3, "ann")]);
    assert_eq!(bed.store.checkpoints(acme, 0, 10).await.unwrap(), []);
    assert_eq!(bed.store.chain_end(bed.tenant).await.unwrap().n, 3);
}

async fn more_lines_than_are_chained_at_once_have_more_checkpoints(bed: Bed) {
    let pk = bed.thread("t").await;
    let audit = (0..450).map(|n| bed.audit_line(pk, &format!("a{n}"))).collect();
    bed.done(Commit { audit, ..bed.next(pk).await }).await;
    chain(&*bed.store, None, 1).await.unwrap();
    let lines = chained(&bed, bed.tenant).await;
    assert!(lines.iter().zip(1..).all(|(line, n)| line.n == n && line.line.actor == format!("a{}", n - 1)));
    let checkpoints: Vec<i64> =
        bed.store.checkpoints(bed.tenant, 0, 10).await.unwrap().iter().map(|checkpoint| checkpoint.n).collect();
    assert_eq!(checkpoints, [200, 400, 450]);
}
