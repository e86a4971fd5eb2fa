//! An agent core as one pure function. It asks for the time first, makes the calls that the model wants, and has the model
//! check its answer once before the run ends.

use pes_engine::simple::{CallDraft, Next, SimpleCore, Transcript, Turn};
use serde_json::json;

const CHECK: &str = "Check this answer against the results above. Reply with the answer as it shall be sent.";

pub struct Careful;

impl SimpleCore for Careful {
    fn name(&self) -> &str {
        "careful"
    }

    fn next(&self, transcript: &Transcript<'_>) -> Next {
        let Some(reply) = &transcript.reply else {
            // The run has just begun, or the requested calls have ended.
            return match transcript.calls().next() {
                None => Next::CallTools(vec![CallDraft::new("current_time", json!({}))]),
                Some(_) => Next::ask(),
            };
        };
        let is_checked = transcript.turns.iter().any(|turn| matches!(turn, Turn::Text(_)));
        match reply.calls {
            [] if is_checked => Next::Answer(reply.text.to_owned()),
            [] => Next::AskModel { text: Some(CHECK.to_owned()) },
            calls => Next::CallTools(calls.to_vec()),
        }
    }
}
