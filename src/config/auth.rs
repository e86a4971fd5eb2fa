//! `[auth]`

use std::str::FromStr;

use secrecy::SecretString;
use serde::{Deserialize, Serialize};

use super::secret::REDACTED;
use super::section::named;
use crate::domain::caller::Scope;

section! {
    /// Who may call.
    Auth {
        /// "tenant:scope+scope:key", scopes of read, run, approve, admin. Keys made with `pes keys new` count beside them.
        keys: Vec<ConfiguredKey> = Vec::new(), named("PES_API_KEYS").secret();
        /// What seals secrets in the database: any long text, the same for all replicas. Unset = a file in
        /// `store.data_dir`; with `DATABASE_URL` secrets are refused then.
        #[serde(with = "super::secret")]
        sealing_key: Option<SecretString> = None, named("PES_SEALING_KEY").secret().example("\"…\"");
    }
}

/// A key that the operator wrote down.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ConfiguredKey {
    pub tenant: String,
    pub scopes: Vec<Scope>,
    pub key: SecretString,
}

impl FromStr for ConfiguredKey {
    type Err = String;

    /// The message never repeats the text: it holds a secret.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.trim().splitn(3, ':');
        let (Some(tenant), Some(scopes), Some(key)) = (parts.next(), parts.next(), parts.next()) else {
            return Err("an API key is written tenant:scope+scope:key".to_owned());
        };
        if key.is_empty() {
            return Err("an API key is written tenant:scope+scope:key, and none of them may be empty".to_owned());
        }
        check_name(tenant).map_err(|how| format!("a key's tenant {how}"))?;
        let scopes = scopes.split('+').map(scope).collect::<Result<_, _>>()?;
        Ok(Self { tenant: tenant.to_owned(), scopes, key: key.into() })
    }
}

/// Tenants and keys go by their names, in lists, rules and logs.
pub(crate) fn check_name(name: &str) -> Result<(), &'static str> {
    match (1..=128).contains(&name.len()) && !name.chars().any(char::is_control) {
        true => Ok(()),
        false => Err("must have 1 to 128 bytes, without control characters"),
    }
}

/// A scope by its name.
pub fn scope(name: &str) -> Result<Scope, String> {
    match name {
        "read" => Ok(Scope::Read),
        "run" => Ok(Scope::Run),
        "approve" => Ok(Scope::Approve),
        "admin" => Ok(Scope::Admin),
        other => Err(format!("`{other}` is no scope; use read, run, approve or admin")),
    }
}

/// The name of a scope.
pub fn scope_name(scope: Scope) -> &'static str {
    match scope {
        Scope::Read => "read",
        Scope::Run => "run",
        Scope::Approve => "approve",
        Scope::Admin => "admin",
    }
}

impl TryFrom<String> for ConfiguredKey {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<ConfiguredKey> for String {
    fn from(key: ConfiguredKey) -> Self {
        let scopes: Vec<&str> = key.scopes.iter().copied().map(scope_name).collect();
        format!("{}:{}:{REDACTED}", key.tenant, scopes.join("+"))
    }
}
