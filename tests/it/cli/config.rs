//! The configuration: its layers and its names.

use std::path::PathBuf;

use pes::config::env::Variables;
use pes::config::layers::Layers;
use pes::config::{Config, Environment, LogFormat, template};
use pes::domain::caller::Scope;
use secrecy::ExposeSecret;

fn variables(pairs: &[(&str, &str)]) -> Variables {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

pub fn load(pairs: &[(&str, &str)]) -> Result<Config, String> {
    Layers { variables: variables(pairs), ..Layers::default() }.load().map_err(|error| error.to_string())
}

pub fn load_file(text: &str, pairs: &[(&str, &str)]) -> Result<Config, String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("my.toml");
    std::fs::write(&file, text).unwrap();
    let error_place = file.display().to_string();
    Layers { file: Some(file), variables: variables(pairs), ..Layers::default() }
        .load()
        .map_err(|error| error.to_string().replace(&error_place, "my.toml"))
}

#[test]
fn the_default_file_lists_exactly_every_key_with_its_default() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("config/default.toml");
    assert_eq!(std::fs::read_to_string(path).unwrap(), template::template(), "run `pes config --template`");

    let uncommented: String = template::template()
        .lines()
        .filter(|line| !line.contains("# example; unset"))
        .map(|line| match line.strip_prefix("# ") {
            Some(entry) if entry.split_once(" = ").is_some_and(|(key, _)| is_key(key)) => format!("{entry}\n"),
            Some(_) | None => format!("{line}\n"),
        })
        .collect();
    let defaults = toml::Table::try_from(Config::default()).unwrap();
    assert_eq!(toml::from_str::<toml::Table>(&uncommented).unwrap(), prune(defaults));
}

fn is_key(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.chars().all(|c| c == '_' || c.is_ascii_lowercase() || c.is_ascii_digit())
}

/// Without the structured keys, for which the file shows examples.
fn prune(mut table: toml::Table) -> toml::Table {
    let agent = table.get_mut("agent").and_then(toml::Value::as_table_mut).unwrap();
    for key in ["templates", "persona", "execution", "tool_policy"] {
        assert!(agent.remove(key).is_some());
    }
    let policy = table.get_mut("policy").and_then(toml::Value::as_table_mut).unwrap();
    assert!(policy.remove("rules").is_some());
    let auth = table.get_mut("auth").and_then(toml::Value::as_table_mut).unwrap();
    assert!(auth.remove("oidc").is_some());
    let models = table.get_mut("models").and_then(toml::Value::as_table_mut).unwrap();
    for key in ["facts", "providers", "tenant_keys"] {
        assert!(models.remove(key).is_some());
    }
    assert!(table.remove("prices").is_some());
    assert!(table.remove("webhooks").is_some());
    assert!(table.remove("agents").is_some());
    for (section, key) in [("tools", "http"), ("egress", "tenants"), ("mcp", "servers"), ("retention", "tenants")] {
        assert!(table.get_mut(section).and_then(toml::Value::as_table_mut).unwrap().remove(key).is_some());
    }
    table
}

#[test]
fn examples_of_the_default_file_can_be_uncommented() {
    let mut text = String::new();
    for line in template::template().lines() {
        match line.strip_prefix("# ").filter(|entry| entry.contains("# example; unset")) {
            Some(entry) => text.push_str(entry),
            None if line.starts_with('[') => text.push_str(line),
            None => continue,
        }
        text.push('\n');
    }
    load_file(&text, &[("ACME_OPENAI_KEY", "sk-1")]).unwrap();
}

#[test]
fn the_environment_stands_above_the_file_and_flags_above_both() {
    let file = "[server]\nport = 1\nhost = \"::1\"\n[limits]\npage = 10\n";
    let config = load_file(file, &[("PORT", "2"), ("PES_LIMITS_JSON_DEPTH", "9")]).unwrap();
    assert_eq!((config.server.port, config.server.host.as_str()), (2, "::1"));
    assert_eq!((config.limits.page, config.limits.json_depth), (10, 9));

    let flags = toml::from_str("[server]\nport = 3\n").unwrap();
    let layers = Layers { variables: variables(&[("PORT", "2")]), flags, ..Layers::default() };
    assert_eq!(layers.load().unwrap().server.port, 3);
}

#[test]
fn known_names_keep_their_meaning() {
    let config = load(&[
        ("HOST", "127.0.0.2"),
        ("DATABASE_URL", "postgres://somewhere"),
        ("PES_DATA_DIR", "/data"),
        ("PES_LOG_FORMAT", "json"),
        ("RUST_LOG", "debug"),
        ("PES_LEASE_MS", "500"),
        ("PES_DEMO_PACE", "0"),
        ("PES_MODEL", "openai:gpt-x, ollama:llama3:8b"),
        ("PES_API_KEYS", "acme/ci:read+run:one:two-0123456789,zeta:admin:three-0123456789"),
        ("UNRELATED", "1"),
        ("PES_PUBLIC_URL", ""),
        ("OTEL_SDK_DISABLED", "TRUE"),
    ])
    .unwrap();
    assert!(config.telemetry.disabled, "OpenTelemetry takes it in any case");
    assert_eq!(config.store.url.unwrap().expose_secret(), "postgres://somewhere");
    assert_eq!((config.log.format, config.log.filter.as_str()), (LogFormat::Json, "debug"));
    assert_eq!((config.runtime.lease_ms, config.models.demo.pace_ms), (500, 0));
    assert_eq!(config.models.chosen()[1].model, "llama3:8b");
    assert_eq!(config.auth.keys[0].key.expose_secret(), "one:two-0123456789");
    assert_eq!((config.auth.keys[0].name.as_deref(), &config.auth.keys[1].name), (Some("ci"), &None));
    assert_eq!(config.auth.keys[0].scopes, [Scope::Read, Scope::Run]);
    assert_eq!(config.auth.keys[1].tenant, "zeta");
    assert_eq!(config.server.public_url, None);
}

#[test]
fn a_provider_that_is_named_has_the_variables_of_its_name() {
    let pairs = [("PES_MODEL", "groq:llama,my-gw:x"), ("GROQ_API_KEY", "gsk-1"), ("MY_GW_BASE_URL", "http://gw")];
    let models = load(&pairs).unwrap().models;
    assert_eq!(models.providers["groq"].api_key.as_ref().unwrap().0.expose_secret(), "gsk-1");
    assert_eq!(models.providers["my-gw"].base_url.as_deref(), Some("http://gw"));
    assert!(load(&[("GROQ_API_KEY", "gsk-1")]).unwrap().models.providers.is_empty(), "nobody named it");
}

#[test]
fn keys_are_followed_to_where_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    std::fs::write(&file, "sk-of-file\n").unwrap();
    let text = format!(
        "[models.providers.groq]\napi_key = \"env:MY_KEY\"\n[models.openai]\napi_key = \"file:{}\"\n\
         [models.tenant_keys.acme]\nxai = \"env:MY_KEY\"\n",
        file.display()
    );
    let models = load_file(&text, &[("MY_KEY", "sk-of-env")]).unwrap().models;
    assert_eq!(models.providers["groq"].api_key.as_ref().unwrap().0.expose_secret(), "sk-of-env");
    // It may change, so each use reads it again.
    assert_eq!(models.openai.api_key.unwrap().expose_secret(), format!("file:{}", file.display()));
    assert_eq!(models.tenant_keys["acme"]["xai"].0.expose_secret(), "sk-of-env");
    for (text, expected) in [
        (
            "[models.providers.groq]\napi_key = \"env:NO\"",
            "models.providers.groq.api_key: the secret `env:NO` is empty; set NO",
        ),
        (
            "[models.anthropic]\napi_key = \"file:/no\"",
            "models.anthropic.api_key: the secret `file:/no` cannot be read",
        ),
        ("[models.providers.openai]\nmodel = \"m\"", "models.providers.openai: it has a section of its own"),
        ("[models.providers.groq]\nkey = \"sk\"", "my.toml: "),
    ] {
        let error = load_file(text, &[]).unwrap_err();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn any_secret_may_come_from_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    std::fs::write(&file, "a-long-sealing-key\n").unwrap();
    let config = load(&[("PES_SEALING_KEY_FILE", file.to_str().unwrap())]).unwrap();
    assert_eq!(config.auth.sealing_key.unwrap().expose_secret(), "a-long-sealing-key");
    let error = load(&[("PES_API_KEYS_FILE", "/nowhere/keys")]).unwrap_err();
    assert!(error.starts_with("PES_API_KEYS_FILE: /nowhere/keys cannot be read"), "{error}");
}

/// A reference that is taken for the secret would be a secret that anybody can read in the settings.
#[test]
fn the_servers_own_secrets_are_followed_to_where_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let (sealing, key) = (folder.path().join("sealing"), folder.path().join("key"));
    std::fs::write(&sealing, "sealing-0123456789\n").unwrap();
    std::fs::write(&key, "api-of-file-0123456789\n").unwrap();
    let audit = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
    let text = format!(
        "[auth]\nkeys = [\"acme:read:file:{}\", \"zeta:read:env:PES_ZETA\"]\nsealing_key = \"file:{}\"\n\
         sealing_keys_old = [\"env:MY_OLD\"]\naudit_key = \"env:MY_AUDIT\"\n",
        key.display(),
        sealing.display()
    );
    let set = [("PES_ZETA", "api-of-env-0123456789"), ("MY_OLD", "old-0123456789abc"), ("MY_AUDIT", audit)];
    let auth = load_file(&text, &set).unwrap().auth;
    let keys = auth.keys.iter().map(|key| key.key.expose_secret());
    let sealing = auth.sealing_key.iter().chain(auth.sealing_keys_old.iter().map(|key| &key.0));
    let others = sealing.chain(&auth.audit_key).map(|secret| secret.expose_secret());
    assert_eq!(
        keys.chain(others).collect::<Vec<_>>(),
        ["api-of-file-0123456789", "api-of-env-0123456789", "sealing-0123456789", "old-0123456789abc", audit]
    );
    let by_variable = [("PES_SEALING_KEY", "env:MY_SEAL"), ("MY_SEAL", "sealing-0123456789")];
    assert_eq!(load(&by_variable).unwrap().auth.sealing_key.unwrap().expose_secret(), "sealing-0123456789");
    for (setting, expected) in [
        (
            "sealing_key = \"env:MY_NO\"",
            "auth.sealing_key (PES_SEALING_KEY): the secret `env:MY_NO` is empty; set MY_NO",
        ),
        ("keys = [\"acme:read:file:/no\"]", "auth.keys (PES_API_KEYS): the secret `file:/no` cannot be read: "),
    ] {
        let error = load_file(&format!("[auth]\n{setting}\n"), &[]).unwrap_err();
        assert!(error.starts_with(expected), "{error}");
    }
}

/// A file with one key per line is what people write.
#[test]
fn the_file_of_a_list_has_commas_or_lines() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys");
    std::fs::write(
        &file,
        "acme:read:one-0123456789abc\r\nops:operator:two-0123456789abc\n\nzeta:run:six-0123456789abc,b:run:ten-0123456789abc\n",
    )
    .unwrap();
    let keys = load(&[("PES_API_KEYS_FILE", file.to_str().unwrap())]).unwrap().auth.keys;
    let keys: Vec<(&str, &str)> = keys.iter().map(|key| (key.tenant.as_str(), key.key.expose_secret())).collect();
    assert_eq!(
        keys,
        [
            ("acme", "one-0123456789abc"),
            ("ops", "two-0123456789abc"),
            ("zeta", "six-0123456789abc"),
            ("b", "ten-0123456789abc")
        ]
    );
    std::fs::write(&file, "old-0123456789abc\nolder-0123456789abc\n").unwrap();
    let set = [("PES_SEALING_KEYS_OLD_FILE", file.to_str().unwrap()), ("PES_SEALING_KEY", "sealing-0123456789")];
    let old = load(&set).unwrap().auth.sealing_keys_old;
    let old: Vec<&str> = old.iter().map(|key| key.0.expose_secret()).collect();
    assert_eq!(old, ["old-0123456789abc", "older-0123456789abc"]);
}

/// A provider's key may change while the server runs: the source of the key is stored, not the key, however it was set.
#[test]
fn the_file_of_a_providers_key_is_referred_to() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    std::fs::write(&file, "sk-1\n").unwrap();
    let path = file.to_str().unwrap();
    let named = [("OPENAI_API_KEY_FILE", path), ("GROQ_API_KEY_FILE", path), ("PES_MODEL", "groq:m")];
    let models = load(&named).unwrap().models;
    let reference = format!("file:{path}");
    assert_eq!(models.openai.api_key.unwrap().expose_secret(), reference);
    assert_eq!(models.providers["groq"].api_key.as_ref().unwrap().0.expose_secret(), reference);
    for name in ["ANTHROPIC_API_KEY_FILE", "GEMINI_API_KEY_FILE"] {
        let error = load(&[(name, "/nowhere/key")]).unwrap_err();
        assert!(error.contains("api_key: the secret `file:/nowhere/key` cannot be read"), "{error}");
    }
}

#[test]
fn every_default_may_come_from_the_environment() {
    let mut named = None;
    let mut tried = 0;
    for line in template::template().lines() {
        if let Some(name) = line.strip_prefix("# Environment: ") {
            named = name.split(['.', ',']).next().map(str::to_owned);
        } else if let Some((key, value)) = line.trim_start_matches("# ").split_once(" = ")
            && is_key(key)
            && let Some(name) = named.take().filter(|_| !line.contains("# example; unset"))
        {
            let value = toml::from_str::<toml::Table>(&format!("it = {value}")).unwrap().remove("it").unwrap();
            let text = match &value {
                toml::Value::String(text) => text.clone(),
                toml::Value::Array(all) => all.iter().map(|one| one.as_str().unwrap()).collect::<Vec<_>>().join(","),
                plain => plain.to_string(),
            };
            load(&[(&name, &text)]).unwrap_or_else(|error| panic!("{name}={text}: {error}"));
            tried += 1;
        }
    }
    assert!(tried > 50, "only {tried} of them were found");
}

#[test]
fn names_that_kubernetes_injects_are_ignored() {
    load(&[
        ("PES_SERVICE_HOST", "10.0.0.1"),
        ("PES_SERVICE_PORT", "7070"),
        ("PES_SERVICE_PORT_HTTP", "7070"),
        ("PES_PORT", "tcp://10.0.0.1:7070"),
        ("PES_PORT_7070_TCP", "tcp://10.0.0.1:7070"),
        ("PES_PORT_7070_TCP_PROTO", "tcp"),
        ("PES_PORT_7070_TCP_PORT", "7070"),
        ("PES_PORT_7070_TCP_ADDR", "10.0.0.1"),
    ])
    .unwrap();
    assert!(load(&[("PES_PORT", "7070")]).unwrap_err().contains("unknown name `PES_PORT`; did you mean `PORT`?"));
}

#[test]
fn the_model_is_chosen_in_the_documented_order() {
    let chosen = |pairs: &[(&str, &str)]| load(pairs).unwrap().models.chosen()[0].to_string();
    assert_eq!(chosen(&[]), "demo:demo-scripted");
    assert_eq!(chosen(&[("OPENAI_BASE_URL", "http://localhost:1/v1")]), "openai:gpt-4.1-mini");
    assert_eq!(chosen(&[("OPENAI_API_KEY", "k")]), "openai:gpt-4.1-mini");
    assert_eq!(chosen(&[("OPENAI_API_KEY", "k"), ("PES_MODEL", "demo:demo-scripted")]), "demo:demo-scripted");
}

#[test]
fn production_and_open_addresses_need_keys() {
    let error = load(&[("PES_ENV", "production")]).unwrap_err();
    assert!(error.starts_with("PES_ENV=production refuses the demo model"), "{error}");

    let production = load(&[("PES_ENV", "production"), ("OPENAI_API_KEY", "k")]).unwrap();
    assert_eq!(production.env, Environment::Production);
    assert!(production.check_keys(false).is_err() && production.check_keys(true).is_ok());

    let open = load(&[("HOST", "0.0.0.0")]).unwrap();
    assert!(open.check_keys(false).unwrap_err().0.starts_with("0.0.0.0 is not loopback and there are no API keys"));
    assert!(
        load(&[("HOST", "0.0.0.0"), ("PES_API_KEYS", "a:admin:key-0123456789abcdef")])
            .unwrap()
            .check_keys(false)
            .is_ok()
    );
    for host in ["127.0.0.1", "127.9.9.9", "::1", "[::1]", "localhost"] {
        assert!(load(&[("HOST", host)]).unwrap().check_keys(false).is_ok(), "{host}");
    }
}

#[test]
fn a_server_in_production_serves_on_for_a_while_when_it_is_to_stop() {
    let delay = |variables: &[(&str, &str)]| load(variables).unwrap().drain_delay().as_millis();
    let production = [("PES_ENV", "production"), ("OPENAI_API_KEY", "k")];
    assert_eq!((delay(&[]), delay(&production)), (0, 5_000));
    assert_eq!(delay(&[production[0], production[1], ("PES_RUNTIME_DRAIN_DELAY_MS", "7")]), 7);
}

#[test]
fn production_starts_with_calling_nobody_who_is_not_named() {
    let denies = |variables: &[(&str, &str)]| load(variables).unwrap().denies_egress();
    let production = [("PES_ENV", "production"), ("OPENAI_API_KEY", "k")];
    assert!(denies(&production) && !denies(&[]));
    assert!(!denies(&[production[0], production[1], ("PES_EGRESS_DEFAULT", "allow")]));
    assert!(denies(&[("PES_EGRESS_DEFAULT", "deny")]));
    assert!(load(&[("PES_EGRESS_DEFAULT", "maybe")]).is_err());
}

#[test]
fn secrets_are_never_shown() {
    let config = load(&[
        ("OPENAI_API_KEY", "hush-1"),
        ("DATABASE_URL", "postgres://u:hush-2@h/d"),
        ("PES_API_KEYS", "acme:read:hush-3-0123456789"),
    ])
    .unwrap();
    for shown in [format!("{config:?}"), toml::to_string(&config).unwrap()] {
        assert!(!shown.contains("hush"), "{shown}");
    }
    assert!(!load(&[("PES_API_KEYS", "hush-3")]).unwrap_err().contains("hush"));
}
