use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::json;

use super::{resolve, substitute};
use crate::config;
use crate::domain::settings::{CallOptions, ModelChoice, ProviderConfig, ThreadConfig};
use crate::provider::Models;

fn variables() -> BTreeMap<String, String> {
    BTreeMap::from([("who".to_owned(), "Ada {{who}}".to_owned())])
}

#[test]
fn names_become_their_values_and_all_else_stays() {
    let same = ["{{", "}}", "{{}}", "{{ }}", "{{a b}}", "{{who", "{who}", "{{who}", "{{who{{", "{{!who}}"];
    for text in same {
        assert_eq!(substitute(text, &variables()).as_deref(), Ok(text));
    }
    let become_ = [("{{who}}", "Ada {{who}}"), ("a {{ who }}!", "a Ada {{who}}!"), ("{{{who}}}", "{{{who}}}")];
    for (text, expected) in become_ {
        assert_eq!(substitute(text, &variables()).as_deref(), Ok(expected), "{text}");
    }
    assert_eq!(substitute("{{who}} {{x.y-z_1}}", &variables()), Err("x.y-z_1"));
}

/// A search to the end of the text for each of half a million braces would take minutes.
#[test]
fn a_text_full_of_braces_costs_no_more_than_another() {
    let started = Instant::now();
    for end in ["", "}}"] {
        let braces = "{".repeat(1 << 20) + end;
        assert_eq!(substitute(&braces, &variables()).as_deref(), Ok(braces.as_str()));
    }
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}

#[test]
fn only_fallbacks_that_somebody_named_must_admit_the_parameters() {
    let config = config::Models {
        choice: ["openai:gpt-4.1", "openai:gpt-5", "openai:gpt-4o"].map(|name| name.parse().unwrap()).into(),
        openai: config::OpenAi { api_key: Some("sk-a".to_owned().into()), ..config::OpenAi::default() },
        ..config::Models::default()
    };
    let models = Models::new(&config).unwrap();
    let of = |model: &str| ModelChoice { provider_name: "openai".to_owned(), model_id: model.to_owned() };
    let settings = |params, named: Option<Vec<ModelChoice>>| {
        let provider_config = named.map(|named| ProviderConfig { fallbacks: Some(named), ..ProviderConfig::default() });
        let thread = ThreadConfig { provider_config, ..ThreadConfig::default() };
        let call = CallOptions { llm_params: serde_json::from_value(params).unwrap(), ..CallOptions::default() };
        resolve(&config::Agent::default(), &models, "default", "plan", &thread, &call)
    };
    let cold = || json!({ "temperature": 0.2 });
    assert_eq!(settings(json!({}), None).unwrap().fallbacks, [of("gpt-5"), of("gpt-4o")]);
    assert_eq!(settings(cold(), None).unwrap().fallbacks, [of("gpt-4o")]);
    assert_eq!(settings(cold(), Some(vec![of("gpt-4o")])).unwrap().fallbacks, [of("gpt-4o")]);
    let fault = settings(cold(), Some(vec![of("gpt-4o"), of("gpt-5")])).unwrap_err();
    assert_eq!(fault.errors[0].pointer, "/options/providerConfig/fallbacks/1");
}
