//! Renders a question to a person as text, for wire formats that have no other form for it, and parses the text that
//! answers it.
//!
//! The text depends only on the question, so every replica renders the same bytes at any time.

use serde_json::Value;

use super::text_reply;
use crate::domain::console_urls::ConsoleUrls;
use crate::domain::hitl::{Answer, AskedQuestion, InDoubtAction, InputType, RiskLevel, Suspension, SuspensionKind};
use crate::domain::question_text;

/// How many bytes of the arguments are shown. Nobody may approve by a text reply what was not shown in full.
const MAX_SHOWN_BYTES: usize = 2048;

/// Where a question is answered if the URL of the page is not known.
const PAGE: &str = "in the page of this server, under Questions.";

/// The question, with instructions to answer by the next message.
pub(super) fn text(asked: &AskedQuestion, urls: Option<&ConsoleUrls>) -> String {
    let url = urls.map(|urls| urls.question(&asked.suspension_id));
    if !can_only_be_rejected(asked) {
        return text_with(asked, Some(instructions(asked)), url);
    }
    let page = url.map_or_else(|| PAGE.to_owned(), |url| format!("at {url}"));
    format!("{}\n\nReply `no` to reject it. Approve it {page}", describe(asked).0)
}

/// The question with these instructions, and with the URL where it can be answered as well.
pub(super) fn text_with(asked: &AskedQuestion, how: Option<String>, url: Option<String>) -> String {
    let (about, _) = describe(asked);
    let how = match (how, url) {
        (Some(how), Some(url)) => format!("{how} Or answer at {url}"),
        (Some(how), None) => how,
        (None, Some(url)) => format!("Answer at {url}"),
        (None, None) => format!("Answer it {PAGE}"),
    };
    format!("{about}\n\n{how}")
}

/// The arguments of the call that it is about, as JSON.
pub(super) fn arguments(asked: &AskedQuestion) -> String {
    asked.tool_input.as_ref().map_or_else(|| "{}".to_owned(), Value::to_string)
}

/// The question with everything that it is about. `None` if that is too long to be shown in full.
pub(super) fn full_text(asked: &AskedQuestion) -> Option<String> {
    let (about, is_whole) = describe(asked);
    is_whole.then_some(about)
}

/// The question and what it is about, and whether that is shown in full.
fn describe(asked: &AskedQuestion) -> (String, bool) {
    let mut parts = vec![asked.message.trim().to_owned()];
    if !is_about_a_call(asked.kind) {
        return (parts.remove(0), true);
    }
    let (shown, is_whole) = subject_block(asked);
    parts.extend(asked.tool_name.as_ref().map(|tool| format!("Tool `{tool}`:")));
    parts.extend(Some(shown).filter(|shown| !shown.is_empty()));
    (parts.join("\n\n"), is_whole)
}

/// Parses a person's text as an answer. `None` if it is no answer: then the question is asked again.
pub(super) fn answer(open: &Suspension, text: &str) -> Option<Answer> {
    let answer = match open.kind {
        SuspensionKind::Approval | SuspensionKind::PlanReview | SuspensionKind::Budget => {
            match rejection_reason(text) {
                Some(reason) => Answer {
                    approved: Some(false),
                    reason: Some(reason),
                    ..text_reply::empty_answer(&open.suspension_id)
                },
                None => text_reply::answer(open, text).ok()?,
            }
        }
        SuspensionKind::Pause
        | SuspensionKind::Input
        | SuspensionKind::ClientTool
        | SuspensionKind::PeerInput
        | SuspensionKind::PeerAuth
        | SuspensionKind::InDoubt => text_reply::answer(open, text).ok()?,
    };
    let lets_it_run = match answer.action {
        Some(InDoubtAction::Retry | InDoubtAction::Done) => true,
        Some(InDoubtAction::Skip | InDoubtAction::Abort) => false,
        None => is_about_a_call(open.kind) && answer.approved == Some(true),
    };
    (!lets_it_run || may_approve(&open.asked())).then(|| Answer { digest: open.digest.clone(), ..answer })
}

/// The reason in `no, <reason>`.
fn rejection_reason(text: &str) -> Option<String> {
    let text = text.trim();
    let rest = text.get(..2).filter(|no| no.eq_ignore_ascii_case("no")).and_then(|_| text.get(2..))?;
    let reason = rest.strip_prefix([',', ':', ';', '.']).or_else(|| rest.strip_prefix(" - "))?.trim();
    (!reason.is_empty()).then(|| reason.to_owned())
}

/// How to answer by text a question that does not only take a rejection.
fn instructions(asked: &AskedQuestion) -> String {
    match asked.kind {
        SuspensionKind::Approval | SuspensionKind::PlanReview => "Reply `yes` to approve or `no` to reject.".to_owned(),
        SuspensionKind::Budget => "Reply `yes` to go on or `no` to end here.".to_owned(),
        SuspensionKind::Pause => "Reply `yes` to go on.".to_owned(),
        SuspensionKind::InDoubt if may_approve(asked) => "Reply `retry`, `done`, `skip` or `abort`.".to_owned(),
        SuspensionKind::InDoubt => "Reply `skip` or `abort`.".to_owned(),
        SuspensionKind::Input | SuspensionKind::PeerInput | SuspensionKind::PeerAuth | SuspensionKind::ClientTool => {
            input_instructions(asked)
        }
    }
}

/// Whether a text can reject the call or the plan, but not approve it.
fn can_only_be_rejected(asked: &AskedQuestion) -> bool {
    match asked.kind {
        SuspensionKind::Approval | SuspensionKind::PlanReview => !may_approve(asked),
        SuspensionKind::Budget
        | SuspensionKind::Pause
        | SuspensionKind::InDoubt
        | SuspensionKind::Input
        | SuspensionKind::PeerInput
        | SuspensionKind::PeerAuth
        | SuspensionKind::ClientTool => false,
    }
}

/// Whether a text may let the call run, or state that it has run: only if the call is shown in full and its risk is
/// below high.
fn may_approve(asked: &AskedQuestion) -> bool {
    let is_grave = asked.risk_level.is_some_and(|risk| risk >= RiskLevel::High);
    subject_block(asked).1 && !is_grave
}

fn input_instructions(asked: &AskedQuestion) -> String {
    let form = &asked.feedback_schema;
    let options: Vec<String> = form.options.iter().map(|option| format!("`{}`", option.label)).collect();
    match form.input_type {
        InputType::Boolean | InputType::Confirm => "Reply `yes` or `no`.".to_owned(),
        InputType::Select => format!("Reply with one of {}.", options.join(", ")),
        InputType::Multiselect => format!("Reply with some of {}, separated by commas.", options.join(", ")),
        InputType::Number => "Reply with a number.".to_owned(),
        InputType::Text | InputType::Date | InputType::Datetime | InputType::File | InputType::Custom => {
            "Reply in your own words.".to_owned()
        }
    }
}

/// Whether the question is about a call or a plan, which must be shown. Other questions are complete by their message.
fn is_about_a_call(kind: SuspensionKind) -> bool {
    match kind {
        SuspensionKind::Approval | SuspensionKind::PlanReview | SuspensionKind::InDoubt => true,
        SuspensionKind::Budget
        | SuspensionKind::Pause
        | SuspensionKind::Input
        | SuspensionKind::PeerInput
        | SuspensionKind::ClientTool
        | SuspensionKind::PeerAuth => false,
    }
}

/// The arguments or the plan, as a block, and whether they are shown in full.
fn subject_block(asked: &AskedQuestion) -> (String, bool) {
    question_text::subject_block(asked, MAX_SHOWN_BYTES)
}

#[cfg(test)]
mod tests;
