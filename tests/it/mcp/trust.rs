//! Tool definitions are pinned: a definition that the server changes later is not trusted.

use pes::domain::caller::Caller;
use pes::domain::ids::TenantPk;
use pes::domain::tool::ToolClass;
use pes::mcp::{Health, ServerView, ToolStanding, ToolView};
use pes::store::documents::DocumentKind;
use pes::tool::ToolSource;
use serde_json::json;

use super::bed::{Bed, TENANT, caller};

#[tokio::test]
async fn a_tool_that_changes_is_off_until_it_is_approved() {
    let mut bed = Bed::new(|_| ()).await;
    assert!(bed.call("changing", json!({})).await.is_ok());
    bed.call("change", json!({})).await.unwrap();
    let changed = |view: &pes::mcp::ServerView| {
        view.health == Health::Ready && Bed::standing(view, "changing") == ToolStanding::Changed
    };
    bed.until(changed).await;
    assert!(bed.find("evil__changing").is_none() && bed.find("evil__echo").is_some());
    let why = "its server describes it otherwise than before, so an administrator must approve it";
    assert_eq!(bed.why_off("evil__changing").await.as_deref(), Some(why));
    assert_eq!(bed.why_off("evil__echo").await, None);

    // Not even a restart makes it trusted.
    bed.restart();
    bed.until(changed).await;
    assert!(bed.find("evil__changing").is_none());

    let view = bed.catalog.show(&caller(), "evil").unwrap();
    let shown = view.tools.iter().find(|tool| tool.tool == "changing").unwrap();
    let hash = shown.hash.clone();
    let said = |description: &str| {
        let schema = json!({ "type": "object" });
        json!({ "description": description, "inputSchema": schema, "annotations": { "destructive": true } })
    };
    assert_eq!(json!(shown.approved), said("changing 1"), "what is approved can be compared");
    assert_eq!(json!(shown.now), said("changing 2"));
    assert!(view.tools.iter().all(|tool| tool.now.is_none() || tool.tool == "changing"));
    assert!(bed.catalog.list(&caller()).iter().flat_map(|view| &view.tools).all(|tool| tool.now.is_none()));
    let other = bed.catalog.approve(&caller(), "evil", "changing", Some("what it was before")).await;
    assert_eq!(other.unwrap_err().code.as_str(), "approval_mismatch");
    let view = bed.catalog.approve(&caller(), "evil", "changing", Some(&hash)).await.unwrap();
    assert_eq!(Bed::standing(&view, "changing"), ToolStanding::Offered);
    assert_eq!(bed.tool("evil__changing").await.spec().description, "changing 2");

    let mut other = caller();
    other.tenant = pes::domain::ids::TenantPk(2);
    let view = bed.catalog.show(&other, "evil").unwrap();
    assert_eq!(Bed::standing(&view, "changing"), ToolStanding::Changed, "one tenant's word counts for no other");
}

/// `send.mail` would be offered under the name of `send_mail`, which is trusted.
#[tokio::test]
async fn a_tool_under_another_spelling_of_a_trusted_name_is_off_until_it_is_approved() {
    let bed = Bed::new(|_| ()).await;
    let class = async || bed.tool("evil__send_mail").await.spec().class;
    assert_eq!(class().await, ToolClass::Irreversible);
    // New tools of the same list are trusted by then.
    let respelled = async |order: &str| {
        bed.call("respell", json!({ "order": order })).await.unwrap();
        let sign = format!("sign_{order}");
        let is_pinned = |tool: &ToolView| tool.tool == sign && tool.standing == ToolStanding::Offered;
        bed.until(|view| view.tools.iter().any(is_pinned)).await
    };
    let both = |view: &ServerView| ["send.mail", "send_mail"].map(|tool| Bed::standing(view, tool));
    let view = respelled("before").await;
    assert_eq!(both(&view), [ToolStanding::Shadowed, ToolStanding::Offered]);
    assert_eq!(class().await, ToolClass::Irreversible);
    assert_eq!(bed.call("send_mail", json!({})).await.unwrap().output, "send_mail");

    let view = respelled("alone").await;
    assert_eq!(Bed::standing(&view, "send.mail"), ToolStanding::Changed);
    assert!(bed.find("evil__send_mail").is_none());

    bed.catalog.approve(&caller(), "evil", "send.mail", None).await.unwrap();
    assert_eq!(class().await, ToolClass::Read);
    let view = respelled("before").await;
    assert_eq!(both(&view), [ToolStanding::Offered, ToolStanding::Shadowed], "the approved one, wherever it stands");
    let other = Caller { tenant: TenantPk(2), ..caller() };
    let view = bed.catalog.show(&other, "evil").unwrap();
    assert_eq!(both(&view), [ToolStanding::Shadowed, ToolStanding::Offered], "one tenant's word counts for no other");
}

#[tokio::test]
async fn what_was_trusted_is_offered_before_the_server_is_up_again() {
    let mut bed = Bed::new(|_| ()).await;
    bed.tool("evil__echo").await;
    bed.restart();
    assert!(bed.find("evil__echo").is_some(), "at once: a call that goes on after a crash finds its tool");
    assert!(bed.call("echo", json!({})).await.is_ok(), "and waits for the server");
}

#[tokio::test]
async fn what_others_write_does_not_make_a_tenants_tools_anew() {
    let bed = Bed::new(|_| ()).await;
    bed.tool("evil__echo").await;
    let generation = || bed.catalog.generation(TENANT);
    let before = generation();
    bed.write(TenantPk(2), DocumentKind::HttpTool, "a", json!({})).await;
    bed.write(TenantPk(2), DocumentKind::McpServer, "evil", json!({ "enabled": false })).await;
    bed.write(TENANT, DocumentKind::Webhook, "a", json!({})).await;
    assert_eq!(generation(), before);
    bed.write(TENANT, DocumentKind::McpServer, "evil", json!({ "enabled": false })).await;
    assert_ne!(generation(), before);
    assert!(bed.find("evil__echo").is_none());
    assert_eq!(bed.why_off("evil__echo").await.as_deref(), Some("its MCP server `evil` is disabled"));
    assert_eq!(bed.why_off("other__echo").await, None);
}
