//! Parses a person's answer to a question from plain text, for wire formats that have nothing else.

use serde_json::Value;

use crate::domain::depth;
use crate::domain::hitl::{Answer, FeedbackSchema, InDoubtAction, InputType, Suspension, SuspensionKind};
use crate::domain::ids::SuspensionId;

const YES: [&str; 8] = ["yes", "y", "ok", "approve", "approved", "true", "go ahead", "allow"];
const NO: [&str; 8] = ["no", "n", "reject", "rejected", "deny", "denied", "false", "stop"];

/// An answer to this question with no content yet.
pub(super) fn empty_answer(id: &SuspensionId) -> Answer {
    Answer {
        suspension_id: id.clone(),
        digest: None,
        approved: None,
        value: None,
        modified_args: None,
        reason: None,
        action: None,
    }
}

/// Parses the text as an answer to the question. The error says how to answer.
pub(super) fn answer(open: &Suspension, text: &str) -> Result<Answer, String> {
    let (blank, text) = (empty_answer(&open.suspension_id), text.trim());
    match open.kind {
        SuspensionKind::Input | SuspensionKind::ClientTool | SuspensionKind::PeerInput | SuspensionKind::PeerAuth => {
            Ok(Answer { value: Some(value(&open.feedback_schema, text)?), ..blank })
        }
        SuspensionKind::Approval | SuspensionKind::PlanReview | SuspensionKind::Budget => {
            let approved = yes_or_no(text).ok_or("Answer yes or no.")?;
            Ok(Answer { approved: Some(approved), ..blank })
        }
        SuspensionKind::InDoubt => {
            let action: Option<InDoubtAction> = serde_json::from_value(text.to_lowercase().into()).ok();
            Ok(Answer { action: Some(action.ok_or("Answer retry, done, skip or abort.")?), ..blank })
        }
        SuspensionKind::Pause if is_yes(text) => Ok(Answer { approved: Some(true), ..blank }),
        SuspensionKind::Pause => Err("It is paused; answer yes to let it go on.".to_owned()),
    }
}

/// Whether the text is a plain yes.
fn is_yes(text: &str) -> bool {
    yes_or_no(text) == Some(true)
}

fn yes_or_no(text: &str) -> Option<bool> {
    let text = text.trim_end_matches(['.', '!']).to_lowercase();
    match (YES.contains(&&*text), NO.contains(&&*text)) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        (false, false) => None,
    }
}

/// The value that the text stands for, in the type that the question's form asks for. Whether it fits the form is
/// checked later, as for every other answer.
fn value(form: &FeedbackSchema, text: &str) -> Result<Value, String> {
    let json = || depth::read(text.as_bytes()).ok();
    let option = |text: &str| {
        let meant = |label: &str| label.eq_ignore_ascii_case(text);
        let found = form.options.iter().find(|it| meant(&it.label) || it.value.as_str().is_some_and(meant));
        found.map_or_else(|| Value::from(text), |found| found.value.clone())
    };
    Ok(match form.input_type {
        InputType::Text | InputType::Date | InputType::Datetime | InputType::File => text.into(),
        InputType::Boolean | InputType::Confirm => yes_or_no(text).ok_or("Answer yes or no.")?.into(),
        InputType::Number => json().filter(Value::is_number).ok_or("Answer with a number.")?,
        InputType::Select => option(text),
        InputType::Multiselect => text.split(',').map(|one| option(one.trim())).collect(),
        InputType::Custom => json().unwrap_or_else(|| text.into()),
    })
}
