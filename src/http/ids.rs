//! Ids in paths and bodies.

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;

use super::app_state::AppState;
use super::problem::{HttpResult, Problem};
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::{ItemId, ThreadId};

/// The values of a route's path parameters, by name. A value that is no valid id is answered with `not_found`.
pub(crate) struct Ids(Vec<(String, String)>);

impl FromRequestParts<AppState> for Ids {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<Self, Problem> {
        let missing = || Fault::not_found("page");
        let params = RawPathParams::from_request_parts(parts, app).await.map_err(|_| missing())?;
        Ok(Self(params.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()))
    }
}

impl Ids {
    fn raw(&self, name: &str) -> &str {
        let named = self.0.iter().find(|(known, _)| known == name);
        named.map(|(_, value)| value.as_str()).expect("a handler asks for names that its route has")
    }

    /// The id of an existing resource.
    pub(crate) fn get<T: From<String>>(&self, name: &str) -> HttpResult<T> {
        let id = self.raw(name);
        well_formed(id, usize::MAX).map_err(|_| Fault::not_found(name))?;
        Ok(T::from(id.to_owned()))
    }

    /// The id of an existing thread.
    pub(crate) fn thread(&self) -> HttpResult<ThreadId> {
        self.get("thread")
    }

    /// The id of a plan's item. Models and people may choose any text.
    pub(crate) fn item(&self) -> ItemId {
        self.raw("item").into()
    }

    /// The name of a tool as its MCP server calls it, which may be any text.
    pub(crate) fn mcp_tool(&self) -> String {
        self.raw("tool").to_owned()
    }

    /// The name of a tenant. An issuer may choose any text.
    pub(crate) fn tenant(&self) -> String {
        self.raw("tenant").to_owned()
    }

    /// The id of a thread that this call creates if it does not exist.
    pub(crate) fn new_thread(&self, app: &AppState) -> HttpResult<ThreadId> {
        Ok(new_thread_id(self.raw("thread"), app.config.limits.id_length, "")?)
    }
}

/// An id that a client chose for a thread. `pointer` is its position in the body.
pub(crate) fn new_thread_id(id: &str, longest: usize, pointer: &str) -> Result<ThreadId, Fault> {
    well_formed(id, longest)
        .map_err(|how| Fault::new(Code::Invalid, format!("A thread id {how}.")).at(pointer, how))?;
    Ok(id.into())
}

fn well_formed(id: &str, longest: usize) -> Result<(), String> {
    if id.is_empty() || id.len() > longest {
        return Err(format!("has 1 to {longest} characters"));
    }
    if !id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte)) {
        return Err("consists of letters, digits and `._:-`".to_owned());
    }
    if !id.bytes().any(|byte| byte.is_ascii_alphanumeric()) {
        return Err("has at least one letter or digit".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_short_and_plain() {
        let longest = "a".repeat(128);
        for good in ["t1", "a.b_c:d-e", &longest] {
            assert!(new_thread_id(good, 128, "").is_ok(), "{good}");
        }
        for bad in ["", "..", "-", "a b", "a/b", "ä", "a\n", &"a".repeat(129)] {
            assert!(new_thread_id(bad, 128, "").is_err(), "{bad}");
        }
    }
}
