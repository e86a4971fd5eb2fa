//! Renders the prompts of past model calls again. Writes nothing and calls nothing.

use super::Runtime;
use crate::domain::fault::{Code, Fault};
use crate::domain::model::ModelRequest;
use crate::engine::effect::Effect;
use crate::engine::{ModelBook, PastCall, Prompt};
use crate::store::ThreadRow;

/// A prompt as it is rendered now.
pub(crate) struct PastPrompt {
    pub(crate) request: ModelRequest,
    /// The context window of its model in tokens; `None`: unknown.
    pub(crate) window: Option<u64>,
}

impl Runtime {
    /// The prompt of this call. `None`: the thread's core does not render past calls, or the subject of the call is gone.
    pub(crate) async fn past_prompt(&self, row: &ThreadRow, call: PastCall) -> Result<Option<PastPrompt>, Fault> {
        let first = self.render(row, call.clone()).await?;
        let prompt = match first {
            // The call was made, so its prompt was cut to fit, not summarised.
            Some(Prompt::Overflows(_)) => self.render(row, PastCall { is_cut: true, ..call }).await?,
            other @ (Some(Prompt::Call(_)) | None) => other,
        };
        Ok(match prompt {
            Some(Prompt::Call(request)) => {
                let window = self.0.models.window(&request.provider, &request.model);
                Some(PastPrompt { request: *request, window })
            }
            Some(Prompt::Overflows(_)) | None => None,
        })
    }

    async fn render(&self, row: &ThreadRow, call: PastCall) -> Result<Option<Prompt>, Fault> {
        let effect = Effect::CallModel { stream: call.begun.stream_id.clone(), attempt: call.begun.attempt };
        let Some(machine) = self.0.core(&row.core)?.past(call) else { return Ok(None) };
        let material = self.0.material(&*self.0.reads, row.pk, &*machine, &effect).await;
        let material = material.map_err(|error| Fault::new(Code::Internal, error.to_string()))?;
        let tools = self.0.tools.toolset(row.tenant).await;
        Ok(machine.prompt(&self.0.world(&tools), &effect, &material))
    }
}
