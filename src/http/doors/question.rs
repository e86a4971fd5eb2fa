//! A question to a person as text, for wires that have no place for it, and what such a text is answered with.
//!
//! The text is made of what was asked alone: whoever renders it, whenever, comes to the same bytes.

use serde_json::Value;

use super::text_reply;
use crate::domain::console_urls::ConsoleUrls;
use crate::domain::hitl::{Answer, AskedQuestion, InputType, RiskLevel, Suspension, SuspensionKind};

/// Of arguments as much is shown, in bytes. Nobody approves by a word what he has not seen whole.
const MOST_SHOWN: usize = 2048;

/// What a person is asked, with how to answer.
pub(super) fn text(asked: &AskedQuestion, urls: Option<&ConsoleUrls>) -> String {
    let mut parts = vec![asked.message.trim().to_owned()];
    let (shown, _) = shown(asked);
    if let Some(tool) = &asked.tool_name {
        parts.push(format!("Tool `{tool}`:"));
    }
    if !shown.is_empty() {
        parts.push(shown);
    }
    let place = urls.map(|urls| urls.question(&asked.suspension_id));
    parts.push(match (how(asked), place) {
        (Some(how), Some(place)) => format!("{how} Or answer at {place}"),
        (Some(how), None) => how,
        (None, Some(place)) => format!("Answer at {place}"),
        (None, None) => "Answer it in the page of this server, under Questions.".to_owned(),
    });
    parts.join("\n\n")
}

/// What a person's text answers; `None`: it does not, and the question is put again.
pub(super) fn answer(open: &Suspension, said: &str) -> Option<Answer> {
    how(&open.asked())?;
    let bare = said.trim().trim_end_matches(['.', '!']);
    let answer = match open.kind {
        SuspensionKind::Approval | SuspensionKind::PlanReview | SuspensionKind::Budget => match refused(said) {
            Some(reason) => Answer { approved: Some(false), reason: Some(reason), ..text_reply::blank(open) },
            None => text_reply::answer(open, said).ok()?,
        },
        SuspensionKind::Pause if !text_reply::is_yes(bare) => return None,
        SuspensionKind::Pause
        | SuspensionKind::Input
        | SuspensionKind::ClientTool
        | SuspensionKind::PeerInput
        | SuspensionKind::PeerAuth
        | SuspensionKind::InDoubt => text_reply::answer(open, said).ok()?,
    };
    Some(Answer { digest: open.digest.clone(), ..answer })
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
    let is_whole = shown(asked).1;
    let is_grave = asked.risk_level.is_some_and(|risk| risk >= RiskLevel::High);
    match asked.kind {
        SuspensionKind::Approval | SuspensionKind::PlanReview => {
            (is_whole && !is_grave).then(|| "Reply `yes` to approve or `no` to reject.".to_owned())
        }
        SuspensionKind::Budget => Some("Reply `yes` to go on or `no` to end here.".to_owned()),
        SuspensionKind::Pause => Some("Reply `yes` to go on.".to_owned()),
        SuspensionKind::InDoubt => Some("Reply `retry`, `done`, `skip` or `abort`.".to_owned()),
        SuspensionKind::Input | SuspensionKind::PeerInput | SuspensionKind::PeerAuth | SuspensionKind::ClientTool => {
            Some(how_to_say(asked))
        }
    }
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
