//! The HTTP tools that tenants configure: one document each, an `HttpToolSpec` with a sealed secret.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::http::HttpTool;
use super::{Tool, ToolSource};
use crate::domain::http_tool::HttpToolSpec;
use crate::domain::ids::TenantPk;
use crate::egress::{Destination, Egress};
use crate::store::documents::{Document, DocumentCache, DocumentKind, Illegible, Sealer};

pub struct HttpTools {
    documents: Arc<DocumentCache>,
    sealer: Arc<Sealer>,
    egress: Arc<Egress>,
    /// Maximum size of a response.
    bytes: usize,
    /// The tools of each tenant, cached by the versions of their documents.
    kept: Mutex<HashMap<TenantPk, Made>>,
}

/// Each tool with the version of its document; `None`: the document cannot be read.
type Made = Vec<(i64, Option<Arc<dyn Tool>>)>;

impl HttpTools {
    pub fn new(documents: Arc<DocumentCache>, sealer: Arc<Sealer>, egress: Arc<Egress>, bytes: usize) -> Self {
        Self { documents, sealer, egress, bytes, kept: Mutex::default() }
    }

    fn tool(&self, document: &Document) -> Result<Arc<dyn Tool>, Illegible> {
        let spec: HttpToolSpec = document.legible()?;
        let url = spec.url.parse().map_err(|why| document.illegible(format!("its url: {why}")))?;
        let to = Destination::Untrusted { url, tenant: document.tenant };
        let secrets = document.signing_secrets(&self.sealer);
        Ok(Arc::new(HttpTool::new(spec.spec(), to, secrets, self.egress.clone(), self.bytes)))
    }
}

impl ToolSource for HttpTools {
    fn generation(&self, tenant: TenantPk) -> u64 {
        self.documents.changes_of(tenant, DocumentKind::HttpTool)
    }

    fn tools(&self, tenant: TenantPk) -> Arc<[Arc<dyn Tool>]> {
        let mut kept = self.kept.lock();
        let known = kept.remove(&tenant).unwrap_or_default();
        let made = self.documents.of(tenant, DocumentKind::HttpTool).into_iter().map(|document| {
            let same = known.iter().find(|(version, _)| *version == document.version);
            let tool = same.map(|(_, tool)| tool.clone()).unwrap_or_else(|| self.tool(&document).ok());
            (document.version, tool)
        });
        let made: Made = made.collect();
        let tools = made.iter().filter_map(|(_, tool)| tool.clone()).collect();
        if !made.is_empty() {
            kept.insert(tenant, made);
        }
        tools
    }
}
