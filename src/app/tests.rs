use super::*;
use crate::auth::NewKey;
use crate::domain::caller::Scope;
use crate::domain::ids::ThreadPk;
use crate::domain::thread::ThreadProfile;
use crate::runtime::clock::Manual;
use crate::store::NewThread;

const NOW: i64 = 1_790_000_000_000;
const HOUR: i64 = 3_600_000;

#[tokio::test]
async fn a_key_ends_by_the_systems_clock() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = Config::default();
    config.store.data_dir = folder.path().to_owned();
    let clock = Arc::new(Manual::at(NOW));
    let mut components = Components::of(&config).unwrap();
    components.clock = clock.clone();
    let app = App::assemble(config, components).await.unwrap();
    let local = app.keys.authenticate(None).await.unwrap();
    let key = |name: &str, hours| NewKey {
        tenant: local.tenant_name.clone(),
        name: name.to_owned(),
        scopes: vec![Scope::Admin],
        expires_at: Some(NOW + hours * HOUR),
    };
    let short = app.keys.issue(&local, &key("ann", 1)).await.unwrap();
    let long = app.keys.issue(&local, &key("bob", 2)).await.unwrap();
    clock.put_forward(HOUR);
    app.keys.authenticate(Some(&short.key)).await.unwrap_err();
    app.keys.authenticate(Some(&long.key)).await.unwrap();
    let figures = crate::service::figures::read(&app.service).await.unwrap();
    assert_eq!(figures.next_key_end, Some(NOW + 2 * HOUR), "the other one has ended");
    app.close().await;
}

/// The time of an instance that begins on a store with a thread of each of these times, relative to the system's clock;
/// relative to that, too.
async fn begins_at(times: &[i64]) -> i64 {
    let folder = tempfile::tempdir().unwrap();
    let mut config = Config::default();
    config.store.data_dir = folder.path().to_owned();
    let system = System::default().wall();
    let store = store::open(&config.store).await.unwrap();
    let tenant = store.tenant("default", system).await.unwrap();
    for (pk, ahead) in (1..).zip(times) {
        let (thread_id, created_at) = (format!("t{pk}").into(), system + ahead);
        let new = NewThread { tenant, thread_id, core: "pes".into(), created_at, created_by: "ann".into() };
        store.create_thread(ThreadPk(pk), new, ThreadProfile::default(), Vec::new(), None).await.unwrap();
    }
    let components = Components { store: Some(store), ..Components::of(&config).unwrap() };
    let clock = components.clock.clone();
    let app = App::assemble(config, components).await.unwrap();
    let begun = clock.now() - system;
    app.close().await;
    begun
}

#[tokio::test]
async fn a_start_with_a_clock_behind_the_stored_times_begins_at_the_newest_of_them() {
    let begun = begins_at(&[-HOUR, 2 * HOUR, HOUR]).await;
    assert!((2 * HOUR..2 * HOUR + HOUR / 2).contains(&begun), "{begun}");
}

#[tokio::test]
async fn a_stored_time_of_another_day_is_not_followed() {
    let begun = begins_at(&[10_000 * HOUR]).await;
    assert!((0..HOUR / 2).contains(&begun), "{begun}");
    let begun = begins_at(&[10_000 * HOUR, 2 * HOUR]).await;
    assert!((2 * HOUR..2 * HOUR + HOUR / 2).contains(&begun), "{begun}");
}
