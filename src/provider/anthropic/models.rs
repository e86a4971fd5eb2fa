//! How thinking is requested from an Anthropic model, by the version in its name.

/// What a model's version implies for its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Generation {
    /// Does not support thinking.
    Silent,
    /// Thinks within a budget of tokens.
    Budgeted,
    /// Decides itself how long to think, guided by the requested effort.
    Adaptive,
    /// Like `Adaptive`, but accepts neither a budget nor sampling parameters.
    AdaptiveOnly,
}

/// A name without a version is treated as the newest model; other models than Claude as one with a budget.
pub(super) fn generation(model: &str) -> Generation {
    let Some(rest) = claude(model) else { return Generation::Budgeted };
    match version(&rest) {
        None => Generation::AdaptiveOnly,
        Some(version) if version >= (4, 7) => Generation::AdaptiveOnly,
        Some(version) if version >= (4, 6) => Generation::Adaptive,
        Some(version) if version >= (3, 7) => Generation::Budgeted,
        Some(_) => Generation::Silent,
    }
}

/// Whether the model supports `output_config.format`. Other models than Claude may reject or ignore it.
pub(super) fn takes_form(model: &str) -> bool {
    claude(model).is_some_and(|rest| version(&rest).is_none_or(|version| version >= (4, 5)))
}

/// The part of the name after `claude-`, whatever the provider's prefix.
fn claude(model: &str) -> Option<String> {
    let name = model.rsplit('/').next().unwrap_or(model).to_lowercase();
    name.strip_prefix("claude-").map(str::to_owned)
}

/// Parses `3-7-sonnet-…`, `opus-4-1-…`, `opus-4.1`; a date is not taken for a minor version.
fn version(name: &str) -> Option<(u32, u32)> {
    let mut parts = name.split(['-', '.']).map(|part| part.parse::<u32>().ok()).skip_while(Option::is_none);
    let major = parts.next()??;
    let minor = parts.next().flatten().filter(|minor| *minor < 100);
    Some((major, minor.unwrap_or(0)))
}

#[cfg(test)]
mod tests;
