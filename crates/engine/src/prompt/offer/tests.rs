use serde_json::json;

use super::*;
use crate::domain::tool::ToolClass;

fn tool(name: String) -> Arc<ToolSpec> {
    Arc::new(ToolSpec::new(name, String::new(), ToolClass::Read, json!({})).with_timeout_ms(1))
}

#[test]
fn of_very_many_tools_those_are_shown_that_the_step_speaks_of_or_has_called() {
    let offered: Vec<_> =
        (0..200).map(|n| tool(format!("shop__thing_{n}"))).chain([tool("mail__send".into())]).collect();
    let shown = closest("Send a mail about thing 150", &BTreeSet::from(["shop__thing_99"]), offered.clone());
    let names: Vec<&str> = shown.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names.len(), MAX_TOOLS);
    for name in ["mail__send", "shop__thing_150", "shop__thing_99"] {
        assert!(names.contains(&name), "{names:?}");
    }
    assert_eq!(closest("anything", &BTreeSet::new(), offered[..MAX_TOOLS].to_vec()).len(), MAX_TOOLS);
}
