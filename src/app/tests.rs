use super::*;
use crate::auth::NewKey;
use crate::domain::caller::Scope;
use crate::runtime::clock::Manual;

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
    app.close().await;
}
