//! `/v1/models`: each agent core as a model, and each core combined with each model that it can use.

use axum::Json;
use axum::extract::{Path, State};
use serde_json::{Value, json};

use super::error::OpenAiError;
use crate::domain::settings::ProviderConfig;
use crate::http::app_state::AppState;
use crate::http::caller::MayRead;
use crate::http::params::NoParams;
use crate::service::offers;

/// The meaning of a request's `model`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct NamedModel {
    pub(super) core: String,
    /// `None` means the configuration of the thread and the server.
    pub(super) provider: Option<ProviderConfig>,
}

/// The agents that can be asked: `<core>` with the configured model, or `<core>@<provider>:<model>`.
#[utoipa::path(get, path = "/v1/models", operation_id = "listOpenAiModels", tag = "openai",
    responses((status = 200, body = Object, description = "A list, as OpenAI's clients read it")))]
pub(crate) async fn list(_: MayRead, State(app): State<AppState>, _: NoParams) -> Json<Value> {
    let data: Vec<Value> = named(&app).into_iter().map(|(id, _)| shown(&app, &id)).collect();
    Json(json!({ "object": "list", "data": data }))
}

pub(super) async fn get(
    _: MayRead,
    State(app): State<AppState>,
    Path(id): Path<String>,
    _: NoParams,
) -> Result<Json<Value>, OpenAiError> {
    find(&app, &id).map(|_| Json(shown(&app, &id)))
}

pub(super) fn find(app: &AppState, id: &str) -> Result<NamedModel, OpenAiError> {
    let mut known = named(app).into_iter();
    known.find(|(known, _)| known == id).map(|(_, model)| model).ok_or_else(|| OpenAiError::no_model(id))
}

fn shown(app: &AppState, id: &str) -> Value {
    json!({ "id": id, "object": "model", "created": app.since / 1000, "owned_by": "pes" })
}

fn named(app: &AppState) -> Vec<(String, NamedModel)> {
    let mut all = Vec::new();
    let models = offers::models(&app.service);
    for core in offers::cores(&app.service) {
        all.push((core.clone(), NamedModel { core: core.clone(), provider: None }));
        for model in &models {
            let id = format!("{core}@{}:{}", model.provider, model.model);
            let provider = ProviderConfig {
                provider_name: Some(model.provider.clone()),
                model_id: Some(model.model.clone()),
                ..ProviderConfig::default()
            };
            all.push((id, NamedModel { core: core.clone(), provider: Some(provider) }));
        }
    }
    all
}
