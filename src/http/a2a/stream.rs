//! `SendStreamingMessage` and `SubscribeToTask`.

use serde_json::Value;

use super::caller::Asker;
use super::refusal::Refusal;
use crate::a2a::fault::{Error, Fault};
use crate::a2a::types::{SendRequest, TaskQuery};

pub(super) async fn send(_: &Asker, _: SendRequest) -> Result<Value, Refusal> {
    Err(no_streams())
}

pub(super) async fn subscribe(_: &Asker, _: TaskQuery) -> Result<Value, Refusal> {
    Err(no_streams())
}

fn no_streams() -> Refusal {
    Fault::new(Error::UnsupportedOperation, "Streams are not offered; send the message and get the task.").into()
}
