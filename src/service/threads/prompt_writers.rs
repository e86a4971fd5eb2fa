//! Who wrote the instructions in a thread's `config`, its `systemPrompt` and its `persona`: every run of the thread follows
//! them, so under four eyes their writers may not approve what it asks for. A row of the thread names each of them; the profile
//! does not, because the release before does not read a profile with more members.

use crate::domain::Millis;
use crate::domain::settings::ThreadConfig;
use crate::engine::step::{Keep, Row, RowKind};
use crate::service::pages::Entries;
use crate::service::{Result, Service};
use crate::store::{Order, PageAsk, ThreadRow};

/// Rows read at once.
const CHUNK: u32 = 200;

/// The row that names `by` as a writer. `None`: there are no new instructions in `after`.
pub(in crate::service) fn new_writer(
    before: &ThreadConfig,
    after: &ThreadConfig,
    by: &str,
    now: Millis,
) -> Option<Row> {
    let is_prompt_new = after.system_prompt.is_some() && after.system_prompt != before.system_prompt;
    let is_persona_new = after.persona.is_some() && after.persona != before.persona;
    (is_prompt_new || is_persona_new).then(|| row_of(by, now))
}

pub(in crate::service) fn row_of(writer: &str, now: Millis) -> Row {
    let body = "null".to_owned();
    Row { kind: RowKind::PromptWriter, id: writer.to_owned(), ord: now, keep: Keep::Never, body }
}

/// The names of everybody who wrote any part of the thread's instructions; none if it has no instructions.
pub(in crate::service) async fn prompt_writers(service: &Service, thread: &ThreadRow) -> Result<Vec<String>> {
    let mut names = recorded_writers(service, thread).await?;
    if names.is_empty() {
        names.extend(unrecorded_writer(thread).map(str::to_owned));
    }
    Ok(names)
}

/// The same as a row, if no writer is recorded yet: the first change of such instructions stores it beside its own.
pub(super) async fn row_of_unrecorded(service: &Service, thread: &ThreadRow) -> Result<Option<Row>> {
    let Some(writer) = unrecorded_writer(thread) else { return Ok(None) };
    Ok(recorded_writers(service, thread).await?.is_empty().then(|| row_of(writer, thread.created_at)))
}

/// Instructions of a release that recorded no writers count as written by who created the thread.
fn unrecorded_writer(thread: &ThreadRow) -> Option<&str> {
    let config = &thread.profile.config;
    (config.system_prompt.is_some() || config.persona.is_some()).then_some(thread.created_by.as_str())
}

/// The names in the thread's rows. They count only while it has instructions.
async fn recorded_writers(service: &Service, thread: &ThreadRow) -> Result<Vec<String>> {
    if unrecorded_writer(thread).is_none() {
        return Ok(Vec::new());
    }
    let rows = Entries::from(PageAsk::first(CHUNK), |page| async move {
        service.store.rows(thread.pk, RowKind::PromptWriter, Order::Ascending, &page).await
    });
    Ok(rows.all().await?.into_iter().map(|row| row.id).collect())
}
