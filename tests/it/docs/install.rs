//! The keys that the install commands of docs/OPERATIONS.md make.

use crate::support::app::App;

const KEY: &str = "key-o-0123456789abcdef0123456789";

/// The scopes of the operator's key in each command that makes keys.
fn scopes_of_operators(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| Some(line.split_once("ops/ops:")?.1.split_once(":$(openssl rand")?.0)).collect()
}

/// The runbooks of PesSpendFast and PesSpendCapNear order these requests.
#[tokio::test]
async fn the_operator_of_the_install_commands_may_send_the_requests_of_the_runbooks() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/OPERATIONS.md");
    let text = std::fs::read_to_string(path).unwrap();
    let found = scopes_of_operators(&text);
    assert_eq!(found.len(), 2, "with systemd and on Kubernetes: {found:?}");
    for scopes in found {
        let app = App::with(|config| config.auth.keys = vec![format!("ops/ops:{scopes}:{KEY}").parse().unwrap()]).await;
        let app = app.key(KEY);
        app.get("/usage?groupBy=tenant").await.expect(200);
        app.get("/limits").await.expect(200);
    }
}
