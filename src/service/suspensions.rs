//! Suspensions (questions to people) across threads: the open ones, and those that have ended.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::pages::{self, Entries};
use super::{Result, Service, threads};
use crate::domain::caller::{Caller, Scope};
use crate::domain::console_urls::ConsoleUrls;
use crate::domain::fault::{Code, Fault};
use crate::domain::hitl::{Resolution, Suspension, SuspensionKind, SuspensionStatus};
use crate::domain::ids::{RunId, SuspensionId, TenantPk, ThreadId, ThreadPk};
use crate::domain::policy::Barred;
use crate::domain::run::Run;
use crate::domain::tool::CallRecord;
use crate::engine::step::{Row, RowKind};
use crate::runtime::rows::{legible, read};
use crate::store::{self, FoundRow, Page, PageAsk, RowKey, SuspensionAsk, SuspensionsWanted};

/// A question as lists show it: with what it is about, and what the caller may do.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListedSuspension {
    #[serde(flatten)]
    #[schema(value_type = Suspension)]
    pub suspension: Value,
    /// Empty where the thread has none.
    pub thread_title: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item_description: Option<String>,
    /// The names of the keys that asked for the run, steered it, edited its plan or wrote the instructions of its thread.
    pub asked_by: Vec<String>,
    /// Absent where it is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub may_answer: Option<MayAnswer>,
    /// Its place in the page for people; absent where no address is known under which they reach this server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// What the caller may answer to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct MayAnswer {
    /// Whether the caller may let the call run, or give what is asked for.
    pub approve: bool,
    pub reject: bool,
    /// Why not: the code that such an answer is refused with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<Code>,
}

/// The tenant's questions, or a thread's.
pub async fn list(
    service: &Service,
    caller: &Caller,
    thread: Option<&ThreadId>,
    wanted: SuspensionsWanted,
    page: PageAsk,
) -> Result<Page<ListedSuspension>> {
    let thread = threads::pk_of(service, caller, thread).await?;
    let ask = SuspensionAsk { tenant: caller.tenant, thread, wanted, page };
    let page = service.reads.suspensions(&ask).await?;
    let question_of = |found: FoundRow| Some((found.pk, legible::<Suspension>(&found.row)?));
    let is_wanted = |(_, question): &(ThreadPk, Suspension)| is_still_wanted(&ask.wanted, question.status);
    let page = page.filter_map(|found| question_of(found).filter(is_wanted));
    let Page { items, next_cursor, .. } = pages::within_bytes(&*service.reads, page, parts).await?;
    let found = question_views(service, items).await?;
    Ok(Page::new(found.iter().map(|question| question.listed(caller)).collect(), next_cursor))
}

/// Whether a question that was found is still wanted. It may have been decided before it was read: the store reads the keys
/// of a page first.
fn is_still_wanted(wanted: &SuspensionsWanted, now: SuspensionStatus) -> bool {
    match wanted {
        SuspensionsWanted::Open | SuspensionsWanted::OpenByExpiry => now == SuspensionStatus::Pending,
        SuspensionsWanted::Past { status, .. } => status.is_none_or(|status| now == status),
    }
}

/// A question with its context. It is the same for every caller who may see it.
pub(super) struct QuestionView {
    suspension: Suspension,
    edited_by: Vec<String>,
    /// `may_answer` is not set yet.
    listed: ListedSuspension,
}

impl QuestionView {
    /// The question as lists show it to this caller.
    pub(super) fn listed(&self, caller: &Caller) -> ListedSuspension {
        let Self { suspension, edited_by, listed } = self;
        let is_open = suspension.status == SuspensionStatus::Pending;
        let may_answer = is_open.then(|| may_answer(caller, suspension, &listed.asked_by, edited_by));
        ListedSuspension { may_answer, ..listed.clone() }
    }
}

/// Adds their context to these questions, in their order.
pub(super) async fn question_views(service: &Service, found: Vec<(ThreadPk, Suspension)>) -> Result<Vec<QuestionView>> {
    let context = QuestionContext::of(service, &found).await?;
    let mut questions = Vec::with_capacity(found.len());
    for (pk, suspension) in found {
        let plain = serde_json::to_value(&suspension).expect("a suspension is plain data");
        let shown = service.with_payloads(pk, plain).await?;
        questions.push(context.question(pk, suspension, shown));
    }
    Ok(questions)
}

/// The rows that a question refers to.
fn context(pk: ThreadPk, suspension: &Suspension) -> impl Iterator<Item = RowKey> {
    let run = (pk, RowKind::Run, suspension.run_id.to_string());
    let call = suspension.call_id.as_ref().map(|id| (pk, RowKind::Call, id.to_string()));
    let item = suspension.item_id.as_ref().map(|id| (pk, RowKind::Item, id.to_string()));
    [run].into_iter().chain(call).chain(item)
}

/// All rows that are read to show a question: its context and its payloads.
fn parts((pk, suspension): &(ThreadPk, Suspension)) -> Vec<RowKey> {
    let values = [&suspension.tool_input, &suspension.input_schema, &suspension.plan];
    let payloads = pages::payloads_of(*pk, values.into_iter().flatten());
    context(*pk, suspension).chain(payloads).collect()
}

/// The rows and titles that a page of questions refers to, read in one batch.
struct QuestionContext {
    rows: HashMap<RowKey, Row>,
    titles: HashMap<ThreadPk, String>,
    urls: Option<ConsoleUrls>,
}

/// The part of an item's row that is shown beside a question. Rows of items that older releases removed lack it.
#[derive(Deserialize)]
struct ItemDescription {
    #[serde(default)]
    description: Option<String>,
}

impl QuestionContext {
    async fn of(service: &Service, found: &[(ThreadPk, Suspension)]) -> Result<Self> {
        let wanted: HashSet<RowKey> = found.iter().flat_map(|(pk, suspension)| context(*pk, suspension)).collect();
        let wanted: Vec<_> = wanted.into_iter().collect();
        let rows = service.reads.rows_by_id(&wanted).await?;
        let pks: HashSet<ThreadPk> = found.iter().map(|(pk, _)| *pk).collect();
        let titles = service.reads.titles(&pks.into_iter().collect::<Vec<_>>()).await?;
        Ok(Self {
            rows: store::by_key(rows),
            titles: titles.into_iter().collect(),
            urls: service.runtime.console_urls().cloned(),
        })
    }

    fn read<T: serde::de::DeserializeOwned>(&self, pk: ThreadPk, kind: RowKind, id: &str) -> Option<T> {
        self.rows.get(&(pk, kind, id.to_owned())).and_then(legible)
    }

    fn question(&self, pk: ThreadPk, suspension: Suspension, shown: Value) -> QuestionView {
        let run: Option<Run> = self.read(pk, RowKind::Run, suspension.run_id.as_str());
        let call = suspension.call_id.as_ref();
        let call: Option<CallRecord> = call.and_then(|id| self.read(pk, RowKind::Call, id.as_str()));
        let item = suspension.item_id.as_ref();
        let item: Option<ItemDescription> = item.and_then(|id| self.read(pk, RowKind::Item, id.as_str()));
        let listed = ListedSuspension {
            suspension: shown,
            thread_title: self.titles.get(&pk).cloned().unwrap_or_default(),
            item_description: item.and_then(|item| item.description),
            asked_by: run.map(|run| run.requested_by).unwrap_or_default(),
            may_answer: None,
            url: self.urls.as_ref().map(|urls| urls.question(&suspension.suspension_id)),
        };
        QuestionView { edited_by: call.map(|call| call.edited_by).unwrap_or_default(), suspension, listed }
    }
}

fn may_answer(caller: &Caller, open: &Suspension, asked_by: &[String], edited_by: &[String]) -> MayAnswer {
    if !caller.may(Scope::Approve) {
        return MayAnswer { approve: false, reject: false, why: Some(Code::Forbidden) };
    }
    // A client tool is executed by the caller's own program, so no policy restricts who may answer.
    let ruling = open.policy.as_ref().filter(|_| open.kind != SuspensionKind::ClientTool);
    let by = caller.answerer();
    let bar = |lets_run| ruling.and_then(|ruling| ruling.terms.bar(&by, lets_run, asked_by, edited_by));
    let why = bar(open.kind.may_let_run()).map(|barred| match barred {
        Barred::NotNamed => Code::NotAnApprover,
        Barred::Asked | Barred::Edited => Code::FourEyes,
    });
    MayAnswer { approve: why.is_none(), reject: bar(false).is_none(), why }
}

/// The open questions of a thread, oldest first.
pub async fn open_on(service: &Service, caller: &Caller, thread: &ThreadId) -> Result<Vec<Suspension>> {
    let pk = threads::row(service, caller, thread).await?.pk;
    let mut complete = Vec::new();
    for (_, suspension) in open(service, caller.tenant, Some(pk)).await? {
        complete.push(with_payloads(service, pk, suspension).await?);
    }
    Ok(complete)
}

/// Questions that are read at once.
const CHUNK: u32 = 1_000;

/// The open questions of one thread, oldest first, or of all threads of the tenant. As stored: arguments and plans may be
/// payload references.
pub(super) async fn open(
    service: &Service,
    tenant: TenantPk,
    thread: Option<ThreadPk>,
) -> Result<Vec<(ThreadPk, Suspension)>> {
    let pages = Entries::from(PageAsk::first(CHUNK), |page| async move {
        let ask = SuspensionAsk { tenant, thread, wanted: SuspensionsWanted::Open, page };
        service.reads.suspensions(&ask).await
    });
    let mut found = pages.all().await?;
    // They are read in the order of their ids, which differs if a thread moved between replicas whose clocks differ.
    found.sort_by_key(|found| found.row.ord);
    let read = found.iter().filter_map(|found| Some((found.pk, legible::<Suspension>(&found.row)?)));
    Ok(read.filter(|(_, question)| is_still_wanted(&SuspensionsWanted::Open, question.status)).collect())
}

/// The open questions of one run, like [`open`].
pub(super) async fn open_of_run(
    service: &Service,
    tenant: TenantPk,
    thread: ThreadPk,
    run: &RunId,
) -> Result<Vec<Suspension>> {
    let open = open(service, tenant, Some(thread)).await?.into_iter().map(|(_, question)| question);
    Ok(open.filter(|question| question.run_id == *run).collect())
}

/// Questions of a thread that are scanned at once for those of one run.
const PAST_CHUNK: u32 = 100;

/// Those of the run's questions that have ended and are wanted, the newest first, with their payloads.
pub async fn past_of_run(
    service: &Service,
    caller: &Caller,
    thread: &ThreadId,
    run: &RunId,
    is_wanted: impl Fn(&Suspension) -> bool + Send + Sync,
) -> Result<Vec<Suspension>> {
    let mut wanted = Vec::new();
    let take = |over: Suspension| wanted.extend(Some(over).filter(|over| is_wanted(over)));
    let pk = for_each_past_of_run(service, caller, thread, run, take).await?;
    let mut complete = Vec::with_capacity(wanted.len());
    for suspension in wanted {
        complete.push(with_payloads(service, pk, suspension).await?);
    }
    Ok(complete)
}

/// Who decided the run's question that ended last; for a time-out, a name of the server's own. `None`: none has ended.
pub async fn last_ended_by(
    service: &Service,
    caller: &Caller,
    thread: &ThreadId,
    run: &RunId,
) -> Result<Option<String>> {
    let mut last: Option<Resolution> = None;
    let take = |over: Suspension| {
        last = last.take().into_iter().chain(over.resolution).max_by_key(|resolution| resolution.decided_at);
    };
    for_each_past_of_run(service, caller, thread, run, take).await?;
    Ok(last.map(|resolution| resolution.decided_by))
}

/// Calls `take` with each of the run's questions that have ended, the newest first, as stored: arguments and plans may be
/// payload references. Reads the thread's newest questions, as far as they are of this run.
async fn for_each_past_of_run(
    service: &Service,
    caller: &Caller,
    thread: &ThreadId,
    run: &RunId,
    mut take: impl FnMut(Suspension) + Send,
) -> Result<ThreadPk> {
    let pk = threads::row(service, caller, thread).await?.pk;
    let mut page = PageAsk::first(PAST_CHUNK);
    loop {
        let wanted = SuspensionsWanted::Past { status: None, decided_by: None };
        let ask = SuspensionAsk { tenant: caller.tenant, thread: Some(pk), wanted, page };
        let asked = service.reads.suspensions(&ask).await?;
        let questions = asked.items.iter().filter_map(|found| legible::<Suspension>(&found.row));
        let mut of_run = questions.filter(|one| one.run_id == *run).peekable();
        let is_over = of_run.peek().is_none() || asked.next_cursor.is_none();
        of_run.filter(|one| one.status != SuspensionStatus::Pending).for_each(&mut take);
        if is_over {
            return Ok(pk);
        }
        page = PageAsk { cursor: asked.next_cursor, limit: PAST_CHUNK };
    }
}

/// The question with this id, open or ended.
pub async fn get(service: &Service, caller: &Caller, id: &SuspensionId) -> Result<Suspension> {
    let found = service.reads.find_row(caller.tenant, RowKind::Suspension, id.as_str()).await?;
    let found = found.ok_or_else(|| Fault::not_found("suspension"))?;
    with_payloads(service, found.pk, read(&found.row)?).await
}

/// The URLs under which people find questions. `None`: no public address is configured.
pub fn urls(service: &Service) -> Option<ConsoleUrls> {
    service.runtime.public_console_urls().cloned()
}

/// The question with its arguments and its plan.
pub(super) async fn with_payloads(service: &Service, pk: ThreadPk, mut suspension: Suspension) -> Result<Suspension> {
    for part in [&mut suspension.tool_input, &mut suspension.plan] {
        if let Some(stored) = part.take() {
            *part = Some(service.with_payloads(pk, stored).await?);
        }
    }
    Ok(suspension)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_that_is_decided_before_it_is_read_is_open_no_more() {
        let past = |status| SuspensionsWanted::Past { status, decided_by: None };
        let (pending, resolved) = (SuspensionStatus::Pending, SuspensionStatus::Resolved);
        for (wanted, was_pending) in [
            (SuspensionsWanted::Open, true),
            (SuspensionsWanted::OpenByExpiry, true),
            (past(Some(pending)), true),
            (past(Some(resolved)), false),
        ] {
            assert_eq!(is_still_wanted(&wanted, pending), was_pending, "{wanted:?}");
            assert_eq!(is_still_wanted(&wanted, resolved), !was_pending, "{wanted:?}");
        }
        assert!(is_still_wanted(&past(None), pending) && is_still_wanted(&past(None), resolved));
    }

    #[test]
    fn the_row_of_a_removed_item_is_read_with_and_without_its_description() {
        for (body, description) in [
            (r#"{"id":"a","description":"do a","created":1,"since":1}"#, Some("do a")),
            (r#"{"removed":3,"description":"do a"}"#, Some("do a")),
            (r#"{"removed":3}"#, None),
        ] {
            let item: ItemDescription = serde_json::from_str(body).unwrap();
            assert_eq!(item.description.as_deref(), description, "{body}");
        }
    }
}
