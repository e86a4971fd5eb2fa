//! Changes that somebody with access to the database makes past the server.

use std::sync::Arc;

use pes::domain::ids::TenantPk;
use pes::engine::step::{Row, RowKind};
use pes::store::{Commit, LeaseChange, Order, PageAsk, Store};

/// Replaces this text in the first call of the thread.
pub async fn replace_in_call(store: &Arc<dyn Store>, thread: &str, old: &str, new: &str) {
    let tenant: TenantPk = store.tenant("default", 0).await.unwrap();
    let row = store.thread(tenant, &thread.into()).await.unwrap().unwrap();
    let calls =
        store.rows(row.pk, RowKind::Call, Order::Ascending, &PageAsk { cursor: None, limit: 10 }).await.unwrap();
    let call = calls.items.into_iter().next().unwrap();
    let body = call.body.replace(old, new);
    assert_ne!(body, call.body);
    let commit = Commit {
        pk: row.pk,
        create: None,
        fence: row.fence.clone(),
        lease: LeaseChange::Keep,
        token: uuid::Uuid::new_v4(),
        now: row.updated_at,
        head: None,
        profile: None,
        status: row.status,
        wake_at: row.wake_at,
        floor: row.floor,
        rows: vec![Row { body, ..call }],
        last_seq: row.last_seq,
        records: Vec::new(),
        idempotency: None,
        lookups: Vec::new(),
        audit: Vec::new(),
        deliveries: Vec::new(),
        fire: None,
        spend: Vec::new(),
    };
    store.commit(commit).await.unwrap();
}
