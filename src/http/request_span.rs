//! The span of a request, where a trace collector is configured: from its arrival until its response begins, or until
//! the request is dropped before that.

use axum::extract::{MatchedPath, Request};
use axum::response::Response;

use super::app_state::AppState;
use super::problem::Problem;
use crate::domain::request_trace::RequestTrace;
use crate::traces::{self, RequestInfo};

/// Health checks come every few seconds and are not traced.
const PROBES: [&str; 3] = ["/healthz", "/readyz", "/metrics"];

pub(super) struct RequestSpan {
    app: AppState,
    /// `None` if no collector is configured, or the span has ended.
    open: Option<traces::RequestSpan>,
}

impl RequestSpan {
    /// Begins the span and makes it the parent of everything that the request causes. `path` is without the base path;
    /// `url` is one of this server's URLs as the client sees them.
    pub(super) fn begin(app: &AppState, trace: &mut RequestTrace, request: &Request, path: &str, url: &str) -> Self {
        let traces = app.service.traces().filter(|_| !PROBES.contains(&path));
        let asked = RequestInfo {
            method: super::metrics::method_label(request.method()),
            route: request.extensions().get::<MatchedPath>().map(MatchedPath::as_str),
            path: request.uri().path(),
            scheme: url.split_once(':').map_or("http", |(scheme, _)| scheme),
        };
        let now = app.service.now();
        let open = traces.and_then(|traces| traces.begin_request(&trace.id, &mut trace.origin, &asked, now));
        Self { app: app.clone(), open }
    }

    pub(super) fn end(mut self, response: &Response) {
        let status = response.status();
        let problem = response.extensions().get::<Problem>().map(|problem| problem.0.code.as_str());
        let code = status.is_server_error().then(|| problem.unwrap_or(status.as_str()));
        self.close(Some(status.as_u16()), code);
    }

    fn close(&mut self, status: Option<u16>, code: Option<&str>) {
        if let Some((open, traces)) = self.open.take().zip(self.app.service.traces()) {
            traces.end_request(open, status, code, self.app.service.now());
        }
    }
}

impl Drop for RequestSpan {
    fn drop(&mut self) {
        self.close(None, None);
    }
}
