use super::*;

const OLD: &str = "the key that was used at first";
const NEW: &str = "the key that is used from now on";

fn given(text: &str) -> KeySource {
    KeySource::Given(text.to_owned().into())
}

fn sealer(text: &str) -> Sealer {
    Sealer::new(given(text))
}

fn rotated() -> Sealer {
    Sealer::with_old(given(NEW), vec![given(OLD)])
}

fn owner(id: &str) -> Owner<'_> {
    Owner { tenant: TenantPk(1), kind: "webhook", member: "secrets", id }
}

#[test]
fn a_secret_is_opened_for_its_owner_under_its_key_and_nowhere_else() {
    let sealed = sealer(OLD).seal("whsec_abc", owner("whk_1")).unwrap();
    let id = sealer(OLD).fingerprints().current.unwrap();
    assert!(sealed.starts_with(&format!("v1.{id}.")) && !sealed.contains("abc"), "{sealed}");
    assert_eq!(sealer(OLD).open(&sealed, owner("whk_1")).as_deref(), Ok("whsec_abc"));
    for other in [
        owner("whk_2"),
        Owner { tenant: TenantPk(2), ..owner("whk_1") },
        Owner { kind: "agent", ..owner("whk_1") },
        Owner { member: "token", ..owner("whk_1") },
    ] {
        assert_eq!(sealer(OLD).open(&sealed, other), Err(Unreadable::NotItsOwn), "{other:?}");
    }
    assert_eq!(sealer(NEW).open(&sealed, owner("whk_1")), Err(Unreadable::UnknownKey(id)));
    assert!(Sealer::new(KeySource::None).seal("x", owner("y")).is_err());
}

#[test]
fn what_is_no_sealed_text_is_refused_and_never_shown() {
    let sealer = sealer(OLD);
    let id = sealer.fingerprints().current.unwrap();
    for text in
        ["", "AAAA", "v1.", "v1.zz.AAAA", "v1..AAAA", "v2.00.AAAA", &format!("v1.{id}.AAAA"), &format!("v1.{id}.?")]
    {
        assert_eq!(sealer.open(text, owner("whk_1")), Err(Unreadable::Malformed), "{text}");
    }
    let long = format!("v1.{id}.{}", "A".repeat(64));
    assert_eq!(sealer.open(&long, owner("whk_1")), Err(Unreadable::NotItsOwn));
}

#[test]
fn an_old_key_opens_and_seals_nothing() {
    let old = sealer(OLD).seal("s", owner("a")).unwrap();
    assert_eq!(rotated().open(&old, owner("a")).as_deref(), Ok("s"));
    let new = rotated().seal("s", owner("a")).unwrap();
    assert_eq!(sealer(NEW).open(&new, owner("a")).as_deref(), Ok("s"));
    assert!(sealer(OLD).open(&new, owner("a")).is_err());
    let again = rotated().reseal(&old, owner("a")).unwrap().expect("it was under the old key");
    assert_eq!(sealer(NEW).open(&again, owner("a")).as_deref(), Ok("s"));
    assert_eq!(rotated().reseal(&again, owner("a")), Ok(None), "that is current");
    assert_eq!(rotated().reseal(&again, owner("b")), Err(Unreadable::NotItsOwn), "and not what was moved here");
    let ids = rotated().fingerprints();
    assert!(old.contains(&ids.old[0]) && new.contains(&ids.current.unwrap()));
}

#[test]
fn a_mac_counts_under_every_key_of_the_ring_for_its_purpose_only() {
    let mac = sealer(OLD).mac("callback", "text").unwrap();
    assert!(sealer(OLD).has_mac("callback", "text", &mac) && rotated().has_mac("callback", "text", &mac));
    assert!(!sealer(NEW).has_mac("callback", "text", &mac));
    assert!(!rotated().has_mac("callback", "other", &mac) && !rotated().has_mac("else", "text", &mac));
    assert_ne!(rotated().mac("callback", "text").unwrap(), mac, "the new key makes it");
}

#[test]
fn no_two_purposes_share_a_key_and_none_is_the_key_itself() {
    use aws_lc_rs::digest::{SHA256, digest};
    let sealed = sealer(OLD).seal("s", owner("a")).unwrap();
    let raw = digest(&SHA256, OLD.as_bytes());
    let key = hmac::Key::new(hmac::HMAC_SHA256, raw.as_ref());
    let mac = sealer(OLD).mac("callback", "text").unwrap();
    assert_ne!(hmac::sign(&key, b"text").as_ref(), mac);
    assert_ne!(sealer(OLD).mac("other", "text").unwrap(), mac);
    let raw = aws_lc_rs::aead::RandomizedNonceKey::new(&aws_lc_rs::aead::AES_256_GCM, raw.as_ref()).unwrap();
    let bytes = BASE64_STANDARD_NO_PAD.decode(parts(&sealed).unwrap().1).unwrap();
    let (nonce, bytes) = bytes.split_at(NONCE_LEN);
    let nonce = Nonce::try_assume_unique_for_key(nonce).unwrap();
    assert!(raw.open_in_place(nonce, Aad::from(owner("a").aad()), &mut bytes.to_vec()).is_err());
}

#[test]
fn a_key_file_is_made_once_and_a_short_one_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sealing.key");
    let sealer = || Sealer::new(KeySource::File(path.clone()));
    assert_eq!(sealer().open("v1.00.AAAA", owner("whk_1")), Err(Unreadable::UnknownKey("00".to_owned())));
    assert_eq!(sealer().fingerprints(), Fingerprints { current: None, old: Vec::new() });
    assert!(!path.exists(), "only what is sealed needs a key");
    let sealed = sealer().seal("s", owner("whk_1")).unwrap();
    assert_eq!(sealer().open(&sealed, owner("whk_1")).as_deref(), Ok("s"));
    let given = Sealer::with_old(given(NEW), vec![KeySource::File(path.clone())]);
    assert_eq!(given.open(&sealed, owner("whk_1")).as_deref(), Ok("s"), "a file may be an old key");
    std::fs::write(&path, b"").unwrap();
    let fault = sealer().seal("s", owner("whk_1")).unwrap_err();
    assert!(fault.detail.contains("less than 16 bytes"), "{}", fault.detail);
}

#[test]
fn what_a_process_left_that_was_killed_while_it_made_a_key_file_does_no_harm() {
    for left in [&b""[..], b"half", &[7; 32]] {
        let folder = tempfile::tempdir().unwrap();
        let (path, new) = (folder.path().join("sealing.key"), folder.path().join("sealing.key.new"));
        std::fs::write(&new, left).unwrap();
        let sealer = || Sealer::new(KeySource::File(path.clone()));
        let sealed = sealer().seal("s", owner("whk_1")).unwrap();
        let key = std::fs::read(&path).unwrap();
        assert!(key.len() == 32 && key != left && !new.exists());
        assert_eq!(sealer().open(&sealed, owner("whk_1")).as_deref(), Ok("s"));
    }
}

/// As on exFAT.
#[test]
fn a_key_file_is_made_where_files_have_one_name_only() {
    let folder = tempfile::tempdir().unwrap();
    let (path, new) = (folder.path().join("sealing.key"), folder.path().join("sealing.key.new"));
    let make = || super::super::key::make_by(&path, |_, _| Err(std::io::ErrorKind::Unsupported.into())).unwrap();
    let made = make().id;
    assert_eq!(std::fs::read(&path).unwrap().len(), 32);
    assert_eq!(make().id, made, "whoever comes second reads what is there");
    assert_eq!(
        Sealer::new(KeySource::File(path.clone())).seal("s", owner("whk_1")).unwrap().split('.').nth(1),
        Some(&*made)
    );
    assert!(!new.exists());
}

/// The second process reads the existing file.
#[test]
fn a_key_file_that_is_there_is_not_written_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sealing.key");
    std::fs::write(&path, OLD).unwrap();
    assert_eq!(super::super::key::make(&path).unwrap().id, sealer(OLD).fingerprints().current.unwrap());
    assert_eq!(std::fs::read(&path).unwrap(), OLD.as_bytes());
}
