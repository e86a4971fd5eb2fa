//! Agent cards: what an agent publishes about itself.

use std::collections::BTreeMap;

use super::Metadata;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentCard {
    pub name: String,
    pub description: String,
    pub version: String,
    /// How it can be called, the preferred interface first.
    pub interfaces: Vec<Interface>,
    pub provider: Option<Provider>,
    pub documentation_url: Option<String>,
    pub icon_url: Option<String>,
    pub capabilities: Capabilities,
    pub security_schemes: BTreeMap<String, SecurityScheme>,
    /// One of these is sufficient.
    pub security_requirements: Vec<SecurityRequirement>,
    pub default_input_modes: Vec<String>,
    pub default_output_modes: Vec<String>,
    pub skills: Vec<Skill>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Interface {
    pub url: String,
    /// `JSONRPC`, `HTTP+JSON`, `GRPC` or a custom name.
    pub binding: String,
    /// Major and minor: `1.0`, `0.3`.
    pub version: String,
    pub tenant: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Provider {
    pub organization: String,
    pub url: String,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Capabilities {
    pub streaming: bool,
    pub push_notifications: bool,
    pub extended_agent_card: bool,
    pub extensions: Vec<Extension>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Extension {
    pub uri: String,
    pub description: Option<String>,
    pub required: bool,
    pub params: Metadata,
}

/// The authentication schemes that this server can describe or use; others are kept only by kind.
#[derive(Clone, Debug, PartialEq)]
pub enum SecurityScheme {
    Http { scheme: String, bearer_format: Option<String> },
    ApiKey { location: String, name: String },
    Other,
}

/// The schemes that are needed together, with their scopes.
pub type SecurityRequirement = BTreeMap<String, Vec<String>>;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Skill {
    pub id: String,
    pub name: String,
    pub description: String,
    pub tags: Vec<String>,
    pub examples: Vec<String>,
    pub input_modes: Vec<String>,
    pub output_modes: Vec<String>,
}
