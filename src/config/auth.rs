//! `[auth]`

use std::collections::{BTreeMap, HashSet};
use std::str::FromStr;

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

use super::env::Variables;
use super::reference::Reference;
use super::secret::{self, REDACTED};
use super::section::{file_only, named};
use super::{Environment, Error, OidcIssuer, oidc};
use crate::domain::actor::ServerActor;
use crate::domain::caller::{LOCAL, Scope};
use crate::domain::policy::GROUP_PREFIX;
use crate::domain::run::SCHEDULE_PREFIX;
use crate::domain::visible::is_unseen;

section! {
    /// Who may call.
    Auth {
        /// "tenant:scope+scope:key" or "tenant/name:scope+scope:key", with the scopes read, run, approve, admin,
        /// operator. Decisions are recorded under the name; without one it is `configured-` and a part of the key's
        /// digest. Keys created with `pes keys new` are valid, too; they never have `operator`, the scope for
        /// operations on the whole server. In the environment separated by commas or line ends. The key may be
        /// `env:NAME` or `file:PATH`, as each secret of this section.
        keys: Vec<ConfiguredKey> = Vec::new(), named("PES_API_KEYS").secret();
        /// Seals secrets in the database: any long text, the same for all replicas. Unset = a file in `store.data_dir`;
        /// with `DATABASE_URL` secrets are then rejected.
        #[serde(with = "super::secret")]
        sealing_key: Option<SecretString> = None, named("PES_SEALING_KEY").secret().example("\"what nobody guesses: 16 characters or more\"");
        /// Earlier sealing keys: they only open what they have sealed. In the environment separated by commas or line
        /// ends. After `pes reseal` they are no longer needed.
        sealing_keys_old: Vec<secret::Key> = Vec::new(), named("PES_SEALING_KEYS_OLD").optional();
        /// Signs audit checkpoints and receipts: 64 hexadecimal digits, the same for all replicas. Unset = they are not
        /// signed.
        #[serde(with = "super::secret")]
        audit_key: Option<SecretString> = None, named("PES_AUDIT_KEY").secret().example("\"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\"");
        /// OpenID Connect issuers whose people may call with their tokens. Each is a table `[auth.oidc.NAME]` with a
        /// name of your choice: `issuer` and `audience` as in its tokens, `tenant` or `tenant_claim` (with `tenants`, the
        /// names that the claim may have, or their beginnings with a `*`; absent = any), and `algorithms` (RS256, ES256,
        /// EdDSA), `scope_claim` ("scope"), `scope_map`, `name_claim` ("sub"), `groups_claim`, `leeway_s` (30). With
        /// `client_id` (and `client_secret`, which may be `env:NAME` or `file:PATH`) people can sign in on the server's
        /// page, with the scopes in `login_scope` ("openid"). Its keys are fetched from the URL in its metadata; if that
        /// is on another host, `egress` must allow it.
        oidc: BTreeMap<String, OidcIssuer> = BTreeMap::new(), file_only().example(
            "{ corp = { issuer = \"https://login.example\", audience = \"pes\", tenant = \"acme\", \
             scope_map = { \"pes.use\" = [\"read\", \"run\"] } } }");
    }
}

/// A key in the configuration.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ConfiguredKey {
    pub tenant: String,
    /// The name under which decisions are recorded; else it is derived from the key.
    pub name: Option<String>,
    pub scopes: Vec<Scope>,
    pub key: SecretString,
}

const KEYS: &str = "auth.keys (PES_API_KEYS)";
const CURRENT: &str = "auth.sealing_key (PES_SEALING_KEY)";
const OLD: &str = "auth.sealing_keys_old (PES_SEALING_KEYS_OLD)";
const AUDIT: &str = "auth.audit_key (PES_AUDIT_KEY)";

const FORM: &str = "an API key is written tenant:scope+scope:key or tenant/name:scope+scope:key";

impl FromStr for ConfiguredKey {
    type Err = String;

    /// The error never repeats the text, which contains a secret.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.trim().splitn(3, ':');
        let (Some(whose), Some(scopes), Some(key)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(FORM.to_owned());
        };
        if key.is_empty() {
            return Err(format!("{FORM}, and none of them may be empty"));
        }
        let (tenant, name) = whose.split_once('/').map_or((whose, None), |(tenant, name)| (tenant, Some(name)));
        check_name(tenant).map_err(|how| format!("a key's tenant {how}"))?;
        name.map_or(Ok(()), check_key_name).map_err(|how| format!("a key's name {how}"))?;
        let scopes = scopes.split('+').map(Scope::named).collect::<Option<_>>();
        let scopes = scopes.ok_or_else(|| format!("{FORM}, with the scopes read, run, approve, admin or operator"))?;
        Ok(Self { tenant: tenant.to_owned(), name: name.map(str::to_owned), scopes, key: key.into() })
    }
}

impl Auth {
    /// Replaces references to variables and files by what is there. The error names the setting, never a key.
    pub(super) fn resolve(&mut self, variables: &Variables) -> Result<(), Error> {
        let follow = |secret: &mut SecretString, place: &str| -> Result<(), Error> {
            let reference = Reference::from(secret.expose_secret().to_owned());
            *secret = reference.resolve(variables).map_err(|why| Error(format!("{place}: {why}")))?;
            Ok(())
        };
        self.keys.iter_mut().try_for_each(|key| follow(&mut key.key, KEYS))?;
        self.sealing_keys_old.iter_mut().try_for_each(|key| follow(&mut key.0, OLD))?;
        self.sealing_key.iter_mut().try_for_each(|key| follow(key, CURRENT))?;
        self.audit_key.iter_mut().try_for_each(|key| follow(key, AUDIT))
    }

    /// Rejects keys that can be guessed, and duplicates.
    pub(crate) fn check(&self, env: Environment) -> Result<(), Error> {
        oidc::check(&self.oidc, env)?;
        for (place, key) in self.keys.iter().enumerate() {
            let (place, secret) = (place + 1, key.key.expose_secret());
            if is_weak(secret) {
                return Err(Error(format!("{KEYS}: the key of entry {place} {WEAK}")));
            }
            if secret.contains(char::is_control) {
                return Err(Error(format!(
                    "{KEYS}: the key of entry {place} has a line end or another control character, which no request can \
                     carry; write one key per line"
                )));
            }
            if !secret.is_ascii() || secret.trim() != secret {
                return Err(Error(format!(
                    "{KEYS}: the key of entry {place} begins or ends with a space, or has a character that is not ASCII, and \
                     no header of a request can carry it; write it without"
                )));
            }
            if self.is_quoted(key) || holds_another(secret) {
                return Err(Error(format!(
                    "{KEYS}: entry {place} is in quotation marks, or another one follows in it after a space or a semicolon: \
                     separate entries by commas or line ends, and write no quotation marks around them"
                )));
            }
            for (earlier, other) in self.keys[..place - 1].iter().enumerate().map(|(at, other)| (at + 1, other)) {
                if other.key.expose_secret() == secret {
                    return Err(Error(format!(
                        "{KEYS}: the entries {earlier} and {place} have the same key; give each its own"
                    )));
                }
                if key.name.is_some() && (&key.tenant, &key.name) == (&other.tenant, &other.name) {
                    return Err(Error(format!(
                        "{KEYS}: the entries {earlier} and {place} have the same name in one tenant"
                    )));
                }
            }
        }
        self.check_audit_key()?;
        self.check_sealing()
    }

    /// Whether a quotation mark before this entry is closed behind it or a later one, as Docker's `--env-file` leaves them. A
    /// key may contain such marks.
    fn is_quoted(&self, key: &ConfiguredKey) -> bool {
        let mark = key.tenant.chars().next().filter(|first| matches!(first, '"' | '\''));
        mark.is_some_and(|mark| self.keys.iter().any(|key| key.key.expose_secret().ends_with(mark)))
    }

    fn check_audit_key(&self) -> Result<(), Error> {
        let Some(key) = self.audit_key.as_ref().map(ExposeSecret::expose_secret) else { return Ok(()) };
        if key.len() != 64 || !key.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(Error(format!("{AUDIT}: it must be 64 hexadecimal digits; `openssl rand -hex 32` makes some")));
        }
        if is_weak(key) {
            return Err(Error(format!("{AUDIT}: this key {WEAK}")));
        }
        Ok(())
    }

    /// All sealing keys must differ, and be writable in a list.
    fn check_sealing(&self) -> Result<(), Error> {
        let current = self.sealing_key.as_ref().map(ExposeSecret::expose_secret);
        if let Some(key) = current {
            if is_weak(key) {
                return Err(Error(format!("{CURRENT}: this key {WEAK}")));
            }
            if key.contains([',', '\n']) || key.trim() != key {
                return Err(Error(format!(
                    "{CURRENT}: this key has a comma or a line end, or begins or ends with a space: it could not stand in \
                     PES_SEALING_KEYS_OLD one day; take another"
                )));
            }
        }
        let old: Vec<&str> = self.sealing_keys_old.iter().map(|key| key.0.expose_secret()).collect();
        if current.is_none() && !old.is_empty() {
            return Err(Error(format!("{OLD}: these keys only open; set PES_SEALING_KEY, which seals from now on")));
        }
        for (place, key) in old.iter().enumerate() {
            if is_weak(key) {
                return Err(Error(format!("{OLD}: the key of entry {} {WEAK}", place + 1)));
            }
            if Some(*key) == current {
                return Err(Error(format!(
                    "{OLD}: entry {} is the key of PES_SEALING_KEY; name here only keys that it replaced",
                    place + 1
                )));
            }
            if let Some(earlier) = old[..place].iter().position(|other| other == key) {
                return Err(Error(format!("{OLD}: the entries {} and {} are the same key", earlier + 1, place + 1)));
            }
        }
        Ok(())
    }
}

const WEAK: &str = "can be guessed: take at least 16 characters, 8 of them different; `openssl rand -hex 32` makes one";

/// The key of the examples in `Dockerfile` and `docker-compose.yml`.
const EXAMPLE: &str = "A_LONG_RANDOM_KEY";

/// Whether the key can be guessed.
fn is_weak(key: &str) -> bool {
    key == EXAMPLE || key.chars().count() < 16 || key.chars().collect::<HashSet<_>>().len() < 8
}

/// Whether the key goes on with another entry, which was separated as no list is here.
fn holds_another(key: &str) -> bool {
    key.split_once([' ', ';']).is_some_and(|(_, rest)| rest.parse::<ConfiguredKey>().is_ok())
}

/// Checks a name of a tenant or key. Names appear in lists, rules and logs, so they contain only visible characters.
pub(crate) fn check_name(name: &str) -> Result<(), &'static str> {
    if (1..=128).contains(&name.len()) && is_legible(name) {
        Ok(())
    } else {
        Err("must have 1 to 128 bytes, without control characters and other invisible ones")
    }
}

/// Prefixes of the names of issuers' people, and in rules of their groups.
const PEOPLE: [&str; 3] = ["http://", "https://", GROUP_PREFIX];

/// Whether every character is visible.
pub(crate) fn is_legible(name: &str) -> bool {
    name.trim() == name && !name.chars().any(is_unseen)
}

/// Like [`check_name`]; also rejects names that the audit uses for the server itself, for people of issuers and for
/// groups.
pub(crate) fn check_key_name(name: &str) -> Result<(), String> {
    const OUR_PREFIXES: [&str; 2] = ["configured-", SCHEDULE_PREFIX];
    check_name(name)?;
    let name = name.to_ascii_lowercase();
    let ours = || ServerActor::ALL.iter().map(|actor| actor.as_str()).chain([LOCAL]);
    if ours().any(|our| our == name) || OUR_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
        let ours: Vec<&str> = ours().collect();
        Err(format!("must not be {}, configured-… or schedule:…: these are the server's own", ours.join(", ")))
    } else if PEOPLE.iter().any(|prefix| name.starts_with(prefix)) {
        Err("must not begin with http://, https:// or group:, as people of an issuer and their groups do".to_owned())
    } else {
        Ok(())
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
        let scopes: Vec<&str> = key.scopes.iter().copied().map(Scope::as_str).collect();
        let name = key.name.map(|name| format!("/{name}")).unwrap_or_default();
        format!("{}{name}:{}:{REDACTED}", key.tenant, scopes.join("+"))
    }
}
