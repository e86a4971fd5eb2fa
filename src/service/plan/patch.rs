//! A todo list after an edit, as it was sent: JSON Patch, or a merge patch by item id.
//!
//! A few operations that copy can double the list again and again, and a few that move can nest it without end: what they
//! put somewhere counts as if it had been sent. Each one may shift the whole list, so there may be only so many, and the
//! list stays within twice its length on the way.

use json_patch::{Patch, PatchOperation};
use serde_json::{Map, Value};

use super::PlanPatch;
use crate::config::Limits;
use crate::domain::fault::{Code, Fault};
use crate::domain::plan::FILLED;
use crate::service::Result;

/// What people may write into a list in all, in bytes of JSON, however many patches it grows by: as much as a model may write
/// of one.
const LIST_BYTES: usize = 4 << 20;

pub(super) fn apply(mut list: Value, patch: PlanPatch, limits: &Limits) -> Result<Vec<Value>> {
    match patch {
        PlanPatch::JsonPatch(operations) => operate(&mut list, &operations, limits)?,
        PlanPatch::MergePatch(Value::Array(whole)) => list = Value::Array(whole),
        PlanPatch::MergePatch(Value::Object(changes)) => merge(&mut list, changes, 2 * limits.items_per_plan)?,
        PlanPatch::MergePatch(_) => {
            return Err(invalid("A merge patch is a list, or an object by item id.".to_owned()));
        }
    }
    let bytes = written(&list);
    if bytes > LIST_BYTES {
        let detail = format!("A todo list may take {LIST_BYTES} bytes as JSON; this would take {bytes}.");
        return Err(Fault::new(Code::TooManyItems, detail));
    }
    match list {
        Value::Array(list) => Ok(list),
        _ => Err(invalid("After the patch this is no list of todo items.".to_owned())),
    }
}

/// How long the list is without what the server fills in: that is not taken from a patch, and what steps came to may be long.
fn written(list: &Value) -> usize {
    let filled = |item: &Value| -> usize {
        let members = item.as_object().into_iter().flatten();
        let filled = members.filter(|(name, _)| FILLED.contains(&name.as_str()));
        filled.map(|(name, value)| format!("\"{name}\":{value},").len()).sum()
    };
    list.to_string().len().saturating_sub(list.as_array().into_iter().flatten().map(filled).sum())
}

fn operate(list: &mut Value, operations: &Patch, limits: &Limits) -> Result<()> {
    let (mut room, most) = (limits.body_bytes, 2 * limits.items_per_plan);
    check_count("operations", operations.len(), most)?;
    for (at, operation) in operations.iter().enumerate() {
        let refuse = |why: String| {
            let pointer = format!("/{at}");
            Err(invalid("The patch does not apply to the todo list; see `errors`.".to_owned()).at(pointer, why))
        };
        match needed(list, operation, limits.json_depth) {
            Needed::Bytes(bytes) if bytes <= room => room -= bytes,
            Needed::Bytes(_) => return refuse(format!("copies and moves more than {} bytes", limits.body_bytes)),
            Needed::TooDeep => return refuse(format!("nests deeper than {}", limits.json_depth)),
        }
        if let Err(error) = json_patch::patch(list, std::slice::from_ref(operation)) {
            return refuse(error.kind.to_string());
        }
        check_count("items on the way", list.as_array().map_or(0, Vec::len), most)?;
    }
    Ok(())
}

/// What an operation takes beside what was sent of it.
enum Needed {
    Bytes(usize),
    TooDeep,
}

fn needed(list: &Value, operation: &PatchOperation, most_deep: usize) -> Needed {
    let from = match operation {
        PatchOperation::Move(moved) => &moved.from,
        PatchOperation::Copy(copied) => &copied.from,
        PatchOperation::Add(added) => return reaching(operation, &added.value, most_deep, 0),
        PatchOperation::Replace(replaced) => return reaching(operation, &replaced.value, most_deep, 0),
        PatchOperation::Remove(_) | PatchOperation::Test(_) => return Needed::Bytes(0),
    };
    match list.pointer(from.as_str()) {
        Some(value) => reaching(operation, value, most_deep, value.to_string().len()),
        // Refused where it is applied.
        None => Needed::Bytes(0),
    }
}

fn reaching(operation: &PatchOperation, value: &Value, most_deep: usize, bytes: usize) -> Needed {
    if operation.path().count() + depth(value) > most_deep { Needed::TooDeep } else { Needed::Bytes(bytes) }
}

/// How many objects and arrays stand in one another.
fn depth(value: &Value) -> usize {
    let inside = match value {
        Value::Array(items) => items.iter().map(depth).max(),
        Value::Object(members) => members.values().map(depth).max(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return 0,
    };
    1 + inside.unwrap_or(0)
}

/// By item id: `null` removes, an object changes or adds.
fn merge(list: &mut Value, changes: Map<String, Value>, most: usize) -> Result<()> {
    check_count("changes", changes.len(), most)?;
    let items = list.as_array_mut().ok_or_else(|| invalid("There is no list to change.".to_owned()))?;
    for (id, change) in changes {
        let place = items.iter().position(|item| item["id"] == id.as_str());
        match (place, change) {
            (Some(place), Value::Null) => drop(items.remove(place)),
            (Some(place), change) => json_patch::merge(&mut items[place], &change),
            (None, Value::Object(mut item)) => {
                item.insert("id".to_owned(), id.into());
                items.push(Value::Object(item));
            }
            (None, _) => {
                let detail = format!("There is no item `{id}` to change.");
                return Err(invalid(detail.clone()).at(format!("/{id}"), detail));
            }
        }
    }
    Ok(())
}

fn check_count(what: &str, count: usize, most: usize) -> Result<()> {
    if count <= most {
        Ok(())
    } else {
        Err(Fault::new(Code::TooManyItems, format!("The patch has {count} {what}; at most {most} are taken.")))
    }
}

fn invalid(detail: String) -> Fault {
    Fault::new(Code::Invalid, detail)
}

#[cfg(test)]
mod tests;
