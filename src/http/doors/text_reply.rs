//! A person's answer to a question, where a wire has nothing but text for it.

use serde_json::Value;

use crate::domain::depth;
use crate::domain::hitl::{Answer, FeedbackSchema, InDoubtAction, InputType, Suspension, SuspensionKind};

const YES: [&str; 8] = ["yes", "y", "ok", "approve", "approved", "true", "go ahead", "allow"];
const NO: [&str; 8] = ["no", "n", "reject", "rejected", "deny", "denied", "false", "stop"];

/// An answer that says nothing yet.
pub(super) fn blank(open: &Suspension) -> Answer {
    Answer {
        suspension_id: open.suspension_id.clone(),
        digest: None,
        approved: None,
        value: None,
        modified_args: None,
        reason: None,
        action: None,
    }
}

/// What the text says to the question; or why it says nothing.
pub(super) fn answer(open: &Suspension, text: &str) -> Result<Answer, String> {
    let (blank, said) = (blank(open), text.trim());
    match open.kind {
        SuspensionKind::Input | SuspensionKind::ClientTool | SuspensionKind::PeerInput | SuspensionKind::PeerAuth => {
            Ok(Answer { value: Some(value(&open.feedback_schema, said)?), ..blank })
        }
        SuspensionKind::Approval | SuspensionKind::PlanReview | SuspensionKind::Budget => {
            let approved = yes_or_no(said).ok_or("Answer yes or no.")?;
            Ok(Answer { approved: Some(approved), ..blank })
        }
        SuspensionKind::InDoubt => {
            let action: Option<InDoubtAction> = serde_json::from_value(said.to_lowercase().into()).ok();
            Ok(Answer { action: Some(action.ok_or("Answer retry, done, skip or abort.")?), ..blank })
        }
        SuspensionKind::Pause if is_yes(said) => Ok(Answer { approved: Some(true), ..blank }),
        SuspensionKind::Pause => Err("It is paused; answer yes to let it go on.".to_owned()),
    }
}

/// Whether the text says yes and nothing else.
fn is_yes(said: &str) -> bool {
    yes_or_no(said) == Some(true)
}

fn yes_or_no(said: &str) -> Option<bool> {
    let said = said.trim_end_matches(['.', '!']).to_lowercase();
    match (YES.contains(&&*said), NO.contains(&&*said)) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        (false, false) => None,
    }
}

/// What is meant by this text, as the question's form wants it; whether it fits is judged with every other answer.
fn value(form: &FeedbackSchema, said: &str) -> Result<Value, String> {
    let json = || depth::read(said.as_bytes()).ok();
    let option = |said: &str| {
        let meant = |label: &str| label.eq_ignore_ascii_case(said);
        let found = form.options.iter().find(|it| meant(&it.label) || it.value.as_str().is_some_and(meant));
        found.map_or_else(|| Value::from(said), |found| found.value.clone())
    };
    Ok(match form.input_type {
        InputType::Text | InputType::Date | InputType::Datetime | InputType::File => said.into(),
        InputType::Boolean | InputType::Confirm => yes_or_no(said).ok_or("Answer yes or no.")?.into(),
        InputType::Number => json().filter(Value::is_number).ok_or("Answer with a number.")?,
        InputType::Select => option(said),
        InputType::Multiselect => said.split(',').map(|one| option(one.trim())).collect(),
        InputType::Custom => json().unwrap_or_else(|| said.into()),
    })
}
