use super::*;

#[test]
fn versions_are_read_from_names() {
    let table = [
        ("claude-3-haiku-20240307", Generation::Silent),
        ("claude-3-5-sonnet-latest", Generation::Silent),
        ("claude-3-7-sonnet-20250219", Generation::Budgeted),
        ("claude-opus-4-20250514", Generation::Budgeted),
        ("anthropic/claude-haiku-4.5", Generation::Budgeted),
        ("claude-sonnet-4-6", Generation::Adaptive),
        ("claude-opus-4-7", Generation::AdaptiveOnly),
        ("claude-opus-5-20270101", Generation::AdaptiveOnly),
        ("claude-new", Generation::AdaptiveOnly),
        ("glm-4.6", Generation::Budgeted),
    ];
    for (model, expected) in table {
        assert_eq!(generation(model), expected, "{model}");
    }
}

#[test]
fn a_form_is_taken_by_what_is_known_to_keep_to_it() {
    for model in ["claude-haiku-4-5", "anthropic/claude-opus-4.5", "claude-sonnet-4-6", "claude-new"] {
        assert!(takes_form(model), "{model}");
    }
    for model in ["claude-3-7-sonnet-20250219", "claude-opus-4-20250514", "claude-opus-4-1", "glm-4.6", "gpt-oss:20b"] {
        assert!(!takes_form(model), "{model}");
    }
}
