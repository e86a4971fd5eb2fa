//! Interprets what is typed at a question.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::answer::{Draft, edited};
use super::card;
use super::input::Input;
use super::terminal::ask;
use crate::cli::Error;
use crate::domain::hitl::{AskedQuestion, SuspensionKind};

/// The meaning of the input.
pub(super) enum Typed {
    /// Members of the body of `POST /threads/{id}/resume`.
    Answer(Value),
    /// An approval with other arguments.
    Edited(Draft),
    Later,
    /// Invalid input: ask again.
    Again(String),
}

pub(super) fn show(asked: &AskedQuestion) {
    ask(card::prompt(asked));
}

/// Asks for what the answer needs besides its letter. `kept`: the text that was edited for this question and not accepted.
pub(super) async fn understood(
    asked: &AskedQuestion,
    text: &str,
    input: &mut Input,
    kept: &mut Option<PathBuf>,
) -> Result<Typed, Error> {
    let letter = text.to_lowercase();
    let is_choice = !matches!(
        asked.kind,
        SuspensionKind::Input | SuspensionKind::ClientTool | SuspensionKind::PeerInput | SuspensionKind::PeerAuth
    );
    if !is_choice {
        return Ok(match text {
            "" => Typed::Later,
            text => Typed::Answer(json!({ "value": card::value(text, &asked.feedback_schema) })),
        });
    }
    Ok(match (asked.kind, letter.as_str()) {
        (_, "l" | "later") => Typed::Later,
        (SuspensionKind::InDoubt, "r" | "retry") => Typed::Answer(json!({ "action": "retry" })),
        (SuspensionKind::InDoubt, "s" | "skip") => Typed::Answer(json!({ "action": "skip" })),
        (SuspensionKind::InDoubt, "b" | "abort") => Typed::Answer(json!({ "action": "abort" })),
        (SuspensionKind::InDoubt, "d" | "done") => {
            let Some(result) = more("Its result: ", input).await? else { return Ok(nothing_sent()) };
            match card::result(&result) {
                Ok(value) => Typed::Answer(json!({ "action": "done", "value": value })),
                Err(why) => Typed::Again(format!("This is no result: {why}.")),
            }
        }
        (SuspensionKind::InDoubt, _) => Typed::Again("Type r, d, s, b or l.".to_owned()),
        (SuspensionKind::Pause, "a") => Typed::Answer(json!({})),
        (SuspensionKind::Pause, _) => Typed::Again("Type a or l.".to_owned()),
        (_, "a" | "approve" | "y" | "yes") => Typed::Answer(json!({ "approved": true })),
        (_, "x" | "reject" | "n" | "no") => {
            let mut said = more("Why not? ", input).await?;
            if let Some(again) = without_reason(asked.kind).filter(|_| said.as_deref() == Some("")) {
                said = more(&format!("{again} Why not? "), input).await?;
            }
            let Some(reason) = said else { return Ok(nothing_sent()) };
            Typed::Answer(json!({ "approved": false, "reason": reason }))
        }
        (SuspensionKind::Approval, "e" | "edit") if asked.feedback_schema.allow_modify_args => {
            changed(asked.tool_input.as_ref(), kept)?
        }
        (SuspensionKind::PlanReview, "e" | "edit") => changed(asked.plan.as_ref().map(todo_list).as_ref(), kept)?,
        (_, _) => Typed::Again("Type the letter of an answer.".to_owned()),
    })
}

/// What a refusal without a reason does; `None`: a reason would change nothing.
fn without_reason(kind: SuspensionKind) -> Option<&'static str> {
    match kind {
        SuspensionKind::PlanReview => Some("Without a reason the run ends; with one, another plan is made."),
        SuspensionKind::Approval => {
            Some("The model gets the reason; without one it only learns that a person said no.")
        }
        SuspensionKind::Budget
        | SuspensionKind::Pause
        | SuspensionKind::InDoubt
        | SuspensionKind::Input
        | SuspensionKind::ClientTool
        | SuspensionKind::PeerInput
        | SuspensionKind::PeerAuth => None,
    }
}

fn changed(value: Option<&Value>, kept: &mut Option<PathBuf>) -> Result<Typed, Error> {
    Ok(match edited(value.unwrap_or(&Value::Null), kept)? {
        Some(draft) => Typed::Edited(draft),
        None => Typed::Again("Nothing was changed.".to_owned()),
    })
}

/// The list to approve for a plan under review: its items without what the forecast adds to them. Everything else stays,
/// so that an item that nobody edits is sent as it is.
fn todo_list(plan: &Value) -> Value {
    let mut items = plan["items"].as_array().cloned().unwrap_or_default();
    for item in items.iter_mut().filter_map(Value::as_object_mut) {
        item.retain(|name, _| !["mayCall", "mayCallAny"].contains(&name.as_str()));
    }
    json!({ "todoList": items })
}

fn nothing_sent() -> Typed {
    Typed::Again("\nNothing was sent.".to_owned())
}

/// `None`: the input was closed, which is no answer.
async fn more(question: &str, input: &mut Input) -> Result<Option<String>, Error> {
    ask(question);
    Ok(input.line().await?.map(|text| text.trim().to_owned()))
}

#[cfg(test)]
mod tests;
