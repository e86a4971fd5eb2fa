//! Tenants and their keys.

use pes::store::KeyRow;

use super::bed::Bed;

super::on_every_store!(a_tenant_keeps_its_key, keys_are_found_by_their_hash, a_key_is_revoked_once, it_answers_a_ping);

fn key(bed: &Bed, key_id: &str) -> KeyRow {
    KeyRow {
        key_id: key_id.into(),
        tenant: bed.tenant,
        tenant_name: "default".into(),
        name: "laptop".into(),
        hash: format!("hash of {key_id}"),
        scopes: "read run".into(),
        created_at: 7,
        revoked_at: None,
    }
}

async fn a_tenant_keeps_its_key(bed: Bed) {
    let other = bed.store.tenant("other", 5).await.unwrap();
    assert_ne!(other, bed.tenant);
    assert_eq!(bed.store.tenant("other", 6).await.unwrap(), other);
    assert_eq!(bed.store.tenant("default", 6).await.unwrap(), bed.tenant);
}

async fn keys_are_found_by_their_hash(bed: Bed) {
    bed.store.add_key(key(&bed, "k1")).await.unwrap();
    bed.store.add_key(key(&bed, "k2")).await.unwrap();
    assert_eq!(bed.store.key_by_hash("hash of k2").await.unwrap(), Some(key(&bed, "k2")));
    assert_eq!(bed.store.key_by_hash("hash of k3").await.unwrap(), None);
    assert_eq!(bed.store.keys().await.unwrap(), [key(&bed, "k1"), key(&bed, "k2")]);
}

async fn a_key_is_revoked_once(bed: Bed) {
    bed.store.add_key(key(&bed, "k1")).await.unwrap();
    assert!(bed.store.revoke_key("k1", 99).await.unwrap());
    assert!(!bed.store.revoke_key("k1", 100).await.unwrap());
    assert!(!bed.store.revoke_key("unknown", 99).await.unwrap());
    let stored = bed.store.key_by_hash("hash of k1").await.unwrap().unwrap();
    assert_eq!(stored.revoked_at, Some(99), "found all the same: the answer is 401, not a guess");
}

async fn it_answers_a_ping(bed: Bed) {
    bed.store.ping().await.unwrap();
    bed.store.ping().await.unwrap();
}
