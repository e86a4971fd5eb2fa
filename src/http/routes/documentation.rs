//! `/openapi.json` and `/docs`: the same document for programs and for people, without a network.

use axum::Json;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use utoipa::openapi::OpenApi;
use utoipa::openapi::info::InfoBuilder;

use crate::http::front::Front;

/// This document.
#[utoipa::path(get, path = "/openapi.json", tag = "server", responses((status = 200, body = Object)))]
pub(crate) async fn openapi_json(State(_): State<Front>) -> Json<OpenApi> {
    Json(crate::http::openapi())
}

/// This document as a page.
#[utoipa::path(get, path = "/docs", tag = "server", responses((status = 200, body = String)))]
pub(crate) async fn docs() -> impl IntoResponse {
    ([(CONTENT_TYPE, "text/html; charset=utf-8")], include_str!("docs.html"))
}

pub(crate) fn preamble() -> OpenApi {
    let mut api = OpenApi::default();
    api.info = InfoBuilder::new().title("PES Agent Server").version(env!("CARGO_PKG_VERSION")).build();
    api
}

pub(crate) fn complete(api: OpenApi) -> OpenApi {
    api
}
