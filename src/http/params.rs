//! Query parameters, taken one by one. Unknown parameters are refused.

use std::collections::HashMap;
use std::str::FromStr;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use super::app_state::AppState;
use super::page::ListMark;
use super::problem::Problem;
use crate::domain::fault::{Code, Fault};
use crate::store::PageAsk;

/// The default page size.
pub(crate) const DEFAULT_PAGE_SIZE: u32 = 50;
/// The largest page size that a caller may request.
pub(crate) const MAX_PAGE_SIZE: u32 = 1000;

/// The parameters that decide the order of a list.
const ORDERING: [&str; 4] = ["decidedBy", "groupBy", "sort", "status"];

/// The parameters of a request. Each may occur once.
pub(crate) struct Params {
    given: HashMap<String, String>,
    /// The path of the request.
    path: String,
    /// The values of [`ORDERING`].
    order: [Option<String>; 4],
    /// The largest page size of this server.
    most: u32,
}

impl FromRequestParts<AppState> for Params {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<Self, Problem> {
        let query = parts.uri.query().unwrap_or_default();
        Ok(Self::parse(parts.uri.path(), query, app.config.limits.page.max(1))?)
    }
}

impl Params {
    fn parse(path: &str, query: &str, most: u32) -> Result<Self, Fault> {
        let mut given: HashMap<String, String> = HashMap::new();
        for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
            if given.insert(name.to_string(), value.into_owned()).is_some() {
                return Err(wrong(&name, "is given twice"));
            }
        }
        let order = ORDERING.map(|name| given.get(name).cloned());
        Ok(Self { given, path: path.to_owned(), order, most })
    }

    pub(crate) fn text(&mut self, name: &str) -> Option<String> {
        self.given.remove(name)
    }

    /// Parses a value. `expected` says what it must be.
    pub(crate) fn read<T: FromStr>(&mut self, name: &str, expected: &str) -> Result<Option<T>, Fault> {
        let Some(text) = self.text(name) else { return Ok(None) };
        text.parse().map(Some).map_err(|_| wrong(name, expected))
    }

    /// The `seq` of an observation.
    pub(crate) fn seq(&mut self, name: &str) -> Result<Option<i64>, Fault> {
        let expected = "must be the seq of an observation";
        match self.read(name, expected)? {
            Some(seq) if seq < 0 => Err(wrong(name, expected)),
            seq => Ok(seq),
        }
    }

    /// `true` or `false`.
    pub(crate) fn flag(&mut self, name: &str, default: bool) -> Result<bool, Fault> {
        Ok(self.read(name, "must be true or false")?.unwrap_or(default))
    }

    /// `limit` and `cursor`, and the mark of the list's cursors.
    pub(crate) fn page(&mut self) -> Result<(PageAsk, ListMark), Fault> {
        self.page_of(DEFAULT_PAGE_SIZE)
    }

    /// The same for a list that callers may expect to be whole: without `limit` a page is as large as it may be.
    pub(crate) fn large_page(&mut self) -> Result<(PageAsk, ListMark), Fault> {
        self.page_of(MAX_PAGE_SIZE)
    }

    fn page_of(&mut self, default: u32) -> Result<(PageAsk, ListMark), Fault> {
        let list = ListMark::new(&self.path, &self.order.each_ref().map(Option::as_deref));
        let refused = || wrong("cursor", "must be `nextCursor` of the page before, of the same list");
        let cursor = self.text("cursor");
        let cursor = cursor.map(|given| list.cursor(&given).map(str::to_owned).ok_or_else(refused)).transpose()?;
        let page = PageAsk { limit: self.limit_or(default)?, cursor };
        if page.is_cursor_readable() { Ok((page, list)) } else { Err(refused()) }
    }

    /// The page size. `limits.page` may be less than the caller's limit; the cursor leads to the rest.
    pub(crate) fn limit(&mut self) -> Result<u32, Fault> {
        self.limit_or(DEFAULT_PAGE_SIZE)
    }

    fn limit_or(&mut self, default: u32) -> Result<u32, Fault> {
        let expected = format!("must be a number from 1 to {MAX_PAGE_SIZE}");
        let limit = self.read("limit", &expected)?.unwrap_or(default);
        if limit == 0 || limit > MAX_PAGE_SIZE {
            return Err(wrong("limit", &expected));
        }
        Ok(limit.min(self.most))
    }

    /// Comma-separated names.
    pub(crate) fn list<T>(&mut self, name: &str, parse: impl Fn(&str) -> Option<T>) -> Result<Vec<T>, Fault> {
        let text = self.text(name).unwrap_or_default();
        let named = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        named.map(|part| parse(part).ok_or_else(|| wrong(name, &format!("does not know `{part}`")))).collect()
    }

    /// One of the known words.
    pub(crate) fn one_of<T: Copy>(
        &mut self,
        name: &str,
        all: &[T],
        word: impl Fn(T) -> &'static str,
    ) -> Result<Option<T>, Fault> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let known = all.iter().copied().find(|known| word(*known) == text);
        known.map(Some).ok_or_else(|| {
            let all: Vec<_> = all.iter().map(|known| word(*known)).collect();
            wrong(name, &format!("must be one of {}", all.join(", ")))
        })
    }

    /// Fails if a parameter is left.
    pub(crate) fn finish(self) -> Result<(), Fault> {
        match self.given.keys().min() {
            Some(name) => Err(wrong(name, "is not a parameter of this call")),
            None => Ok(()),
        }
    }
}

/// `pointer` is `?name` for a parameter, which no JSON Pointer can be.
pub(crate) fn wrong(name: &str, how: &str) -> Fault {
    Fault::new(Code::Invalid, format!("The query parameter `{name}` {how}.")).at(format!("?{name}"), how)
}

/// A call without parameters.
pub(crate) struct NoParams;

impl FromRequestParts<AppState> for NoParams {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<Self, Problem> {
        Params::from_request_parts(parts, app).await?.finish()?;
        Ok(Self)
    }
}

/// A call whose only parameters are `limit` and `cursor`.
pub(crate) struct OnlyPage(pub(crate) PageAsk, pub(crate) ListMark);

impl FromRequestParts<AppState> for OnlyPage {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<Self, Problem> {
        let mut params = Params::from_request_parts(parts, app).await?;
        let (page, list) = params.page()?;
        params.finish()?;
        Ok(Self(page, list))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Page;

    fn params(query: &str) -> Params {
        Params::parse("/things", query, MAX_PAGE_SIZE).unwrap()
    }

    #[test]
    fn each_parameter_is_read_once_and_the_rest_refused() {
        let mut given = params("limit=20&types=A,,B");
        assert_eq!(given.page().unwrap().0, PageAsk { limit: 20, cursor: None });
        assert_eq!(given.list("types", |part| Some(part.to_owned())).unwrap(), ["A", "B"]);
        assert!(given.finish().is_ok());
        assert_eq!(params("nope=1").finish().unwrap_err().errors[0].pointer, "?nope");
        assert!(Params::parse("/things", "a=1&a=2", MAX_PAGE_SIZE).is_err());
    }

    #[test]
    fn a_cursor_is_taken_by_its_own_list_only() {
        let list = params("").page().unwrap().1;
        let page = Page::new(vec![1], Some("357e72756e5f31".to_owned()));
        let page = serde_json::to_value(list.page(page)).unwrap();
        let cursor = page["nextCursor"].as_str().unwrap();
        let asked = |path, query: &str| Params::parse(path, &format!("{query}&cursor={cursor}"), 10).unwrap().page();
        for query in ["limit=5", "limit=6&q=x"] {
            assert_eq!(asked("/things", query).unwrap().0.cursor.as_deref(), Some("357e72756e5f31"), "{query}");
        }
        for (path, query) in [("/others", ""), ("/things/1", ""), ("/things", "sort=name"), ("/things", "status=all")] {
            let refused = asked(path, query).unwrap_err();
            let how = "must be `nextCursor` of the page before, of the same list";
            assert_eq!(refused.detail, format!("The query parameter `cursor` {how}."), "{path} {query}");
            assert_eq!(refused.errors[0].pointer, "?cursor");
        }
        for cursor in ["a%20b", "", "357e72756e5f31", &format!("{}zz", &cursor[..8])] {
            assert!(params(&format!("cursor={cursor}")).page().is_err(), "{cursor}");
        }
    }

    #[test]
    fn a_page_has_bounds() {
        assert_eq!(params("").limit().unwrap(), DEFAULT_PAGE_SIZE);
        for wrong in ["limit=0", "limit=1001", "limit=-1", "limit=x", "limit="] {
            assert_eq!(params(wrong).limit().unwrap_err().errors[0].pointer, "?limit", "{wrong}");
        }
        let short = |query| Params::parse("/things", query, 10).unwrap().limit();
        assert_eq!(["", "limit=9", "limit=1000"].map(|query| short(query).unwrap()), [10, 9, 10]);
        assert!(short("limit=1001").is_err());
    }
}
