//! Tools that differ by tenant: offered to their tenant only, prepared once, and never replacing another tool.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use pes::config::Environment;
use pes::domain::ids::TenantPk;
use pes::domain::tool::{ToolError, ToolSpec, Verdict};
use pes::engine::Toolbox;
use pes::tool::{Registry, Tool, ToolContext, ToolOutput, ToolSource, Toolset, builtin};
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use super::{judge, settings};
use crate::support::tool::spec;

struct Named(Arc<ToolSpec>);

pub fn tool(name: &str, schema: Value) -> Arc<dyn Tool> {
    Arc::new(Named(Arc::new(ToolSpec { input_schema: schema, ..spec(name) })))
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

#[derive(Default)]
pub struct Shelf {
    generation: AtomicU64,
    asked: AtomicUsize,
    tools: Mutex<BTreeMap<i64, Vec<Arc<dyn Tool>>>>,
}

impl Shelf {
    pub fn put(&self, tenant: i64, tools: Vec<Arc<dyn Tool>>) {
        self.tools.lock().unwrap().insert(tenant, tools);
        self.generation.fetch_add(1, Ordering::SeqCst);
    }
}

impl ToolSource for Shelf {
    fn generation(&self, _: TenantPk) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }
    fn tools(&self, tenant: TenantPk) -> Arc<[Arc<dyn Tool>]> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.tools.lock().unwrap().get(&tenant.0).cloned().unwrap_or_default().into()
    }
}

pub fn registry(shelves: &[Arc<Shelf>]) -> Arc<Registry> {
    let sources = shelves.iter().map(|shelf| shelf.clone() as Arc<dyn ToolSource>).collect();
    Arc::new(Registry::new(builtin::all(), Environment::Development).unwrap().with_sources(sources))
}

fn has(toolset: &Arc<Toolset>, name: &str) -> bool {
    toolset.offered(&settings(None, &[])).iter().any(|spec| spec.name == name)
}

#[tokio::test]
async fn a_tenant_has_its_own_tools_and_no_other_tenants() {
    let shelf = Arc::new(Shelf::default());
    let registry = registry(std::slice::from_ref(&shelf));
    assert!(!has(&registry.toolset(TenantPk(1)).await, "mail__send"));
    shelf.put(1, vec![tool("mail__send", json!({ "type": "object" }))]);
    let (one, two) = (registry.toolset(TenantPk(1)).await, registry.toolset(TenantPk(2)).await);
    assert!(has(&one, "mail__send") && has(&one, "calculator"));
    assert!(!has(&two, "mail__send") && two.get("mail__send").is_none());
    let verdict = judge(&two, &settings(None, &[]), "mail__send", &json!({}));
    assert!(matches!(verdict, Verdict::Refuse(error) if error.code == "unknown_tool"));
    shelf.put(1, Vec::new());
    assert!(!has(&registry.toolset(TenantPk(1)).await, "mail__send"), "it is gone at once");
}

#[tokio::test]
async fn nothing_is_asked_or_prepared_again_until_something_changed() {
    let shelf = Arc::new(Shelf::default());
    let registry = registry(std::slice::from_ref(&shelf));
    let kept = tool("a", json!({}));
    shelf.put(1, vec![kept.clone()]);
    let first = registry.toolset(TenantPk(1)).await;
    assert!(Arc::ptr_eq(&first, &registry.toolset(TenantPk(1)).await));
    assert_eq!(shelf.asked.load(Ordering::SeqCst), 1);
    shelf.put(1, vec![kept.clone(), tool("b", json!({}))]);
    let second = registry.toolset(TenantPk(1)).await;
    assert!(has(&second, "a") && has(&second, "b") && !has(&first, "b"));
    assert!(Arc::ptr_eq(&second.get("a").unwrap(), &kept));
}

#[tokio::test]
async fn no_tool_takes_the_place_of_another_and_a_broken_one_hides_nobody() {
    let (first, second) = (Arc::new(Shelf::default()), Arc::new(Shelf::default()));
    let registry = registry(&[first.clone(), second.clone()]);
    let earlier = tool("twice", json!({}));
    first.put(1, vec![tool("calculator", json!({})), tool("no good name", json!({})), earlier.clone()]);
    second.put(1, vec![tool("twice", json!({})), tool("bad", json!({ "type": "objekt" })), tool("good", json!({}))]);
    let toolset = registry.toolset(TenantPk(1)).await;
    assert!(Arc::ptr_eq(&toolset.get("twice").unwrap(), &earlier));
    assert!(has(&toolset, "good") && !has(&toolset, "bad") && !has(&toolset, "no good name"));
    let wrong = judge(&toolset, &settings(None, &[]), "calculator", &json!({}));
    assert!(matches!(wrong, Verdict::Refuse(error) if error.code == "invalid_arguments"), "the server's own schema");
}

/// Has no tools, and takes as long as it is told to list them for the first tenant.
struct Slow {
    began: mpsc::Sender<()>,
    ends: Mutex<mpsc::Receiver<()>>,
}

impl ToolSource for Slow {
    fn generation(&self, _: TenantPk) -> u64 {
        0
    }
    fn tools(&self, tenant: TenantPk) -> Arc<[Arc<dyn Tool>]> {
        if tenant == TenantPk(1) {
            self.began.send(()).unwrap();
            self.ends.lock().unwrap().recv_timeout(Duration::from_secs(10)).expect("it is asked once, and told to end");
        }
        Arc::default()
    }
}

#[tokio::test]
async fn a_tenant_whose_tools_take_long_holds_up_nobody_else() {
    let ((began, has_begun), (end, ends)) = (mpsc::channel(), mpsc::channel());
    let slow = Arc::new(Slow { began, ends: Mutex::new(ends) });
    let registry = Registry::new(builtin::all(), Environment::Development).unwrap().with_sources(vec![slow]);
    let registry = Arc::new(registry);
    // All tasks of this runtime share one thread: a task that blocked it would stop the test here.
    let waiting: Vec<_> = (0..3)
        .map(|_| {
            let registry = registry.clone();
            tokio::spawn(async move { registry.toolset(TenantPk(1)).await })
        })
        .collect();
    spawn_blocking(move || has_begun.recv()).await.unwrap().unwrap();
    assert!(has(&registry.toolset(TenantPk(2)).await, "calculator"), "another tenant");
    assert!(waiting.iter().all(|task| !task.is_finished()));
    end.send(()).unwrap();
    for task in waiting {
        assert!(has(&task.await.unwrap(), "calculator"));
    }
    assert!(has(&registry.toolset(TenantPk(1)).await, "calculator"), "it is ready: made anew, it would ask in vain");
}

#[tokio::test]
async fn a_build_goes_on_when_nobody_waits_for_it_and_is_not_begun_again() {
    let ((began, has_begun), (end, ends)) = (mpsc::channel(), mpsc::channel());
    let slow = Arc::new(Slow { began, ends: Mutex::new(ends) });
    let registry = Registry::new(builtin::all(), Environment::Development).unwrap().with_sources(vec![slow]);
    let registry = Arc::new(registry);
    let first = tokio::spawn({
        let registry = registry.clone();
        async move { registry.toolset(TenantPk(1)).await }
    });
    spawn_blocking(move || has_begun.recv()).await.unwrap().unwrap();
    first.abort();
    assert!(first.await.is_err_and(|error| error.is_cancelled()));
    let mut second = Box::pin(registry.toolset(TenantPk(1)));
    assert!(second.as_mut().now_or_never().is_none(), "it waits for the build of the first");
    end.send(()).unwrap();
    assert!(has(&second.await, "calculator"), "begun again, it would ask in vain");
}
