//! The agent card.

use pes::a2a::fault::Error;
use pes::a2a::wire::{Method, read_card};
use pes::config::Config;
use pes::config::a2a::AgentSkill;
use serde_json::{Value, json};

use super::binding::{BINDINGS, NEW};
use crate::support::app::App;

const PATH: &str = "/.well-known/agent-card.json";

fn skill(id: &str) -> AgentSkill {
    AgentSkill {
        id: id.into(),
        name: id.into(),
        description: "…".into(),
        tags: vec!["t".into()],
        ..AgentSkill::default()
    }
}

/// Members of a card that 1.0 does not have.
const OLD: [&str; 6] = [
    "url",
    "preferredTransport",
    "protocolVersion",
    "additionalInterfaces",
    "supportsAuthenticatedExtendedCard",
    "security",
];

fn keyed(config: &mut Config) {
    config.auth.keys = vec!["one:admin:key-a-0123456789abcdef0123456789".parse().unwrap()];
    config.a2a.extended_skills = vec![skill("secret")];
}

#[tokio::test]
async fn a_card_is_one_of_the_newest_version_unless_a_setting_says_otherwise() {
    let app = App::with(keyed).await;
    let card = app.get(PATH).await.expect(200);
    assert_eq!(OLD.iter().find(|name| card.get(**name).is_some()), None, "{card:#}");
    let scheme = json!({ "httpAuthSecurityScheme": { "scheme": "Bearer" } });
    assert_eq!(card["securitySchemes"]["key"], scheme);
    let app = App::with(|config| {
        keyed(config);
        config.a2a.card_v03 = true;
    })
    .await
    .key("key-a-0123456789abcdef0123456789");
    let card = app.get(PATH).await.expect(200);
    assert_eq!(OLD.iter().find(|name| card.get(**name).is_none()), None, "{card:#}");
    // Clients of 0.3 read no other card than one of theirs.
    for (binding, is_old) in BINDINGS.into_iter().zip([false, false, true, true]) {
        let extended = binding.call(&app, Method::GetExtendedAgentCard, json!({})).await.unwrap();
        assert_eq!(OLD.iter().find(|name| extended.get(**name).is_some() != is_old), None, "{binding:?}: {extended:#}");
    }
}

/// The library for Python 0.2 reads the card there, and refuses one without these members.
#[tokio::test]
async fn clients_of_versions_before_0_3_find_a_card_of_theirs_at_the_old_path() {
    let app = App::with(keyed).await;
    let said = app.get("/.well-known/agent.json").await;
    assert!(said.header("etag").is_some());
    let card = said.expect(200);
    assert_eq!(OLD.iter().find(|name| card.get(**name).is_none()), None, "{card:#}");
    assert_eq!(card["url"], format!("http://{}/a2a", app.address));
    let app = App::with(|config| config.a2a.enabled = false).await;
    app.get("/.well-known/agent.json").await.expect(404);
}

/// A shared cache does not give one caller the address of another.
#[tokio::test]
async fn a_card_that_tells_the_callers_own_address_is_kept_by_that_caller_only() {
    let caching = async |app: App| {
        let said = app.get(PATH).await;
        (said.header("cache-control").unwrap().to_owned(), said.header("vary").map(str::to_owned))
    };
    assert_eq!(caching(App::start().await).await, ("public, max-age=300".to_owned(), None));
    let behind = App::with(|config| config.server.trusted_proxies = vec!["127.0.0.1".to_owned()]).await;
    let (control, vary) = caching(behind).await;
    assert_eq!(control, "private, max-age=300");
    assert!(vary.unwrap().contains("x-forwarded-host"));
    let named = App::with(|config| {
        config.server.trusted_proxies = vec!["127.0.0.1".to_owned()];
        config.server.public_url = Some("https://agents.example".to_owned());
    })
    .await;
    assert_eq!(caching(named).await.1, None);
}

#[tokio::test]
async fn one_card_speaks_to_clients_of_both_versions() {
    let app = App::with(|config| {
        config.a2a.card_v03 = true;
        config.a2a.name = "Ada".into();
        config.a2a.skills = vec![skill("count")];
        config.a2a.provider_organization = Some("Us".into());
        config.a2a.provider_url = Some("https://us.example".into());
    })
    .await;
    let card = app.get(PATH).await.expect(200);
    let url = format!("http://{}/a2a", app.address);
    let interfaces: Vec<(&Value, &Value)> = card["supportedInterfaces"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| {
            assert_eq!(it["url"], url);
            (&it["protocolBinding"], &it["protocolVersion"])
        })
        .collect();
    let pairs = [("JSONRPC", "1.0"), ("HTTP+JSON", "1.0"), ("JSONRPC", "0.3"), ("HTTP+JSON", "0.3")];
    let pairs = pairs.map(|(a, b)| (json!(a), json!(b)));
    assert_eq!(interfaces, pairs.iter().map(|(a, b)| (a, b)).collect::<Vec<_>>());
    assert_eq!(
        (&card["url"], &card["preferredTransport"], &card["protocolVersion"]),
        (&json!(url), &json!("JSONRPC"), &json!("0.3.0"))
    );
    let modes = json!(["text/plain", "application/json"]);
    let expected = json!([{
        "id": "count", "name": "count", "description": "…", "tags": ["t"], "inputModes": modes,
        "outputModes": ["text/plain", "text/markdown", "application/json"],
    }]);
    assert_eq!(card["skills"], expected, "the modes that it does not name are those of the card");
    assert_eq!(card.get("securitySchemes"), None, "an open server needs no key");
    for mode in ["defaultInputModes", "defaultOutputModes"] {
        assert!(card[mode].as_array().unwrap().contains(&json!("text/plain")));
    }
    let read = read_card(&card).unwrap();
    assert_eq!((&*read.name, read.provider.unwrap().organization), ("Ada", "Us".to_owned()));
    assert!(!read.capabilities.extended_agent_card);
}

#[tokio::test]
async fn a_card_is_read_once_and_asked_about_after() {
    let app = App::start().await;
    let first = app.get(PATH).await;
    first.expect(200);
    let (tag, since) = (first.header("etag").unwrap(), first.header("last-modified").unwrap());
    assert!(tag.starts_with('"') && since.ends_with(" GMT"), "{tag} {since}");
    assert!(first.header("cache-control").unwrap().contains("max-age"));
    for (name, value) in [("if-none-match", tag), ("if-none-match", "\"other\", *"), ("if-modified-since", since)] {
        let again = app.ask("GET", PATH).header(name, value).send().await;
        assert_eq!((again.status, again.body.len(), again.header("etag")), (304, 0, Some(tag)), "{name}: {value}");
    }
    let weak = app.ask("GET", PATH).header("if-none-match", &format!("W/{tag}")).send().await;
    assert_eq!(weak.status, 304);
    for (name, value) in [("if-none-match", "\"other\""), ("if-modified-since", "Thu, 01 Jan 1970 00:00:00 GMT")] {
        assert_eq!(app.ask("GET", PATH).header(name, value).send().await.status, 200, "{name}: {value}");
    }
    // The tag takes precedence over the date.
    let both =
        app.ask("GET", PATH).header("if-none-match", "\"other\"").header("if-modified-since", since).send().await;
    assert_eq!(both.status, 200);
}

#[tokio::test]
async fn a_card_is_public_and_says_that_a_key_is_needed() {
    let app = App::with_keys().await;
    let card = app.get(PATH).await.expect(200);
    assert_eq!(card["securitySchemes"]["key"]["httpAuthSecurityScheme"]["scheme"], "Bearer");
    assert_eq!(card["securityRequirements"], json!([{ "schemes": { "key": { "list": [] } } }]));
}

#[tokio::test]
async fn more_is_told_to_those_with_a_key() {
    let app = App::with(|config| config.a2a.extended_skills = vec![skill("secret")]).await;
    assert_eq!(app.get(PATH).await.expect(200)["capabilities"]["extendedAgentCard"], true);
    for binding in BINDINGS {
        let card = binding.call(&app, Method::GetExtendedAgentCard, json!({})).await.unwrap();
        let read = read_card(&card).unwrap();
        assert_eq!(read.skills.last().unwrap().id, "secret", "{binding:?}");
    }
    let plain = App::start().await;
    let refused = NEW.call(&plain, Method::GetExtendedAgentCard, json!({})).await.unwrap_err();
    assert_eq!(refused.error, Error::ExtendedAgentCardNotConfigured);
}

#[tokio::test]
async fn a_card_names_the_public_address() {
    let app = App::with(|config| config.server.public_url = Some("https://agents.example/pes".into())).await;
    let card = app.get(PATH).await.expect(200);
    assert_eq!(card["supportedInterfaces"][0]["url"], "https://agents.example/pes/a2a");
}
