//! Tenants, for the operator: lists them, removes one, or opens a removed one again.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::json;

use super::args::TenantCommand;
use super::lists::all;
use super::show::line;
use super::stop::unless_interrupted;
use super::terminal::{print, tell};
use crate::cli::Error;
use crate::cli::server::Server;
use crate::domain::tenant::{Tenant, TenantInUse};

pub(super) async fn tenants(server: &Server, command: Option<TenantCommand>, json: bool) -> Result<(), Error> {
    match command {
        None => list(server, json).await,
        Some(_) if json => Err(Error::Usage("--json is for the list of tenants: leave it out.".to_owned())),
        Some(command) => unless_interrupted(change(server, command), "pes tenants").await,
    }
}

async fn list(server: &Server, json: bool) -> Result<(), Error> {
    if json {
        return print(&server.get_text("/tenants").await?);
    }
    let found: Vec<Tenant> = all(server, "/tenants?").await?;
    found.iter().try_for_each(|tenant| {
        let state = tenant.removed.as_ref().map_or("active".to_owned(), |by| format!("removed by {}", line(&by.by)));
        print(&format!("{}  {state}", line(&tenant.name)))
    })
}

async fn change(server: &Server, command: TenantCommand) -> Result<(), Error> {
    match command {
        TenantCommand::Rm { tenant, yes: false } => {
            let shown = line(&tenant);
            Err(Error::Usage(format!(
                "This refuses all callers of `{shown}`, and deletes its threads, keys and documents. Nothing brings them \
                 back. If that is meant, add --yes."
            )))
        }
        TenantCommand::Rm { tenant, yes: true } => {
            let removed: TenantInUse = server.delete(&path(&tenant)).await?;
            if removed.last_used_at.is_some() {
                tell("its threads are being deleted");
            }
            print(&format!("{} is removed", line(&tenant)))
        }
        TenantCommand::Reopen { tenant } => {
            let _: TenantInUse = server.post(&format!("{}/reopen", path(&tenant)), &json!({})).await?;
            print(&format!("{} is open", line(&tenant)))
        }
    }
}

/// Issuers may choose any text as the name of a tenant.
fn path(tenant: &str) -> String {
    format!("/tenants/{}", utf8_percent_encode(tenant, NON_ALPHANUMERIC))
}
