//! What the collector of traces is told: a commit leaves parts of the log in the outbox, and whoever sends one reads it.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::loaded::LoadedThread;
use super::shared::Shared;
use crate::domain::facts::Fact;
use crate::domain::ids::ThreadPk;
use crate::domain::observation::Observation;
use crate::domain::payload::{self, Payloads};
use crate::domain::run::{Run, RunStatus};
use crate::engine::step::Step;
use crate::outbox::Outcome;
use crate::store;
use crate::store::ObservationAsk;
use crate::store::outbox::{Delivery, NewDelivery, TargetKind};
use crate::traces::{Part, Sent, Traces};

/// Observations that are read at once.
const PAGE: u32 = 256;

impl Shared {
    /// What a step leaves in the outbox: a part of the log for each run that it ends, or that may stand still from now on.
    pub(super) fn parts_to_trace(&self, loaded: &LoadedThread, step: &Step) -> Vec<NewDelivery> {
        let Some(traces) = &self.traces else { return Vec::new() };
        let after = loaded.row.last_seq;
        let until = after + i64::try_from(step.records.len()).unwrap_or(0);
        let asks = |run: &Run| {
            let mut records = step.records.iter().filter(|record| record.run_id == run.run_id);
            records.any(|record| matches!(record.fact, Fact::AgentSuspended(_)))
        };
        let active = loaded.machine.run().filter(|run| step.runs.iter().all(|known| known.run_id != run.run_id));
        let runs = step.runs.iter().chain(active);
        let at_rest = runs.filter(|run| run.status.is_terminal() || run.status == RunStatus::Suspended || asks(run));
        let parts = at_rest.filter(|run| run.started_at.is_some()).filter_map(|run| traces.part(run, after, until));
        parts.map(|part| self.delivery(&part)).collect()
    }

    fn delivery(&self, part: &Part) -> NewDelivery {
        NewDelivery {
            id: self.mint().delivery(),
            kind: TargetKind::Collector,
            target: "traces".to_owned(),
            ordering_key: None,
            event: "spans".to_owned(),
            body: serde_json::to_string(part).expect("it has string keys"),
        }
    }

    pub(super) fn send_spans(self: Arc<Self>, delivery: Delivery) -> BoxFuture<'static, (Outcome, String)> {
        async move {
            let Some(traces) = &self.traces else {
                return (Outcome::Useless, "no collector is set any more".to_owned());
            };
            let part: Part = match serde_json::from_str(&delivery.body) {
                Ok(part) => part,
                Err(error) => return (Outcome::Useless, error.to_string()),
            };
            let log = match self.log_of(traces, delivery.thread, &part).await {
                Ok(log) => log,
                Err(error) => return (Outcome::Failed, error.to_string()),
            };
            let (outcome, said) = match traces.send(&part, &log).await {
                Sent::Taken { spans } => {
                    count("sent", spans);
                    (Outcome::Taken, format!("{spans} spans"))
                }
                Sent::Failed(why) => (Outcome::Failed, why),
                Sent::Refused { spans, why } => {
                    count("refused", spans);
                    (Outcome::Useless, why)
                }
            };
            (outcome, said)
        }
        .boxed()
    }

    /// What happened on the thread from the run's start to the part's end, with payloads in place if spans hold them. Nothing,
    /// where the log was shortened meanwhile.
    async fn log_of(&self, traces: &Traces, pk: ThreadPk, part: &Part) -> store::Result<Vec<Observation>> {
        let Some(began) = self.store.run_began(pk, &part.run_id).await? else { return Ok(Vec::new()) };
        let (mut after, mut log) = (began - 1, Vec::new());
        loop {
            let ask = ObservationAsk { after, until: Some(part.until), limit: PAGE, types: Vec::new() };
            let mut page = self.store.observations(pk, &ask).await?;
            let Some(last) = page.last() else { return Ok(log) };
            after = last.seq;
            page.retain(|seen| seen.run_id == part.run_id);
            if traces.has_content() {
                let mut known = Payloads::new();
                self.fetch(pk, page.iter().map(|seen| &seen.content), &mut known).await?;
                for seen in &mut page {
                    seen.content = payload::inline(seen.content.take(), &known);
                }
            }
            log.extend(page);
        }
    }
}

fn count(outcome: &'static str, spans: usize) {
    metrics::counter!("pes_telemetry_spans_total", "outcome" => outcome).increment(spans as u64);
}
