//! A question to a person as text, for wires that have no place for it, and what such a text is answered with.
//!
//! The text is made of what was asked alone: whoever renders it, whenever, comes to the same bytes.

use serde_json::Value;

use super::text_reply;
use crate::domain::console_urls::ConsoleUrls;
use crate::domain::hitl::{Answer, AskedQuestion, InDoubtAction, InputType, RiskLevel, Suspension, SuspensionKind};

/// Of arguments as much is shown, in bytes. Nobody approves by a word what he has not seen whole.
const MOST_SHOWN: usize = 2048;

/// What a person is asked, with how to answer by the next message.
pub(super) fn text(asked: &AskedQuestion, urls: Option<&ConsoleUrls>) -> String {
    told(asked, how(asked), urls.map(|urls| urls.question(&asked.suspension_id)))
}

/// What a person is asked; `how` it is answered here, and the `place` where it can be answered, too.
pub(super) fn told(asked: &AskedQuestion, how: Option<String>, place: Option<String>) -> String {
    let (about, _) = about(asked);
    let how = match (how, place) {
        (Some(how), Some(place)) => format!("{how} Or answer at {place}"),
        (Some(how), None) => how,
        (None, Some(place)) => format!("Answer at {place}"),
        (None, None) => "Answer it in the page of this server, under Questions.".to_owned(),
    };
    format!("{about}\n\n{how}")
}

/// What is asked, and all that it is about; `None`: that is too long to be shown whole.
pub(super) fn whole(asked: &AskedQuestion) -> Option<String> {
    let (about, is_whole) = about(asked);
    is_whole.then_some(about)
}

/// What is asked, and what it is about; and whether that is all of it.
fn about(asked: &AskedQuestion) -> (String, bool) {
    let mut parts = vec![asked.message.trim().to_owned()];
    if !is_about_a_call(asked.kind) {
        return (parts.remove(0), true);
    }
    let (shown, is_whole) = shown(asked);
    parts.extend(asked.tool_name.as_ref().map(|tool| format!("Tool `{tool}`:")));
    parts.extend(Some(shown).filter(|shown| !shown.is_empty()));
    (parts.join("\n\n"), is_whole)
}

/// What a person's text answers; `None`: it does not, and the question is put again.
pub(super) fn answer(open: &Suspension, said: &str) -> Option<Answer> {
    let asked = open.asked();
    how(&asked)?;
    let answer = match open.kind {
        SuspensionKind::Approval | SuspensionKind::PlanReview | SuspensionKind::Budget => match refused(said) {
            Some(reason) => Answer { approved: Some(false), reason: Some(reason), ..text_reply::blank(open) },
            None => text_reply::answer(open, said).ok()?,
        },
        SuspensionKind::Pause
        | SuspensionKind::Input
        | SuspensionKind::ClientTool
        | SuspensionKind::PeerInput
        | SuspensionKind::PeerAuth
        | SuspensionKind::InDoubt => text_reply::answer(open, said).ok()?,
    };
    let is_offered = match answer.action {
        Some(InDoubtAction::Retry | InDoubtAction::Done) => may_approve(&asked),
        Some(InDoubtAction::Skip | InDoubtAction::Abort) | None => true,
    };
    is_offered.then(|| Answer { digest: open.digest.clone(), ..answer })
}

/// The reason behind a `no, …`.
fn refused(said: &str) -> Option<String> {
    let said = said.trim();
    let rest = said.get(..2).filter(|no| no.eq_ignore_ascii_case("no")).and_then(|_| said.get(2..))?;
    let reason = rest.strip_prefix([',', ':', ';', '.']).or_else(|| rest.strip_prefix(" - "))?.trim();
    (!reason.is_empty()).then(|| reason.to_owned())
}

/// How to answer by text; `None`: not at all.
fn how(asked: &AskedQuestion) -> Option<String> {
    match asked.kind {
        SuspensionKind::Approval | SuspensionKind::PlanReview => {
            may_approve(asked).then(|| "Reply `yes` to approve or `no` to reject.".to_owned())
        }
        SuspensionKind::Budget => Some("Reply `yes` to go on or `no` to end here.".to_owned()),
        SuspensionKind::Pause => Some("Reply `yes` to go on.".to_owned()),
        SuspensionKind::InDoubt if may_approve(asked) => Some("Reply `retry`, `done`, `skip` or `abort`.".to_owned()),
        SuspensionKind::InDoubt => Some("Reply `skip` or `abort`.".to_owned()),
        SuspensionKind::Input | SuspensionKind::PeerInput | SuspensionKind::PeerAuth | SuspensionKind::ClientTool => {
            Some(how_to_say(asked))
        }
    }
}

/// Whether a word may let the call run, or say that it has run: it is shown whole, and is not grave.
fn may_approve(asked: &AskedQuestion) -> bool {
    let is_grave = asked.risk_level.is_some_and(|risk| risk >= RiskLevel::High);
    shown(asked).1 && !is_grave
}

fn how_to_say(asked: &AskedQuestion) -> String {
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

/// Whether people decide about what is called or planned; else the question says all itself.
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

/// What it is about, as a block of JSON; and whether that is all of it.
fn shown(asked: &AskedQuestion) -> (String, bool) {
    let about = match (&asked.tool_input, &asked.plan) {
        (Some(arguments), _) => serde_json::to_string_pretty(arguments).unwrap_or_default(),
        (None, Some(plan)) => steps(plan),
        (None, None) => return (String::new(), true),
    };
    let end = about.floor_char_boundary(MOST_SHOWN);
    let (cut, is_whole) = (&about[..end], end == about.len());
    let more = if is_whole { "" } else { "\n…" };
    // A fence that the arguments cannot close.
    let fence = "`".repeat(longest_run(cut, '`').max(2) + 1);
    (format!("{fence}json\n{cut}{more}\n{fence}"), is_whole)
}

fn longest_run(text: &str, of: char) -> usize {
    text.split(|c| c != of).map(str::len).max().unwrap_or(0)
}

/// The items of a plan that is to run.
fn steps(plan: &Value) -> String {
    let items = plan["todoList"].as_array().map(Vec::as_slice).unwrap_or_default();
    let lines = items.iter().map(|item| format!("- {}", item["description"].as_str().unwrap_or_default()));
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests;
