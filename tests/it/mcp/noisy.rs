//! Endpoints that announce with every response that their tools changed: only real changes rebuild tools.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use pes::config::{Environment, Mcp, McpServer};
use pes::domain::ids::TenantPk;
use pes::egress::{Allow, Egress, EgressRules};
use pes::mcp::{Catalog, Parts};
use pes::store::documents::{Change, DocumentCache, DocumentKind, Expected};
use pes::tool::{Registry, ToolSource};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Notify;

use super::bed::TENANT;
use crate::support::http::soon;
use crate::support::store::fresh_store;

const OTHER: TenantPk = TenantPk(2);

#[derive(Clone)]
struct Endpoint {
    tools: Arc<Mutex<Vec<&'static str>>>,
    listings: Arc<Mutex<u32>>,
    listed: Arc<Notify>,
}

impl Endpoint {
    /// Serves one tool; returns its address.
    async fn start() -> (Self, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}/mcp", listener.local_addr().expect("it is bound"));
        let tools = Arc::new(Mutex::new(vec!["a"]));
        let endpoint = Self { tools, listings: Arc::default(), listed: Arc::default() };
        let routes = Router::new().route("/mcp", post(answer)).with_state(endpoint.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        (endpoint, url)
    }

    async fn until_listed(&self, times: u32) {
        soon(async {
            while *self.listings.lock().unwrap() < times {
                self.listed.notified().await;
            }
        })
        .await;
    }

    fn list(&self) -> Vec<Value> {
        *self.listings.lock().unwrap() += 1;
        self.listed.notify_one();
        let tool = |name: &&str| json!({ "name": name, "inputSchema": { "type": "object" } });
        self.tools.lock().unwrap().iter().map(tool).collect()
    }
}

async fn answer(State(endpoint): State<Endpoint>, Json(asked): Json<Value>) -> Response {
    let result = |result: Value| json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result });
    match asked["method"].as_str() {
        Some("initialize") => Json(result(json!({
            "protocolVersion": "2025-06-18",
            "capabilities": { "tools": { "listChanged": true } },
            "serverInfo": { "name": "noisy", "version": "1" },
        })))
        .into_response(),
        Some("tools/list") => {
            let notice = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
            let listed = result(json!({ "tools": endpoint.list() }));
            ([(CONTENT_TYPE, "text/event-stream")], format!("data: {notice}\n\ndata: {listed}\n\n")).into_response()
        }
        _ if asked.get("id").is_none() => StatusCode::ACCEPTED.into_response(),
        _ => {
            let error = json!({ "code": -32601, "message": "no such method" });
            Json(json!({ "jsonrpc": "2.0", "id": asked["id"], "error": error })).into_response()
        }
    }
}

/// A tenant's own endpoint and the operator's.
async fn catalog(own: String, shared: String) -> Arc<Catalog> {
    let mut config = Mcp { message_bytes: 1 << 20, ..Mcp::default() };
    config.servers.insert("shared".to_owned(), McpServer { url: Some(shared), ..McpServer::default() });
    let documents = DocumentCache::open(fresh_store().await).await.expect("a store");
    let (kind, id, by) = (DocumentKind::McpServer, "own".to_owned(), "ann".to_owned());
    let body = Some(json!({ "name": "own", "url": own }));
    let change = Change { tenant: TENANT, kind, id, body, by, former: None, by_tenant: None, why: None, now: 0 };
    documents.write(change, Expected::Any).await.expect("a store");
    let rules = EgressRules { allow: Allow::parse(&["127.0.0.1"]).unwrap(), ..EgressRules::default() };
    let egress = Arc::new(Egress::with_rules(Duration::from_secs(5), rules));
    Catalog::start(Parts { config, documents, egress, now: Arc::new(|| 0) })
}

async fn until_offered(catalog: &Catalog, tenant: TenantPk, name: &str) {
    let mut offers = catalog.offers();
    soon(async {
        while !catalog.tools(tenant).iter().any(|tool| tool.spec().name == name) {
            offers.changed().await.expect("the catalog is there");
        }
    })
    .await;
}

#[tokio::test]
async fn what_a_server_says_makes_no_tools_anew_but_those_that_it_changes() {
    let ((own, own_url), (_, shared_url)) = (Endpoint::start().await, Endpoint::start().await);
    let catalog = catalog(own_url, shared_url).await;
    let source: Arc<dyn ToolSource> = catalog.clone();
    let registry = Arc::new(Registry::new(Vec::new(), Environment::Development).unwrap().with_sources(vec![source]));
    until_offered(&catalog, TENANT, "own__a").await;
    until_offered(&catalog, OTHER, "shared__a").await;
    let generations = || (catalog.generation(TENANT), catalog.generation(OTHER));
    let before = generations();
    let (of_owner, of_other) = (registry.toolset(TENANT).await, registry.toolset(OTHER).await);
    assert!(of_other.specs().iter().any(|spec| spec.name == "shared__a"));

    own.until_listed(4).await;
    assert_eq!(generations(), before, "it listed the same again and again");
    assert!(Arc::ptr_eq(&registry.toolset(TENANT).await, &of_owner));

    own.tools.lock().unwrap().push("b");
    until_offered(&catalog, TENANT, "own__b").await;
    let after = generations();
    assert!(after.0 > before.0 && after.1 == before.1, "{before:?} {after:?}");
    assert!(Arc::ptr_eq(&registry.toolset(OTHER).await, &of_other), "that is no business of others");
    catalog.close();
}
