//! `[tools]`

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Reference;
use super::section::file_only;
use crate::domain::tool::ToolClass;

section! {
    /// Tools of every tenant besides the built-in ones.
    Tools {
        /// Services of your own as tools: each call is a signed POST. Write them as [[tools.http]] tables.
        http: Vec<HttpTool> = Vec::new(), file_only().example(
            "[{ name = \"find_order\", description = \"Finds an order.\", url = \"https://shop.example/tools/order\", \
             input_schema = { type = \"object\" }, class = \"read\", secret = \"env:SHOP_SECRET\" }]");
    }
}

/// A tool that somebody serves over HTTP. In a file the operator vouches for its address; a tenant's is guarded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpTool {
    pub name: String,
    pub description: String,
    pub url: String,
    /// JSON Schema of the arguments.
    pub input_schema: Value,
    /// JSON Schema of the answer; what does not fit becomes an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    #[serde(default = "external")]
    pub class: ToolClass,
    /// Whether a call that is repeated under its `Idempotency-Key` has its effect once.
    #[serde(default)]
    pub idempotent: bool,
    #[serde(default = "patience")]
    pub timeout_ms: u64,
    /// Where the signing secret is: `env:NAME` or `file:PATH`; `whsec_…` or any text. None = not signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<Reference>,
}

fn external() -> ToolClass {
    ToolClass::External
}

fn patience() -> u64 {
    30_000
}
