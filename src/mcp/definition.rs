//! The definition of a tool as its server describes it, and what is derived from it: our name, the class, and whether
//! calls may be repeated.

use std::sync::OnceLock;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::call_errors::cut;
use crate::config::McpServer;
use crate::domain::depth::{MOST_DEPTH, exceeds};
use crate::domain::digest;
use crate::domain::fault::Pointed;
use crate::domain::hex;
use crate::domain::tool::{ToolClass, ToolSpec};
use crate::tool::policy;
use crate::tool::schema::{self, Schema};

/// The maximum length of a tool's name that all providers accept.
const MAX_NAME_CHARS: usize = 64;
/// Maximum number of subschemas in the schemas of all tools of a server.
const MAX_SCHEMAS: usize = 10_000;
/// How much is kept of why a tool cannot be offered. Its server may have said that itself, at any length.
const MAX_REASON_CHARS: usize = 500;
/// How many characters of a description go into prompts.
const MAX_DESCRIPTION_CHARS: usize = 2_000;

/// A tool as its server describes it. Exactly this is pinned: if any of it changes, the tool is off until it is
/// approved.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Definition {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) input_schema: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) output_schema: Option<Value>,
    #[serde(default)]
    pub(super) hints: Hints,
    /// Why the tool cannot be offered, even if it is approved.
    #[serde(skip)]
    pub(super) refused: Option<String>,
    /// Cached, because it is needed whenever tools are listed.
    #[serde(skip)]
    pub(super) hash: OnceLock<String>,
}

/// Compares only what is pinned, not what was derived from it.
impl PartialEq for Definition {
    fn eq(&self, other: &Self) -> bool {
        let Self { name, description, input_schema, output_schema, hints, refused: _, hash: _ } = self;
        *name == other.name
            && *description == other.description
            && *input_schema == other.input_schema
            && *output_schema == other.output_schema
            && *hints == other.hints
    }
}

/// A server's claims about the effects of a tool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Hints {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) read_only: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) destructive: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) idempotent: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) open_world: Option<bool>,
}

impl Definition {
    /// The size of the stored form.
    pub(super) fn bytes(&self) -> usize {
        serde_json::to_string(self).map_or(0, |text| text.len())
    }

    /// Checks whether the schemas can be used; `budget` is the remaining budget of subschemas. Schemas that are nested
    /// too deeply to be stored and read again are dropped. The hash is computed here, too, because this runs on a
    /// blocking thread.
    fn check_schemas(mut self, budget: &mut usize) -> Self {
        let schemas = [("inputSchema", Some(&self.input_schema)), ("outputSchema", self.output_schema.as_ref())];
        let refused = schemas.into_iter().find_map(|(member, schema)| {
            let error = check_schema(schema?, budget).err()?;
            Some(format!("{member}{}: {}", error.pointer, error.detail))
        });
        if exceeds(&self.input_schema, MOST_DEPTH) {
            self.input_schema = Value::Null;
        }
        self.output_schema = self.output_schema.filter(|schema| !exceeds(schema, MOST_DEPTH));
        self.refused = self.refused.or(refused).map(|why| cut(why, MAX_REASON_CHARS));
        self.hash();
        self
    }

    /// Equal for equal definitions, whatever the order of members.
    pub(super) fn hash(&self) -> &str {
        self.hash.get_or_init(|| {
            let value = serde_json::to_value(self).expect("texts, flags and JSON are JSON");
            let mut hash = digest::of(&value);
            // 16 bytes.
            hash.truncate(32);
            hash
        })
    }

    pub(super) fn is_allowed(&self, server: &McpServer) -> bool {
        let any = |globs: &[String]| globs.iter().any(|glob| policy::matches(glob, &self.name));
        (server.allow.is_empty() || any(&server.allow)) && !any(&server.deny)
    }

    /// The spec that agents are offered. Hints of a tenant's server can only make a tool's class stricter.
    pub(super) fn spec(&self, name: &str, server: &McpServer, is_operators: bool) -> ToolSpec {
        let class = match override_for(&server.class, &self.name) {
            Some(class) => *class,
            None => self.hints.class(is_operators),
        };
        let claimed = is_operators && (self.hints.idempotent == Some(true) || self.hints.read_only == Some(true));
        ToolSpec {
            name: tool_name(name, &self.name),
            description: self.description.chars().take(MAX_DESCRIPTION_CHARS).collect(),
            input_schema: self.input_schema.clone(),
            output_schema: self.output_schema.clone(),
            class,
            idempotent: override_for(&server.idempotent, &self.name).copied().unwrap_or(claimed),
            timeout_ms: server.timeout_ms.into(),
            risk_level: None,
        }
    }
}

/// Checks the schemas of all tools of a server. May take a second.
pub(super) fn check_schemas(listed: Vec<Definition>) -> Vec<Definition> {
    let mut budget = MAX_SCHEMAS;
    listed.into_iter().map(|definition| definition.check_schemas(&mut budget)).collect()
}

/// A rejected schema is charged like an accepted one.
fn check_schema(schema: &Value, budget: &mut usize) -> Result<(), Pointed> {
    if *budget == 0 {
        let detail = format!("its server has more than {MAX_SCHEMAS} schemas within the schemas of its tools");
        return Err(Pointed { pointer: String::new(), detail });
    }
    let compiled = Schema::compile(schema);
    let schemas = match &compiled {
        Ok(compiled) => compiled.cost().schemas,
        Err(_) => schema::values(schema).min(schema::MAX_SCHEMAS),
    };
    *budget = budget.saturating_sub(schemas);
    compiled.map(drop)
}

impl Hints {
    fn class(&self, is_trusted: bool) -> ToolClass {
        match (self.read_only, self.destructive, self.open_world) {
            (Some(true), _, _) if is_trusted => ToolClass::Read,
            (Some(true), _, _) => ToolClass::External,
            (_, Some(true), _) => ToolClass::Irreversible,
            (_, _, Some(true)) => ToolClass::External,
            (_, _, _) => ToolClass::Write,
        }
    }
}

/// The value of the most specific glob that matches the name.
fn override_for<'v, V>(values: &'v std::collections::BTreeMap<String, V>, name: &str) -> Option<&'v V> {
    let covering = values.iter().filter(|(glob, _)| policy::matches(glob, name));
    covering.max_by_key(|(glob, _)| (!glob.contains('*'), glob.len())).map(|(_, value)| value)
}

/// `<server>__<tool>`, with characters that providers reject replaced. Names that are too long are cut and end in a
/// digest, and so do names of which no letter or digit would be left, as in other scripts.
pub(super) fn tool_name(server: &str, tool: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
    let name: String = format!("{server}__{tool}").chars().map(plain).collect();
    let is_telling = tool.is_empty() || tool.contains(|c: char| c.is_ascii_alphanumeric());
    if name.len() <= MAX_NAME_CHARS && is_telling {
        return name;
    }
    let digest = hex::of(&Sha256::digest(tool)[..4]);
    let end = name.len().min(MAX_NAME_CHARS - digest.len() - 1);
    format!("{}_{digest}", &name[..end])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_in_other_scripts_differ() {
        let names = ["读取", "写入", "删除"].map(|tool| tool_name("files", tool));
        assert_eq!(names.iter().collect::<std::collections::BTreeSet<_>>().len(), 3, "{names:?}");
        assert!(names.iter().all(|name| name.starts_with("files_____") && name.len() == 18), "{names:?}");
        assert_eq!(
            ["größe", "a/b", ""].map(|tool| tool_name("files", tool)),
            ["files__gr__e", "files__a_b", "files__"]
        );
    }

    #[test]
    fn of_why_a_tool_is_refused_500_characters_are_kept() {
        let refused = |length| Definition { refused: Some("x".repeat(length)), ..Definition::default() };
        let listed = check_schemas(vec![refused(500), refused(501)]);
        let kept = listed.into_iter().map(|definition| definition.refused.unwrap_or_default());
        assert_eq!(kept.collect::<Vec<_>>(), ["x".repeat(500), format!("{}…", "x".repeat(500))]);
    }

    #[test]
    fn the_schemas_of_all_tools_are_bounded_together() {
        let members: serde_json::Map<String, Value> =
            (0..schema::MAX_SCHEMAS - 1).map(|at| (format!("p{at}"), json!({}))).collect();
        let tool = |input_schema: Value| Definition { input_schema, ..Definition::default() };
        let large = tool(json!({ "properties": members }));
        let listed = check_schemas(vec![large; MAX_SCHEMAS / schema::MAX_SCHEMAS + 1]);
        let refused: Vec<bool> = listed.iter().map(|definition| definition.refused.is_some()).collect();
        assert_eq!(refused, [false, false, false, false, false, true], "{:?}", listed[5].refused);
        let no_good = tool(json!({ "type": "objekt", "examples": vec![0; schema::MAX_SCHEMAS] }));
        let listed = check_schemas([vec![no_good; 5], vec![tool(json!({}))]].concat());
        assert!(listed[5].refused.as_ref().is_some_and(|why| why.contains("its server has")), "refusing takes as long");
    }
}
