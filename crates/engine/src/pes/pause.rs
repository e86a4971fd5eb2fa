//! Pause: nothing new starts until a person says so; what runs comes to its end.

use super::transition::{Handled, Taken, Transition};
use crate::domain::fault::{Code, Fault};
use crate::domain::hitl::{FeedbackSchema, InputType, Suspension, SuspensionKind};

impl Transition<'_> {
    pub fn pause(&mut self, by: &str) -> Handled {
        let Some(active) = self.state.head.active.as_ref().filter(|active| active.cancel.is_none()) else {
            return Err(Fault::new(Code::NothingToPause, "No run is active on this thread."));
        };
        if active.pause.is_some() {
            return Ok(Taken::No);
        }
        self.hold_back(format!("Paused by {by}."));
        Ok(Taken::Yes)
    }

    /// The pause of the active run, in the words of its question.
    pub fn paused(&self) -> Option<String> {
        let pause = self.state.head.active.as_ref()?.pause.as_ref()?;
        self.state.suspension(pause).map(|open| open.message.clone())
    }

    /// Opens the question that ends the pause.
    pub fn hold_back(&mut self, message: String) {
        let schema = FeedbackSchema {
            input_type: InputType::Confirm,
            prompt: "Go on?".into(),
            options: Vec::new(),
            allow_modify_args: false,
            custom_schema: None,
        };
        let question = self.question(SuspensionKind::Pause, message, schema);
        let question = Suspension { expires_at: None, expiry_policy: None, ..question };
        self.active().pause = Some(question.suspension_id.clone());
        self.open_suspension(question);
    }
}
