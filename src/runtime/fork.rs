//! A thread as of an observation: looked at, or continued as a new one.

use serde_json::Value;

use super::{Answered, Idempotent, Result, Runtime};
use crate::domain::caller::Caller;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::ThreadId;
use crate::domain::thread::Thread;
use crate::store::ThreadRow;

impl Runtime {
    pub async fn fork(
        &self,
        caller: &Caller,
        id: &ThreadId,
        at: Option<i64>,
        new_id: Option<ThreadId>,
        idempotent: Option<Idempotent>,
    ) -> Result<Answered<Thread>> {
        let _ = (caller, id, at, new_id, idempotent);
        Err(Fault::new(Code::Internal, "not yet"))
    }

    pub(super) async fn state_at(&self, row: &ThreadRow, seq: i64) -> Result<Value> {
        let _ = (row, seq);
        Err(Fault::new(Code::Internal, "not yet"))
    }
}
