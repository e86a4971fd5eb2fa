use super::*;
use crate::config::Synchronous;
use crate::store::sqlite::Sqlite;

const TENANT: TenantPk = TenantPk(1);

fn listed(round: usize, description: &str) -> Vec<Arc<Definition>> {
    let definition =
        |n| Definition { name: format!("t{round}-{n}"), description: description.to_owned(), ..Definition::default() };
    (0..256).map(definition).map(Arc::new).collect()
}

#[tokio::test]
async fn what_a_server_makes_up_is_trusted_within_bounds() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(Sqlite::open(folder.path(), Synchronous::Normal).await.unwrap());
    let pins = Pins::new(DocumentCache::open(store).await.unwrap());
    let trusted = |server: &str| pins.read(TENANT, server).0.tools.clone();
    for round in 0..6 {
        pins.pin_new(Some(TENANT), "many", &listed(round, "x"), 1).await.unwrap();
    }
    assert_eq!(trusted("many").len(), MAX_PINNED);
    assert!(trusted("many").contains_key("t0-0") && !trusted("many").contains_key("t5-0"), "the first stay");
    let late = &listed(5, "x")[0];
    pins.approve(TENANT, "many", late, "ann", 1).await.unwrap();
    assert!(trusted("many").contains_key("t5-0"), "a person decides");

    pins.pin_new(Some(TENANT), "large", &listed(0, &"x".repeat(64 << 10)), 1).await.unwrap();
    let bytes: usize = trusted("large").values().map(Definition::bytes).sum();
    assert!(bytes > MAX_PINNED_BYTES / 2 && bytes <= MAX_PINNED_BYTES, "{bytes}");

    // A definition that is too large by itself does not exclude the following ones.
    let mut one_is_long = listed(0, "x");
    Arc::make_mut(&mut one_is_long[0]).description = "x".repeat(MAX_PINNED_BYTES);
    pins.pin_new(Some(TENANT), "one", &one_is_long, 1).await.unwrap();
    assert_eq!(trusted("one").len(), one_is_long.len() - 1);
}

#[tokio::test]
async fn a_tenants_own_approval_comes_first_and_counts_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(Sqlite::open(folder.path(), Synchronous::Normal).await.unwrap());
    let pins = Pins::new(DocumentCache::open(store).await.unwrap());
    pins.pin_new(None, "s", &listed(0, "x"), 1).await.unwrap();
    let trusted = |tenant: TenantPk| pins.trusted(tenant, None, "s").get("t0-7").unwrap().description.clone();
    for words in ["y", "z"] {
        pins.approve(TENANT, "s", &listed(0, words)[7], "ann", 1).await.unwrap();
        assert_eq!((trusted(TENANT).as_str(), trusted(TenantPk(2)).as_str()), (words, "x"));
        assert_eq!(pins.trusted(TENANT, None, "s").all().len(), 256);
    }
    pins.delete(TENANT, "s", "ann", 1).await.unwrap();
    assert_eq!(trusted(TENANT), "x");
}

/// Two spellings of one name: `a.b` and `a_b` would both be offered as `s__a_b`.
#[tokio::test]
async fn of_tools_that_would_have_one_name_one_is_trusted() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(Sqlite::open(folder.path(), Synchronous::Normal).await.unwrap());
    let pins = Pins::new(DocumentCache::open(store).await.unwrap());
    let tool = |name: &str| Arc::new(Definition { name: name.to_owned(), ..Definition::default() });
    let trusted = || pins.read(TENANT, "s").0.tools.keys().cloned().collect::<Vec<_>>();
    pins.pin_new(Some(TENANT), "s", &[tool("a.b"), tool("a_b"), tool("c")], 1).await.unwrap();
    assert_eq!(trusted(), ["a.b", "c"], "the first");
    pins.pin_new(Some(TENANT), "s", &[tool("a_b"), tool("a b"), tool("d")], 1).await.unwrap();
    assert_eq!(trusted(), ["a.b", "c", "d"]);
    pins.approve(TENANT, "s", &tool("a_b"), "ann", 1).await.unwrap();
    assert_eq!(trusted(), ["a_b", "c", "d"], "in place of the other");
}

#[tokio::test]
async fn nothing_is_held_of_servers_that_are_gone() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(Sqlite::open(folder.path(), Synchronous::Normal).await.unwrap());
    let pins = Pins::new(DocumentCache::open(store).await.unwrap());
    for server in ["one", "two", "three"] {
        pins.pin_new(Some(TENANT), server, &listed(0, "x"), 1).await.unwrap();
        assert!(pins.trusted(TENANT, Some(TENANT), server).get("t0-0").is_some());
        assert_eq!(pins.parsed.lock().len(), 1, "{server}");
        pins.delete(TENANT, server, "ann", 1).await.unwrap();
    }
}
