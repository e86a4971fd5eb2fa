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

/// The names of everybody who wrote any part of the thread's instructions; none if it has no instructions. Those of a thread
/// of a release that recorded no writers count as written by who created the thread.
pub(in crate::service) async fn prompt_writers(service: &Service, thread: &ThreadRow) -> Result<Vec<String>> {
    let config = &thread.profile.config;
    if config.system_prompt.is_none() && config.persona.is_none() {
        return Ok(Vec::new());
    }
    let rows = Entries::from(PageAsk::first(CHUNK), |page| async move {
        service.store.rows(thread.pk, RowKind::PromptWriter, Order::Ascending, &page).await
    });
    let mut names: Vec<String> = rows.all().await?.into_iter().map(|row| row.id).collect();
    if names.is_empty() {
        names.push(thread.created_by.clone());
    }
    Ok(names)
}
