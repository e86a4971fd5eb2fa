use serde_json::{Value, json};

use super::super::super::types::*;
use super::{card, card_of_both, read_card};

fn agent_card() -> AgentCard {
    let interface = |binding: &str, version: &str| Interface {
        url: "https://agents.example/a2a".into(),
        binding: binding.into(),
        version: version.into(),
        tenant: None,
    };
    let bearer = SecurityScheme::Http { scheme: "Bearer".into(), bearer_format: None };
    AgentCard {
        name: "Ada".into(),
        description: "Counts".into(),
        version: "1.2.3".into(),
        interfaces: vec![interface("JSONRPC", "1.0"), interface("HTTP+JSON", "1.0"), interface("JSONRPC", "0.3")],
        provider: Some(Provider { organization: "Us".into(), url: "https://us.example".into() }),
        capabilities: Capabilities { streaming: true, extended_agent_card: true, ..Capabilities::default() },
        security_schemes: [("key".to_owned(), bearer)].into(),
        security_requirements: vec![[("key".to_owned(), vec!["run".to_owned()])].into()],
        default_input_modes: vec!["text/plain".into()],
        default_output_modes: vec!["text/plain".into()],
        skills: vec![Skill { id: "count".into(), name: "Count".into(), tags: vec!["sum".into()], ..Skill::default() }],
        ..AgentCard::default()
    }
}

#[test]
fn one_card_is_understood_by_readers_of_both_versions() {
    let ours = agent_card();
    assert_eq!(read_card(&card(&ours)).unwrap(), ours);
    let document = card_of_both(&ours);
    assert_eq!(read_card(&document).unwrap(), ours);
    // A client of 0.3 sees only the members of 0.3.
    let mut old = document.as_object().unwrap().clone();
    for new in ["supportedInterfaces", "securityRequirements"] {
        old.remove(new);
    }
    old["capabilities"].as_object_mut().unwrap().remove("extendedAgentCard");
    old["securitySchemes"]["key"].as_object_mut().unwrap().remove("httpAuthSecurityScheme");
    let read = read_card(&Value::Object(old)).unwrap();
    assert_eq!(read.interfaces, [ours.interfaces[2].clone()]);
    assert_eq!(AgentCard { interfaces: ours.interfaces.clone(), ..read }, ours);
}

#[test]
fn a_card_of_0_3_names_its_places() {
    let old = json!({"name": "Old", "description": "", "version": "1", "protocolVersion": "0.3.0", "url": "https://x/a",
        "preferredTransport": "HTTP+JSON", "capabilities": {}, "skills": [{"id": "s"}],
        "additionalInterfaces": [{"url": "https://x/a", "transport": "HTTP+JSON"}, {"url": "https://x/b", "transport": "JSONRPC"}]});
    let read = read_card(&old).unwrap();
    let places: Vec<_> = read.interfaces.iter().map(|it| (it.url.as_str(), it.binding.as_str())).collect();
    assert_eq!(places, [("https://x/a", "HTTP+JSON"), ("https://x/b", "JSONRPC")]);
    assert_eq!(read_card(&json!({"name": "x"})).unwrap_err().pointer, "/url");
}
