//! The page for people: the files of `console/`, which are embedded at build time. `/` is the page for clients that
//! accept HTML; its other files are under `/console/`.
//!
//! All its files come from this server. It runs without `eval` and writes no HTML, which its `Content-Security-Policy`
//! enforces.

#[cfg(test)]
mod comments;
mod files;

use axum::extract::Path;
use axum::http::header::{
    ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    REFERRER_POLICY, VARY,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};

use super::etag;
use super::header_list::entries;
use super::problem::HttpResult;
use crate::domain::fault::Fault;
use files::File;

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";

/// The page itself.
pub(crate) async fn page(headers: &HeaderMap) -> HttpResult<Response> {
    serve_file("index.html", headers).await
}

/// A file of the page.
pub(crate) async fn part(Path(path): Path<String>, headers: HeaderMap) -> HttpResult<Response> {
    serve_file(&path, &headers).await
}

async fn serve_file(path: &str, headers: &HeaderMap) -> HttpResult<Response> {
    let file = files::find(path).await.ok_or_else(|| Fault::not_found("part of the page"))?;
    let mut response = answer(&file, headers);
    let own = response.headers_mut();
    own.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    own.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    own.insert(HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin"));
    // File names stay the same from version to version, so browsers revalidate each file and get 304.
    own.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    own.insert(VARY, HeaderValue::from_static("accept, accept-encoding"));
    Ok(response)
}

fn answer(file: &File, headers: &HeaderMap) -> Response {
    let gzip = file.gzip.as_ref().filter(|_| prefers(headers, &ACCEPT_ENCODING, "gzip"));
    let tag = match gzip {
        Some(_) => format!("\"{}-gzip\"", file.hash),
        None => format!("\"{}\"", file.hash),
    };
    let is_known = etag::is_known(headers, &tag);
    let tag = HeaderValue::from_str(&tag).expect("a hash is ASCII");
    if is_known {
        return (StatusCode::NOT_MODIFIED, [(ETAG, tag)]).into_response();
    }
    let head = [(CONTENT_TYPE, HeaderValue::from_static(media_type(file.path.as_ref()))), (ETAG, tag)];
    match gzip {
        Some(bytes) => (head, [(CONTENT_ENCODING, "gzip")], bytes.clone()).into_response(),
        None => (head, file.plain.clone()).into_response(),
    }
}

/// Whether the caller is a browser that shows pages.
pub(crate) fn wants_page(headers: &HeaderMap) -> bool {
    prefers(headers, &ACCEPT, "text/html")
}

/// Whether a header lists this choice with a weight other than 0.
fn prefers(headers: &HeaderMap, name: &HeaderName, choice: &str) -> bool {
    entries(headers, name).any(|entry| {
        let mut words = entry.split(';').map(str::trim);
        let is_named = words.next().is_some_and(|word| word.eq_ignore_ascii_case(choice));
        let is_refused =
            words.filter_map(|word| word.strip_prefix("q=")).any(|weight| weight.parse::<f32>() == Ok(0.0));
        is_named && !is_refused
    })
}

fn media_type(path: &str) -> &'static str {
    match path.rsplit('.').next().unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" => "application/json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "txt" | "md" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_counts_unless_it_is_refused() {
        let accepts = |value: &'static str| {
            let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(value))]);
            wants_page(&headers)
        };
        assert!(accepts("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"));
        for other in ["*/*", "application/json", "text/html;q=0", "text/htmlx", ""] {
            assert!(!accepts(other), "{other}");
        }
    }
}
