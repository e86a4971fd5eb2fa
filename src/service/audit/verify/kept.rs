//! Checkpoints that were kept elsewhere: as webhooks are told them, or as `GET /audit/export` has them.

use serde_json::{Deserializer, Value};

/// One of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    /// Where it was found.
    pub file: String,
    pub tenant: String,
    pub n: i64,
    pub hash: String,
    pub jws: Option<String>,
    /// As it stands there.
    pub payload: Value,
}

/// Those in this text, which is one JSON value or a line for each: checkpoints, bodies of webhooks, or an export, whose
/// other lines say nothing here. An error says where the text is no JSON, or that there is none.
pub fn kept(file: &str, text: &str) -> Result<Vec<Kept>, String> {
    let mut found = Vec::new();
    for value in Deserializer::from_str(text).into_iter::<Value>() {
        let value = value.map_err(|error| format!("{file} is no JSON: {error}"))?;
        let inner = ["checkpoint", "data"].iter().find_map(|member| value.get(member));
        found.extend(one(file, inner.unwrap_or(&value)));
    }
    if found.is_empty() { Err(format!("{file} has no checkpoint")) } else { Ok(found) }
}

fn one(file: &str, value: &Value) -> Option<Kept> {
    let text = |member: &str| Some(value.get(member)?.as_str()?.to_owned());
    Some(Kept {
        file: file.to_owned(),
        tenant: text("tenant")?,
        n: value.get("n")?.as_i64()?,
        hash: text("hash")?,
        jws: text("jws"),
        payload: value.clone(),
    })
}
