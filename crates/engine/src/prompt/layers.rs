//! The system prompt, layer by layer: the phase, who the agent is, the instructions of this stage, the persona's prompt
//! for the stage, the guidance composed of server, thread and call, and the meaning of the markers.

use std::sync::Arc;

use super::Frame;
use super::data::{Marker, one_line};
use super::template::paragraphs;
use crate::domain::prompt::{PersonaPrompts, PromptMessage};
use crate::domain::tool::ToolSpec;

/// What differs from phase to phase.
pub(super) struct Stage<'a> {
    pub phase: String,
    pub instructions: &'a str,
    /// The description of the tools.
    pub tools: String,
    pub persona: fn(&PersonaPrompts) -> Option<&String>,
}

pub(super) fn system(frame: &Frame<'_>, stage: &Stage<'_>, marker: &Marker) -> PromptMessage {
    let settings = frame.settings;
    let phase = format!("Phase: {}", one_line(&stage.phase));
    let name = settings.persona.name.as_deref().map(|name| format!("You are {name}.")).unwrap_or_default();
    let persona = (stage.persona)(&settings.persona.prompts).map(String::as_str).unwrap_or_default();
    let content = paragraphs([
        phase.as_str(),
        name.as_str(),
        stage.instructions,
        &stage.tools,
        persona,
        &settings.system_prompt,
        &marker.explanation(),
    ]);
    PromptMessage::System { content }
}

/// With more tools than this, a planner gets only their names and a line of each; a step that uses a tool gets its
/// schema.
const MAX_TOOLS_WITH_SCHEMAS: usize = 24;
/// The longest such line, in characters.
const MAX_LINE_CHARS: usize = 120;

/// The first line of the description of the tools; each tool begins with `- `.
pub(super) const TOOLS_HEADING: &str = "Tools:";

/// The tools in a planner's prompt: with many of them, name and one line each, enough to choose.
pub(super) fn outline(tools: &[Arc<ToolSpec>]) -> String {
    if tools.len() <= MAX_TOOLS_WITH_SCHEMAS {
        return schemas(tools);
    }
    let line = |tool: &Arc<ToolSpec>| {
        let first = tool.description.trim().lines().next().unwrap_or_default();
        format!("- {}: {}", tool.name, one_line(&first.chars().take(MAX_LINE_CHARS).collect::<String>()))
    };
    format!("{TOOLS_HEADING}\n{}", tools.iter().map(line).collect::<Vec<_>>().join("\n"))
}

/// The tools with their schemas, as text, for models without native tool calls.
pub(super) fn schemas(tools: &[Arc<ToolSpec>]) -> String {
    if tools.is_empty() {
        return String::new();
    }
    let described = tools.iter().map(|tool| {
        format!("- {}: {}\n  input schema: {}", tool.name, one_line(tool.description.trim()), tool.input_schema)
    });
    format!("{TOOLS_HEADING}\n{}", described.collect::<Vec<_>>().join("\n"))
}

/// Sentences that the model must see, if there are any.
pub(super) fn notes(notes: &[String]) -> String {
    if notes.is_empty() {
        return String::new();
    }
    format!("Note:\n{}", notes.iter().map(|note| format!("- {note}")).collect::<Vec<_>>().join("\n"))
}
