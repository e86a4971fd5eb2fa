//! Applies an edit to a todo list: a JSON Patch, or a merge patch by item id.
//!
//! A few `copy` operations can double the list repeatedly, and a few `move` operations can nest it without bound. So the
//! values that they insert count as if they had been sent. Each operation may shift the whole list, so their number is
//! limited, and the list may at no point be longer than twice its maximum.

use json_patch::{Patch, PatchOperation};
use serde_json::{Map, Value};

use super::PlanPatch;
use crate::config::Limits;
use crate::domain::fault::{Code, Fault, Pointed};
use crate::domain::plan::FILLED;
use crate::domain::pointer::Pointer;
use crate::service::Result;

/// The size of the parts of a list that people may write, in bytes of JSON, over any number of patches. It is as much as a
/// model may write.
const MAX_LIST_BYTES: usize = 4 << 20;

/// How a patch names the items of the list that it makes.
#[derive(Clone, Copy)]
pub(super) enum Naming {
    /// The patch is that list.
    AsListed,
    /// A JSON Patch names items of the list as it is then: only an id says which item is meant.
    ByOperations,
    ById,
}

impl Naming {
    pub(super) fn of(patch: &PlanPatch) -> Self {
        match patch {
            PlanPatch::JsonPatch(_) => Naming::ByOperations,
            PlanPatch::MergePatch(Value::Object(_)) => Naming::ById,
            PlanPatch::MergePatch(_) => Naming::AsListed,
        }
    }

    /// A fault of the list that the patch makes, as a fault of the patch. `ids`: those of that list.
    pub(super) fn point_into_patch(self, ids: &[String], fault: Fault) -> Fault {
        if fault.code != Code::PlanInvalid {
            return fault;
        }
        let errors = fault.errors.into_iter().map(|pointed| self.pointed(ids, pointed)).collect();
        Fault { errors, ..fault }
    }

    fn pointed(self, ids: &[String], Pointed { pointer, detail }: Pointed) -> Pointed {
        let (place, member) = match pointer.strip_prefix('/').and_then(|path| path.split_once('/')) {
            Some((place, member)) => (place, format!("/{member}")),
            None => (pointer.trim_start_matches('/'), String::new()),
        };
        let id = place.parse::<usize>().ok().and_then(|place| ids.get(place)).filter(|id| !id.is_empty());
        match (self, id) {
            (Naming::ById, Some(id)) => Pointed { pointer: format!("{}{member}", Pointer::of([id.as_str()])), detail },
            (Naming::ByOperations, Some(id)) => Pointed { detail: format!("item `{id}`: {detail}"), pointer },
            (Naming::AsListed, _) | (Naming::ById | Naming::ByOperations, None) => Pointed { pointer, detail },
        }
    }
}

/// The ids of a list; empty where an item has none.
pub(super) fn ids(list: &[Value]) -> Vec<String> {
    list.iter().map(|item| item["id"].as_str().unwrap_or_default().to_owned()).collect()
}

pub(super) fn apply(mut list: Value, patch: PlanPatch, limits: &Limits) -> Result<Vec<Value>> {
    match patch {
        PlanPatch::JsonPatch(operations) => apply_operations(&mut list, &operations, limits)?,
        PlanPatch::MergePatch(Value::Array(whole)) => list = Value::Array(whole),
        PlanPatch::MergePatch(Value::Object(changes)) => merge(&mut list, changes, 2 * limits.items_per_plan)?,
        PlanPatch::MergePatch(_) => {
            return Err(invalid("A merge patch is a list, or an object by item id.".to_owned()));
        }
    }
    let bytes = writable_bytes(&list);
    if bytes > MAX_LIST_BYTES {
        let detail = format!("A todo list may take {MAX_LIST_BYTES} bytes as JSON; this would take {bytes}.");
        return Err(Fault::new(Code::TooManyItems, detail));
    }
    match list {
        Value::Array(list) => Ok(list),
        _ => Err(invalid("After the patch this is no list of todo items.".to_owned())),
    }
}

/// The size of the list without the members that the server fills in. Those are not taken from a patch, and results may be
/// long.
fn writable_bytes(list: &Value) -> usize {
    let filled = |item: &Value| -> usize {
        let members = item.as_object().into_iter().flatten();
        let filled = members.filter(|(name, _)| FILLED.contains(&name.as_str()));
        filled.map(|(name, value)| format!("\"{name}\":{value},").len()).sum()
    };
    list.to_string().len().saturating_sub(list.as_array().into_iter().flatten().map(filled).sum())
}

fn apply_operations(list: &mut Value, operations: &Patch, limits: &Limits) -> Result<()> {
    let (mut room, most) = (limits.body_bytes, 2 * limits.items_per_plan);
    check_count("operations", operations.len(), most)?;
    for (at, operation) in operations.iter().enumerate() {
        let refuse = |why: String| {
            let pointer = format!("/{at}");
            Err(invalid("The patch does not apply to the todo list; see `errors`.".to_owned()).at(pointer, why))
        };
        match operation_cost(list, operation, limits.json_depth) {
            OperationCost::Bytes(bytes) if bytes <= room => room -= bytes,
            OperationCost::Bytes(_) => {
                return refuse(format!("copies and moves more than {} bytes", limits.body_bytes));
            }
            OperationCost::TooDeep => return refuse(format!("nests deeper than {}", limits.json_depth)),
        }
        if let Err(error) = json_patch::patch(list, std::slice::from_ref(operation)) {
            return refuse(error.kind.to_string());
        }
        check_count("items on the way", list.as_array().map_or(0, Vec::len), most)?;
    }
    Ok(())
}

/// What an operation costs beyond the bytes that were sent.
enum OperationCost {
    Bytes(usize),
    TooDeep,
}

fn operation_cost(list: &Value, operation: &PatchOperation, max_depth: usize) -> OperationCost {
    let from = match operation {
        PatchOperation::Move(moved) => &moved.from,
        PatchOperation::Copy(copied) => &copied.from,
        PatchOperation::Add(added) => return cost_at_depth(operation, &added.value, max_depth, 0),
        PatchOperation::Replace(replaced) => return cost_at_depth(operation, &replaced.value, max_depth, 0),
        PatchOperation::Remove(_) | PatchOperation::Test(_) => return OperationCost::Bytes(0),
    };
    match list.pointer(from.as_str()) {
        Some(value) => cost_at_depth(operation, value, max_depth, value.to_string().len()),
        // The missing source is refused when the operation is applied.
        None => OperationCost::Bytes(0),
    }
}

fn cost_at_depth(operation: &PatchOperation, value: &Value, max_depth: usize, bytes: usize) -> OperationCost {
    if operation.path().count() + depth(value) > max_depth {
        OperationCost::TooDeep
    } else {
        OperationCost::Bytes(bytes)
    }
}

/// How deep objects and arrays are nested.
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
                return Err(invalid(detail.clone()).at(Pointer::of([id.as_str()]).to_string(), detail));
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
