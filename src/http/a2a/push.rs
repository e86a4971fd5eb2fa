//! Where a task's changes are to be posted.

use super::caller::Asker;
use super::refusal::Refusal;
use crate::a2a::fault::{Error, Fault};
use crate::a2a::types::{PushConfig, PushListQuery, PushPage, PushQuery};

pub(super) async fn create(_: &Asker, _: PushConfig) -> Result<PushConfig, Refusal> {
    Err(no_push())
}

pub(super) async fn get(_: &Asker, _: PushQuery) -> Result<PushConfig, Refusal> {
    Err(no_push())
}

pub(super) async fn list(_: &Asker, _: PushListQuery) -> Result<PushPage, Refusal> {
    Err(no_push())
}

pub(super) async fn delete(_: &Asker, _: PushQuery) -> Result<(), Refusal> {
    Err(no_push())
}

fn no_push() -> Refusal {
    Fault::new(Error::PushNotificationNotSupported, "Push notifications are not offered; get the task.").into()
}
