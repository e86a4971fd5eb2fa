//! With the default `deny`, a host that nobody allowed is refused at registration and when a model names it.

use pes::config::{ConfiguredKey, EgressDefault};
use pes::domain::tool::ToolClass;
use pes::egress::{Egress, EgressRules, Error};
use pes::tool::builtin;
use serde_json::{Value, json};

use super::untrusted;
use crate::support::app::App;
use crate::support::tool::context;

const KEY: &str = "key-a-0123456789abcdef0123456789";

async fn app() -> App {
    let key: ConfiguredKey = format!("one:admin:{KEY}").parse().expect("a key");
    let app = App::with(|config| {
        config.auth.keys = vec![key];
        config.egress.default = Some(EgressDefault::Deny);
        config.egress.allow.push("127.0.0.1:1".to_owned());
    });
    app.await.key(KEY)
}

/// Every place where a tenant registers an address, with the JSON path of the address.
fn places(host: &str) -> [(&'static str, Value, &'static str); 4] {
    let url = format!("https://{host}/x");
    let tool = json!({ "name": "find", "description": "Finds.", "url": url, "inputSchema": { "type": "object" } });
    [
        ("/http-tools", tool, "/url"),
        ("/webhooks", json!({ "url": url, "events": ["run.finished"] }), "/url"),
        ("/mcp-servers", json!({ "name": "files", "url": url }), "/url"),
        ("/agents", json!({ "id": "helper", "card": url }), "/card"),
    ]
}

#[tokio::test]
async fn an_address_that_nobody_allowed_is_refused_where_it_is_registered() {
    let app = app().await;
    for (path, body, pointer) in places("public.example") {
        let problem = app.post(path, body).await.problem("invalid");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{path}: {problem:#}");
        assert!(problem.to_string().contains("PES_EGRESS_ALLOW"), "{path}: it says what to do: {problem:#}");
    }
    for (path, body, _) in places("127.0.0.1:1") {
        app.post(path, body).await.expect(201);
    }
}

#[tokio::test]
async fn an_address_that_a_model_chooses_is_not_called() {
    let rules = EgressRules { deny: true, ..EgressRules::default() };
    let egress = std::sync::Arc::new(Egress::with_rules(std::time::Duration::from_secs(2), rules));
    let fetch = builtin::calling_out(&egress).remove(0);
    for url in ["https://public.example/?q=SECRET", "http://8.8.8.8/?q=SECRET"] {
        assert!(matches!(egress.judge(&untrusted(url).expect("a URL")), Err(Error::Refused(_))), "{url}");
        let refused = fetch.call(json!({ "url": url }), context()).await.expect_err("it is not called");
        assert_eq!(refused.code, "egress_refused", "{url}");
    }
}

#[test]
fn whatever_its_method_a_fetch_says_something_outside() {
    let fetch = builtin::calling_out(&std::sync::Arc::new(Egress::with_rules(
        std::time::Duration::from_secs(2),
        EgressRules::default(),
    )))
    .remove(0);
    assert_eq!(fetch.spec().class, ToolClass::External);
    for arguments in [json!({}), json!({ "method": "GET" }), json!({ "method": "HEAD" }), json!({ "method": "POST" })] {
        assert_eq!(fetch.nature(&arguments).class, ToolClass::External, "{arguments}");
    }
}
