//! Pages of lists: query parameters in, JSON out.

use serde::Serialize;
use serde_json::json;

use crate::domain::digest;
use crate::store::Page;

/// `nextCursor` is absent on the last page.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Listed<T> {
    pub(crate) items: Vec<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next_cursor: Option<String>,
}

impl<T> Listed<T> {
    /// A list without pages.
    pub(crate) fn whole(items: Vec<T>) -> Self {
        Self { items, next_cursor: None }
    }
}

/// How many characters of a cursor name its list.
const MARK_LENGTH: usize = 8;

/// What each cursor of a list begins with, so that no other list takes it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ListMark(String);

impl ListMark {
    /// The list at this path, in the order that these parameters decide.
    pub(crate) fn new(path: &str, order: &[Option<&str>]) -> Self {
        let mut digest = digest::of(&json!([path, order]));
        digest.truncate(MARK_LENGTH);
        Self(digest)
    }

    /// A page of this list, as the client gets it.
    pub(crate) fn page<T>(&self, page: Page<T>) -> Listed<T> {
        let next_cursor = page.next_cursor.map(|cursor| format!("{}{cursor}", self.0));
        Listed { items: page.items, next_cursor }
    }

    /// The store's cursor in one that this list gave to the client.
    pub(crate) fn cursor<'c>(&self, given: &'c str) -> Option<&'c str> {
        given.strip_prefix(&self.0)
    }
}
