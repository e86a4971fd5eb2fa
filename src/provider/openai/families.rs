//! Which parameters OpenAI's own models accept, by the family in their names. Nothing is known of other names.

use serde_json::{Map, Value};

use super::compatible::plain_name;
use crate::domain::fault::Fault;
use crate::provider::params;

/// Parameters that a model does not accept while it thinks.
const OF_SAMPLING: [&str; 5] = ["temperature", "topP", "frequencyPenalty", "presencePenalty", "stop"];
/// Families that accept `stop` although they think.
const WITH_STOP: [&str; 2] = ["o1", "o3-mini"];
/// Families that do not think before they answer.
const NOT_THINKING: [&str; 4] = ["chatgpt-4o", "gpt-3.5", "gpt-4", "gpt-5-chat"];
/// Families that always think.
const THINKING: [&str; 4] = ["gpt-5", "o1", "o3", "o4"];

pub(super) fn admit(model: &str, params: &Map<String, Value>) -> Result<(), Fault> {
    let name = plain_name(model);
    let effort = params.get("reasoningEffort");
    let never_thinks = NOT_THINKING.iter().any(|family| name.starts_with(family));
    if never_thinks && effort.is_some() {
        return Err(params::unsupported("reasoningEffort", "this model does not think before it answers"));
    }
    let always_thinks = !never_thinks && THINKING.iter().any(|family| is_of(name, family));
    // The later versions think only if they are asked to.
    let is_asked_to = name.starts_with("gpt-5.") && effort.is_some_and(|effort| effort != "none");
    let takes_stop = WITH_STOP.iter().any(|family| is_of(name, family));
    let given = |name: &&str| match (*name, params.get(*name)) {
        ("temperature", Some(value)) => value.as_f64() != Some(1.0),
        ("stop", _) if takes_stop => false,
        (_, value) => value.is_some(),
    };
    match OF_SAMPLING.into_iter().find(given) {
        Some(name) if always_thinks || is_asked_to => {
            Err(params::unsupported(name, "this model takes no sampling parameters while it thinks"))
        }
        Some(_) | None => Ok(()),
    }
}

/// Whether this is the family's first version, of any size and date.
fn is_of(name: &str, family: &str) -> bool {
    name.strip_prefix(family).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}
