//! Plan review: a person is asked before a plan runs, and again whenever it was changed.
//!
//! The question is about one version of the plan. Until a version is approved, nothing of it begins; items in progress
//! continue. A question about an older version is withdrawn and asked anew, so that nobody approves a plan that they
//! did not see.

use serde_json::Value;

use crate::domain::actor::ServerActor;
use crate::domain::digest;
use crate::domain::fault::Fault;
use crate::domain::forecast::PlanForecast;
use crate::domain::hitl::{Answer, Decision, ExpiryPolicy, FeedbackSchema, InputType, Suspension, SuspensionKind};
use crate::domain::ids::ItemId;
use crate::domain::plan::ItemStatus;
use crate::domain::pointer;
use crate::domain::settings::PlanReview;
use crate::domain::to_value;
use crate::domain::tool::{Judgement, ToolClass, Verdict};
use crate::pes::people::{suspend, verdict};
use crate::pes::plan::{change, edit, forecast};
use crate::pes::settle::{item, suspension};
use crate::pes::state::{EarlyEnd, ReviewQuestion, RunPhase, SentBack, Shape, State, text};
use crate::pes::tx::{EventOutcome, Tx};

/// The member of `modifiedArgs` that holds the edited list.
const EDITED_LIST_MEMBER: &str = "todoList";
/// How much of a person's reason goes into the planner's prompt, in characters.
pub(crate) const MAX_REASON_CHARS: usize = 2_000;
/// How many tools the question lists.
const MAX_LISTED_TOOLS: usize = 10;

/// What an answer to a review means.
pub(crate) enum ReviewDecision {
    /// The plan runs as it is now. The digest is that of an edited plan.
    Run(Option<String>),
    /// The planner makes another plan; `by` gave this reason.
    Replan { reason: String, by: String },
    /// The run ends, for this reason.
    EndRun(String),
}

impl ReviewDecision {
    /// The digest of the plan that runs now, if it was edited.
    pub(crate) fn digest(&self) -> Option<&str> {
        match self {
            ReviewDecision::Run(digest) => digest.as_deref(),
            ReviewDecision::Replan { .. } | ReviewDecision::EndRun(_) => None,
        }
    }
}

/// Keeps the question in step with the plan: a version that was not approved is asked about, and the question is
/// withdrawn when the plan has changed or nothing of it is left to begin. Must be called before anything of the plan
/// may begin.
pub(crate) fn ask_if_wanted(tx: &mut Tx<'_>) {
    if tx.state.shape != Shape::Planned || tx.state.is_cancelling() || tx.state.is_reviewed() {
        return;
    }
    let version = tx.state.head.plan_version;
    let is_left = tx.state.list.iter().any(|item| item.progress.status == ItemStatus::Pending);
    let asked = tx.active().review.question.clone();
    match &asked {
        Some(asked) if asked.version == version && is_left => return,
        Some(_) if is_left => withdraw(tx, "the plan was changed"),
        Some(_) => withdraw(tx, "nothing of the plan is left to begin"),
        None => {}
    }
    // Another plan will be made.
    if !is_left || tx.state.is_refinement_due() {
        return;
    }
    let plan = forecast::forecast(tx.state, tx.world, tx.state.run_settings());
    let is_wanted = match tx.state.run_settings().execution.plan_review {
        PlanReview::Off => false,
        // A person who was asked once is asked again about the changed plan; one who rejected the plan is asked again
        // until one is approved.
        PlanReview::Risky => plan.risky || asked.is_some() || tx.active().review.is_rejected(),
        PlanReview::Always => true,
    };
    if is_wanted { ask(tx, &plan) } else { tx.active().review.passed = Some(version) }
}

fn ask(tx: &mut Tx<'_>, plan: &PlanForecast) {
    let prompt = "May this plan run? A no with a reason has another plan made.";
    let schema = FeedbackSchema { allow_modify_args: true, ..FeedbackSchema::new(InputType::Confirm, prompt) };
    let question = suspend::question(tx, SuspensionKind::PlanReview, question_text(plan), schema);
    let shown = to_value(plan);
    let digest = digest::of(&shown);
    let shown = tx.store(format!("{}.plan", question.suspension_id), shown);
    let risk_level = plan.tools.iter().filter_map(|tool| tool.risk_level).max();
    let asked = ReviewQuestion { suspension: question.suspension_id.clone(), version: plan.plan_version };
    tx.active().review.question = Some(asked);
    suspend::open(tx, Suspension { plan: Some(shown), digest: Some(digest), risk_level, ..question });
}

/// Withdraws the open question.
pub(crate) fn withdraw(tx: &mut Tx<'_>, why: &str) {
    if let Some(asked) = tx.active().review.question.take() {
        suspension::close(tx, &asked.suspension, Decision::Cancelled, ServerActor::Engine, Some(why.to_owned()));
    }
}

/// Determines what an answer means. An edited plan is applied here, because its digest is part of the answer.
pub(crate) fn judge(tx: &mut Tx<'_>, answer: Answer, by: &str) -> Result<(Decision, ReviewDecision), Fault> {
    match (answer.approved, answer.modified_args) {
        (None, _) => Err(verdict::invalid("/approved", "a plan needs true or false")),
        (Some(true), None) => Ok((Decision::Approved, ReviewDecision::Run(None))),
        (Some(true), Some(edited)) => judge_edited(tx, edited, by),
        (Some(false), _) => Ok((Decision::Rejected, rejected(tx.state, answer.reason, by))),
    }
}

fn judge_edited(tx: &mut Tx<'_>, edited: Value, by: &str) -> Result<(Decision, ReviewDecision), Fault> {
    let list = edited_list(edited)?;
    let (version, settings) = (tx.state.head.plan_version, tx.state.run_settings().clone());
    let in_answer = format!("/modifiedArgs/{EDITED_LIST_MEMBER}");
    match edit::edit(tx, version, list, by, &settings).map_err(|fault| fault.below(&in_answer))? {
        EventOutcome::Ignored => Ok((Decision::Approved, ReviewDecision::Run(None))),
        EventOutcome::Applied => {
            let plan = to_value(&forecast::forecast(tx.state, tx.world, tx.state.run_settings()));
            Ok((Decision::Modified, ReviewDecision::Run(Some(digest::of(&plan)))))
        }
    }
}

/// A rejection with a reason has the planner make another plan, as often as an item may call a model; without one, the
/// run ends.
fn rejected(state: &State, reason: Option<String>, by: &str) -> ReviewDecision {
    let most = state.run_settings().execution.max_iterations.max(1);
    let rejections = state.review().map_or(0, |review| review.rejections);
    match reason.map(|reason| reason.trim().to_owned()).filter(|reason| !reason.is_empty()) {
        None => ReviewDecision::EndRun("a person said no".into()),
        Some(reason) if rejections < most => ReviewDecision::Replan { reason, by: by.to_owned() },
        Some(reason) => ReviewDecision::EndRun(format!("after {most} other plans a person said: {reason}")),
    }
}

/// Applies the answer; its question is closed already. `Some`: the run ends, for this reason.
pub(crate) fn apply(tx: &mut Tx<'_>, reviewed: ReviewDecision) -> Option<String> {
    tx.active().review.question = None;
    match reviewed {
        ReviewDecision::Run(_) => {
            let version = tx.state.head.plan_version;
            let review = &mut tx.active().review;
            review.passed = Some(version);
            review.settled_rejections = review.rejections;
            None
        }
        ReviewDecision::Replan { reason, by } => {
            // Telling the planner what to do is steering the run.
            tx.add_requesters(&[by]);
            let reason = text::cut(&reason, MAX_REASON_CHARS);
            change::note(tx, None, format!("A person rejected this plan before it ran: {reason}\nMake another plan."));
            let review = &mut tx.active().review;
            review.rejections += 1;
            review.sent_back = SentBack::Due;
            None
        }
        ReviewDecision::EndRun(why) => Some(why),
    }
}

/// Where plans are reviewed, a call that reaches out or cannot be undone asks a person if the plan did not show its
/// tool for the step: nobody approved that tool.
pub(crate) fn require_approval_of_unnamed(state: &State, id: &ItemId, tool: &str, judgement: Judgement) -> Judgement {
    let is_reviewed = state.shape == Shape::Planned && state.run_settings().execution.plan_review != PlanReview::Off;
    if !is_reviewed || state.item(id).is_none_or(|item| forecast::shows(item, tool)) {
        return judgement;
    }
    let (class, idempotent, delegates) = match judgement.verdict {
        Verdict::Run { class, idempotent } if class.reaches_out() => (class, idempotent, false),
        Verdict::Delegate => (ToolClass::External, false, true),
        Verdict::Run { .. } | Verdict::Ask { .. } | Verdict::Input { .. } | Verdict::Client | Verdict::Refuse(_) => {
            return judgement;
        }
    };
    let message = format!("The plan did not name `{tool}` for step {id}. May it run with these arguments?");
    Judgement { verdict: suspend::ask_first(class, idempotent, delegates, message), ..judgement }
}

/// Nobody answered in time: how the run ends.
pub(crate) fn on_expired(tx: &mut Tx<'_>, policy: ExpiryPolicy) -> EarlyEnd {
    tx.active().review.question = None;
    match policy {
        ExpiryPolicy::Fail => EarlyEnd::TimedOut,
        ExpiryPolicy::Deny | ExpiryPolicy::Remind => EarlyEnd::Rejected,
    }
}

/// The planner was to make another plan and answered without one: the rejected plan is cancelled. `true`: nothing was
/// done before, so the answer is the run's.
pub(crate) fn drop_rejected(tx: &mut Tx<'_>) -> bool {
    let is_replanning = tx.state.review().is_some_and(|review| review.sent_back == SentBack::Told);
    if !is_replanning || tx.state.phase() != RunPhase::Refining || tx.state.is_refinement_due() {
        return false;
    }
    let is_nothing_done = tx.state.is_nothing_done();
    item::cancel_pending(tx, "the plan was rejected");
    is_nothing_done
}

/// Reads the whole list that a person sends in place of the plan's.
fn edited_list(edited: Value) -> Result<Vec<Value>, Fault> {
    let wrong = |place: &str, why: &str| Err(verdict::invalid(&format!("/modifiedArgs{place}"), why));
    let Value::Object(mut members) = edited else { return wrong("", "must be an object with `todoList`") };
    let list = members.remove(EDITED_LIST_MEMBER);
    if let Some(name) = members.keys().next() {
        return wrong(&format!("/{}", pointer::token(name)), "is unknown; of a plan only `todoList` can be changed");
    }
    match list {
        Some(Value::Array(list)) => Ok(list),
        Some(_) => wrong("/todoList", "must be the whole list of items"),
        None => wrong("/todoList", "is missing: the whole list of items"),
    }
}

/// The question in words: how many steps, and which risky tools.
fn question_text(plan: &PlanForecast) -> String {
    let open = plan.items.iter().filter(|item| !item.status.is_settled()).count();
    let risky: Vec<&str> =
        plan.tools.iter().filter(|tool| tool.is_risky()).map(|tool| tool.tool_name.as_str()).collect();
    let steps = if open == 1 { "1 step".to_owned() } else { format!("{open} steps") };
    let more = if risky.len() > MAX_LISTED_TOOLS { ", …" } else { "" };
    let named = risky[..risky.len().min(MAX_LISTED_TOOLS)].join(", ");
    if risky.is_empty() {
        format!("May this plan run? {steps} to do.")
    } else {
        format!("May this plan run? {steps} to do, which may call {named}{more}.")
    }
}
