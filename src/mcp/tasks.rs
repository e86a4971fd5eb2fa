//! Tools that their server runs as tasks only. The library does not report them, so they are found in what the server
//! sends.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

/// The names of such tools, as far as the server has listed its tools.
#[derive(Clone, Default)]
pub(super) struct TaskTools(Arc<Mutex<BTreeSet<String>>>);

impl TaskTools {
    /// Looks through one message of the server.
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
                names.insert(name.to_owned());
            } else {
                names.remove(name);
            }
        }
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.0.lock().contains(name)
    }
}
