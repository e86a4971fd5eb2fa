//! What a question to a person is about, as text.

use serde_json::Value;

use super::hitl::AskedQuestion;

/// The arguments or the items of the plan, as a block, and whether they are shown in full. At most `max_bytes` are shown.
pub(crate) fn subject_block(asked: &AskedQuestion, max_bytes: usize) -> (String, bool) {
    let about = match (&asked.tool_input, &asked.plan) {
        (Some(arguments), _) => serde_json::to_string_pretty(arguments).unwrap_or_default(),
        (None, Some(plan)) => plan_items(plan),
        (None, None) => return (String::new(), true),
    };
    let end = about.floor_char_boundary(max_bytes);
    let (cut, is_whole) = (&about[..end], end == about.len());
    let more = if is_whole { "" } else { "\n…" };
    (fenced("json", &format!("{cut}{more}")), is_whole)
}

/// The items of a `PlanForecast`.
fn plan_items(plan: &Value) -> String {
    let items = plan["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    let lines = items.iter().map(|item| format!("- {}", item["description"].as_str().unwrap_or_default()));
    lines.collect::<Vec<_>>().join("\n")
}

/// The text in a code fence that is longer than any run of backticks in it, so that the text cannot close the fence.
pub(crate) fn fenced(language: &str, text: &str) -> String {
    let fence = "`".repeat(longest_run(text, '`').max(2) + 1);
    format!("{fence}{language}\n{text}\n{fence}")
}

fn longest_run(text: &str, of: char) -> usize {
    text.split(|c| c != of).map(str::len).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_plan_is_shown_by_its_items() {
        let asked = json!({
            "suspensionId": "sus_1", "kind": "plan_review", "message": "May it?",
            "feedbackSchema": { "inputType": "confirm", "prompt": "May it?" },
            "plan": { "items": [{ "description": "Book it" }, { "description": "Pay it" }] },
        });
        let asked = serde_json::from_value(asked).unwrap();
        assert_eq!(subject_block(&asked, 100), ("```json\n- Book it\n- Pay it\n```".to_owned(), true));
        assert_eq!(subject_block(&asked, 9), ("```json\n- Book it\n…\n```".to_owned(), false));
    }
}
