//! Checkpoints that were stored outside of this server: the bodies of webhooks, or the export of `GET /audit/export`.

use serde_json::{Deserializer, Value};

/// A checkpoint that was stored outside of this server.
#[derive(Clone, Debug, PartialEq)]
pub struct KeptCheckpoint {
    /// The file that contains it.
    pub file: String,
    pub tenant: String,
    pub n: i64,
    pub hash: String,
    pub jws: Option<String>,
    /// The checkpoint as it is in the file.
    pub payload: Value,
}

/// Parses the checkpoints in a text: one JSON value, or one on each line. It holds checkpoints, bodies of webhooks, or an
/// export, whose other lines are skipped. An error says where the text is not JSON, or that it has no checkpoint.
pub fn parse_checkpoints(file: &str, text: &str) -> Result<Vec<KeptCheckpoint>, String> {
    let mut found = Vec::new();
    for value in Deserializer::from_str(text).into_iter::<Value>() {
        let value = value.map_err(|error| format!("{file} is no JSON: {error}"))?;
        let inner = ["checkpoint", "data"].iter().find_map(|member| value.get(member));
        found.extend(one(file, inner.unwrap_or(&value)));
    }
    if found.is_empty() { Err(format!("{file} has no checkpoint")) } else { Ok(found) }
}

fn one(file: &str, value: &Value) -> Option<KeptCheckpoint> {
    let text = |member: &str| Some(value.get(member)?.as_str()?.to_owned());
    Some(KeptCheckpoint {
        file: file.to_owned(),
        tenant: text("tenant")?,
        n: value.get("n")?.as_i64()?,
        hash: text("hash")?,
        jws: text("jws"),
        payload: value.clone(),
    })
}
