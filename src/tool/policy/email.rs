//! Mail addresses, as far as all programs read them alike.

use serde_json::Value;

use super::host::{self, Host};

/// What stands in a local part besides letters and digits. `%` and `!` do not: they send mail on to another host.
const IN_LOCAL_PART: &[u8] = b".+-_=~#&'*/?^`{|}$";

/// The domains of an address, of addresses with commas between them, or of a list of addresses; `None`: not all of it is
/// certainly addresses.
pub(super) fn domains(value: &Value) -> Option<Vec<Host>> {
    match value {
        Value::String(text) => text.split(", ").flat_map(|part| part.split(',')).map(domain).collect(),
        Value::Array(list) if !list.is_empty() => list.iter().map(|one| domain(one.as_str()?)).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// The domain of one address without a display name, quotes or comments.
fn domain(address: &str) -> Option<Host> {
    let (local, domain) = address.split_once('@')?;
    let is_atom =
        |atom: &str| !atom.is_empty() && atom.bytes().all(|c| c.is_ascii_alphanumeric() || IN_LOCAL_PART.contains(&c));
    if local.len() > 64 || !local.split('.').all(is_atom) {
        return None;
    }
    host::named(domain).filter(|host| matches!(host, Host::Name(_)))
}

#[cfg(test)]
mod tests;
