//! A catalog of servers on a store of its own.

use std::sync::Arc;
use std::time::Duration;

use pes::config::{Environment, Mcp, McpServer};
use pes::domain::caller::{Caller, Scope};
use pes::domain::ids::TenantPk;
use pes::domain::tool::ToolError;
use pes::egress::Egress;
use pes::engine::Toolbox;
use pes::mcp::{Catalog, Parts, ServerView, ToolStanding};
use pes::store::documents::{Change, DocumentCache, DocumentKind, Expected};
use pes::tool::{Registry, Tool, ToolOutput, ToolSource};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::app::App;
use crate::support::http::soon;
use crate::support::store::fresh_store;
use crate::support::tool::context;

pub const TENANT: TenantPk = TenantPk(1);

pub struct Bed {
    pub catalog: Arc<Catalog>,
    documents: Arc<DocumentCache>,
    _folder: TempDir,
    config: Mcp,
}

/// A misbehaving server.
pub fn evil(folder: &std::path::Path) -> McpServer {
    McpServer {
        command: Some("python3".to_owned()),
        args: vec![
            concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/mcp/evil.py").to_owned(),
            folder.to_str().expect("a plain path").to_owned(),
        ],
        deny: vec!["den*".to_owned()],
        ..McpServer::default()
    }
}

const ASKING: &str = r#"
[[reply]]
when = { phase = "planning" }
json = { title = "A", intent = "A", plan = "A", todoList = [
    { id = "ask", description = "Ask", stepType = "tool", requiredTools = ["evil__elicit"] },
] }
[[reply]]
when = { phase = "execution", iteration = 1 }
calls = [{ tool = "evil__elicit", arguments = {} }]
[[reply]]
when = { phase = "execution" }
text = "Done."
[[reply]]
when = { phase = "synthesis" }
text = "All done."
"#;

/// A server whose every run calls a tool that asks for a colour while it runs, and the folder of the tool's MCP server.
pub async fn asking_app() -> (App, TempDir) {
    scripted_app(ASKING, &["evil"]).await
}

/// A server whose model answers by this script, with misbehaving MCP servers of these names, and their folder.
pub async fn scripted_app(script: &str, servers: &[&str]) -> (App, TempDir) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let app = App::scripted(script, |config| {
        config.mcp.servers.extend(servers.iter().map(|name| ((*name).to_owned(), evil(folder.path()))));
    })
    .await;
    for name in servers {
        app.offers(&format!("{name}__elicit")).await;
    }
    (app, folder)
}

impl Bed {
    pub async fn new(change: impl FnOnce(&mut McpServer)) -> Self {
        Self::with(change, |_| ()).await
    }

    pub async fn with(change: impl FnOnce(&mut McpServer), change_all: impl FnOnce(&mut Mcp)) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut server = evil(folder.path());
        change(&mut server);
        let mut config = Mcp { message_bytes: 1 << 20, ..Mcp::default() };
        config.servers.insert("evil".to_owned(), server);
        change_all(&mut config);
        let documents = DocumentCache::open(fresh_store().await).await.expect("a store");
        let catalog = start(&config, &documents);
        Self { catalog, documents, _folder: folder, config }
    }

    /// The same servers and store after a restart of the process.
    pub fn restart(&mut self) {
        self.catalog.close();
        self.catalog = start(&self.config, &self.documents);
    }

    pub async fn write(&self, tenant: TenantPk, kind: DocumentKind, id: &str, body: Value) {
        let (id, by) = (id.to_owned(), "ann".to_owned());
        let change =
            Change { tenant, kind, id, body: Some(body), by, former: None, by_tenant: None, why: None, now: 0 };
        self.documents.write(change, Expected::Any).await.expect("a store");
    }

    /// Waits until the catalog looks as expected.
    pub async fn until(&self, what: impl Fn(&ServerView) -> bool) -> ServerView {
        until_server(&self.catalog, "evil", what).await
    }

    pub async fn tool(&self, name: &str) -> Arc<dyn Tool> {
        self.until(|view| view.tools.iter().any(|tool| tool.name == name)).await;
        self.find(name).unwrap_or_else(|| panic!("{name} is not offered"))
    }

    pub fn find(&self, name: &str) -> Option<Arc<dyn Tool>> {
        self.catalog.tools(TENANT).iter().find(|tool| tool.spec().name == name).cloned()
    }

    /// What a run is told of a tool that is not offered.
    pub async fn why_off(&self, name: &str) -> Option<String> {
        let registry = Registry::new(Vec::new(), Environment::Development).expect("no tools");
        let registry = Arc::new(registry.with_sources(vec![self.catalog.clone()]));
        registry.toolset(TENANT).await.why_off(name).map(str::to_owned)
    }

    pub async fn call(&self, name: &str, arguments: Value) -> Result<ToolOutput, ToolError> {
        let tool = self.tool(&format!("evil__{name}")).await;
        soon(tool.call(arguments, context())).await
    }

    pub fn standing(view: &ServerView, tool: &str) -> ToolStanding {
        view.tools.iter().find(|shown| shown.tool == tool).expect("it is listed").standing
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        self.catalog.close();
    }
}

fn start(config: &Mcp, documents: &Arc<DocumentCache>) -> Arc<Catalog> {
    Catalog::start(Parts {
        config: config.clone(),
        documents: documents.clone(),
        egress: Arc::new(Egress::new(Duration::from_secs(1))),
        now: Arc::new(|| 0),
    })
}

pub fn caller() -> Caller {
    let scopes = vec![Scope::Admin, Scope::Operator];
    Caller { tenant: TENANT, tenant_name: "one".to_owned(), name: "ann".to_owned(), scopes, groups: Vec::new() }
}

/// Waits until a server looks as expected.
pub async fn until_server(catalog: &Catalog, name: &str, what: impl Fn(&ServerView) -> bool) -> ServerView {
    let mut offers = catalog.offers();
    soon(async {
        loop {
            let seen = catalog.show(&caller(), name).expect("it is configured");
            if what(&seen) {
                return seen;
            }
            offers.changed().await.expect("the catalog is there");
        }
    })
    .await
}
