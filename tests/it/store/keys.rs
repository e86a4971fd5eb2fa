//! Tenants and their keys.

use futures_util::future::join_all;
use pes::domain::ids::ThreadPk;
use pes::engine::step::{Keep, RowKind};
use pes::store::documents::{Document, DocumentKind, Expected};
use pes::store::outbox::{NewDelivery, TargetKind};
use pes::store::{AuditRow, Erasure, KeyAdded, KeyRow, Rotation, RunEnd, TenantRenamed};
use serde_json::json;
use uuid::Uuid;

use super::bed::{Bed, page, row};

super::on_every_store!(
    a_tenant_keeps_its_key,
    keys_are_found_by_their_hash,
    a_key_is_revoked_once,
    a_key_is_rotated_while_it_counts_and_its_use_is_written_once_an_hour,
    a_name_is_used_once_in_a_tenant,
    keys_that_ended_before_a_time_are_forgotten_but_for_the_newest,
    as_many_valid_keys_are_stored_as_a_tenant_may_have,
    making_and_revoking_a_key_leave_a_line_each,
    a_tenant_takes_over_what_another_has_if_it_has_nothing_itself,
    tenants_with_keys_of_one_name_stay_two,
    nothing_of_a_removed_tenant_is_the_next_ones,
    it_answers_a_ping,
);

pub fn key(bed: &Bed, key_id: &str) -> KeyRow {
    KeyRow {
        key_id: key_id.into(),
        tenant: bed.tenant,
        tenant_name: "default".into(),
        name: format!("name of {key_id}"),
        hash: format!("hash of {key_id}"),
        scopes: "read run".into(),
        created_at: 7,
        revoked_at: None,
        expires_at: None,
        used_at: None,
        former_hash: None,
        former_until: None,
    }
}

pub fn line(bed: &Bed, action: &str) -> AuditRow {
    AuditRow { action: action.into(), ..bed.audit_line(ThreadPk::NONE, "ann") }
}

pub async fn add(bed: &Bed, key: KeyRow) -> bool {
    match bed.store.add_key(key, usize::MAX, line(bed, "make key")).await.unwrap() {
        KeyAdded::Stored => true,
        KeyAdded::NameTaken => false,
        KeyAdded::TooMany => panic!("there is no bound"),
    }
}

async fn revoke(bed: &Bed, key_id: &str, now: i64) -> bool {
    bed.store.revoke_key(key_id, now, line(bed, "revoke key")).await.unwrap()
}

async fn a_tenant_keeps_its_key(bed: Bed) {
    let other = bed.store.tenant("other", 5).await.unwrap();
    assert_ne!(other, bed.tenant);
    assert_eq!(bed.store.tenant("other", 6).await.unwrap(), other);
    assert_eq!(bed.store.tenant("default", 6).await.unwrap(), bed.tenant);
}

async fn keys_are_found_by_their_hash(bed: Bed) {
    assert!(!bed.store.has_keys().await.unwrap());
    assert!(add(&bed, key(&bed, "k1")).await);
    assert!(add(&bed, key(&bed, "k2")).await);
    assert_eq!(bed.store.key_by_hash("hash of k2").await.unwrap(), Some(key(&bed, "k2")));
    assert_eq!(bed.store.key_by_hash("hash of k3").await.unwrap(), None);
    assert_eq!(bed.store.key_by_name(bed.tenant, "name of k2").await.unwrap(), Some(key(&bed, "k2")));
    assert_eq!(bed.store.key_by_name(bed.tenant, "name of k3").await.unwrap(), None);
    let other = bed.store.tenant("other", 5).await.unwrap();
    assert_eq!(bed.store.key_by_name(other, "name of k2").await.unwrap(), None);
    assert_eq!(bed.store.keys().await.unwrap(), [key(&bed, "k1"), key(&bed, "k2")]);
    assert!(bed.store.has_keys().await.unwrap());
    assert_eq!(bed.store.key("k2").await.unwrap(), Some(key(&bed, "k2")));
    assert_eq!(bed.store.key("k3").await.unwrap(), None);
    assert_eq!(bed.store.keys_of(bed.tenant).await.unwrap().len(), 2);
    assert_eq!(bed.store.keys_of(other).await.unwrap(), []);
}

async fn a_key_is_revoked_once(bed: Bed) {
    assert!(add(&bed, key(&bed, "k1")).await && add(&bed, key(&bed, "k2")).await);
    assert!(revoke(&bed, "k1", 99).await);
    assert!(!revoke(&bed, "k1", 100).await);
    assert!(!revoke(&bed, "unknown", 99).await);
    let stored = bed.store.key_by_hash("hash of k1").await.unwrap().unwrap();
    assert_eq!(stored.revoked_at, Some(99), "found all the same: the answer is 401, not a guess");
    assert_eq!(bed.store.key("k2").await.unwrap().unwrap().revoked_at, None, "another key");
}

async fn a_name_is_used_once_in_a_tenant(bed: Bed) {
    let named = |bed: &Bed, key_id: &str| KeyRow { name: "laptop".into(), ..key(bed, key_id) };
    assert!(add(&bed, named(&bed, "k1")).await);
    assert!(!add(&bed, named(&bed, "k2")).await);
    assert!(revoke(&bed, "k1", 99).await);
    assert!(!add(&bed, named(&bed, "k2")).await, "what it decided stays its own");
    let other = bed.other_tenant().await;
    assert!(add(&other, KeyRow { tenant_name: "other".into(), ..named(&other, "k3") }).await);
    assert_eq!(bed.store.keys().await.unwrap().len(), 2);
}

/// The newest stays, because a server on which no key was ever made needs none.
async fn keys_that_ended_before_a_time_are_forgotten_but_for_the_newest(bed: Bed) {
    let other = bed.other_tenant().await;
    assert!(add(&other, key(&other, "of another")).await && revoke(&other, "of another", 20).await);
    assert!(add(&other, KeyRow { created_at: 8, ..key(&other, "newest of another") }).await);
    for id in ["valid", "revoked 1", "revoked 2", "revoked 3", "revoked later", "named"] {
        assert!(add(&bed, key(&bed, id)).await);
    }
    assert!(add(&bed, KeyRow { expires_at: Some(20), ..key(&bed, "expired") }).await);
    assert!(add(&bed, KeyRow { expires_at: Some(30), ..key(&bed, "expires later") }).await);
    assert!(add(&bed, KeyRow { expires_at: Some(20), ..key(&bed, "expired and revoked later") }).await);
    assert!(add(&bed, KeyRow { created_at: 8, ..key(&bed, "newest") }).await);
    for (id, at) in [("revoked 1", 20), ("revoked 2", 29), ("revoked 3", 29), ("revoked later", 30), ("named", 20)] {
        assert!(revoke(&bed, id, at).await);
    }
    assert!(revoke(&bed, "newest", 20).await && revoke(&bed, "expired and revoked later", 30).await);
    let forget = async |limit| {
        let kept = ["name of named".to_owned(), "name'\0".to_owned()];
        bed.store.forget_keys(bed.tenant, 30, &kept, limit).await.unwrap()
    };
    assert_eq!([forget(3).await, forget(3).await, forget(3).await], [3, 1, 0]);
    let mut left: Vec<String> =
        bed.store.keys_of(bed.tenant).await.unwrap().into_iter().map(|key| key.key_id).collect();
    left.sort();
    assert_eq!(left, ["expired and revoked later", "expires later", "named", "newest", "revoked later", "valid"]);
    assert_eq!(bed.store.keys_of(other.tenant).await.unwrap().len(), 2, "those of another tenant are not meant");
    assert!(add(&bed, KeyRow { name: "name of expired".into(), ..key(&bed, "again") }).await);
}

async fn as_many_valid_keys_are_stored_as_a_tenant_may_have(bed: Bed) {
    assert!(add(&bed, key(&bed, "revoked")).await);
    assert!(revoke(&bed, "revoked", 5).await);
    assert!(add(&bed, KeyRow { expires_at: Some(7), ..key(&bed, "expired") }).await, "at the time of the others");
    assert!(add(&bed, KeyRow { expires_at: Some(8), ..key(&bed, "valid") }).await);
    let other = bed.other_tenant().await;
    assert!(add(&other, key(&other, "of another")).await);
    let ids: Vec<String> = (0..20).map(|n| format!("k{n}")).collect();
    let bounded = ids.iter().map(|id| bed.store.add_key(key(&bed, id), 3, line(&bed, "make key")));
    let added: Vec<KeyAdded> = join_all(bounded).await.into_iter().map(Result::unwrap).collect();
    let count = |which: KeyAdded| added.iter().filter(|added| **added == which).count();
    assert_eq!((count(KeyAdded::Stored), count(KeyAdded::TooMany)), (2, 18), "at once, each counts the one before");
    let lines = bed.store.audit_of_tenant(bed.tenant, &page(10)).await.unwrap().items;
    assert_eq!(lines.len(), 3 + 1 + 2, "what was refused leaves no line");
}

async fn making_and_revoking_a_key_leave_a_line_each(bed: Bed) {
    assert!(add(&bed, key(&bed, "k1")).await);
    assert!(!add(&bed, KeyRow { name: "name of k1".into(), ..key(&bed, "k2") }).await);
    assert!(revoke(&bed, "k1", 99).await);
    assert!(!revoke(&bed, "k1", 99).await);
    let lines = bed.store.audit_of_tenant(bed.tenant, &page(10)).await.unwrap().items;
    assert_eq!(lines, [line(&bed, "revoke key"), line(&bed, "make key")], "what did not happen leaves none");
}

async fn it_answers_a_ping(bed: Bed) {
    bed.store.ping().await.unwrap();
    bed.store.ping().await.unwrap();
}

async fn a_tenant_takes_over_what_another_has_if_it_has_nothing_itself(bed: Bed) {
    let rename = async |from: &str, to: &str| bed.store.rename_tenant(from, to, "ann", 9).await.unwrap();
    assert_eq!(rename("nobody", "acme").await, TenantRenamed::Unknown);
    assert_eq!(rename("default", "default").await, TenantRenamed::InUse);
    let pk = bed.thread("t").await;
    assert_eq!(rename("default", "first").await, TenantRenamed::Done, "to a name that is free");
    let acme = bed.store.tenant("acme", 1).await.unwrap();
    let third = bed.of_tenant("third").await;
    assert!(add(&bed, key(&bed, "k0")).await && add(&third, key(&third, "k3")).await);
    bed.write(pk, vec![row(RowKind::Usage, "use", 1, Keep::Never)]).await;
    for (tenant, body) in [(bed.tenant, Some(json!({}))), (acme, Some(json!({}))), (acme, None)] {
        let new = Document { tenant, kind: DocumentKind::Agent, id: "a".into(), version: 0, updated_at: 1, body };
        let audit = AuditRow { tenant, ..line(&bed, "put document") };
        bed.store.write_document(new, Expected::Any, audit, None).await.unwrap().unwrap();
    }
    let of_acme = KeyRow { tenant: acme, tenant_name: "acme".into(), ..key(&bed, "k1") };
    let made = AuditRow { tenant: acme, ..line(&bed, "make key") };
    assert_eq!(bed.store.add_key(of_acme, usize::MAX, made).await.unwrap(), KeyAdded::Stored);
    assert_eq!(rename("first", "acme").await, TenantRenamed::Done, "or to one that has keys alone, which come along");
    assert_eq!(bed.store.tenant("acme", 1).await.unwrap(), bed.tenant);
    assert_eq!(bed.store.thread(bed.tenant, &"t".into()).await.unwrap().unwrap().pk, pk);
    let stored = bed.store.key_by_hash("hash of k1").await.unwrap().unwrap();
    assert_eq!((stored.tenant, stored.tenant_name.as_str()), (bed.tenant, "acme"));
    let of_third = bed.store.key("k3").await.unwrap().unwrap();
    assert_eq!((of_third.tenant, of_third.tenant_name.as_str()), (third.tenant, "third"));
    let lines = bed.store.audit_of_tenant(bed.tenant, &page(10)).await.unwrap().items;
    let told: Vec<_> = lines.iter().map(|line| line.action.as_str()).collect();
    assert!(
        told.contains(&"make key") && told.iter().filter(|told| **told == "rename tenant").count() == 2,
        "{told:?}"
    );
    let other = bed.other_tenant().await;
    other.thread("t").await;
    assert_eq!(rename("acme", "other").await, TenantRenamed::InUse, "two that have something stay two");
    assert_eq!(bed.store.tenant("acme", 1).await.unwrap(), bed.tenant);
}

#[tokio::test]
async fn a_tenant_keeps_its_name_while_servers_share_the_database() {
    let (bed, server) = (Bed::postgres().await, Uuid::new_v4());
    let rename = async || bed.store.rename_tenant("default", "acme", "ann", 9).await;
    bed.register(server, 60_000).await;
    let refused = rename().await.unwrap_err().to_string();
    assert!(refused.contains("stop all of them first"), "{refused}");
    bed.store.unregister(server).await.unwrap();
    bed.register(server, 0).await;
    assert_eq!(rename().await.unwrap(), TenantRenamed::Done, "one that died is none");
}

/// A name in the audit belongs to one key.
async fn tenants_with_keys_of_one_name_stay_two(bed: Bed) {
    let other = bed.other_tenant().await;
    let ops = |bed: &Bed, key_id: &str| KeyRow { name: "ops".into(), ..key(bed, key_id) };
    assert!(add(&bed, ops(&bed, "k1")).await && add(&other, ops(&other, "k2")).await && revoke(&other, "k2", 9).await);
    let renamed = bed.store.rename_tenant("default", "other", "ann", 9).await.unwrap();
    assert_eq!(renamed, TenantRenamed::SameKeyName("ops".into()));
    assert_eq!(bed.store.key("k2").await.unwrap().unwrap().tenant, other.tenant);
    assert_eq!(bed.store.tenant("other", 1).await.unwrap(), other.tenant);
}

/// On SQLite the next tenant gets its number.
async fn nothing_of_a_removed_tenant_is_the_next_ones(bed: Bed) {
    // The last number is that of the one that goes.
    let (third, acme) = (bed.of_tenant("third").await, bed.of_tenant("acme").await);
    assert!(add(&acme, key(&acme, "k1")).await);
    let delivery = |id: &str| NewDelivery {
        id: id.into(),
        kind: TargetKind::Agent,
        target: "helper".into(),
        ordering_key: None,
        event: "task.cancel".into(),
        body: "{}".into(),
    };
    for (bed, id) in [(&acme, "d"), (&third, "e")] {
        let thread = bed.thread("t").await;
        let version = bed.read(thread).await.fence.version;
        let erasure = Erasure { deliveries: vec![delivery(id)], ..bed.erasure(thread, version) };
        assert!(bed.store.delete_thread(erasure).await.unwrap());
    }
    let upto = RunEnd { at: 500, run: "r".into(), thread: ThreadPk::NONE };
    acme.store.set_compacted(acme.tenant, &upto).await.unwrap();
    assert_eq!(bed.store.rename_tenant("default", "acme", "ann", 9).await.unwrap(), TenantRenamed::Done);

    let deliveries = async |bed: &Bed| {
        let found = bed.store.deliveries_of_tenant(bed.tenant, TargetKind::Agent, None, &page(9)).await.unwrap();
        found.items.into_iter().map(|one| one.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(deliveries(&bed).await, ["d"], "it belongs to the tenant of that name");
    assert_eq!(deliveries(&third).await, ["e"]);
    let next = bed.of_tenant("default").await;
    assert_eq!(deliveries(&next).await, [""; 0]);
    assert_ne!(next.store.compacted(next.tenant).await.unwrap(), upto);
}

async fn a_key_is_rotated_while_it_counts_and_its_use_is_written_once_an_hour(bed: Bed) {
    let rotation = |key_id: &str, now: i64| Rotation {
        key_id: key_id.into(),
        hash: format!("new hash of {key_id} at {now}"),
        former_until: now + 10,
        expires_at: None,
        max_keys: 1,
        now,
    };
    let rotate = async |rotation| bed.store.rotate_key(rotation, line(&bed, "rotate key")).await.unwrap();
    assert!(add(&bed, KeyRow { expires_at: Some(100), ..key(&bed, "k1") }).await);
    assert!(rotate(rotation("k1", 20)).await);
    let rotated = bed.store.key_by_hash("new hash of k1 at 20").await.unwrap().unwrap();
    let former = (rotated.former_hash.as_deref(), rotated.former_until, rotated.expires_at);
    assert_eq!(former, (Some("hash of k1"), Some(30), Some(100)));
    assert_eq!(bed.store.key_by_hash("hash of k1").await.unwrap(), Some(rotated));

    assert!(!rotate(rotation("k1", 29)).await, "the one before counts, and would end");
    assert_eq!(
        bed.store.key_by_hash("new hash of k1 at 20").await.unwrap(),
        bed.store.key_by_hash("hash of k1").await.unwrap()
    );
    assert!(rotate(Rotation { expires_at: Some(500), ..rotation("k1", 99) }).await);
    assert_eq!(bed.store.key_by_hash("hash of k1").await.unwrap(), None);
    assert!(rotate(Rotation { former_until: 100, ..rotation("k1", 100) }).await, "all before it shall end");
    assert_eq!(bed.store.key_by_hash("new hash of k1 at 20").await.unwrap(), None);
    assert!(!rotate(rotation("k1", 500)).await, "it has ended");
    let other = bed.other_tenant().await;
    assert!(add(&other, key(&other, "k4")).await, "it does not count here");
    assert!(add(&bed, key(&bed, "k5")).await && revoke(&bed, "k5", 9).await, "nor does this one");
    let new_end = || Rotation { former_until: 500, expires_at: Some(900), ..rotation("k1", 500) };
    assert!(!rotate(Rotation { max_keys: 0, ..new_end() }).await, "it would be one too many");
    assert!(rotate(new_end()).await, "it has a new end");
    assert_eq!(bed.store.key_by_hash("new hash of k1 at 500").await.unwrap().unwrap().expires_at, Some(900));
    assert!(add(&bed, key(&bed, "k2")).await && revoke(&bed, "k2", 9).await);
    assert!(!rotate(rotation("k2", 10)).await && !rotate(rotation("k3", 10)).await);
    assert_eq!(bed.store.key_by_hash("hash of k2").await.unwrap().unwrap().former_hash, None);

    let used = async || bed.store.keys().await.unwrap().into_iter().find(|key| key.key_id == "k1").unwrap().used_at;
    for (now, expected) in [(5_000, 5_000), (5_999, 5_000), (6_000, 6_000)] {
        bed.store.touch_key("k1", now, now - 1_000, None).await.unwrap();
        assert_eq!(used().await, Some(expected));
    }
    let untouched = bed.store.key("k4").await.unwrap().unwrap();
    assert_eq!((untouched.hash.as_str(), untouched.used_at), ("hash of k4", None));
}
