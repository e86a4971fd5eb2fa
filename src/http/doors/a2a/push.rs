//! The push notification configurations of a task.

use super::caller::A2aRequest;
use super::error::A2aError;
use crate::a2a::fault::{Error, Fault};
use crate::a2a::types::{PushConfig, PushListQuery, PushPage, PushQuery};
use crate::domain::ids::RunId;
use crate::service::a2a::pushes;

pub(super) async fn create(ctx: &A2aRequest, config: PushConfig) -> Result<PushConfig, A2aError> {
    ctx.check_tenant(config.tenant.as_deref())?;
    let Some(task) = config.task_id.as_deref() else { return Err(Fault::invalid("/taskId", "is missing").into()) };
    Ok(pushes::add(&ctx.app.service, &ctx.caller, &task.into(), &config, ctx.version).await?)
}

pub(super) async fn get(ctx: &A2aRequest, query: PushQuery) -> Result<PushConfig, A2aError> {
    ctx.check_tenant(query.tenant.as_deref())?;
    let (service, task) = (&ctx.app.service, RunId::from(query.task_id));
    let found = match &query.id {
        Some(id) => pushes::get(service, &ctx.caller, &task, id).await?,
        None => pushes::list(service, &ctx.caller, &task).await?.into_iter().next(),
    };
    found.ok_or_else(|| Fault::new(Error::TaskNotFound, "The task has no such push configuration.").into())
}

pub(super) async fn list(ctx: &A2aRequest, query: PushListQuery) -> Result<PushPage, A2aError> {
    ctx.check_tenant(query.tenant.as_deref())?;
    // A task has few: they are one page.
    let configs = pushes::list(&ctx.app.service, &ctx.caller, &RunId::from(query.task_id)).await?;
    Ok(PushPage { configs, next_page_token: String::new() })
}

pub(super) async fn delete(ctx: &A2aRequest, query: PushQuery) -> Result<(), A2aError> {
    ctx.check_tenant(query.tenant.as_deref())?;
    let (service, task) = (&ctx.app.service, RunId::from(query.task_id));
    match &query.id {
        Some(id) => pushes::delete(service, &ctx.caller, &task, id).await?,
        None => {
            for config in pushes::list(service, &ctx.caller, &task).await? {
                pushes::delete(service, &ctx.caller, &task, config.id.as_deref().unwrap_or_default()).await?;
            }
        }
    }
    Ok(())
}
