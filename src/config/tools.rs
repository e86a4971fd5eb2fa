//! `[tools]`

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Reference;
use super::section::file_only;
use crate::domain::tool::ToolClass;

section! {
    /// Tools of every tenant besides the built-in ones.
    Tools {
        /// Your own services as tools: each call is a POST, signed according to Standard Webhooks if the tool has a
        /// `secret`. Write them as [[tools.http]] tables.
        http: Vec<HttpTool> = Vec::new(), file_only().example(
            "[{ name = \"find_order\", description = \"Finds an order.\", url = \"https://shop.example/tools/order\", \
             input_schema = { type = \"object\" }, class = \"read\", secret = \"env:SHOP_SECRET\" }]");
    }
}

/// A tool that is served over HTTP. The operator's addresses are trusted; those of tenants are checked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpTool {
    pub name: String,
    pub description: String,
    pub url: String,
    /// JSON Schema of the arguments.
    pub input_schema: Value,
    /// JSON Schema of the response; a response that does not fit is an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    #[serde(default = "external")]
    pub class: ToolClass,
    /// Whether a call that is repeated with the same `Idempotency-Key` has its effect only once.
    #[serde(default)]
    pub idempotent: bool,
    #[serde(default = "patience")]
    pub timeout_ms: u64,
    /// The reference to the signing secret: `env:NAME` or `file:PATH`; `whsec_…` or any text. None = not signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<Reference>,
}

fn external() -> ToolClass {
    ToolClass::External
}

fn patience() -> u64 {
    30_000
}
