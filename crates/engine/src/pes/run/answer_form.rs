//! An answer that must be JSON of a given schema: it counts only if it fits.

use serde_json::Value;

use crate::parse;
use crate::pes::state::State;
use crate::pes::tx::Tx;

pub(crate) fn is_wanted(state: &State) -> bool {
    state.run_settings().answer_schema.is_some()
}

/// The text as the answer; if JSON is required, without the text around it. `Err`: it does not fit; a sentence for the
/// model.
pub(crate) fn fit(tx: &Tx<'_>, text: &str) -> Result<String, String> {
    let Some(schema) = &tx.state.run_settings().answer_schema else { return Ok(text.to_owned()) };
    let check = |value: &Value| tx.world.tools.check_value(schema, value);
    if let Ok(value) = serde_json::from_str(text) {
        return check(&value).map(|()| text.trim().to_owned());
    }
    let value = parse::embedded(text).map_err(|fault| fault.0)?;
    check(&value).map(|()| value.to_string())
}

/// The answer as observations hold it, where they hold `text` as `shown` already.
pub(crate) fn shown(tx: &mut Tx<'_>, answer: &str, text: &str, shown: Value) -> Value {
    if answer == text {
        return shown;
    }
    let id = format!("answer-{}", tx.mint.hex());
    tx.store(id, Value::String(answer.to_owned()))
}
