//! Agent cards. 1.0 lists interfaces in `supportedInterfaces`, 0.3 in `url`; one document can serve both.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::super::types::{
    AgentCard, Capabilities, Extension, Interface, Provider, SecurityRequirement, SecurityScheme, Skill,
};
use super::json::{Doc, Object, Read, list, refuse, text};
use super::{Binding, Version};

/// The protocol version in a card's 0.3 members.
const OLD: &str = "0.3.0";

/// A card of 1.0.
pub fn card(card: &AgentCard) -> Value {
    members(card, false).done()
}

/// A card of 1.0 with the additional members of 0.3.
pub fn card_of_both(card: &AgentCard) -> Value {
    let old: Vec<&Interface> = card.interfaces.iter().filter(|it| it.version == Version::V03.as_str()).collect();
    let preferred = old.first();
    members(card, true)
        .maybe("url", preferred.map(|it| it.url.as_str()))
        .maybe("preferredTransport", preferred.map(|it| it.binding.as_str()))
        .maybe("protocolVersion", preferred.map(|_| OLD))
        .list("additionalInterfaces", old.iter().skip(1).map(|it| old_interface(it)))
        .flag("supportsAuthenticatedExtendedCard", card.capabilities.extended_agent_card)
        .list("security", card.security_requirements.iter().map(old_requirement))
        .done()
}

/// The members that both versions read, and those of 1.0.
fn members(card: &AgentCard, of_both: bool) -> Doc {
    let schemes: Map<String, Value> =
        card.security_schemes.iter().filter_map(|(name, it)| Some((name.clone(), scheme(it, of_both)?))).collect();
    Doc::new()
        .put("name", card.name.as_str())
        .put("description", card.description.as_str())
        .put("version", card.version.as_str())
        .put("supportedInterfaces", card.interfaces.iter().map(interface).collect::<Vec<_>>())
        .maybe("provider", card.provider.as_ref().map(provider))
        .maybe("documentationUrl", card.documentation_url.as_deref())
        .maybe("iconUrl", card.icon_url.as_deref())
        .put("capabilities", capabilities(&card.capabilities))
        .map("securitySchemes", &schemes)
        .list("securityRequirements", card.security_requirements.iter().map(requirement))
        .put("defaultInputModes", card.default_input_modes.clone())
        .put("defaultOutputModes", card.default_output_modes.clone())
        .put("skills", card.skills.iter().map(skill).collect::<Vec<_>>())
}

/// A card of either version.
pub fn read_card(value: &Value) -> Read<AgentCard> {
    let it = Object::of(value)?;
    let mut interfaces = it.list("supportedInterfaces", read_interface)?;
    if interfaces.is_empty() {
        interfaces = read_old_interfaces(it)?;
    }
    let mut requirements = it.list("securityRequirements", read_requirement)?;
    if requirements.is_empty() {
        requirements = it.list("security", read_old_requirement)?;
    }
    let mut capabilities = it.maybe("capabilities", read_capabilities)?.unwrap_or_default();
    capabilities.extended_agent_card |= it.flag("supportsAuthenticatedExtendedCard")?;
    Ok(AgentCard {
        name: it.name("name")?,
        description: it.text("description")?,
        version: it.text("version")?,
        interfaces,
        provider: it.maybe("provider", read_provider)?,
        documentation_url: it.word("documentationUrl")?,
        icon_url: it.word("iconUrl")?,
        capabilities,
        security_schemes: it
            .map("securitySchemes")?
            .iter()
            .map(|(name, scheme)| Ok((name.clone(), read_scheme(scheme)?)))
            .collect::<Read<_>>()?,
        security_requirements: requirements,
        default_input_modes: it.texts("defaultInputModes")?,
        default_output_modes: it.texts("defaultOutputModes")?,
        skills: it.list("skills", read_skill)?,
    })
}

fn interface(interface: &Interface) -> Value {
    Doc::new()
        .put("url", interface.url.as_str())
        .put("protocolBinding", interface.binding.as_str())
        .put("protocolVersion", interface.version.as_str())
        .maybe("tenant", interface.tenant.as_deref())
        .done()
}

fn old_interface(interface: &Interface) -> Value {
    Doc::new().put("url", interface.url.as_str()).put("transport", interface.binding.as_str()).done()
}

fn read_interface(value: &Value) -> Read<Interface> {
    let it = Object::of(value)?;
    Ok(Interface {
        url: it.name("url")?,
        binding: it.name("protocolBinding")?,
        version: it.name("protocolVersion")?,
        tenant: it.word("tenant")?,
    })
}

fn read_old_interfaces(it: Object<'_>) -> Read<Vec<Interface>> {
    let version = || Version::V03.as_str().to_owned();
    let preferred = Interface {
        url: it.name("url")?,
        binding: it.word("preferredTransport")?.unwrap_or_else(|| Binding::JsonRpc.as_str().to_owned()),
        version: version(),
        tenant: None,
    };
    let others = it.list("additionalInterfaces", |value| {
        let it = Object::of(value)?;
        Ok(Interface { url: it.name("url")?, binding: it.name("transport")?, version: version(), tenant: None })
    })?;
    // Some cards repeat the preferred interface among the others.
    let others = others.into_iter().filter(|it| *it != preferred).collect::<Vec<_>>();
    Ok(std::iter::once(preferred).chain(others).collect())
}

fn provider(provider: &Provider) -> Value {
    Doc::new().put("organization", provider.organization.as_str()).put("url", provider.url.as_str()).done()
}

fn read_provider(value: &Value) -> Read<Provider> {
    let it = Object::of(value)?;
    Ok(Provider { organization: it.text("organization")?, url: it.text("url")? })
}

fn capabilities(capabilities: &Capabilities) -> Value {
    Doc::new()
        .put("streaming", capabilities.streaming)
        .put("pushNotifications", capabilities.push_notifications)
        .put("extendedAgentCard", capabilities.extended_agent_card)
        .list("extensions", capabilities.extensions.iter().map(extension))
        .done()
}

fn read_capabilities(value: &Value) -> Read<Capabilities> {
    let it = Object::of(value)?;
    Ok(Capabilities {
        streaming: it.flag("streaming")?,
        push_notifications: it.flag("pushNotifications")?,
        extended_agent_card: it.flag("extendedAgentCard")?,
        extensions: it.list("extensions", read_extension)?,
    })
}

fn extension(extension: &Extension) -> Value {
    Doc::new()
        .put("uri", extension.uri.as_str())
        .maybe("description", extension.description.as_deref())
        .flag("required", extension.required)
        .map("params", &extension.params)
        .done()
}

fn read_extension(value: &Value) -> Read<Extension> {
    let it = Object::of(value)?;
    Ok(Extension {
        uri: it.name("uri")?,
        description: it.word("description")?,
        required: it.flag("required")?,
        params: it.map("params")?,
    })
}

/// The members of 0.3 are added beside those of 1.0, if requested.
fn scheme(scheme: &SecurityScheme, of_both: bool) -> Option<Value> {
    let old = |doc: Doc| if of_both { doc } else { Doc::new() };
    match scheme {
        SecurityScheme::Http { scheme, bearer_format } => {
            let members = || Doc::new().put("scheme", scheme.as_str()).maybe("bearerFormat", bearer_format.as_deref());
            Some(old(members().put("type", "http")).put("httpAuthSecurityScheme", members().done()).done())
        }
        SecurityScheme::ApiKey { location, name } => {
            let new = Doc::new().put("location", location.as_str()).put("name", name.as_str());
            let members = Doc::new().put("type", "apiKey").put("in", location.as_str()).put("name", name.as_str());
            Some(old(members).put("apiKeySecurityScheme", new.done()).done())
        }
        SecurityScheme::Other => None,
    }
}

fn read_scheme(value: &Value) -> Read<SecurityScheme> {
    let it = Object::of(value)?;
    let kind = it.text("type")?;
    let http = it.get("httpAuthSecurityScheme").or_else(|| (kind == "http").then_some(value));
    let api_key = it.get("apiKeySecurityScheme").or_else(|| (kind == "apiKey").then_some(value));
    if let Some(http) = http {
        let it = Object::of(http)?;
        return Ok(SecurityScheme::Http { scheme: it.name("scheme")?, bearer_format: it.word("bearerFormat")? });
    }
    if let Some(api_key) = api_key {
        let it = Object::of(api_key)?;
        let location = it.word("location")?.map_or_else(|| it.name("in"), Ok)?;
        return Ok(SecurityScheme::ApiKey { location, name: it.name("name")? });
    }
    Ok(SecurityScheme::Other)
}

fn requirement(requirement: &SecurityRequirement) -> Value {
    let schemes: Map<String, Value> = requirement
        .iter()
        .map(|(name, scopes)| (name.clone(), Doc::new().put("list", scopes.clone()).done()))
        .collect();
    Doc::new().put("schemes", schemes).done()
}

fn old_requirement(requirement: &SecurityRequirement) -> Value {
    requirement.iter().map(|(name, scopes)| (name.clone(), Value::from(scopes.clone()))).collect()
}

fn read_requirement(value: &Value) -> Read<SecurityRequirement> {
    let schemes = Object::of(value)?.map("schemes")?;
    schemes.iter().map(|(name, scopes)| Ok((name.clone(), Object::of(scopes)?.texts("list")?))).collect()
}

fn read_old_requirement(value: &Value) -> Read<SecurityRequirement> {
    let Some(schemes) = value.as_object() else {
        return refuse("is no object");
    };
    schemes.iter().map(|(name, scopes)| Ok((name.clone(), list(scopes, text)?))).collect::<Read<BTreeMap<_, _>>>()
}

fn skill(skill: &Skill) -> Value {
    Doc::new()
        .put("id", skill.id.as_str())
        .put("name", skill.name.as_str())
        .put("description", skill.description.as_str())
        .put("tags", skill.tags.clone())
        .texts("examples", &skill.examples)
        .texts("inputModes", &skill.input_modes)
        .texts("outputModes", &skill.output_modes)
        .done()
}

fn read_skill(value: &Value) -> Read<Skill> {
    let it = Object::of(value)?;
    Ok(Skill {
        id: it.name("id")?,
        name: it.text("name")?,
        description: it.text("description")?,
        tags: it.texts("tags")?,
        examples: it.texts("examples")?,
        input_modes: it.texts("inputModes")?,
        output_modes: it.texts("outputModes")?,
    })
}

#[cfg(test)]
mod tests;
