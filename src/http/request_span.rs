//! The span of a request, where a collector of traces is told: from when it came until its answer begins. It ends where
//! the request is dropped before that.

use axum::extract::{MatchedPath, Request};
use axum::response::Response;

use super::app_state::AppState;
use super::problem::Problem;
use super::trace::TraceId;
use crate::traces::{self, Asked};

/// Whoever looks whether the server is well asks every few seconds: that is no trace of anything.
const PROBES: [&str; 3] = ["/healthz", "/readyz", "/metrics"];

pub(super) struct RequestSpan {
    app: AppState,
    /// `None`: nobody is told of it, or it is over.
    open: Option<traces::RequestSpan>,
}

impl RequestSpan {
    /// What the request asks for has this span as its parent. `path` is without the base path; `url` is one of this server's,
    /// as the client has them.
    pub(super) fn begin(app: &AppState, trace: &mut TraceId, request: &Request, path: &str, url: &str) -> Self {
        let traces = app.service.traces().filter(|_| !PROBES.contains(&path));
        let asked = Asked {
            method: super::metrics::known(request.method()),
            route: request.extensions().get::<MatchedPath>().map(MatchedPath::as_str),
            path: request.uri().path(),
            scheme: url.split_once(':').map_or("http", |(scheme, _)| scheme),
        };
        let now = app.service.now();
        let open = traces.and_then(|traces| traces.begin_request(&trace.0, &mut trace.1, &asked, now));
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
