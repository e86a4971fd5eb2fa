//! The todo list as people read and edit it.

use serde_json::{Map, Value, json};

use super::command::Note;
use super::{PlanPatch, Result, Runtime};
use crate::domain::caller::Caller;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::ThreadId;
use crate::domain::settings::CallOptions;
use crate::engine::event::Event;

impl Runtime {
    /// The todo list and its planVersion.
    pub async fn plan(&self, caller: &Caller, id: &ThreadId) -> Result<(Value, i64)> {
        let row = self.row(caller, id).await?;
        let (row, mut view) = self.view(&row).await?;
        let version = view["planVersion"].as_i64().unwrap_or(0);
        Ok((self.0.inlined(row.pk, view["todoList"].take()).await?, version))
    }

    /// Edits the list that stands at version `if_match`; answers with the list after it.
    pub async fn edit_plan(
        &self,
        caller: &Caller,
        id: &ThreadId,
        patch: PlanPatch,
        if_match: i64,
    ) -> Result<(Value, i64)> {
        self.0.accepting()?;
        let row = self.row(caller, id).await?;
        let (list, version) = self.plan(caller, id).await?;
        if version != if_match {
            return Err(stale(version));
        }
        let list = patched(list, patch)?;
        let settings = self.0.settings(caller, &row.core, &row.sheet.config, &CallOptions::default())?;
        let (by, settings) = (caller.name.clone(), Box::new(settings));
        let event = Event::PlanEdited { expected: if_match, list, by, settings };
        let audit = (caller.name.clone(), "edit plan", json!({ "planVersion": if_match }));
        let note = Note { audit: Some(audit), wants_plan: true, ..Note::default() };
        let decided = self.decide(row.pk, event, note).await?;
        let (list, version) = decided.plan.unwrap_or_default();
        Ok((self.0.inlined(row.pk, list).await?, version))
    }
}

fn stale(version: i64) -> Fault {
    let detail = format!("The plan is at version {version} now; read it again and repeat the edit.");
    Fault::new(Code::PreconditionFailed, detail).with("planVersion", version)
}

fn patched(mut list: Value, patch: PlanPatch) -> Result<Vec<Value>> {
    match patch {
        PlanPatch::JsonPatch(operations) => {
            let operations: json_patch::Patch = serde_json::from_value(operations)
                .map_err(|error| invalid(format!("This is no JSON Patch: {error}.")))?;
            json_patch::patch(&mut list, &operations)
                .map_err(|error| invalid(format!("The patch does not apply to the todo list: {error}.")))?;
        }
        PlanPatch::MergePatch(Value::Array(whole)) => list = Value::Array(whole),
        PlanPatch::MergePatch(Value::Object(changes)) => merge(&mut list, changes)?,
        PlanPatch::MergePatch(_) => {
            return Err(invalid("A merge patch is a list, or an object by item id.".to_owned()));
        }
    }
    match list {
        Value::Array(list) => Ok(list),
        _ => Err(invalid("After the patch this is no list of todo items.".to_owned())),
    }
}

/// By item id: `null` removes, an object changes or adds.
fn merge(list: &mut Value, changes: Map<String, Value>) -> Result<()> {
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

fn invalid(detail: String) -> Fault {
    Fault::new(Code::Invalid, detail)
}
