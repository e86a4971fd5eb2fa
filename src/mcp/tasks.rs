//! Tools that a server runs only as tasks. The library does not expose this, so it is parsed from the server's
//! messages.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

/// How many names, and how many bytes of names, are stored: servers may send lists that nobody requested.
const MAX_NAMES: usize = 1_024;
const MAX_NAME_BYTES: usize = 256 << 10;

/// The names of tools that run only as tasks, as far as the server has listed them.
#[derive(Clone, Default)]
pub(super) struct TaskTools(Arc<Mutex<KnownNames>>);

#[derive(Default)]
struct KnownNames {
    known: BTreeSet<String>,
    bytes: usize,
}

impl TaskTools {
    /// Examines one message of the server. Names beyond the limits are not stored; calls of those tools fail.
    pub(super) fn inspect(&self, message: &[u8]) {
        // A quick check, so that almost no message is parsed twice.
        if memchr::memmem::find(message, b"taskSupport").is_none() {
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

impl KnownNames {
    fn insert(&mut self, name: &str) {
        let fits = self.known.len() < MAX_NAMES && self.bytes + name.len() <= MAX_NAME_BYTES;
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
        tasks.inspect(&message((0..2 * MAX_NAMES).map(|at| at.to_string()), "required"));
        assert!(tasks.contains("1023") && !tasks.contains("1024"));
        tasks.inspect(&message((0..MAX_NAMES).map(|at| at.to_string()), "optional"));
        let held = || {
            let names = tasks.0.lock();
            (names.known.len(), names.bytes)
        };
        assert_eq!(held(), (0, 0));
        tasks.inspect(&message((0..5).map(|at| format!("{at}{}", "x".repeat(MAX_NAME_BYTES / 2 - 1))), "required"));
        assert_eq!(held(), (2, MAX_NAME_BYTES));
    }
}
