//! What a transition's commit sends to others: deliveries to webhooks, to push receivers and to the collector of traces, and
//! the rows that record how far each of them was notified.

mod prepared_spans;
mod pushes;
mod spans;

pub(super) use prepared_spans::PreparedSpans;
pub(super) use pushes::{PushRecipients, Receivers};
pub(super) use spans::{TraceExporter, TraceProgress};

use super::actor::{CommitExtras, LoadedThread};
use super::shared::Shared;
use crate::domain::Millis;
use crate::engine::step::{Row, Step};
use crate::store;
use crate::store::outbox::{NewDelivery, TargetKind};

#[derive(Default)]
pub(super) struct Outgoing {
    pub(super) deliveries: Vec<NewDelivery>,
    pub(super) rows: Vec<Row>,
}

impl Outgoing {
    pub(super) fn kinds(&self) -> Vec<TargetKind> {
        self.deliveries.iter().map(|delivery| delivery.kind).collect()
    }
}

impl Shared {
    /// The outgoing data of a step that is decided and not committed.
    pub(super) async fn outgoing(
        &self,
        loaded: &mut LoadedThread,
        step: &Step,
        recipients: Option<PushRecipients>,
        extras: &CommitExtras,
        now: Millis,
    ) -> store::Result<Outgoing> {
        let traces = self.trace_exporter.exports(loaded, step, now);
        let (thread, urls) = (&loaded.row, self.own_address.console_urls());
        let webhooks = &self.outbox.webhooks;
        let runs = step.runs.iter().chain(loaded.machine.run());
        let mut deliveries =
            webhooks.announce((thread.tenant, &thread.thread_id), &step.records, runs, || self.mint(), urls);
        deliveries.extend(traces.deliveries);
        let mut rows: Vec<Row> = extras.pushes.iter().map(|new| new.target.row(false)).collect();
        if let Some(recipients) = recipients {
            let pushes = self.pushes(recipients, thread.tenant, thread.pk, step).await?;
            deliveries.extend(pushes.deliveries);
            rows.retain(|row| pushes.rows.iter().all(|ended| ended.id != row.id));
            rows.extend(pushes.rows);
        }
        rows.extend(traces.rows);
        Ok(Outgoing { deliveries, rows })
    }
}
