//! Email addresses, restricted to forms that all programs parse alike.

use serde_json::Value;

use super::host::{self, Host};

/// The characters of a local part besides letters and digits. `%` and `!` are excluded: they can route mail to another
/// host.
const IN_LOCAL_PART: &[u8] = b".+-_=~#&'*/?^`{|}$";

/// The domains of one address, of several separated by commas, or of a list; `None`: something in the value is not
/// certainly an address.
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
    host::parse_name(domain).filter(|host| matches!(host, Host::Name(_)))
}

#[cfg(test)]
mod tests;
