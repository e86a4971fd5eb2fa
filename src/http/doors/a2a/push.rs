//! The push notification configurations of a task.

use super::caller::Asker;
use super::refusal::Refusal;
use crate::a2a::fault::{Error, Fault};
use crate::a2a::types::{PushConfig, PushListQuery, PushPage, PushQuery};
use crate::domain::caller::Scope;
use crate::domain::ids::RunId;
use crate::service::a2a::pushes;

pub(super) async fn create(asker: &Asker, config: PushConfig) -> Result<PushConfig, Refusal> {
    asker.may(Scope::Run)?;
    asker.check_tenant(config.tenant.as_deref())?;
    let Some(task) = config.task_id.as_deref() else { return Err(Fault::invalid("/taskId", "is missing").into()) };
    Ok(pushes::add(&asker.app.service, &asker.caller, &task.into(), &config, asker.version).await?)
}

pub(super) async fn get(asker: &Asker, query: PushQuery) -> Result<PushConfig, Refusal> {
    asker.may(Scope::Read)?;
    asker.check_tenant(query.tenant.as_deref())?;
    let (service, task) = (&asker.app.service, RunId::from(query.task_id));
    let found = match &query.id {
        Some(id) => pushes::get(service, &asker.caller, &task, id).await?,
        None => pushes::list(service, &asker.caller, &task).await?.into_iter().next(),
    };
    found.ok_or_else(|| Fault::new(Error::TaskNotFound, "The task has no such push configuration.").into())
}

pub(super) async fn list(asker: &Asker, query: PushListQuery) -> Result<PushPage, Refusal> {
    asker.may(Scope::Read)?;
    asker.check_tenant(query.tenant.as_deref())?;
    // A task has few: they are one page.
    let configs = pushes::list(&asker.app.service, &asker.caller, &RunId::from(query.task_id)).await?;
    Ok(PushPage { configs, next_page_token: String::new() })
}

pub(super) async fn delete(asker: &Asker, query: PushQuery) -> Result<(), Refusal> {
    asker.may(Scope::Run)?;
    asker.check_tenant(query.tenant.as_deref())?;
    let (service, task) = (&asker.app.service, RunId::from(query.task_id));
    match &query.id {
        Some(id) => pushes::delete(service, &asker.caller, &task, id).await?,
        None => {
            for config in pushes::list(service, &asker.caller, &task).await? {
                pushes::delete(service, &asker.caller, &task, config.id.as_deref().unwrap_or_default()).await?;
            }
        }
    }
    Ok(())
}
