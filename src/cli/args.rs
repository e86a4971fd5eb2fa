//! Commands and flags.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use toml::{Table, Value};

use super::client::{ClientCommand, duration, id};
use super::verify::since;
use crate::auth::MAX_OVERLAP;
use crate::config::auth;
use crate::config::env::Variables;
use crate::config::layers::Layers;
use crate::domain::caller::Scope;
use crate::service::audit::verify::Since;

/// A durable server for agents that plan, execute and synthesize.
#[derive(Debug, Parser)]
#[command(name = "pes", version)]
pub(super) struct Arguments {
    #[command(subcommand)]
    pub command: Option<Command>,
    #[command(flatten)]
    pub flags: Flags,
    /// The server to send requests to, with the key of PES_TOKEN; else that of --host, --port or --data-dir, of PES_URL, or
    /// the one on this machine
    #[arg(long, global = true, help_heading = SERVER)]
    pub url: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Start the server (the default)
    Serve,
    /// Manage API keys: through PES_URL or the server that uses the data folder, else in the database itself
    Keys {
        #[command(subcommand)]
        command: KeysCommand,
    },
    /// Exit 0 if the server is ready
    Health {
        /// Print the response of the API
        #[arg(long)]
        json: bool,
    },
    /// Copy the SQLite database to a file, also while a server runs, and describe the copy in FILE.json
    Backup {
        /// The copy, which must not exist yet
        file: PathBuf,
    },
    /// Restore a backup into the data folder; unfinished runs wait for a person
    Restore {
        /// A file of `pes backup`, with FILE.json beside it
        #[arg(required_unless_present = "adopt", conflicts_with = "adopt")]
        file: Option<PathBuf>,
        /// The database was restored by other tools (those of PostgreSQL, or a copy of the disk)
        #[arg(long)]
        adopt: bool,
        /// Let runs continue by themselves: calls that were made after the backup may be repeated
        #[arg(long, conflicts_with = "adopt")]
        resume: bool,
    },
    /// Verify the audit: recompute its hashes, and compare them with its checkpoints
    Verify {
        /// Begin after this line of each tenant, or after the last checkpoint before this time: 4711, 2026-11-21,
        /// 2026-11-21T08:00:00Z
        #[arg(long, value_name = "N|TIME", value_parser = since)]
        since: Option<Since>,
        /// Also compare with checkpoints that were kept elsewhere: bodies of webhooks, or the response of GET
        /// /audit/export
        #[arg(long, value_name = "FILE")]
        checkpoint: Option<PathBuf>,
        /// Public keys to verify signatures with, besides PES_AUDIT_KEY: the response of GET /audit/keys
        #[arg(long, value_name = "FILE")]
        keys: Option<PathBuf>,
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Seal all secrets of the database with PES_SEALING_KEY, so that PES_SEALING_KEYS_OLD can be removed
    Reseal,
    /// Check what a server needs: settings, database, keys, secrets, folder, sealing key, audit key, models, agents,
    /// MCP servers, webhooks, issuers
    Doctor {
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Print the effective configuration, without secrets
    Config {
        /// Print the commented config/default.toml instead
        #[arg(long, conflicts_with = "explain")]
        template: bool,
        /// Print the source of each setting
        #[arg(long)]
        explain: bool,
        /// Print one JSON document
        #[arg(long, conflicts_with = "template")]
        json: bool,
    },
    /// Print the version
    Version {
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Print the completion script for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    #[command(flatten)]
    Client(ClientCommand),
}

#[derive(Debug, Subcommand)]
pub(super) enum KeysCommand {
    /// Create a key; it is shown only once
    New {
        /// The tenant; by default that of your key, or without a server the only one with keys
        #[arg(long, value_parser = tenant)]
        tenant: Option<String>,
        /// Who or what will use it: its decisions are recorded under this name, which no other key of the tenant ever
        /// has
        #[arg(long, value_parser = key_name)]
        name: Option<String>,
        /// read, run, approve, admin; by default admin for the first key, read,run,approve for the others
        #[arg(long, value_delimiter = ',', value_parser = scope)]
        scopes: Option<Vec<Scope>>,
        /// The key expires after this time: 12h, 90d; by default it is valid until it is revoked
        #[arg(long, value_parser = lifetime)]
        expires: Option<Duration>,
    },
    /// Replace a key with a new one of the same id, name and scopes; it is shown only once
    Rotate {
        /// The id of the key, as `pes keys ls` lists it
        #[arg(value_parser = id)]
        key_id: String,
        /// How long the old key stays valid: 30m, 24h, 7d
        #[arg(long, value_parser = overlap, default_value = "0s")]
        overlap: Duration,
        /// The new key expires after this time; by default when the old one would have
        #[arg(long, value_parser = lifetime)]
        expires: Option<Duration>,
    },
    /// List the keys, without the secrets themselves
    Ls {
        /// Print the response of the API
        #[arg(long)]
        json: bool,
    },
    /// Revoke a key by its id
    Revoke {
        /// The id of the key, as `pes keys ls` lists it
        #[arg(value_parser = id)]
        key_id: String,
    },
    /// Move the threads and settings that were created without keys to a tenant; the server must be stopped
    Adopt {
        /// The tenant, which has nothing but keys
        #[arg(value_parser = tenant)]
        tenant: String,
    },
}

/// The heading of the flags of every command.
const SERVER: &str = "The server (a flag is refused by a command that does not use it)";

/// Flags override every other layer of the configuration.
#[derive(Debug, Args)]
pub(super) struct Flags {
    /// The configuration file, instead of config/local.toml
    #[arg(long, global = true, value_name = "FILE", help_heading = SERVER)]
    config: Option<PathBuf>,
    /// The address to bind; for a command that sends requests, the address of the server
    #[arg(long, global = true, help_heading = SERVER)]
    host: Option<String>,
    /// The port to bind, 0 = any free one; for a command that sends requests, the port of the server
    #[arg(long, global = true, help_heading = SERVER)]
    port: Option<u16>,
    /// The folder of the SQLite database; for a command that sends requests, the server that uses this folder
    #[arg(long, global = true, value_name = "DIR", help_heading = SERVER)]
    data_dir: Option<PathBuf>,
    /// The models of the server to start, as provider:model[,provider:model…]; refused where a running server is used
    #[arg(long, global = true, value_delimiter = ',', help_heading = SERVER)]
    model: Vec<String>,
}

impl Flags {
    /// The flags, each with its value if it is given.
    fn values(&self) -> [(&'static str, Option<OsString>); 5] {
        let model = (!self.model.is_empty()).then(|| self.model.join(","));
        [
            ("--config", self.config.clone().map(OsString::from)),
            ("--host", self.host.clone().map(OsString::from)),
            ("--port", self.port.map(|port| port.to_string().into())),
            ("--data-dir", self.data_dir.clone().map(OsString::from)),
            ("--model", model.map(OsString::from)),
        ]
    }

    /// The given flags as arguments for another process.
    pub(super) fn as_arguments(&self) -> Vec<OsString> {
        let given = self.values().into_iter().filter_map(|(name, value)| Some([name.into(), value?]));
        given.flatten().collect()
    }

    /// The names of the given flags.
    pub(super) fn given(&self) -> impl Iterator<Item = &'static str> {
        self.values().into_iter().filter_map(|(name, value)| value.map(|_| name))
    }

    pub(super) fn names_address(&self) -> bool {
        self.host.is_some() || self.port.is_some()
    }

    pub(super) fn names_folder(&self) -> bool {
        self.data_dir.is_some()
    }

    pub(super) fn names_model(&self) -> bool {
        !self.model.is_empty()
    }

    /// The first given flag that chooses a server on this machine.
    pub(super) fn of_this_machine(&self) -> Option<&'static str> {
        self.given().find(|name| *name != "--model")
    }

    pub(super) fn layers(&self, variables: &Variables) -> Layers {
        let mut flags = Table::new();
        let mut set = |section: &str, key: &str, value: Option<Value>| {
            if let (Some(value), Value::Table(section)) =
                (value, flags.entry(section).or_insert_with(|| Value::Table(Table::new())))
            {
                section.insert(key.to_owned(), value);
            }
        };
        set("server", "host", self.host.clone().map(Value::from));
        set("server", "port", self.port.map(|port| Value::from(i64::from(port))));
        set("store", "data_dir", self.data_dir.as_ref().map(|path| Value::from(path.display().to_string())));
        set("models", "choice", (!self.model.is_empty()).then(|| Value::from(self.model.clone())));
        Layers { file: self.config.clone(), variables: variables.clone(), flags }
    }
}

/// The scopes that a key made here may have. `operator` is left out: only keys in the settings can have it.
fn scope(name: &str) -> Result<Scope, String> {
    match Scope::named(name) {
        Some(Scope::Operator) => Err("only keys in PES_API_KEYS can be operators".to_owned()),
        Some(scope @ (Scope::Read | Scope::Run | Scope::Approve | Scope::Admin)) => Ok(scope),
        None => Err(format!("`{name}` is no scope; use read, run, approve or admin")),
    }
}

fn tenant(name: &str) -> Result<String, String> {
    auth::check_name(name).map(|()| name.to_owned()).map_err(|how| format!("a tenant {how}"))
}

fn key_name(name: &str) -> Result<String, String> {
    auth::check_key_name(name).map(|()| name.to_owned()).map_err(|how| format!("a name {how}"))
}

fn lifetime(text: &str) -> Result<Duration, String> {
    let found = duration(text)?;
    if found.is_zero() { Err("the key would expire at once".to_owned()) } else { Ok(found) }
}

fn overlap(text: &str) -> Result<Duration, String> {
    let found = duration(text)?;
    if found > Duration::from_millis(MAX_OVERLAP.unsigned_abs()) {
        return Err(format!("`{text}` is too long; at most {}d", MAX_OVERLAP / 86_400_000));
    }
    Ok(found)
}
