//! Tools that their server runs as tasks only. The library does not report them, so they are found in what the server
//! sends.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

/// How many names are remembered, and their bytes: servers may list in answers that nobody asked for.
const MOST: usize = 1_024;
const MOST_BYTES: usize = 256 << 10;

/// The names of such tools, as far as the server has listed its tools.
#[derive(Clone, Default)]
pub(super) struct TaskTools(Arc<Mutex<Names>>);

#[derive(Default)]
struct Names {
    known: BTreeSet<String>,
    bytes: usize,
}

impl TaskTools {
    /// Looks through one message of the server. Names beyond the bounds are not remembered: their calls fail.
    pub(super) fn look_for(&self, message: &[u8]) {
        // Hardly any message is parsed for this.
        if !std::str::from_utf8(message).is_ok_and(|text| text.contains("taskSupport")) {
            return;
        }
        let Ok(message) = serde_json::from_slice::<Value>(message) else { return };
        let listed = message.pointer("/result/tools").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let mut names = self.0.lock();
        for tool in listed {
            let Some(name) = tool.get("name").and_then(Value::as_str) else { continue };
            if tool.pointer("/execution/taskSupport").and_then(Value::as_str) == Some("required") {
                names.insert(name);
            } else {
                names.remove(name);
            }
        }
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.0.lock().known.contains(name)
    }
}

impl Names {
    fn insert(&mut self, name: &str) {
        let fits = self.known.len() < MOST && self.bytes + name.len() <= MOST_BYTES;
        if fits && self.known.insert(name.to_owned()) {
            self.bytes += name.len();
        }
    }

    fn remove(&mut self, name: &str) {
        if self.known.remove(name) {
            self.bytes -= name.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn message(names: impl Iterator<Item = String>, support: &str) -> Vec<u8> {
        let tools: Vec<Value> =
            names.map(|name| json!({ "name": name, "execution": { "taskSupport": support } })).collect();
        json!({ "id": "nobody's", "result": { "tools": tools } }).to_string().into_bytes()
    }

    #[test]
    fn a_server_that_lists_for_ever_fills_no_memory() {
        let tasks = TaskTools::default();
        tasks.look_for(&message((0..2 * MOST).map(|at| at.to_string()), "required"));
        assert!(tasks.contains("1023") && !tasks.contains("1024"));
        tasks.look_for(&message((0..MOST).map(|at| at.to_string()), "optional"));
        let held = || {
            let names = tasks.0.lock();
            (names.known.len(), names.bytes)
        };
        assert_eq!(held(), (0, 0));
        tasks.look_for(&message((0..5).map(|at| format!("{at}{}", "x".repeat(MOST_BYTES / 2 - 1))), "required"));
        assert_eq!(held(), (2, MOST_BYTES));
    }
}
