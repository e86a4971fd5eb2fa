//! The caller of a request: the tenant, the key's name and its scopes.

use serde::{Deserialize, Serialize};

use super::ids::TenantPk;
use super::policy::Answerer;

/// What a key may do. `admin` includes the three before it; no other includes another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Reading whatever its tenant has.
    Read,
    /// Starting, steering and cancelling runs.
    Run,
    /// Answering the questions of runs.
    Approve,
    /// Keys, resources and limits of its tenant.
    Admin,
    /// What concerns the whole server. Only keys that are configured have it, and whoever calls an open server.
    Operator,
}

impl Scope {
    /// In the order in which documents list them.
    pub const ALL: [Scope; 5] = [Scope::Read, Scope::Run, Scope::Approve, Scope::Admin, Scope::Operator];

    /// Its name in keys, tokens and the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Scope::Read => "read",
            Scope::Run => "run",
            Scope::Approve => "approve",
            Scope::Admin => "admin",
            Scope::Operator => "operator",
        }
    }

    /// `None`: there is no scope of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == name)
    }
}

/// The name of callers of an open loopback server, and, in the audit, of commands that work on the database directly.
pub const LOCAL: &str = "local";

/// The authenticated origin of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The tenant whose threads it reaches.
    pub tenant: TenantPk,
    /// The tenant's public name.
    pub tenant_name: String,
    /// The name in audits and in `decidedBy`: the key's name, `iss#sub` for the holder of a token, or `local` on an
    /// open loopback server.
    pub name: String,
    /// What its key or token allows.
    pub scopes: Vec<Scope>,
    /// The groups in the caller's token.
    pub groups: Vec<String>,
}

impl Caller {
    /// `admin` includes all other scopes of the tenant, but not `operator`.
    pub fn may(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope) || scope != Scope::Operator && self.scopes.contains(&Scope::Admin)
    }

    /// The caller as a person who answers questions.
    pub fn answerer(&self) -> Answerer {
        Answerer { name: self.name.clone(), groups: self.groups.clone() }
    }
}
