//! What models think is recorded, once.

use pes_engine::domain::model::ModelReply;
use pes_engine::domain::observation::ObservationType;
use rstest::rstest;
use serde_json::json;

use super::sim::*;

/// The provider's own thinking goes before a member of the reply.
#[rstest]
#[case::none("", None, &[])]
#[case::of_the_provider("hm", None, &["hm"])]
#[case::in_the_reply("", Some("let me see"), &["let me see"])]
#[case::both("hm", Some("let me see"), &["hm"])]
fn the_thoughts_of_a_step_are_recorded_once(
    #[case] thinking: &'static str,
    #[case] thoughts: Option<&'static str>,
    #[case] recorded: &[&str],
) {
    let mut sim = Sim::new(move |request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &[])]),
        "a.1" => {
            let mut reply = json!({ "content": "done" });
            if let Some(thoughts) = thoughts {
                reply["thoughts"] = json!(thoughts);
            }
            Ok(ModelReply { thinking: thinking.to_owned(), ..says(reply.to_string())? })
        }
        other => says(other),
    });
    sim.ask("go").unwrap();
    sim.go();
    let told = sim.contents(ObservationType::Thoughts);
    let texts: Vec<&str> = told.iter().map(|told| told["text"].as_str().unwrap_or_default()).collect();
    assert_eq!(texts, recorded, "{told:#?}");
    assert_eq!(sim.item("a")["result"], "done");
}
