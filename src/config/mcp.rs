//! `[mcp]`

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Error;
use super::reference::Reference;
use super::section::{by_path, file_only};
use crate::domain::tool::ToolClass;

section! {
    /// MCP servers. Each is a table `[mcp.servers.NAME]`; its tools are called `NAME__tool`.
    Mcp {
        /// The timeout until a server's tools are listed, in milliseconds.
        start_timeout_ms: u64 = 30_000, by_path();
        /// Maximum size of one message of a server, in bytes. A server that sends more is restarted.
        message_bytes: usize = 4 << 20, by_path();
        /// How many tools of one server are offered; the rest is ignored.
        tools_per_server: usize = 256, by_path();
        /// Names of environment variables (or globs) that tenants may refer to in the headers of their own servers.
        tenant_env: Vec<String> = Vec::new(), by_path();
        /// By name. A server has `command` (and `args`, `env`, `cwd`, `open_files`, `memory_mb`) or `url` (and
        /// `headers`); both have `enabled`, `initialize`, `timeout_ms`, `allow` and `deny` (globs of tools), `class` and
        /// `idempotent` (by glob). Values of `env` and `headers` may be references: `env:NAME`, `file:PATH`.
        servers: BTreeMap<String, McpServer> = BTreeMap::new(),
            file_only().example("{ time = { command = \"uvx\", args = [\"mcp-server-time\"] } }");
    }
}

/// The settings of one server, from the operator or a tenant.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct McpServer {
    /// A program that speaks MCP on its standard input and output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// The program's environment, besides PATH, HOME and the language.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, Reference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
    /// How many files the program may have open.
    #[serde(skip_serializing_if = "is_usual_files")]
    pub open_files: u32,
    /// The program's address space limit; absent = no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<u32>,
    /// Or a streamable HTTP endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, Reference>,
    pub enabled: bool,
    /// Begins with `initialize`, as up to version 2025-11-25 of the protocol, though the server may speak a newer one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub initialize: bool,
    /// The timeout of one call.
    pub timeout_ms: u32,
    /// Only these tools, by the server's names or globs; empty = all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// Excludes these tools.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<String>,
    /// Overrides what the server claims about its tools.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub class: BTreeMap<String, ToolClass>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub idempotent: BTreeMap<String, bool>,
}

const OPEN_FILES: u32 = 1_024;

fn is_usual_files(files: &u32) -> bool {
    *files == OPEN_FILES
}

impl Default for McpServer {
    fn default() -> Self {
        Self {
            command: None,
            args: Vec::new(),
            env: BTreeMap::new(),
            cwd: None,
            open_files: OPEN_FILES,
            memory_mb: None,
            url: None,
            headers: BTreeMap::new(),
            enabled: true,
            initialize: false,
            timeout_ms: 60_000,
            allow: Vec::new(),
            deny: Vec::new(),
            class: BTreeMap::new(),
            idempotent: BTreeMap::new(),
        }
    }
}

impl Mcp {
    pub(super) fn check(&self) -> Result<(), Error> {
        self.servers.iter().try_for_each(|(name, server)| {
            check_name(name).and_then(|()| server.check()).map_err(|why| Error(format!("mcp.servers.{name}: {why}")))
        })
    }
}

/// A server's name is the first part of its tools' names: letters, digits, `-` and single `_`, at most 32.
pub fn check_name(name: &str) -> Result<(), String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let is_good = (1..=32).contains(&name.len()) && name.chars().all(is_plain) && !name.contains("__");
    if is_good && !name.starts_with('_') && !name.ends_with('_') {
        Ok(())
    } else {
        Err("a name has 1 to 32 letters, digits, - or single _, and neither begins nor ends with _".to_owned())
    }
}

impl McpServer {
    /// All checks that are possible without starting it.
    pub fn check(&self) -> Result<(), String> {
        let refuse = |why: &str| Err(why.to_owned());
        match (&self.command, &self.url) {
            (Some(_), Some(_)) => return refuse("it has a command and a url; one of them is needed"),
            (None, None) => return refuse("it needs a command or a url"),
            (Some(_), None) if !self.headers.is_empty() => return refuse("headers belong to a url"),
            (None, Some(_)) if !self.args.is_empty() || !self.env.is_empty() || self.cwd.is_some() => {
                return refuse("args, env and cwd belong to a command");
            }
            (Some(command), None) if command.is_empty() => return refuse("the command is empty"),
            (None, Some(url)) => match url::Url::parse(url) {
                Ok(parsed) if matches!(parsed.scheme(), "http" | "https") => {}
                // Not repeated: it may contain a password.
                Ok(_) | Err(_) => return refuse("its url is not an http or https URL"),
            },
            (Some(_), None) => {}
        }
        if self.timeout_ms == 0 {
            return refuse("timeout_ms must be greater than 0");
        }
        Ok(())
    }
}
