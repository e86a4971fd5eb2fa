//! The outermost layer: every request gets a trace and a log line, every fault its document, every panic a response.

use std::panic::AssertUnwindSafe;
use std::time::Instant;

use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{CONNECTION, CONTENT_SECURITY_POLICY, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use tracing::Instrument;

use super::app_state::AppState;
use super::challenge;
use super::doors::Door;
use super::held_body::HeldBody;
use super::metrics;
use super::problem::{self, Problem, ProblemContext};
use super::rates::RateNotice;
use super::remote_addr::RemoteAddr;
use super::request_span::RequestSpan;
use super::routes::protected_resource;
use crate::domain::fault::{Code, Fault};
use crate::domain::request_trace::RequestTrace;

pub(crate) async fn respond(State(app): State<AppState>, mut request: Request, next: Next) -> Response {
    let started = Instant::now();
    let mut trace = RequestTrace::of(request.headers());
    let method = request.method().clone();
    let instance = request.uri().path().to_owned();
    // Without the base path, so that alerts and panels hold wherever the server is mounted.
    let matched = request.extensions().get::<MatchedPath>();
    let route = matched.map_or("unknown", |matched| app.links.below_base(matched.as_str())).to_owned();
    let base = app.links.base(RemoteAddr::ip(request.extensions()), request.headers());
    let path = app.links.below_base(&instance);
    let request_span = RequestSpan::begin(&app, &mut trace, &request, path, &base);
    request.extensions_mut().insert(trace.clone());
    let challenge = challenge::of(request.headers());
    let metadata = protected_resource::metadata_url(&app, path, &base);
    let rates = RateNotice::default();
    request.extensions_mut().insert(rates.clone());

    let in_flight = metrics::InFlight::begin();
    // A request that waits for a run or for events says nothing about this server's speed.
    let is_patient = metrics::is_patient(request.headers());
    let span = tracing::info_span!("request", traceId = %trace.id, %method, path = %instance);
    let answered = AssertUnwindSafe(next.run(request)).catch_unwind().instrument(span.clone()).await;
    let bare = answered.unwrap_or_else(|_| {
        Problem(Fault::new(Code::Internal, "The server failed to handle the request.")).into_response()
    });

    let door = Door::at(path);
    let mut response = match bare.extensions().get::<Problem>().cloned() {
        Some(Problem(fault)) => {
            span.in_scope(|| log(&fault));
            let docs = format!("{base}/docs");
            let context = ProblemContext { docs: &docs, instance: &instance, trace_id: &trace.id };
            match door {
                Some(door) => door.refuse(&fault, &context, path, bare),
                None => problem::complete(&fault, &context, bare),
            }
        }
        None => bare,
    };
    challenge::write(&mut response, challenge, metadata.as_deref());
    protect(response.headers_mut());
    if app.leaving.is_cancelled() {
        end_connection(&mut response);
    }
    rates.write(response.headers_mut());
    if rates.holds_slot() {
        response = response.map(|body| Body::new(HeldBody::new(body, rates)));
    }
    if door.is_some() {
        Door::set_headers(response.headers_mut(), &trace);
    }
    let took = (!is_patient && !metrics::is_run_response(&response)).then(|| started.elapsed());
    metrics::request(&method, &route, response.status(), took);
    request_span.end(&response);
    drop(in_flight);
    span.in_scope(|| tracing::debug!(status = response.status().as_u16(), elapsed = ?started.elapsed(), "answered"));
    response
}

/// Makes browsers trust the content type, and keeps other pages from framing the response.
fn protect(headers: &mut HeaderMap) {
    headers.entry(CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static("frame-ancestors 'none'"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
}

/// While the server leaves, each response is the last one of its connection: a proxy that kept the connection might send
/// a request on it just when the server closes it, and then cannot know whether the server has received it (502).
fn end_connection(response: &mut Response) {
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
}

fn log(fault: &Fault) {
    if fault.code == Code::Internal {
        tracing::error!(code = fault.code.as_str(), detail = %fault.detail, "a request failed inside the server");
    } else {
        tracing::debug!(code = fault.code.as_str(), detail = %fault.detail, "refused");
    }
}
