//! HTTP+JSON: the path and the verb select the method. The ids in the path, the query and the body are its parameters.

use axum::extract::{FromRequestParts, Path, Request, State};
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, Method as Verb};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde_json::{Map, Value, json};

use super::caller::{A2aRequest, authenticate_caller, extensions, version};
use super::error::A2aError;
use super::operations::{OperationResult, perform};
use super::stream::event_response;
use crate::a2a::fault::{Error, Fault};
use crate::a2a::wire::{Method, Version};
use crate::http::app_state::AppState;
use crate::http::header_list::entries;
use crate::http::json::read_any;
use crate::http::metrics::WaitedForRun;
use crate::http::problem::Problem;
use crate::http::reply_preferences::ReplyPreferences;

const MEDIA_TYPE: &str = "application/a2a+json";

/// A parsed path.
#[derive(Debug, PartialEq)]
struct Route<'p> {
    method: Method,
    /// Only version 0.3 has its operations below `/v1`.
    version: Version,
    tenant: Option<&'p str>,
    task: Option<&'p str>,
    config: Option<&'p str>,
}

pub(super) async fn rest(State(app): State<AppState>, Path(path): Path<String>, request: Request) -> Response {
    let wants_own_type = names_own_type(request.headers());
    let (parts, body) = request.into_parts();
    let named = version(&parts).ok().flatten();
    match answer(&app, &path, Request::from_parts(parts, body)).await {
        Ok(mut response) => {
            let is_json = response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == "application/json");
            if wants_own_type && is_json {
                response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
            }
            response
        }
        Err(error) => error.rest_response(named.map_or_else(|| version_of(&path), Version::over_rest)),
    }
}

/// The version of a path below `/a2a/`, unless the request names another one.
pub(super) fn version_of(path: &str) -> Version {
    if path.starts_with("v1/") { Version::V03Rest } else { Version::V1 }
}

async fn answer(app: &AppState, path: &str, request: Request) -> Result<Response, A2aError> {
    let (mut parts, body) = request.into_parts();
    let caller = authenticate_caller(app, &parts).await?;
    let preferences =
        ReplyPreferences::from_request_parts(&mut parts, app).await.map_err(|Problem(fault)| A2aError::from(fault))?;
    let route =
        route(&parts.method, path).ok_or_else(|| Fault::new(Error::MethodNotFound, "There is no such path."))?;
    let version = version(&parts)?.map_or(route.version, Version::over_rest);
    if route.method.name(version).is_none() {
        let detail = format!("Version {} has no such path.", version.as_str());
        return Err(Fault::new(Error::MethodNotFound, detail).into());
    }
    let ctx = A2aRequest::permitted(app, caller, route.method, version, preferences)?;
    let extensions = extensions(app, &parts.headers)?;
    let mut params = query(parts.uri.query().unwrap_or_default());
    if parts.method == Verb::POST {
        let types = ["application/json", MEDIA_TYPE];
        match read_any(app, Request::from_parts(parts, body), app.a2a_limits(&ctx.caller), &types).await? {
            Some(Value::Object(members)) => params.extend(members),
            Some(_) => return Err(Fault::invalid("", "The body is one JSON object.").into()),
            None => {}
        }
    }
    route.name_ids(version, &mut params);
    let mut response = match perform(&ctx, &Value::Object(params)).await? {
        OperationResult::Value(Value::Null) => Json(json!({})).into_response(),
        OperationResult::Value(result) => Json(result).into_response(),
        OperationResult::Awaited(result) => (Extension(WaitedForRun), Json(result)).into_response(),
        OperationResult::Events(events) => {
            event_response(&ctx, events, move |event| event.unwrap_or_else(|error| error.rest_body(version)))
        }
    };
    if let Some(extensions) = extensions {
        response.headers_mut().insert("a2a-extensions", HeaderValue::from_static(extensions));
    }
    Ok(response)
}

fn query(query: &str) -> Map<String, Value> {
    let pairs = url::form_urlencoded::parse(query.as_bytes());
    pairs.map(|(name, value)| (name.into_owned(), Value::String(value.into_owned()))).collect()
}

fn route<'p>(verb: &Verb, path: &'p str) -> Option<Route<'p>> {
    let mut segments: Vec<&str> = path.split('/').collect();
    let mut version = Version::V1;
    let mut tenant = None;
    let first = *segments.first()?;
    if first == "v1" {
        version = Version::V03Rest;
        segments.remove(0);
    } else if !matches!(first, "message:send" | "message:stream" | "tasks" | "extendedAgentCard") {
        tenant = Some(first);
        segments.remove(0);
    }
    let is_get = *verb == Verb::GET;
    let is_post = *verb == Verb::POST;
    let (method, task, config) = match segments[..] {
        ["message:send"] if is_post => (Method::SendMessage, None, None),
        ["message:stream"] if is_post => (Method::SendStreamingMessage, None, None),
        ["extendedAgentCard"] if is_get => (Method::GetExtendedAgentCard, None, None),
        ["card"] if is_get && version == Version::V03Rest => (Method::GetExtendedAgentCard, None, None),
        ["tasks"] if is_get => (Method::ListTasks, None, None),
        ["tasks", named] => match named.rsplit_once(':') {
            Some((id, "cancel")) if is_post => (Method::CancelTask, Some(id), None),
            Some((id, "subscribe")) if is_get || is_post => (Method::SubscribeToTask, Some(id), None),
            Some(_) | None if is_get => (Method::GetTask, Some(named), None),
            Some(_) | None => return None,
        },
        ["tasks", id, "pushNotificationConfigs"] if is_post => (Method::CreatePushConfig, Some(id), None),
        ["tasks", id, "pushNotificationConfigs"] if is_get => (Method::ListPushConfigs, Some(id), None),
        ["tasks", id, "pushNotificationConfigs", config] if is_get => (Method::GetPushConfig, Some(id), Some(config)),
        ["tasks", id, "pushNotificationConfigs", config] if *verb == Verb::DELETE => {
            (Method::DeletePushConfig, Some(id), Some(config))
        }
        _ => return None,
    };
    Some(Route { method, version, tenant, task, config })
}

impl Route<'_> {
    /// Adds the ids of the path under the names that the version uses. They override members of the body.
    fn name_ids(&self, version: Version, params: &mut Map<String, Value>) {
        let (task, config) = match (self.method, version) {
            (Method::CreatePushConfig, _) | (Method::GetPushConfig | Method::ListPushConfigs, Version::V1) => {
                ("taskId", "id")
            }
            (Method::DeletePushConfig, Version::V1) => ("taskId", "id"),
            (
                Method::SendMessage
                | Method::SendStreamingMessage
                | Method::GetTask
                | Method::ListTasks
                | Method::CancelTask
                | Method::SubscribeToTask
                | Method::GetPushConfig
                | Method::ListPushConfigs
                | Method::DeletePushConfig
                | Method::GetExtendedAgentCard,
                _,
            ) => ("id", "pushNotificationConfigId"),
        };
        for (name, value) in [("tenant", self.tenant), (task, self.task), (config, self.config)] {
            params.extend(value.map(|value| (name.to_owned(), value.into())));
        }
    }
}

fn names_own_type(headers: &HeaderMap) -> bool {
    let mut named = [CONTENT_TYPE, ACCEPT].into_iter().flat_map(|name| entries(headers, name));
    named.any(|entry| entry.starts_with(MEDIA_TYPE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_and_a_verb_are_a_method() {
        for (verb, path, method, tenant, task, config) in [
            (Verb::POST, "message:send", Method::SendMessage, None, None, None),
            (Verb::POST, "acme/message:stream", Method::SendStreamingMessage, Some("acme"), None, None),
            (Verb::GET, "tasks", Method::ListTasks, None, None, None),
            (Verb::GET, "acme/tasks/run_1", Method::GetTask, Some("acme"), Some("run_1"), None),
            (Verb::POST, "tasks/run_1:cancel", Method::CancelTask, None, Some("run_1"), None),
            (Verb::GET, "tasks/a:b:subscribe", Method::SubscribeToTask, None, Some("a:b"), None),
            (Verb::POST, "tasks/run_1:subscribe", Method::SubscribeToTask, None, Some("run_1"), None),
            (Verb::POST, "tasks/t/pushNotificationConfigs", Method::CreatePushConfig, None, Some("t"), None),
            (Verb::GET, "tasks/t/pushNotificationConfigs", Method::ListPushConfigs, None, Some("t"), None),
            (Verb::GET, "tasks/t/pushNotificationConfigs/c", Method::GetPushConfig, None, Some("t"), Some("c")),
            (Verb::DELETE, "tasks/t/pushNotificationConfigs/c", Method::DeletePushConfig, None, Some("t"), Some("c")),
            (Verb::GET, "extendedAgentCard", Method::GetExtendedAgentCard, None, None, None),
        ] {
            let version = Version::V1;
            assert_eq!(route(&verb, path), Some(Route { method, version, tenant, task, config }), "{verb} {path}");
        }
        let old = route(&Verb::GET, "v1/card").unwrap();
        assert_eq!((old.method, old.version), (Method::GetExtendedAgentCard, Version::V03Rest));
        for (verb, path) in [
            (Verb::GET, "message:send"),
            (Verb::POST, "tasks/run_1"),
            (Verb::POST, "tasks/run_1:explode"),
            (Verb::GET, "card"),
            (Verb::GET, "acme"),
            (Verb::GET, ""),
        ] {
            assert_eq!(route(&verb, path), None, "{verb} {path}");
        }
    }
}
