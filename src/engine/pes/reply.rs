//! A model answered or failed: whose call it was, and what becomes of it.

use super::execute::Replied;
use super::state::{ModelCall, ModelSlot, Phase};
use super::transition::{Handled, Taken, Transition};
use crate::domain::fault::Code;
use crate::domain::ids::{ItemId, StreamId};
use crate::domain::model::{self, FailureKind, ModelFailure, ModelReply};
use crate::domain::observation::ObservationType;

const BACKOFF_MS: i64 = 500;
const BACKOFF_MOST_MS: i64 = 30_000;
/// A provider cannot put a run off for longer than this.
const RETRY_AFTER_MOST_MS: i64 = 600_000;

impl Transition<'_> {
    pub fn model_replied(&mut self, stream: &StreamId, attempt: u32, reply: ModelReply) -> Handled {
        let Some((item, call)) = self.open_call(stream, attempt) else { return Ok(Taken::No) };
        let phase = self.model_phase(item.as_ref());
        let counters = &mut self.active().counters;
        counters.llm_calls += 1;
        counters.usage.add(&reply.usage);
        counters.total_generation_ms += reply.total_ms;
        let text = self.record_stream_end(stream, item.as_ref(), phase, &reply);
        self.clear_call(item.as_ref());
        if self.active().cancel.is_some() {
            return Ok(Taken::Yes);
        }
        let replied = Replied { stream, call: &call, reply: &reply, text };
        match (&item, self.state.phase()) {
            (Some(item), _) => self.step_replied(item, replied),
            (None, Phase::Synthesizing) => self.synthesis_replied(replied),
            (None, Phase::Idle | Phase::Planning | Phase::Refining | Phase::Executing) => self.plan_replied(replied),
        }
        Ok(Taken::Yes)
    }

    /// One commit: the error is recorded, and the slot waits for its next attempt, if there is one.
    pub fn model_failed(&mut self, stream: &StreamId, attempt: u32, failure: ModelFailure) -> Handled {
        let Some((item, mut call)) = self.open_call(stream, attempt) else { return Ok(Taken::No) };
        self.active().counters.llm_calls += 1;
        call.failures += 1;
        let most = self.settings().execution.max_model_attempts.max(1);
        let again = failure.kind.retryable() && call.failures < most && self.active().cancel.is_none();
        let delay = again.then(|| self.delay(call.failures, failure.retry_after_ms));
        self.record_stream_error(stream, item.as_ref(), &failure, delay);
        self.clear_call(item.as_ref());
        if self.active().cancel.is_some() {
            return Ok(Taken::Yes);
        }
        match delay {
            Some(delay) => {
                call.attempt += 1;
                call.slot = ModelSlot::Ready { not_before: Some(self.stamp.now + delay) };
                self.put_call(item.as_ref(), call);
            }
            None => self.model_gave_up(item.as_ref(), &failure),
        }
        Ok(Taken::Yes)
    }

    /// The attempt was under way when its process died; another follows at once.
    pub fn model_interrupted(&mut self, item: Option<&ItemId>, mut call: ModelCall) {
        let Some(stream) = call.stream().cloned() else { return };
        let failure = interrupted("the process stopped while the model answered");
        self.record_stream_error(&stream, item, &failure, Some(0));
        call.attempt += 1;
        call.slot = ModelSlot::Ready { not_before: None };
        self.put_call(item, call);
    }

    fn model_gave_up(&mut self, item: Option<&ItemId>, failure: &ModelFailure) {
        let code = match failure.kind {
            FailureKind::Refused => Code::ModelRefused,
            FailureKind::Retry | FailureKind::Broken | FailureKind::Incomplete | FailureKind::Interrupted => {
                Code::ModelFailed
            }
        };
        let message = super::record::cut(&failure.message, 1000);
        match (item, self.state.phase()) {
            (Some(item), _) => self.fail_item(item, code.as_str(), message),
            (None, Phase::Synthesizing) => self.synthesis_failed(&message),
            (None, Phase::Refining) if self.is_mid_run() => self.refinement_failed(code, &message),
            (None, Phase::Idle | Phase::Planning | Phase::Refining | Phase::Executing) => {
                self.fail_run(code, message, model::Phase::Planning);
            }
        }
    }

    pub fn record_stream_error(
        &mut self,
        stream: &StreamId,
        item: Option<&ItemId>,
        failure: &ModelFailure,
        delay: Option<i64>,
    ) {
        let mut body = serde_json::json!({
            "streamId": stream, "code": failure.kind, "message": super::record::cut(&failure.message, 2000),
            "retryable": delay.is_some(),
        });
        if let Some(status) = failure.http_status {
            body["httpStatus"] = status.into();
        }
        if let Some(delay) = delay {
            body["retryInMs"] = delay.into();
        }
        self.record(ObservationType::LlmStreamError, item, "Model call failed", body);
    }

    /// Doubling, with jitter from the seed so that threads that failed together do not come back together.
    fn delay(&mut self, failures: u32, retry_after: Option<i64>) -> i64 {
        let most = (BACKOFF_MS << (failures - 1).min(10)).min(BACKOFF_MOST_MS);
        let jittered = most / 2 + (self.stamp.seed % (most / 2 + 1) as u64) as i64;
        retry_after.map_or(jittered, |after| after.clamp(0, RETRY_AFTER_MOST_MS).max(jittered))
    }

    fn open_call(&self, stream: &StreamId, attempt: u32) -> Option<(Option<ItemId>, ModelCall)> {
        let main = self.state.head.active.as_ref().and_then(|active| active.model.as_ref());
        if let Some(call) = main.filter(|call| call.answers(stream, attempt)) {
            return Some((None, call.clone()));
        }
        self.state.list.open().find_map(|item| {
            let call = item.track.work.as_ref()?.model.as_ref()?;
            call.answers(stream, attempt).then(|| (Some(item.def.id.clone()), call.clone()))
        })
    }

    fn clear_call(&mut self, item: Option<&ItemId>) {
        match item {
            Some(item) => {
                self.work(item, |work| work.model = None);
            }
            None => self.active().model = None,
        }
    }

    pub fn put_call(&mut self, item: Option<&ItemId>, call: ModelCall) {
        match item {
            Some(item) => {
                self.work(item, |work| work.model = Some(call));
            }
            None => self.active().model = Some(call),
        }
    }

    pub fn model_phase(&self, item: Option<&ItemId>) -> model::Phase {
        match (item, self.state.phase()) {
            (Some(_), _) => model::Phase::Execution,
            (None, Phase::Synthesizing) => model::Phase::Synthesis,
            (None, Phase::Idle | Phase::Planning | Phase::Refining | Phase::Executing) => model::Phase::Planning,
        }
    }
}

pub(super) fn interrupted(message: &str) -> ModelFailure {
    ModelFailure {
        kind: FailureKind::Interrupted,
        message: message.to_owned(),
        http_status: None,
        retry_after_ms: None,
        partial_text: String::new(),
    }
}
