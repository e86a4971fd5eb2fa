//! Decodes recorded bodies as if they came from the network: for benchmarks, and for programs that check a server's
//! output against the wire that it claims to implement.

use super::openai::compatible::Reasoning;
use super::wire::{Framing, ReplyDecoder, Wire};
use super::{anthropic, gemini, ollama, openai};
use crate::domain::fault::{Code, Fault};
use crate::domain::model::{Delta, ModelFailure};

/// Maximum size of a reply.
const REPLY_BYTES: usize = 4 << 20;

/// Decodes the chunks of a streamed body of that wire (`openai`, `anthropic`, `gemini`, `ollama`); every delta is
/// passed on as soon as it is certain. The fault reports an unknown wire.
pub fn recorded<'a>(
    wire: &str,
    pieces: impl IntoIterator<Item = &'a [u8]>,
    hear: impl FnMut(Delta),
) -> Result<Result<(), ModelFailure>, Fault> {
    const MODEL: &str = "recorded";
    Ok(match wire {
        "openai" => read(Framing::Events, openai::Wire::new(Reasoning::Nothing, MODEL), pieces, hear),
        "anthropic" => read(Framing::Events, anthropic::Wire::new(MODEL, None), pieces, hear),
        "gemini" => read(Framing::Events, gemini::Wire::new(MODEL), pieces, hear),
        "ollama" => read(Framing::Lines, ollama::Wire::default(), pieces, hear),
        other => return Err(Fault::new(Code::Invalid, format!("There is no wire `{other}`."))),
    })
}

fn read<'a>(
    framing: Framing,
    wire: impl Wire,
    pieces: impl IntoIterator<Item = &'a [u8]>,
    mut hear: impl FnMut(Delta),
) -> Result<(), ModelFailure> {
    let mut body = ReplyDecoder::new(framing, wire, REPLY_BYTES);
    let mut deltas = Vec::new();
    for piece in pieces {
        let taken = body.push(piece, &mut deltas);
        deltas.drain(..).for_each(&mut hear);
        if taken? {
            return Ok(());
        }
    }
    let ended = body.finish(&mut deltas);
    deltas.into_iter().for_each(hear);
    ended
}

#[cfg(test)]
mod tests;
