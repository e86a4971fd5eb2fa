//! Builds of a toolset, on this thread, whose counter they increment.

use async_trait::async_trait;
use metrics_exporter_prometheus::PrometheusBuilder;
use serde_json::{Value, json};

use super::*;
use crate::domain::tool::{ToolClass, ToolError, ToolSpec};
use crate::tool::{ToolContext, ToolOutput};

const TENANT: TenantPk = TenantPk(1);
const MANY: usize = 200;

struct Named(Arc<ToolSpec>);

fn tool(name: &str) -> Arc<dyn Tool> {
    Arc::new(Named(Arc::new(
        ToolSpec::new(
            name,
            "of a tenant",
            ToolClass::Read,
            json!({ "type": "object", "properties": { "query": { "type": "string" } } }),
        )
        .with_timeout_ms(1),
    )))
}

#[async_trait]
impl Tool for Named {
    fn spec(&self) -> Arc<ToolSpec> {
        self.0.clone()
    }
    async fn call(&self, _: Value, _: ToolContext) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::default())
    }
}

/// Its generation is the number of its tools.
struct ChangingSource(Mutex<Vec<Arc<dyn Tool>>>);

impl ToolSource for ChangingSource {
    fn generation(&self, _: TenantPk) -> u64 {
        self.0.lock().len() as u64
    }
    fn tools(&self, _: TenantPk) -> Arc<[Arc<dyn Tool>]> {
        self.0.lock().clone().into()
    }
}

#[test]
fn a_schema_is_compiled_once() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let compiled = recorder.handle();
    metrics::with_local_recorder(&recorder, || {
        let source =
            Arc::new(ChangingSource(Mutex::new((0..MANY).map(|n| tool(&format!("shop__find_{n}"))).collect())));
        let registry = Registry::new(Vec::new(), Environment::Development).unwrap().with_sources(vec![source.clone()]);
        let cell = registry.cell(TENANT);
        registry.build(&cell, TENANT);
        assert_eq!(count(&compiled.render()), MANY as u64);
        source.0.lock().push(tool("shop__one_more"));
        assert!(registry.current(&cell, TENANT).is_none(), "another generation");
        let toolset = registry.build(&cell, TENANT);
        assert_eq!(toolset.specs().len(), MANY + 1);
        assert_eq!(count(&compiled.render()), MANY as u64 + 1);
    });
}

fn count(rendered: &str) -> u64 {
    let line = rendered.lines().find_map(|line| line.strip_prefix("pes_tool_schemas_compiled_total "));
    line.map_or(0, |number| number.parse().expect("a number"))
}
