//! The prompt texts, one file per kind of prompt.

pub(super) const PLAN: &str = include_str!("templates/plan.md");
pub(super) const REFINE: &str = include_str!("templates/refine.md");
pub(super) const TOOL_STEP: &str = include_str!("templates/tool_step.md");
pub(super) const REASONING_STEP: &str = include_str!("templates/reasoning_step.md");
pub(super) const CONVERSE: &str = include_str!("templates/converse.md");
pub(super) const SYNTHESIS: &str = include_str!("templates/synthesis.md");
pub(super) const SYNTHESIS_AS_JSON: &str = include_str!("templates/synthesis_as_json.md");
pub(super) const SUMMARY: &str = include_str!("templates/summary.md");
pub(super) const REPAIR: &str = include_str!("templates/repair.md");
pub(super) const ENFORCEMENT: &str = include_str!("templates/enforcement.md");
pub(super) const DATA: &str = include_str!("templates/data.md");

/// The template with each `{{name}}` replaced, in one pass: placeholders in values are not replaced.
pub(super) fn fill(template: &str, values: &[(&str, &str)]) -> String {
    let mut text = String::with_capacity(template.len());
    let mut rest = template.trim_end();
    while let Some((before, after)) = rest.split_once("{{") {
        text.push_str(before);
        let (name, after) = after.split_once("}}").expect("templates close their placeholders");
        let (_, value) = values.iter().find(|(known, _)| *known == name).expect("templates name known values");
        text.push_str(value);
        rest = after;
    }
    text.push_str(rest);
    text
}

/// Paragraphs, without the empty ones.
pub(super) fn paragraphs<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    let parts: Vec<&str> = parts.into_iter().map(str::trim).filter(|part| !part.is_empty()).collect();
    parts.join("\n\n")
}
