//! The settings of a run. The call's options take precedence over the thread's, and those over the server's. They are
//! resolved once, when the run is accepted, and stored with it.

use std::collections::BTreeMap;
use std::fmt::Display;

use serde_json::{Map, Value};

use super::{Result, Service};
use crate::config;
use crate::domain::caller::Caller;
use crate::domain::fault::{Code, Fault};
use crate::domain::pointer;
use crate::domain::prompt::{MergeStrategy, Persona, PersonaPrompts, SystemPrompt, SystemPromptLayer};
use crate::domain::settings::{
    CallOptions, ExecutionConfig, ExecutionOverrides, MAX_WAIT_MS, ModelChoice, PlanReview, ProviderConfig,
    RunSettings, ThreadConfig,
};
use crate::provider::Catalog;
use crate::store::ThreadRow;
use crate::tool::schema::{MAX_SCHEMAS, Schema};

/// The settings of a run of this caller.
pub(super) fn of_run(
    service: &Service,
    caller: &Caller,
    core: &str,
    thread: &ThreadConfig,
    call: &CallOptions,
) -> Result<RunSettings> {
    let mut settings = resolve(&service.config.agent, &*service.models, &caller.tenant_name, core, thread, call)?;
    if settings.execution.plan_review != PlanReview::Off && !service.runtime.core(core)?.reviews_plans() {
        check_no_review(core, [&call.execution_config, &thread.execution_config])?;
        settings.execution.plan_review = PlanReview::Off;
    }
    Ok(settings)
}

/// The settings that the thread's next run would have if its call gave no options.
pub(super) fn of_next_run(service: &Service, caller: &Caller, row: &ThreadRow) -> Result<RunSettings> {
    of_run(service, caller, &row.core, &row.profile.config, &CallOptions::default())
}

/// Checks that a run of this caller could be accepted with this configuration of its thread. A fault points into the
/// configuration.
pub(super) fn check(service: &Service, caller: &Caller, core: &str, thread: &ThreadConfig) -> Result<()> {
    let Err(mut fault) = of_run(service, caller, core, thread, &CallOptions::default()) else { return Ok(()) };
    for pointed in &mut fault.errors {
        let inside = pointed.pointer.strip_prefix("/options/").map(|inside| match inside.strip_prefix("llmParams/") {
            Some(name) => format!("/config/providerConfig/adapterOptions/{name}"),
            None => format!("/config/{inside}"),
        });
        pointed.pointer = inside.unwrap_or_else(|| pointed.pointer.clone());
    }
    Err(fault)
}

/// Checks the server's own system prompt, of which every run has a part.
pub(crate) fn check_system_prompt(server: &config::Agent) -> std::result::Result<(), config::Error> {
    let composed = compose(&server.templates, &[("agent.system_prompt", &server.system_prompt)]);
    composed.map(drop).map_err(|fault| config::Error(format!("agent.system_prompt: {}", fault.detail)))
}

/// Checks the server's own `executionConfig`, which every run has.
pub(crate) fn check_execution(server: &config::Agent) -> std::result::Result<(), config::Error> {
    let resolved = execution(&[Some(&server.execution)]);
    resolved.map(drop).map_err(|fault| config::Error(format!("agent.execution: {}", fault.detail)))
}

/// Resolves the settings of a run, and checks with the provider of each model that it accepts these parameters.
fn resolve(
    server: &config::Agent,
    models: &dyn Catalog,
    tenant: &str,
    core: &str,
    thread: &ThreadConfig,
    call: &CallOptions,
) -> Result<RunSettings> {
    let layers = [&call.provider_config, &thread.provider_config];
    let (provider, model) = chosen_model(models, layers)?;
    let named = named_fallbacks(layers)?;
    let llm_params = llm_params(thread, call);
    let synthesis_params = call.synthesis_params.clone().unwrap_or_default();
    call.answer_schema.as_ref().map_or(Ok(()), check_answer_schema)?;
    let of_answer = llm_params.clone().into_iter().chain(synthesis_params.clone()).collect();
    let admit = |provider: &str, model: &str| {
        let client = models.model_of(tenant, provider)?;
        client.admit(model, &llm_params)?;
        client.admit(model, &of_answer).map_err(|fault| of_synthesis(fault, &synthesis_params))
    };
    admit(&provider, &model)?;
    let fallbacks = admitted_fallbacks(models, named, |choice| admit(&choice.provider_name, &choice.model_id))?;
    Ok(RunSettings {
        core: core.to_owned(),
        provider,
        model,
        fallbacks,
        llm_params,
        synthesis_params,
        answer_schema: call.answer_schema.clone(),
        enabled_tools: thread.enabled_tools.clone().or_else(|| server.enabled_tools.clone()),
        // The server's own tool policy is part of every tenant's rules already.
        tool_policy: thread.tool_policy.clone(),
        history_limit: thread.history_limit.unwrap_or(server.history_limit),
        system_prompt: compose(
            &server.templates,
            &[
                ("agent.system_prompt", &server.system_prompt),
                ("/config/systemPrompt", &thread.system_prompt),
                ("/options/systemPrompt", &call.system_prompt),
            ],
        )?,
        persona: persona([Some(&server.persona), thread.persona.as_ref(), call.persona.as_ref()]),
        execution: execution(&[
            Some(&server.execution),
            thread.execution_config.as_ref(),
            call.execution_config.as_ref(),
        ])?,
        state_saving: thread.state_saving_strategy.unwrap_or(server.state_saving),
        budget: call.budget.clone(),
        client_tools: call.client_tools.clone(),
    })
}

/// The parameters of the run's model calls: the thread's, with those of the call over them.
fn llm_params(thread: &ThreadConfig, call: &CallOptions) -> Map<String, Value> {
    let mut params = Map::new();
    for layer in [&thread.provider_config, &call.provider_config].into_iter().flatten() {
        params.extend(layer.adapter_options.clone().unwrap_or_default());
    }
    params.extend(call.llm_params.clone().unwrap_or_default());
    params
}

/// The run's fallbacks: all that the caller named, else those of the server that can do this run. The caller has not chosen
/// the latter, so one that cannot is no reason to refuse the run.
fn admitted_fallbacks(
    models: &dyn Catalog,
    named: Option<Vec<ModelChoice>>,
    admit: impl Fn(&ModelChoice) -> Result<()>,
) -> Result<Vec<ModelChoice>> {
    let Some(named) = named else {
        return Ok(models.fallbacks().into_iter().filter(|choice| is_admitted(choice, admit(choice))).collect());
    };
    for (at, choice) in named.iter().enumerate() {
        admit(choice).map_err(|fault| {
            let pointer = format!("/options/providerConfig/fallbacks/{at}");
            Fault { errors: Vec::new(), ..fault.clone() }.at(pointer, fault.detail)
        })?;
    }
    Ok(named)
}

/// Whether a fallback of the server admits the run. Logs why it does not.
fn is_admitted(choice: &ModelChoice, admitted: Result<()>) -> bool {
    let refused = |fault: &Fault| {
        let (provider, model, why) = (&choice.provider_name, &choice.model_id, &fault.detail);
        tracing::debug!(
            provider,
            model,
            why,
            "a fallback of the server does not admit the run's parameters and is left out"
        );
    };
    admitted.inspect_err(refused).is_ok()
}

/// Points the errors about parameters that only the synthesis has to `synthesisParams`.
fn of_synthesis(mut fault: Fault, params: &Map<String, Value>) -> Fault {
    for pointed in &mut fault.errors {
        let name = pointed.pointer.strip_prefix("/options/llmParams/").map(str::to_owned);
        if let Some(name) = name.filter(|name| params.contains_key(&pointer::name(name))) {
            pointed.pointer = format!("/options/synthesisParams/{name}");
        }
    }
    fault
}

/// Checks that answers can be validated against this schema.
fn check_answer_schema(schema: &Value) -> Result<()> {
    let unfit = |place: &str, why: &str| {
        let fault = Fault::new(Code::Invalid, "`answerSchema` cannot be used.");
        Err(fault.at(format!("/options/answerSchema{place}"), why))
    };
    match Schema::compile(schema) {
        Err(no) => unfit(&no.pointer, &no.detail),
        Ok(compiled) if compiled.cost().schemas > MAX_SCHEMAS => {
            unfit("", &format!("has more than {MAX_SCHEMAS} schemas within it"))
        }
        Ok(_) => Ok(()),
    }
}

/// How many fallback models a run may name.
const MAX_FALLBACKS: usize = 8;

/// The fallbacks of the nearest layer that names a model or fallbacks. `None`: there is no such layer, and the server's
/// apply.
fn named_fallbacks(layers: [&Option<ProviderConfig>; 2]) -> Result<Option<Vec<ModelChoice>>> {
    let nearest = layers
        .into_iter()
        .flatten()
        .find(|layer| layer.fallbacks.is_some() || layer.provider_name.is_some() || layer.model_id.is_some());
    let Some(layer) = nearest else { return Ok(None) };
    let named = layer.fallbacks.clone().unwrap_or_default();
    if named.len() > MAX_FALLBACKS {
        let detail = format!("At most {MAX_FALLBACKS} fallbacks may be named.");
        return Err(Fault::new(Code::Invalid, detail.clone()).at("/options/providerConfig/fallbacks", detail));
    }
    Ok(Some(named))
}

/// The model of the nearest layer that names a provider or a model. What that layer leaves open is the default.
fn chosen_model(models: &dyn Catalog, layers: [&Option<ProviderConfig>; 2]) -> Result<(String, String)> {
    let (default_provider, default_model) = models.default_model();
    let named = |layer: &&ProviderConfig| layer.provider_name.is_some() || layer.model_id.is_some();
    let Some(layer) = layers.into_iter().flatten().find(named) else {
        return Ok((default_provider, default_model));
    };
    let provider = layer.provider_name.clone().unwrap_or_else(|| default_provider.clone());
    if let Some(model) = &layer.model_id {
        return Ok((provider, model.clone()));
    }
    if provider == default_provider {
        return Ok((provider, default_model));
    }
    let offered = models.list().into_iter().find(|known| known.provider == provider);
    match offered {
        Some(known) => Ok((provider, known.model)),
        None => models.model(&provider).and_then(|_| {
            let detail = format!("Name a model of `{provider}`.");
            Err(Fault::new(Code::Invalid, detail.clone()).at("/options/providerConfig/modelId", detail))
        }),
    }
}

/// Joins the layers with blank lines, each after or before those below it, and substitutes the variables.
fn compose(templates: &BTreeMap<String, String>, layers: &[(&str, &Option<SystemPrompt>)]) -> Result<String> {
    let mut parts: Vec<String> = Vec::new();
    for (place, layer) in layers {
        let (texts, strategy) = match layer {
            None => continue,
            Some(SystemPrompt::Text(text)) => (vec![text.clone()], MergeStrategy::Append),
            Some(SystemPrompt::Layer(layer)) => (texts(templates, place, layer)?, layer.strategy),
        };
        let text = texts.join("\n\n");
        match strategy {
            _ if text.trim().is_empty() => {}
            MergeStrategy::Append => parts.push(text),
            MergeStrategy::Prepend => parts.insert(0, text),
        }
    }
    Ok(parts.join("\n\n"))
}

fn texts(templates: &BTreeMap<String, String>, place: &str, layer: &SystemPromptLayer) -> Result<Vec<String>> {
    let template = match &layer.tag {
        None => None,
        Some(tag) => Some(templates.get(tag).ok_or_else(|| {
            let known: Vec<&str> = templates.keys().map(String::as_str).collect();
            let detail = format!("There is no template `{tag}`; known: {}.", known.join(", "));
            Fault::new(Code::Invalid, detail.clone()).at(format!("{place}/tag"), detail)
        })?),
    };
    let given = [template, layer.content.as_ref()].into_iter().flatten();
    given.map(|text| substitute(text, &layer.variables).map_err(|name| missing_variable(place, name))).collect()
}

fn missing_variable(place: &str, name: &str) -> Fault {
    let detail = format!("The system prompt needs a value for `{name}`; give one in `variables`.");
    Fault::new(Code::Invalid, detail.clone()).at(format!("{place}/variables/{name}"), detail)
}

/// Replaces each `{{name}}` by the variable's value, or returns the name that has none as the error. Braces around anything
/// but a name are kept. The values themselves are not searched for variables.
fn substitute<'a>(text: &'a str, variables: &BTreeMap<String, String>) -> std::result::Result<String, &'a str> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        out.push_str(before);
        match name_at(after) {
            Some((name, after)) => {
                out.push_str(variables.get(name).ok_or(name)?);
                rest = after;
            }
            None => {
                out.push_str("{{");
                rest = after;
            }
        }
    }
    Ok(out + rest)
}

/// The name at the beginning of a text that follows `{{`, and the text after its `}}`. Scans only as far as a name may
/// reach, so that a text full of braces costs no more than one without.
fn name_at(text: &str) -> Option<(&str, &str)> {
    let named = text.trim_start();
    let (name, rest) = named.split_at(named.find(|c: char| !is_name_char(c)).unwrap_or(named.len()));
    let after = rest.trim_start().strip_prefix("}}")?;
    (!name.is_empty()).then_some((name, after))
}

fn is_name_char(c: char) -> bool {
    c.is_alphanumeric() || "_-.".contains(c)
}

fn persona(layers: [Option<&Persona>; 3]) -> Persona {
    layers.into_iter().flatten().fold(Persona::default(), |below, layer| Persona {
        name: layer.name.clone().or(below.name),
        prompts: PersonaPrompts {
            planning: layer.prompts.planning.clone().or(below.prompts.planning),
            execution: layer.prompts.execution.clone().or(below.prompts.execution),
            synthesis: layer.prompts.synthesis.clone().or(below.prompts.synthesis),
        },
    })
}

fn execution(layers: &[Option<&ExecutionOverrides>]) -> Result<ExecutionConfig> {
    let mut config = ExecutionConfig::default();
    for layer in layers.iter().copied().flatten() {
        for (field, least, most, value, into) in [
            ("maxIterations", 1, 100, layer.max_iterations, &mut config.max_iterations),
            ("taefMaxRetries", 0, 10, layer.taef_max_retries, &mut config.taef_max_retries),
            ("toolResultMaxLength", 1, u32::MAX, layer.tool_result_max_length, &mut config.tool_result_max_length),
            ("maxParallelItems", 1, 64, layer.max_parallel_items, &mut config.max_parallel_items),
        ] {
            *into = within(field, least, most, value.unwrap_or(*into))?;
        }
        config.enable_a2a_delegation = layer.enable_a2a_delegation.unwrap_or(config.enable_a2a_delegation);
        config.on_budget = layer.on_budget.unwrap_or(config.on_budget);
        config.plan_review = layer.plan_review.unwrap_or(config.plan_review);
        config.on_item_failure = layer.on_item_failure.unwrap_or(config.on_item_failure);
        for (field, span, into) in [
            ("delegationTimeoutMs", layer.delegation_timeout_ms, &mut config.delegation_timeout_ms),
            ("suspensionTimeoutMs", layer.suspension_timeout_ms, &mut config.suspension_timeout_ms),
        ] {
            *into = span.map(|span| within(field, 1, MAX_WAIT_MS, span)).transpose()?.or(*into);
        }
        config.suspension_expiry = layer.suspension_expiry.unwrap_or(config.suspension_expiry);
        config.parallel_reads = layer.parallel_reads.unwrap_or(config.parallel_reads);
    }
    Ok(config)
}

/// Refuses a plan review that the call or the thread sets for a core without plans, because no plan would ever be reviewed.
/// The server's own setting is ignored for such a core.
fn check_no_review(core: &str, layers: [&Option<ExecutionOverrides>; 2]) -> Result<()> {
    let nearest = layers.into_iter().flatten().find_map(|layer| layer.plan_review);
    match nearest {
        None | Some(PlanReview::Off) => Ok(()),
        Some(PlanReview::Risky | PlanReview::Always) => {
            let detail =
                format!("The agent core `{core}` makes no plan that could be reviewed; set planReview to off.");
            Err(Fault::new(Code::Invalid, detail.clone()).at("/options/executionConfig/planReview", detail))
        }
    }
}

fn within<T: Copy + PartialOrd + Display>(field: &str, least: T, most: T, value: T) -> Result<T> {
    if (least..=most).contains(&value) {
        return Ok(value);
    }
    let detail = format!("`{field}` is {value}; it must be {least} to {most}.");
    Err(Fault::new(Code::Invalid, detail.clone()).at(format!("/options/executionConfig/{field}"), detail))
}

#[cfg(test)]
mod tests;
