//! All routes with their documentation, and the layers around them.

use axum::Router;
use axum::extract::{OriginalUri, State};
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use serde_json::Value;
use utoipa_axum::router::OpenApiRouter;

use super::app_state::AppState;
use super::envelope::respond;
use super::events::{changes, route as events};
use super::guard::guard;
use super::problem::Problem;
use super::routes::{
    agent_state, agents, audit, callbacks, cancel, documentation, fork, health, http_tools, index, items, keys, limits,
    login, mcp_servers, messages, offers, pause, plan, policy, process, protected_resource, release, resume, retention,
    runs, schedules, session, state, streams, suspensions, tasks, tenants, threads, tool_calls, transfer, usage,
    webhooks,
};
use super::scopes::routes;
use super::{console, cors, doors};
use crate::domain::fault::{Code, Fault};

/// All routes.
pub fn router(app: AppState) -> Router {
    let (routes, _) = documented().split_for_parts();
    let base_path = app.links.base_path.clone();
    let routes = if base_path.is_empty() {
        routes
    } else {
        // Probes do not come over the proxy. When nested, the root path has no slash at its end, which the page's links need.
        let probes = Router::new().route("/healthz", get(health::healthz)).route("/readyz", get(health::readyz));
        probes.nest(&base_path, routes).route(&format!("{base_path}/"), get(index::index))
    };
    let mut routes = routes
        .fallback(unknown)
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn_with_state(app.clone(), guard));
    if let Some(cors) = cors::layer(&app.config.server.cors_origins, &app.config.doors.thread_headers) {
        routes = routes.layer(cors);
    }
    routes.layer(from_fn_with_state(app.clone(), respond)).with_state(app)
}

/// Only `/metrics`, without authentication.
pub(crate) fn metrics(app: AppState) -> Router {
    let routes = Router::new().route("/metrics", get(health::scrape)).fallback(only_metrics);
    routes.layer(from_fn_with_state(app.clone(), respond)).with_state(app)
}

async fn only_metrics() -> Problem {
    Fault::new(Code::NotFound, "This address has /metrics and nothing else.").into()
}

/// The OpenAPI document of these routes.
pub fn openapi() -> Value {
    super::openapi::complete(documented().into_openapi())
}

fn documented() -> OpenApiRouter<AppState> {
    OpenApiRouter::with_openapi(super::openapi::base_document())
        .routes(routes!(index::index))
        .route("/console/{*path}", get(console::part))
        .routes(routes!(threads::create, threads::list))
        .routes(routes!(threads::get, threads::patch, threads::delete))
        .routes(routes!(process::process))
        .routes(routes!(resume::resume))
        .routes(routes!(pause::pause))
        .routes(routes!(release::release))
        .routes(routes!(retention::get, retention::put))
        .routes(routes!(cancel::thread))
        .routes(routes!(cancel::run))
        .routes(routes!(state::get))
        .routes(routes!(agent_state::get, agent_state::put))
        .routes(routes!(plan::get, plan::patch))
        .routes(routes!(items::retry))
        .routes(routes!(items::skip))
        .routes(routes!(plan::forecast, plan::forecast_edit))
        .routes(routes!(messages::list))
        .routes(routes!(runs::list))
        .routes(routes!(runs::all))
        .routes(routes!(runs::get))
        .routes(routes!(events::events))
        .routes(routes!(changes::changes))
        .routes(routes!(fork::fork))
        .routes(routes!(transfer::export))
        .routes(routes!(transfer::import))
        .routes(routes!(suspensions::list))
        .routes(routes!(streams::get))
        .routes(routes!(tool_calls::get))
        .routes(routes!(tool_calls::receipt))
        .routes(routes!(tasks::list))
        .routes(routes!(tasks::all))
        .routes(routes!(tasks::get))
        .routes(routes!(tasks::cancel))
        .routes(routes!(offers::models))
        .routes(routes!(offers::tools))
        .routes(routes!(agents::list, agents::create))
        .routes(routes!(agents::get, agents::put, agents::patch, agents::delete))
        .routes(routes!(callbacks::report))
        .routes(routes!(mcp_servers::list, mcp_servers::create))
        .routes(routes!(mcp_servers::get, mcp_servers::patch, mcp_servers::delete))
        .routes(routes!(mcp_servers::approve))
        .routes(routes!(usage::list))
        .routes(routes!(limits::get, limits::put))
        .routes(routes!(limits::put_runs))
        .routes(routes!(tenants::list))
        .routes(routes!(tenants::get, tenants::remove))
        .routes(routes!(tenants::reopen))
        .routes(routes!(audit::list))
        .routes(routes!(audit::export))
        .routes(routes!(audit::keys))
        .routes(routes!(policy::get, policy::put))
        .routes(routes!(policy::dry_run))
        .routes(routes!(policy::audit))
        .routes(routes!(session::whoami))
        .routes(routes!(session::begin, session::end))
        .routes(routes!(session::list_of_people, session::end_of_person))
        .routes(routes!(protected_resource::get))
        .routes(routes!(protected_resource::get_of_mcp))
        .routes(routes!(login::list))
        .routes(routes!(login::begin))
        .routes(routes!(login::finish))
        .routes(routes!(keys::list, keys::create))
        .routes(routes!(keys::revoke))
        .routes(routes!(keys::rotate))
        .routes(routes!(schedules::list, schedules::create))
        .routes(routes!(schedules::get, schedules::put, schedules::patch, schedules::delete))
        .routes(routes!(schedules::trigger))
        .routes(routes!(schedules::next))
        .routes(routes!(schedules::runs))
        .routes(routes!(http_tools::list, http_tools::create))
        .routes(routes!(http_tools::get, http_tools::put, http_tools::delete))
        .routes(routes!(webhooks::list, webhooks::create))
        .routes(routes!(webhooks::get, webhooks::put, webhooks::delete))
        .routes(routes!(webhooks::deliveries))
        .routes(routes!(webhooks::all_deliveries))
        .routes(routes!(webhooks::replay))
        .routes(routes!(health::healthz))
        .routes(routes!(health::readyz))
        .routes(routes!(health::metrics))
        .routes(routes!(health::version))
        .routes(routes!(documentation::openapi_json))
        .routes(routes!(documentation::docs))
        .merge(doors::routes())
}

async fn unknown(State(app): State<AppState>, OriginalUri(uri): OriginalUri) -> Problem {
    let base_path = &app.links.base_path;
    let detail = if uri.path().starts_with(base_path) {
        format!("There is nothing at this path; see {base_path}/docs.")
    } else {
        format!("The paths of this server begin with {base_path} (server.base_path), which a proxy must not remove.")
    };
    Fault::new(Code::NotFound, detail).into()
}

async fn wrong_method() -> Problem {
    Fault::new(Code::MethodNotAllowed, "This path has other methods; see the Allow header.").into()
}
