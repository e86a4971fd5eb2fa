//! The prompt of a summary: a model call of its own sums up the oldest messages.

use crate::World;
use crate::domain::model::ContextFit;
use crate::domain::prompt::PromptMessage;
use crate::domain::settings::RunSettings;
use crate::domain::tokens;
use crate::pes::state::{ModelCall, SummaryRequest};
use crate::prompt::fit::{self, FittedHistory};
use crate::prompt::{self, Frame};

/// The prompt of a summary: the summary so far, and the messages to be added to it. If it is too long, the long
/// messages are shortened.
pub(crate) fn request(
    world: &World<'_>,
    settings: &RunSettings,
    frame: Frame<'_>,
    call: &ModelCall,
    sums: &SummaryRequest,
    fitted: &FittedHistory<'_>,
) -> (Vec<PromptMessage>, ContextFit) {
    let end = fitted.messages.iter().position(|message| message.message_id == sums.extent.upto);
    let messages = &fitted.messages[..end.map_or(fitted.messages.len(), |at| at + 1)];
    let render = |most| prompt::summary(&prompt::SummaryPrompt { frame, so_far: fitted.summary(), messages, most });
    let whole = render(usize::MAX);
    let size = tokens::of_prompt(&whole, &[]);
    let fit = ContextFit { summarised: messages.len(), ..ContextFit::default() };
    let Some(limit) = fit::limit(world, settings, call, size).filter(|limit| size > *limit) else {
        return (whole, fit);
    };
    let message_tokens: u64 = messages.iter().map(|message| tokens::of_text(&message.content)).sum();
    let most = fit::share(message_tokens.saturating_sub(size - limit), messages.len());
    let shortened = messages.iter().filter(|message| message.content.len() > most).count();
    (render(most), ContextFit { shortened, ..fit })
}
