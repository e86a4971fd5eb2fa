//! Pages of lists: query parameters in, JSON out.

use serde::Serialize;

use crate::store::Page;

/// `nextCursor` is absent on the last page.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Listed<T> {
    items: Vec<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

impl<T> From<Page<T>> for Listed<T> {
    fn from(page: Page<T>) -> Self {
        Self { items: page.items, next_cursor: page.next_cursor }
    }
}

impl<T> Listed<T> {
    /// A list without pages.
    pub(crate) fn whole(items: Vec<T>) -> Self {
        Self { items, next_cursor: None }
    }
}
