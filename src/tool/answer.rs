//! Validates a person's answer against the form of the question.

use serde_json::Value;

use super::schema::{Schema, describe};
use crate::domain::depth::{MOST_DEPTH, exceeds};
use crate::domain::fault::{Code, Fault};
use crate::domain::hitl::{FeedbackSchema, InputType};
use crate::domain::tool::{CallCode, ToolError};
use std::collections::HashSet;

/// How many options an error message lists.
const MAX_LISTED_OPTIONS: usize = 20;

/// Checks that the form itself is usable, before anybody sees it.
pub fn check_form(form: &FeedbackSchema) -> Result<(), ToolError> {
    let refuse = |pointer: &str, message: String| Err(ToolError::new(CallCode::InvalidArguments, message).at(pointer));
    match form.input_type {
        InputType::Select | InputType::Multiselect if form.options.is_empty() => {
            refuse("/options", "A selection needs at least one option.".to_owned())
        }
        InputType::Custom => match &form.custom_schema {
            None => refuse("/schema", "A custom question needs a JSON Schema.".to_owned()),
            Some(schema) => match Schema::compile(schema) {
                Ok(_) => Ok(()),
                Err(error) => refuse(
                    &format!("/schema{}", error.pointer),
                    format!("This JSON Schema cannot be used: {}", describe(&error)),
                ),
            },
        },
        InputType::Boolean
        | InputType::Text
        | InputType::Select
        | InputType::Multiselect
        | InputType::Number
        | InputType::Date
        | InputType::Datetime
        | InputType::File
        | InputType::Confirm => Ok(()),
    }
}

/// Checks that `value` is a valid answer; the fault points into the request's `value`. A question that takes text also
/// takes the objects of its schema, if it has one.
pub fn check(form: &FeedbackSchema, value: &Value) -> Result<(), Fault> {
    if exceeds(value, MOST_DEPTH) {
        let detail = format!("Objects and arrays in the answer nest deeper than {MOST_DEPTH}.");
        return Err(Fault::new(Code::Invalid, detail).at("/value", format!("nests deeper than {MOST_DEPTH}")));
    }
    let fits = match form.input_type {
        InputType::Boolean | InputType::Confirm => value.is_boolean(),
        InputType::Text if value.is_object() && form.custom_schema.is_some() => return check_custom(form, value),
        InputType::Text => value.is_string(),
        InputType::Number => value.is_number(),
        InputType::Select => is_option(form, value),
        InputType::Multiselect => is_selection(form, value),
        InputType::Date => {
            value.as_str().is_some_and(|text| text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok())
        }
        InputType::Datetime => value.as_str().is_some_and(|text| text.parse::<jiff::Timestamp>().is_ok()),
        InputType::File => value.as_str().is_some_and(|text| !text.is_empty()) || value.is_object(),
        InputType::Custom => return check_custom(form, value),
    };
    if fits {
        return Ok(());
    }
    let expected = expected(form);
    Err(Fault::new(Code::Invalid, format!("The answer must be {expected}.")).at("/value", format!("is not {expected}")))
}

fn check_custom(form: &FeedbackSchema, value: &Value) -> Result<(), Fault> {
    let Some(schema) = &form.custom_schema else {
        return Ok(());
    };
    match Schema::compile(schema) {
        Ok(schema) => schema.check_member("/value", value),
        Err(error) => {
            Err(Fault::new(Code::Invalid, format!("The question's own schema cannot be used: {}", describe(&error))))
        }
    }
}

fn is_option(form: &FeedbackSchema, value: &Value) -> bool {
    form.options.iter().any(|option| option.value == *value)
}

/// Every value is one of the options and occurs once. Linear in both lists.
fn is_selection(form: &FeedbackSchema, value: &Value) -> bool {
    let Some(chosen) = value.as_array().filter(|chosen| chosen.len() <= form.options.len()) else {
        return false;
    };
    let mut unused: HashSet<&Value> = form.options.iter().map(|option| &option.value).collect();
    chosen.iter().all(|one| unused.remove(one))
}

fn expected(form: &FeedbackSchema) -> String {
    let options = || {
        let named = form.options.iter().take(MAX_LISTED_OPTIONS).map(|option| option.value.to_string());
        let mut options = named.collect::<Vec<_>>().join(", ");
        if form.options.len() > MAX_LISTED_OPTIONS {
            options.push_str(&format!(" … ({} in all)", form.options.len()));
        }
        options
    };
    match form.input_type {
        InputType::Boolean | InputType::Confirm => "true or false".to_owned(),
        InputType::Text => "text".to_owned(),
        InputType::Number => "a number".to_owned(),
        InputType::Select => format!("one of {}", options()),
        InputType::Multiselect => format!("a list of different values out of {}", options()),
        InputType::Date => "a date such as 2026-01-31".to_owned(),
        InputType::Datetime => "a time such as 2026-01-31T12:00:00Z".to_owned(),
        InputType::File => "a file: its URL or an object that describes it".to_owned(),
        InputType::Custom => "what its schema says".to_owned(),
    }
}
