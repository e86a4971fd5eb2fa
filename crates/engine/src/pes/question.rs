//! Questions in the middle of a call: its slot stays `Running`, and the reply stands with the call until whoever performs
//! it has it. They are never waited for: a call that ends takes its question back.

use super::transition::{Handled, Taken, Transition};
use crate::domain::hitl::{Decision, Question, Reply, Suspension, SuspensionKind};
use crate::domain::ids::CallId;
use crate::domain::tool::{CallStatus, PendingQuestion};

impl Transition<'_> {
    /// Asked twice under one number, it is one question.
    pub fn tool_asked(&mut self, id: &CallId, attempt: u32, number: u32, question: Question) -> Handled {
        let is_known = |asked: &PendingQuestion| asked.number >= number;
        let known = self.state.calls.get(id).and_then(|call| call.record.asked.as_ref()).is_some_and(is_known);
        if known || !self.is_running_as(id, attempt) || self.active().cancel.is_some() {
            return Ok(Taken::No);
        }
        self.forget_question(id, "the call asks something else");
        let Question { message, form } = question;
        let message = format!("{} asks: {message}", self.tool_of(id));
        let opened = self.question_about(id, SuspensionKind::Input, message, form, None);
        let Some(suspension) = opened.map(|opened| Suspension { while_running: true, ..opened }) else {
            return Ok(Taken::No);
        };
        let suspension_id = suspension.suspension_id.clone();
        self.call(id, |call| {
            call.record.asked = Some(PendingQuestion { number, suspension_id, reply: None, is_told: false })
        });
        self.open_suspension(suspension);
        Ok(Taken::Yes)
    }

    /// The question is closed; what the call is told of it is stored with the call.
    pub fn reply_to(&mut self, id: &CallId, reply: Reply) {
        let Some(asked) = self.state.calls.get(id).and_then(|call| call.record.asked.clone()) else { return };
        let reply = match reply {
            Reply::Accepted { value } => {
                Reply::Accepted { value: self.store(format!("{}.reply", asked.suspension_id), value) }
            }
            Reply::Declined | Reply::Cancelled => reply,
        };
        self.call(id, |call| call.record.asked = Some(PendingQuestion { reply: Some(reply), ..asked }));
    }

    /// Nobody waits for the answer any more.
    pub fn forget_question(&mut self, id: &CallId, why: &str) {
        let asked = self.call(id, |call| call.record.asked.take()).flatten();
        if let Some(asked) = asked {
            self.close_suspension(&asked.suspension_id, Decision::Cancelled, "engine", Some(why.to_owned()));
        }
    }

    /// Marks what the holder hears of by this commit; what anybody else commits wakes it.
    pub fn tell_calls(&mut self) {
        if self.stamp.holder.is_none() {
            return;
        }
        for id in self.untold().cloned().collect::<Vec<_>>() {
            self.call(&id, |call| call.record.asked.as_mut().map(|asked| asked.is_told = true));
        }
    }

    /// Running calls with a reply that whoever performs them has not heard of.
    pub fn untold(&self) -> impl Iterator<Item = &CallId> {
        let batches = self.state.works().flat_map(|work| &work.batch);
        batches.filter(|id: &&CallId| {
            let record = self.state.calls.get(*id).map(|call| &call.record);
            record.filter(|record| record.status == CallStatus::Running).is_some_and(|record| {
                record.asked.as_ref().is_some_and(|asked| asked.reply.is_some() && !asked.is_told)
            })
        })
    }
}
