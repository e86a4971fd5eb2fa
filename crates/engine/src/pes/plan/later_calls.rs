//! A thread that went back, or a copy, asks a person before it makes a call once more that was made after that place: same
//! tool, same arguments. It asks until a person has approved that call, or a run has completed.

use crate::domain::ids::CallId;
use crate::domain::tool::{Judgement, ToolClass, Verdict};
use crate::history::later_calls::{MAX_LATER_CALLS, short_digest, shortened};
use crate::parse::CallDraft;
use crate::pes::people::suspend;
use crate::pes::state::State;
use crate::pes::tx::Tx;

/// Remembers the digests of these calls, besides those that are remembered already.
pub(crate) fn remember(tx: &mut Tx<'_>, later: Vec<String>) {
    let known = &mut tx.state.head.later_calls;
    for digest in later {
        if known.len() < MAX_LATER_CALLS && !known.contains(&digest) {
            known.push(digest);
        }
    }
}

/// A person let the call run: one with these arguments does not ask again. If they were edited, the call that was asked
/// about is another one, which nobody let run.
pub(crate) fn allow(tx: &mut Tx<'_>, call: &CallId) {
    let Some(digest) = tx.state.calls.get(call).and_then(|call| call.record.digest.as_deref()) else { return };
    let approved = shortened(digest);
    tx.state.head.later_calls.retain(|known| known != approved);
}

/// What only reads, or was declared idempotent, does not ask, and the caller's own program knows what it did.
pub(crate) fn require_approval(state: &State, draft: &CallDraft, judgement: Judgement) -> Judgement {
    let (class, delegates) = match judgement.verdict {
        Verdict::Run { class, idempotent: false } if class != ToolClass::Read => (class, false),
        Verdict::Delegate => (ToolClass::External, true),
        Verdict::Run { .. } | Verdict::Client | Verdict::Ask { .. } | Verdict::Input { .. } | Verdict::Refuse(_) => {
            return judgement;
        }
    };
    let (known, tool) = (&state.head.later_calls, &draft.name);
    let Ok(arguments) = &draft.arguments else { return judgement };
    if known.is_empty() || !known.contains(&short_digest(tool, arguments)) {
        return judgement;
    }
    let message = format!(
        "`{tool}` was called with the same arguments in another continuation of this conversation, which may have had its \
         effect. May `{tool}` run once more with these arguments?"
    );
    Judgement { verdict: suspend::ask_first(class, false, delegates, message), ..judgement }
}
