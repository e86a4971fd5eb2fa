//! A question on a terminal: everything that the decision needs, uncut, and the possible answers.

use serde::Deserialize as _;
use serde_json::{Value, json};

use super::forecast;
use super::plan_view::{consequence, kind, rule, subject};
use super::show::{block, cut, fill, line, span, width};
use super::terminal::Style;
use crate::domain::Millis;
use crate::domain::forecast::PlanForecast;
use crate::domain::hitl::{
    AskedQuestion, ExpiryPolicy, FeedbackSchema, InputType, RiskLevel, SelectOption, SuspensionKind,
};

pub(super) fn card(asked: &AskedQuestion, now: Millis, style: Style) -> String {
    let mark = if style.unicode { "◆" } else { "!" };
    let mut head = format!("{mark} {}", subject(asked));
    if asked.tool_name.is_some() && asked.kind != SuspensionKind::Approval {
        head.push_str(&format!(" ({})", kind(asked.kind)));
    }
    head.push_str(match asked.risk_level {
        Some(RiskLevel::Critical) => "  critical risk",
        Some(RiskLevel::High) => "  high risk",
        Some(RiskLevel::Medium) => "  medium risk",
        Some(RiskLevel::Low) | None => "",
    });
    if let Some(words) = asked.class.and_then(consequence) {
        head.push_str(&format!("  {words}"));
    }
    if let Some(rule) = rule(asked) {
        head.push_str(&format!("  rule {rule}"));
    }
    let mut lines = vec![head, indented(&asked.message)];
    let prompt = beyond(&asked.feedback_schema.prompt, &asked.message);
    if !prompt.is_empty() {
        lines.push(indented(prompt));
    }
    lines.extend(asked.plan.as_ref().map(plan));
    lines.extend(asked.tool_input.as_ref().map(arguments));
    lines.extend(asked.digest.as_ref().map(|digest| format!("  digest {}", grouped(digest, style))));
    lines.extend(options(asked));
    if let Some(at) = asked.expires_at {
        let then = match asked.expiry_policy {
            Some(ExpiryPolicy::Deny) | None => "it is refused",
            Some(ExpiryPolicy::Fail) if asked.call_id.is_some() => "its item fails",
            Some(ExpiryPolicy::Fail) => "the run ends",
            Some(ExpiryPolicy::Remind) => "you are reminded",
        };
        lines.push(format!("  {} left, then {then}", span(at - now)));
    }
    lines.join("\n")
}

/// The longest short form of arguments and options, and the longest value in it.
const SHORT: usize = 100;
const SHORT_VALUE: usize = 40;

/// What a list shows of a question besides its message: the arguments of the call that is decided on, or the options. Cut.
pub(super) fn brief(asked: &AskedQuestion) -> String {
    let told = match asked.kind {
        SuspensionKind::Approval | SuspensionKind::InDoubt | SuspensionKind::ClientTool => {
            asked.tool_input.as_ref().map(short_arguments)
        }
        SuspensionKind::Input | SuspensionKind::PeerInput | SuspensionKind::PeerAuth => {
            let options: Vec<String> = asked.feedback_schema.options.iter().map(|one| written(&one.value)).collect();
            (!options.is_empty()).then(|| format!("of {}", options.join(", ")))
        }
        SuspensionKind::PlanReview | SuspensionKind::Budget | SuspensionKind::Pause => None,
    };
    cut(&told.unwrap_or_default(), SHORT)
}

fn short_arguments(input: &Value) -> String {
    let Value::Object(members) = input else { return written(input) };
    let members = members.iter().map(|(name, value)| format!("{}: {}", line(name), cut(&written(value), SHORT_VALUE)));
    members.collect::<Vec<_>>().join(", ")
}

/// What a form's prompt adds to the message: both may begin with the same question.
fn beyond<'p>(prompt: &'p str, message: &str) -> &'p str {
    if prompt == message {
        return "";
    }
    let repeats = |question: &str| message.strip_prefix(question).is_some_and(|more| more.starts_with('?'));
    prompt.split_once("? ").filter(|(question, _)| repeats(question)).map_or(prompt, |(_, rest)| rest)
}

/// The first digits in groups, for people to compare; the whole digest is sent.
fn grouped(digest: &str, style: Style) -> String {
    let digits: Vec<char> = digest.chars().take(12).collect();
    digits.chunks(4).map(String::from_iter).collect::<Vec<_>>().join(" ") + if style.unicode { "…" } else { "~" }
}

fn indented(text: &str) -> String {
    block(text).lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

/// Never cut: the person approves all of it.
fn plan(plan: &Value) -> String {
    match PlanForecast::deserialize(plan) {
        Ok(known) => forecast::lines(&known).iter().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n"),
        // Written by another version.
        Err(_) => indented(&format!("{plan:#}")),
    }
}

/// Never cut: the call runs with exactly these arguments.
fn arguments(input: &Value) -> String {
    let Value::Object(members) = input else { return indented(&format!("{input:#}")) };
    let names = members.keys().map(|name| width(&line(name))).max().unwrap_or(0).min(24);
    let member = |(name, value): (&String, &Value)| {
        let value = match value {
            Value::String(text) => block(text),
            // JSON leaves most invisible characters unescaped.
            Value::Array(_) | Value::Object(_) => block(&format!("{value:#}")),
            Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
        };
        let mut rows = value.lines();
        let first = rows.next().unwrap_or_default();
        let rest: String = rows.map(|row| format!("\n    {}{row}", " ".repeat(names + 2))).collect();
        format!("    {}  {first}{rest}", fill(&line(name), names))
    };
    members.iter().map(member).collect::<Vec<_>>().join("\n")
}

/// Those of a call in doubt are in the prompt.
fn options(asked: &AskedQuestion) -> Option<String> {
    let options = &asked.feedback_schema.options;
    let option = |option: &SelectOption| match (written(&option.value), line(&option.label)) {
        (value, label) if value == label => format!("    {value}"),
        (value, label) => format!("    {value}  {label}"),
    };
    (!options.is_empty() && asked.kind != SuspensionKind::InDoubt)
        .then(|| options.iter().map(option).collect::<Vec<_>>().join("\n"))
}

/// The input that is accepted.
pub(super) fn prompt(asked: &AskedQuestion) -> &'static str {
    match asked.kind {
        SuspensionKind::Approval | SuspensionKind::PlanReview if asked.feedback_schema.allow_modify_args => {
            "[a]pprove  [e]dit in $EDITOR and approve  [x] reject  [l]ater  > "
        }
        SuspensionKind::Approval | SuspensionKind::PlanReview => "[a]pprove  [x] reject  [l]ater  > ",
        SuspensionKind::InDoubt => "[r]etry  [d]one with a result  [s]kip  [b] abort the item  [l]ater  > ",
        SuspensionKind::Pause => "[a] go on  [l]ater  > ",
        SuspensionKind::Budget => "[a] go on  [x] stop  [l]ater  > ",
        SuspensionKind::Input | SuspensionKind::ClientTool | SuspensionKind::PeerInput | SuspensionKind::PeerAuth => {
            "your answer (empty: later) > "
        }
    }
}

/// A value in one line; of an option as it is typed.
fn written(value: &Value) -> String {
    line(&value.as_str().map_or_else(|| value.to_string(), str::to_owned))
}

/// Converts typed text to the value that the question's form expects.
pub(super) fn value(text: &str, form: &FeedbackSchema) -> Value {
    let parsed = serde_json::from_str(text).ok();
    match form.input_type {
        InputType::Text | InputType::Date | InputType::Datetime => Value::String(text.to_owned()),
        InputType::Select => option_or_text(text, form),
        InputType::Boolean | InputType::Confirm => match text.to_lowercase().as_str() {
            "y" | "yes" => Value::Bool(true),
            "n" | "no" => Value::Bool(false),
            _ => parsed.unwrap_or_else(|| Value::String(text.to_owned())),
        },
        InputType::Multiselect => match (parsed, option_called(text, form)) {
            (Some(Value::Array(chosen)), _) => chosen
                .into_iter()
                .map(|one| match one {
                    Value::String(text) => option_or_text(&text, form),
                    one => one,
                })
                .collect(),
            // The label of an option may contain a comma.
            (_, Some(only)) => json!([only]),
            (_, None) => text.split(',').map(|one| option_or_text(one, form)).collect(),
        },
        InputType::Number | InputType::File | InputType::Custom => {
            parsed.unwrap_or_else(|| Value::String(text.to_owned()))
        }
    }
}

/// The result that a person gives for a call. Text that begins like JSON and is none is refused: it would be taken for what the
/// call returned.
pub(super) fn result(text: &str) -> Result<Value, String> {
    match serde_json::from_str(text) {
        Ok(value) => Ok(value),
        Err(error) if text.trim_start().starts_with(['{', '[', '"']) => Err(format!("it begins like JSON: {error}")),
        Err(_) => Ok(Value::String(text.to_owned())),
    }
}

/// Finds an option by its value, else by its label.
fn option_called(text: &str, form: &FeedbackSchema) -> Option<Value> {
    let text = line(text);
    let by_value = form.options.iter().find(|option| written(&option.value) == text);
    let found = by_value.or_else(|| form.options.iter().find(|option| line(&option.label) == text));
    found.map(|option| option.value.clone())
}

/// Text that names no option is sent unchanged: the server decides whether to accept it.
fn option_or_text(text: &str, form: &FeedbackSchema) -> Value {
    option_called(text, form).unwrap_or_else(|| Value::String(text.trim().to_owned()))
}

#[cfg(test)]
mod tests;
