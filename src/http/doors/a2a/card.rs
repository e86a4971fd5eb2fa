//! The agent card of this server: `/.well-known/agent-card.json`, and the extended card for callers with a key.

use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_MODIFIED_SINCE, IF_NONE_MATCH, LAST_MODIFIED, VARY};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};

use super::QUESTIONS;
use super::caller::A2aRequest;
use super::error::A2aError;
use crate::a2a::fault::{Error, Fault};
use crate::a2a::types::{AgentCard, Capabilities, Extension, Interface, Metadata, Provider, SecurityScheme, Skill};
use crate::a2a::wire::{self, Binding, Version};
use crate::config::a2a::{A2a, AgentSkill};
use crate::domain::digest;
use crate::domain::fault;
use crate::http::app_state::AppState;
use crate::http::etag;
use crate::http::problem::HttpResult;
use crate::http::reply_preferences::ReplyPreferences;

/// The input types of every skill. Other text types are accepted, too.
const INPUT_TYPES: [&str; 2] = ["text/plain", "application/json"];
const OUTPUT_TYPES: [&str; 3] = ["text/plain", "text/markdown", "application/json"];

/// How long clients and shared caches may keep the card.
const PUBLIC_CACHE_CONTROL: &str = "public, max-age=300";
/// The same for a card that contains the address which the caller used: shared caches must not keep it.
const PRIVATE_CACHE_CONTROL: &str = "private, max-age=300";

/// What this agent can do, and where it is spoken to.
#[utoipa::path(get, path = "/.well-known/agent-card.json", operation_id = "getAgentCard",
    tag = "agents", responses((status = 200, body = Object)))]
pub(crate) async fn card(
    State(app): State<AppState>,
    preferences: ReplyPreferences,
    headers: HeaderMap,
) -> HttpResult<Response> {
    let is_of_both = app.config.a2a.card_v03;
    answer(&app, &preferences, &headers, is_of_both).await
}

/// The card where clients of versions before 0.3 look for it, with the members that they need.
pub(super) async fn old_card(
    State(app): State<AppState>,
    preferences: ReplyPreferences,
    headers: HeaderMap,
) -> HttpResult<Response> {
    answer(&app, &preferences, &headers, true).await
}

/// `is_of_both`: the card has the members of the older versions, too.
async fn answer(
    app: &AppState,
    preferences: &ReplyPreferences,
    headers: &HeaderMap,
    is_of_both: bool,
) -> HttpResult<Response> {
    if !app.config.a2a.enabled {
        return Err(fault::Fault::not_found("agent").into());
    }
    let card = public(app, &preferences.base).await?;
    let document = if is_of_both { wire::card_of_both(&card) } else { wire::card(&card) };
    let tag = format!("\"{}\"", &digest::of(&document)[..32]);
    let since = http_date(app.since);
    let is_known = if headers.contains_key(IF_NONE_MATCH) {
        etag::is_known(headers, &tag)
    } else {
        headers.get(IF_MODIFIED_SINCE).is_some_and(|known| *known == *since)
    };
    let vary = app.links.vary();
    let fresh = if vary.is_some() { PRIVATE_CACHE_CONTROL } else { PUBLIC_CACHE_CONTROL };
    let caching = [(ETAG, tag), (LAST_MODIFIED, since), (CACHE_CONTROL, fresh.to_owned())];
    let mut response = if is_known {
        (StatusCode::NOT_MODIFIED, caching).into_response()
    } else {
        (caching, [(CONTENT_TYPE, "application/json")], document.to_string()).into_response()
    };
    if let Some(headers) = vary {
        response.headers_mut().append(VARY, HeaderValue::from_static(headers));
    }
    Ok(response)
}

/// The extended card, for callers with a key.
pub(super) async fn extended(ctx: &A2aRequest) -> Result<AgentCard, A2aError> {
    let config = &ctx.app.config.a2a;
    if !is_extended(config) {
        return Err(Fault::new(Error::ExtendedAgentCardNotConfigured, "The public card says everything.").into());
    }
    let mut card = public(&ctx.app, &ctx.preferences.base).await?;
    card.skills.extend(config.extended_skills.iter().map(skill));
    if let Some(description) = &config.extended_description {
        card.description.clone_from(description);
    }
    Ok(card)
}

/// Whether parts of this type are accepted: text, JSON, and what a skill names.
pub(super) fn accepts_type(config: &A2a, media_type: &str) -> bool {
    is_text_type(media_type) || is_of_skill(config, media_type)
}

/// Whether files of this type are read as text.
pub(super) fn is_text_type(media_type: &str) -> bool {
    let bare = bare(media_type);
    bare.starts_with("text/") || INPUT_TYPES.contains(&&*bare)
}

/// Whether a skill names this type.
pub(super) fn is_of_skill(config: &A2a, media_type: &str) -> bool {
    let bare = bare(media_type);
    let skills = config.skills.iter().chain(&config.extended_skills);
    skills.flat_map(|skill| &skill.input_modes).any(|mode| *mode == bare)
}

/// A media type without its parameters.
fn bare(media_type: &str) -> String {
    media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

fn is_extended(config: &A2a) -> bool {
    config.extended_description.is_some() || !config.extended_skills.is_empty()
}

async fn public(app: &AppState, base: &str) -> Result<AgentCard, fault::Fault> {
    let config = &app.config.a2a;
    let interface = |binding: Binding, version: Version| Interface {
        url: format!("{base}/a2a"),
        binding: binding.as_str().to_owned(),
        version: version.as_str().to_owned(),
        tenant: None,
    };
    let mut card = AgentCard {
        name: config.name.clone(),
        description: config.description.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        interfaces: vec![
            interface(Binding::JsonRpc, Version::V1),
            interface(Binding::HttpJson, Version::V1),
            interface(Binding::JsonRpc, Version::V03),
            interface(Binding::HttpJson, Version::V03Rest),
        ],
        provider: config.provider().map(|(organization, url)| Provider { organization, url }),
        documentation_url: Some(config.documentation_url.clone().unwrap_or_else(|| format!("{base}/docs"))),
        icon_url: config.icon_url.clone(),
        capabilities: Capabilities {
            streaming: true,
            push_notifications: true,
            extended_agent_card: is_extended(config),
            extensions: vec![Extension {
                uri: QUESTIONS.to_owned(),
                description: Some(
                    "A question of an interrupted task has a data part {suspensionId, kind, schema, options, toolCall?}; \
                     an answer may have one {suspensionId?, approved?, value?, modifiedArgs?, action?, reason?}."
                        .to_owned(),
                ),
                required: config.requires_questions,
                params: Metadata::new(),
            }],
        },
        default_input_modes: INPUT_TYPES.map(str::to_owned).to_vec(),
        default_output_modes: OUTPUT_TYPES.map(str::to_owned).to_vec(),
        skills: config.skills.iter().map(skill).collect(),
        ..AgentCard::default()
    };
    if !app.keys.is_open().await? {
        let bearer = SecurityScheme::Http { scheme: "Bearer".to_owned(), bearer_format: None };
        card.security_schemes = [("key".to_owned(), bearer)].into();
        card.security_requirements = vec![[("key".to_owned(), Vec::new())].into()];
    }
    Ok(card)
}

/// Some clients need the modes that the protocol lets a skill leave out.
fn skill(skill: &AgentSkill) -> Skill {
    let or_default = |modes: &[String], default: &[&str]| -> Vec<String> {
        if modes.is_empty() { default.iter().map(|mode| (*mode).to_owned()).collect() } else { modes.to_vec() }
    };
    Skill {
        id: skill.id.clone(),
        name: skill.name.clone(),
        description: skill.description.clone(),
        tags: skill.tags.clone(),
        examples: skill.examples.clone(),
        input_modes: or_default(&skill.input_modes, &INPUT_TYPES),
        output_modes: or_default(&skill.output_modes, &OUTPUT_TYPES),
    }
}

fn http_date(at: i64) -> String {
    let at = jiff::Timestamp::from_millisecond(at).unwrap_or_default();
    jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&at).unwrap_or_default()
}
