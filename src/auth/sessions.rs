//! Sessions of browsers: a token in a cookie that scripts cannot read, in place of a key.
//!
//! A session refers to its key by hash, so it has the key's scopes and ends as soon as the key is revoked. A session
//! that was created from an issuer's token has that token's identity and scopes, and ends no later. One of a person who
//! signed in at the issuer has the identity and scopes of that time for twelve hours, whatever changes at the issuer,
//! unless an administrator ends it. It also ends when the settings that gave those scopes are changed.

use serde::Serialize;
use serde_json::json;

use super::keys::{Credential, Keys, Pass, unavailable};
use super::mint::{hash, mint_session};
use super::oidc::Person;
use crate::domain::Millis;
use crate::domain::caller::{Caller, Scope};
use crate::domain::fault::{Code, Fault};
use crate::store::{AuditRow, Page, PageAsk, SessionRow};

/// How long a session lasts.
pub const SESSION_TTL: Millis = 12 * 3_600_000;

/// How many sessions a key or a person has at a time: browsers of one person, or of those who share a key. Beyond that
/// those that end first are over, so that a key which may only read does not fill the database.
const MAX_SESSIONS: u32 = 100;

/// The holder of a session.
pub(super) enum SessionHolder {
    /// The key with this hash.
    Key(String),
    Person(Person),
}

/// A session's token, and its lifetime.
pub struct Session {
    pub token: String,
    pub seconds: i64,
}

/// A session of a person who signed in at an issuer or with a token.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PersonSession {
    /// The person: `iss#sub`.
    name: String,
    /// The name of the issuer in the settings.
    issuer: String,
    scopes: Vec<Scope>,
    expires_at: Millis,
}

impl Keys {
    /// Creates a session for credentials that were accepted. `None`: no session is needed, because no key is required
    /// or the credentials are a session.
    pub async fn begin_session(&self, pass: &Pass) -> Result<Option<Session>, Fault> {
        let holder = match &pass.0 {
            Credential::None | Credential::Session(_) => return Ok(None),
            Credential::Key(key) => SessionHolder::Key(key.clone()),
            Credential::Token(token) if !self.issuers.may_be_token(token) || self.is_configured(&hash(token)) => {
                SessionHolder::Key(hash(token))
            }
            Credential::Token(token) => SessionHolder::Person(self.issuers.person(token, (self.now)()).await?),
        };
        if self.is_open().await? {
            return Ok(None);
        }
        // A token that has expired is accepted for its leeway, but its session would be over before the answer arrives.
        if let SessionHolder::Person(person) = &holder
            && person.until <= (self.now)()
        {
            let detail = "The token has expired; get another one from your issuer, and begin a session with it.";
            return Err(Fault::new(Code::Unauthorized, detail));
        }
        self.add_session(&holder).await.map(Some)
    }

    /// Lasts for twelve hours, or until the token expires that it was created from.
    pub(super) async fn add_session(&self, holder: &SessionHolder) -> Result<Session, Fault> {
        let (token, now) = (mint_session(), (self.now)());
        let whole = now.saturating_add(SESSION_TTL);
        let expires_at = match holder {
            SessionHolder::Key(_) => whole,
            SessionHolder::Person(person) => person.until.min(whole),
        };
        let (key_hash, person) = match holder {
            SessionHolder::Key(key) => (key.clone(), None),
            SessionHolder::Person(person) => {
                (person_hash(&person.tenant, &person.name), Some(json!(person).to_string()))
            }
        };
        let session = SessionRow { hash: hash(&token), key_hash, person, expires_at };
        self.store.add_session(session, MAX_SESSIONS).await.map_err(unavailable)?;
        Ok(Session { token, seconds: (expires_at - now).max(0) / 1000 })
    }

    /// Ends this session on every replica within two seconds. Idempotent.
    pub async fn end_session(&self, pass: &Pass) -> Result<(), Fault> {
        let Credential::Session(session) = &pass.0 else { return Ok(()) };
        self.store.end_session(session).await.map_err(unavailable)?;
        self.clear_cached_callers();
        Ok(())
    }

    /// Whether this may be the name of somebody who has sessions.
    pub fn may_be_person(&self, name: &str) -> bool {
        self.issuers.may_have(name)
    }

    /// The sessions of the people of the caller's tenant, or of one of them, by person.
    pub async fn sessions_of_people(
        &self,
        caller: &Caller,
        name: Option<&str>,
        page: &PageAsk,
    ) -> Result<Page<PersonSession>, Fault> {
        let tenant = json!(caller.tenant_name);
        // Quotes within a value are escaped, so nothing else in the JSON of a person has this text.
        let containing = match name {
            None => format!(r#""tenant":{tenant},"#),
            Some(name) => format!(r#""tenant":{tenant},"name":{},"#, json!(name)),
        };
        let found = self.store.sessions_of_people(&containing, (self.now)(), page).await.map_err(unavailable)?;
        let shown = |row: SessionRow| {
            let person =
                serde_json::from_str::<Person>(&row.person?).ok().filter(|person| self.issuers.knows(person))?;
            let Person { provider: issuer, name, mut scopes, .. } = person;
            scopes.retain(|scope| *scope != Scope::Operator);
            Some(PersonSession { name, issuer, scopes, expires_at: row.expires_at })
        };
        Ok(found.filter_map(shown))
    }

    /// Ends all sessions of a person of the caller's tenant, on every replica within two seconds. Returns how many there
    /// were.
    pub async fn end_sessions_of(&self, caller: &Caller, name: &str) -> Result<u64, Fault> {
        let detail = json!({ "name": name });
        let line = AuditRow::of_tenant(caller.tenant, (self.now)(), &caller.name, "end sessions", detail);
        let ended = self.store.end_sessions(&person_hash(&caller.tenant_name, name), line).await;
        self.clear_cached_callers();
        ended.map_err(unavailable)
    }

    /// The holder of a session that has not expired. A person is accepted only while the issuer is configured as it was.
    pub(super) async fn holder(&self, session: &str) -> Result<Option<SessionHolder>, Fault> {
        let row = self.store.session(session).await.map_err(unavailable)?;
        let Some(row) = row.filter(|row| row.expires_at > (self.now)()) else { return Ok(None) };
        let Some(person) = row.person else { return Ok(Some(SessionHolder::Key(row.key_hash))) };
        let person = serde_json::from_str::<Person>(&person).ok();
        Ok(person.filter(|person| self.issuers.knows(person)).map(SessionHolder::Person))
    }
}

/// What a person's sessions are found by. No key has this hash, because none begins like a list.
fn person_hash(tenant: &str, name: &str) -> String {
    hash(&json!([tenant, name]).to_string())
}
