//! Open suspensions, across threads.

use serde_json::Value;

use super::{Result, Service};
use crate::domain::caller::Caller;
use crate::runtime::rows::legible;
use crate::store::{Page, PageAsk};

/// Open suspensions of the tenant, oldest first.
pub async fn list(service: &Service, caller: &Caller, page: PageAsk) -> Result<Page<Value>> {
    let page = service.reads.open_suspensions(caller.tenant, &page).await?;
    let mut items = Vec::with_capacity(page.items.len());
    for found in page.items {
        let Some(open) = legible(&found.row) else { continue };
        items.push(service.shown(found.pk, open).await?);
    }
    Ok(Page { items, next_cursor: page.next_cursor })
}
