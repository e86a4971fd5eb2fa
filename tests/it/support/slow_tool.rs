//! A tool that is being called when its server is killed.

use std::sync::Arc;

use tokio::sync::Notify;

use super::http::soon;
use super::process::Place;
use super::wire::{Step, Wire, answer};

/// `work` waits in the test's tool, `ask` for a person.
pub const SCRIPT: &str = r#"
[[reply]]
when = { phase = "planning", query = "work" }
json = { title = "T", intent = "I", plan = "P", todoList = [
    { id = "work", description = "Work", stepType = "tool", requiredTools = ["slow"] },
] }

[[reply]]
when = { phase = "planning", query = "ask" }
json = { title = "T", intent = "I", plan = "P", todoList = [
    { id = "ask", description = "Ask", stepType = "tool", requiredTools = ["ask_user"] },
] }

[[reply]]
when = { phase = "execution", item = "work", iteration = 1 }
calls = [{ tool = "slow", arguments = {} }]

[[reply]]
when = { phase = "execution", item = "ask", iteration = 1 }
calls = [{ tool = "ask_user", arguments = { question = "Which?" } }]

[[reply]]
when = { phase = "execution" }
text = "So be it."

[[reply]]
when = { phase = "synthesis" }
text = "All of it is done now."
"#;

/// The tool: its first call never returns, the second one when the test says so.
pub struct Slow {
    wire: Wire,
    released: Arc<Notify>,
}

impl Slow {
    /// Starts it as a tool of the servers there.
    pub async fn on(place: Place) -> (Place, Self) {
        let released = Arc::new(Notify::new());
        let wait = vec![Step::Until(released.clone())];
        let second = [wait, answer("200 OK", "content-type: application/json\r\n", "{}")].concat();
        let wire = Wire::serve(vec![vec![Step::Stall(Arc::default())], second]).await;
        place.configure(&format!(
            "[[tools.http]]\nname = \"slow\"\ndescription = \"Slow.\"\nurl = \"{}\"\n\
             input_schema = {{ type = \"object\" }}\nidempotent = true\n",
            wire.url()
        ));
        (place, Self { wire, released })
    }

    pub async fn is_called(&mut self) {
        soon(self.wire.request()).await;
    }

    pub fn ends(&self) {
        self.released.notify_one();
    }
}
