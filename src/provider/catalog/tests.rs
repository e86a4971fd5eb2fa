use super::*;

#[test]
fn a_server_without_keys_offers_the_demo_and_its_prompts() {
    let models = Models::new(&config::Models::default()).unwrap();
    let listed = models.list();
    assert_eq!((listed.len(), listed[0].is_default, listed[0].prompts.len()), (1, true, 3));
    assert_eq!(models.default_model(), ("demo".into(), "demo-scripted".into()));
    assert!(models.model("demo").is_ok());
    let fault = models.model("gpt").err().unwrap();
    assert!(fault.detail.contains("demo") && fault.errors[0].pointer == "/options/providerConfig/providerName");
}

#[test]
fn an_endpoint_of_ones_own_needs_no_key_and_is_listed_without_its_secrets() {
    let base_url = Some("http://me:secret@localhost:11434/v1/?token=secret".into());
    let openai = config::OpenAi { base_url, ..config::OpenAi::default() };
    let models = Models::new(&config::Models { openai, ..config::Models::default() }).unwrap();
    let listed = models.list();
    assert_eq!(listed[0].base_url.as_deref(), Some("http://localhost:11434/v1"));
    assert_eq!((listed.len(), models.default_model().0.as_str()), (1, "openai"));
    let openai = config::OpenAi { base_url: Some("localhost".into()), ..config::OpenAi::default() };
    assert!(Models::new(&config::Models { openai, ..config::Models::default() }).is_err());
}

#[test]
fn a_choice_that_cannot_be_served_is_refused_at_the_start() {
    for choice in ["demo:gpt", "nobody:x", "openai:gpt"] {
        let config = config::Models { choice: vec![choice.parse().unwrap()], ..config::Models::default() };
        assert!(Models::new(&config).is_err(), "{choice}");
    }
    let script = Some("/nowhere/script.toml".into());
    let demo = config::Demo { script, ..config::Demo::default() };
    let fault = Models::new(&config::Models { demo, ..config::Models::default() }).err().unwrap();
    assert!(fault.detail.contains("/nowhere/script.toml"));
}

#[test]
fn the_first_provider_that_has_what_it_needs_answers() {
    let chosen = |change: fn(&mut config::Models)| {
        let mut config = config::Models::default();
        change(&mut config);
        Models::new(&config).unwrap().default_model().0
    };
    fn key() -> Option<secrecy::SecretString> {
        Some("sk-test".to_owned().into())
    }
    assert_eq!(chosen(|_| {}), "demo");
    assert_eq!(chosen(|config| config.ollama.host = Some("gpu".into())), "ollama");
    assert_eq!(chosen(|config| (config.ollama.host, config.gemini.api_key) = (Some("gpu".into()), key())), "gemini");
    assert_eq!(chosen(|config| (config.gemini.api_key, config.anthropic.api_key) = (key(), key())), "anthropic");
    assert_eq!(chosen(|config| (config.anthropic.api_key, config.openai.api_key) = (key(), key())), "openai");
    assert_eq!(
        chosen(|config| {
            config.openai.api_key = key();
            config.choice = vec!["gemini:gemini-2.5-pro".parse().unwrap()];
            config.gemini.api_key = key();
        }),
        "gemini"
    );
}

#[test]
fn every_row_can_be_chosen_by_its_name_alone() {
    for dialect in crate::provider::openai::compatible::DIALECTS.iter().filter(|dialect| dialect.name != "any") {
        let mut config =
            config::Models { choice: vec![format!("{}:m", dialect.name).parse().unwrap()], ..Default::default() };
        if dialect.needs_key {
            let fault = Models::new(&config).err().unwrap();
            let variable = format!("{}_API_KEY", dialect.name.to_uppercase());
            assert!(fault.detail.contains(&variable), "{}", fault.detail);
        }
        let key = config::Key("sk-test".to_owned().into());
        config.openai.api_key = Some("sk-test".to_owned().into());
        let provider = config::Provider { api_key: Some(key), ..config::Provider::default() };
        if dialect.name != "openai" {
            config.providers.insert(dialect.name.into(), provider);
        }
        let models = Models::new(&config).unwrap();
        assert_eq!(models.default_model(), (dialect.name.to_owned(), "m".to_owned()));
    }
}

#[test]
fn what_is_wrong_with_a_provider_of_ones_own_is_named() {
    let refused = |provider: config::Provider| {
        let mut config = config::Models::default();
        config.providers.insert("mine".into(), provider);
        Models::new(&config).err().unwrap().detail
    };
    let none = config::Provider::default;
    assert!(refused(none()).contains("models.providers.mine.base_url"));
    assert!(refused(config::Provider { dialect: Some("any".into()), ..none() }).contains("mine.base_url"));
    assert!(refused(config::Provider { dialect: Some("latin".into()), ..none() }).contains("mine.dialect"));
    assert!(refused(config::Provider { base_url: Some("gpu:80".into()), ..none() }).contains("base URL of mine"));
    assert!(refused(config::Provider { dialect: Some("anthropic".into()), ..none() }).contains("MINE_API_KEY"));
}

#[test]
fn a_provider_of_which_only_a_tenant_has_a_key_is_for_that_tenant() {
    let mut config = config::Models::default();
    let key = config::Key("sk-acme".to_owned().into());
    config.tenant_keys.entry("acme".into()).or_default().insert("anthropic".into(), key);
    let models = Models::new(&config).unwrap();
    assert!(models.model_of("acme", "anthropic").is_ok());
    let fault = models.model_of("other", "anthropic").err().unwrap();
    assert_eq!(fault.errors[0].pointer, "/options/providerConfig/providerName");
    assert_eq!(models.default_model().0, "demo", "a tenant's key chooses for nobody else");
}
