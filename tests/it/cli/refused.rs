//! Settings that are refused, and that the error names them and no secret.

use secrecy::ExposeSecret;

use super::config::{load, load_file};

#[test]
fn what_is_unknown_or_wrong_is_named() {
    let cases = [
        (load_file("[server]\nprot = 1\n", &[]), "my.toml: unknown key `server.prot`; did you mean `port`?"),
        (load_file("[serve]\nport = 1\n", &[]), "my.toml: unknown key `serve`; did you mean `server`?"),
        (load_file("a = [", &[]), "my.toml:1: "),
        (
            load_file("[server]\nport = \"x\"\n", &[]),
            "my.toml: invalid type: string, expected a whole number from 0 to 65535 in `server.port`",
        ),
        (load_file("[agent.execution]\nmaxIteration = 1\n", &[]), "my.toml: unknown field `maxIteration`"),
        (load(&[("PES_MODLE", "a:b")]), "environment: unknown name `PES_MODLE`; did you mean `PES_MODEL`?"),
        (
            load(&[("PES_LIMITS_BODY_BYTES", "0")]),
            "limits.body_bytes: 0 is not between 512 and 1099511627776; no query would fit in less",
        ),
        (
            load(&[("PES_RUNTIME_CRASH_LIMIT", "0")]),
            "runtime.crash_limit: 0 is not between 1 and 1000000000; with 0 every thread would be quarantined",
        ),
        (
            load_file("[models.facts]\ngpt-x = { context_window = 9 }\n", &[]),
            "models.facts: `gpt-x` must be provider:model",
        ),
        (
            load(&[("OPENAI_API_KEY", "hush"), ("OPENAI_API_KEY_FILE", "/k")]),
            "OPENAI_API_KEY and OPENAI_API_KEY_FILE are both set: ",
        ),
        (
            load(&[("PES_SEALING_KEY", "hush"), ("PES_SEALING_KEY_FILE", "/k")]),
            "PES_SEALING_KEY and PES_SEALING_KEY_FILE are both set: ",
        ),
        (
            load(&[("PES_MODEL", "groq:m"), ("GROQ_API_KEY", "hush"), ("GROQ_API_KEY_FILE", "/k")]),
            "GROQ_API_KEY and GROQ_API_KEY_FILE are both set: ",
        ),
        (load(&[("PES_MODEL", "gpt")]), "PES_MODEL: `gpt` is not provider:model"),
        (load(&[("PORT", "http")]), "PORT: `http` is not a whole number"),
        (
            load(&[("PES_METRICS_LISTEN", "9465")]),
            "PES_METRICS_LISTEN: `9465` is no address with a port; write 127.0.0.1:9465",
        ),
        (
            load(&[("PES_RETENTION_LOG_DAYS", "never")]),
            "PES_RETENTION_LOG_DAYS: `never` is no number of days; write one, or forever",
        ),
        (load(&[("PORT", "70000")]), "PORT: invalid value: integer `70000`, expected a whole number from 0 to 65535"),
        (
            load(&[("PES_API_KEYS", "acme:write:key")]),
            "PES_API_KEYS: an API key is written tenant:scope+scope:key or tenant/name:scope+scope:key, with the scopes \
             read, run, approve, admin or operator",
        ),
        (load(&[("PES_SERVER_BASE_PATH", "x/")]), "server.base_path: `x/` must begin with /"),
        (load(&[("PES_PUBLIC_URL", "ftp://x")]), "server.public_url: `ftp://x` is not an http"),
        (
            load(&[("PES_PUBLIC_URL", "agents.example.com")]),
            "server.public_url: `agents.example.com` is not an http or https URL; write it as https://agents.example.com",
        ),
        (load(&[("PES_SERVER_TRUSTED_PROXIES", "10/8")]), "server.trusted_proxies: `10/8` is neither"),
        (load(&[("PES_SERVER_CORS_ORIGINS", "*")]), "server.cors_origins: `*` is not an origin"),
        (load(&[("PES_SERVER_CORS_ORIGINS", "https://a.example/x")]), "server.cors_origins: `https://a.example/x` is"),
        (load(&[("PES_LIMITS_TENANT_RUNNING_RUNS", "0")]), "limits.tenant.running_runs: no run would ever begin; "),
        (load(&[("PES_A2A_ENABLED", "no")]), "PES_A2A_ENABLED: `no` is neither true nor false"),
        (load(&[("PES_API_KEYS", ":read:key")]), "PES_API_KEYS: a key's tenant must have 1 to 128 bytes"),
        (load(&[("PES_API_KEYS", "acme/timer:read:key")]), "PES_API_KEYS: a key's name must not be policy, timer"),
        (load(&[("PES_API_KEYS", "acme:read:a")]), "auth.keys (PES_API_KEYS): the key of entry 1 can be guessed: "),
        (
            load(&[("PES_API_KEYS", "acme:read:A_LONG_RANDOM_KEY")]),
            "auth.keys (PES_API_KEYS): the key of entry 1 can be guessed: ",
        ),
        (
            load(&[("PES_API_KEYS", "acme:read:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")]),
            "auth.keys (PES_API_KEYS): the key of entry 1 can be guessed: ",
        ),
        (
            load(&[("PES_API_KEYS", "acme:read:key-0123456789abcdef,zeta:read:key-0123456789abcdef")]),
            "auth.keys (PES_API_KEYS): the entries 1 and 2 have the same key; ",
        ),
        (
            load(&[("PES_API_KEYS", "acme/ann:read:key-0123456789abcdef,acme/ann:read:key-fedcba9876543210")]),
            "auth.keys (PES_API_KEYS): the entries 1 and 2 have the same name in one tenant",
        ),
        (
            load_file("[auth]\nkeys = [\"acme:read:hush-0123456789abc\\nops:admin:hush-fedcba9876543\"]\n", &[]),
            "auth.keys (PES_API_KEYS): the key of entry 1 has a line end or another control character, ",
        ),
        (
            load(&[("PES_API_KEYS", "acme:read:hush-0123456789abc;ops:read:hush-fedcba9876543")]),
            "auth.keys (PES_API_KEYS): entry 1 is in quotation marks, or another one follows in it after a space or a ",
        ),
        (
            load(&[("PES_API_KEYS", "acme:read:hush-0123456789abc ops:read:hush-fedcba9876543")]),
            "auth.keys (PES_API_KEYS): entry 1 is in quotation marks, or another one follows in it after a space or a ",
        ),
        (
            load(&[("PES_API_KEYS", "\"acme:read:hush-0123456789abc,ops:read:hush-fedcba9876543\"")]),
            "auth.keys (PES_API_KEYS): entry 1 is in quotation marks, or another one follows in it after a space or a ",
        ),
        (
            load(&[("HOST", "0.0.0.0:7070")]),
            "server.host (HOST): `0.0.0.0:7070` is no host alone; the port stands in server.port (PORT)",
        ),
        (load(&[("HOST", "http://127.0.0.1")]), "server.host (HOST): `http://127.0.0.1` is no host alone; "),
        (load(&[("DATABASE_URL", "sqlite:data/pes.db")]), "store.url (DATABASE_URL): SQLite needs none; "),
        (load(&[("DATABASE_URL", "mysql://u:hush@h/d")]), "store.url (DATABASE_URL): `mysql:` is not taken; "),
        (load(&[("DATABASE_URL", "hush")]), "store.url (DATABASE_URL) is no URL; "),
        (load(&[("DATABASE_URL", "postgres:/u:hush@h/d")]), "store.url (DATABASE_URL) is no URL; "),
        (load(&[("PES_PUBLIC_URL", "https://u:hush@h")]), "server.public_url (PES_PUBLIC_URL): it names a user or a "),
        (
            load(&[("PES_API_KEYS", "acme:read: hush-0123456789abc")]),
            "auth.keys (PES_API_KEYS): the key of entry 1 begins or ends with a space, or has a character that is not ASCII",
        ),
        (
            load(&[("PES_API_KEYS", "acme:read:hush-0123456789äöü")]),
            "auth.keys (PES_API_KEYS): the key of entry 1 begins or ends with a space, or has a character that is not ASCII",
        ),
        (load(&[("PES_AUDIT_KEY", &"ab".repeat(32))]), "auth.audit_key (PES_AUDIT_KEY): this key can be guessed: "),
        (load(&[("PES_AUDIT_KEY", "hush")]), "auth.audit_key (PES_AUDIT_KEY): it must be 64 hexadecimal digits; "),
        (
            load(&[("PES_MODEL", "gpt-x")]),
            "PES_MODEL: `gpt-x` is not provider:model (for example openai:gpt-4.1-mini) in `models.choice`",
        ),
        (load(&[("PES_SEALING_KEY", "a")]), "auth.sealing_key (PES_SEALING_KEY): this key can be guessed: "),
    ];
    for (result, expected) in cases {
        let error = result.unwrap_err();
        assert!(error.starts_with(expected), "{error}\nshould start with\n{expected}");
        assert!(!error.contains('\n') && !error.contains("hush"), "{error}");
    }
}

/// Without keys the server would be open, and without the others it would work, too, but not as it was meant to.
#[test]
fn a_file_or_list_for_a_secret_must_have_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secret");
    let file = path.to_str().unwrap();
    for text in ["", "\n", "\r\n\n"] {
        std::fs::write(&path, text).unwrap();
        for name in ["PES_API_KEYS", "PES_SEALING_KEY", "PES_AUDIT_KEY", "DATABASE_URL", "OTEL_EXPORTER_OTLP_HEADERS"] {
            let error = load(&[(&format!("{name}_FILE"), file)]).unwrap_err();
            assert_eq!(
                error,
                format!("{name}_FILE: {file} is empty; write the secret there, or unset {name}_FILE"),
                "{text:?}"
            );
        }
        let config = load(&[("PES_SEALING_KEYS_OLD_FILE", file)]).unwrap();
        assert!(config.auth.sealing_keys_old.is_empty(), "often there is none");
    }
    std::fs::write(&path, " ,\n").unwrap();
    for set in [("PES_API_KEYS", ","), ("PES_API_KEYS_FILE", file)] {
        assert_eq!(load(&[set]).unwrap_err(), "PES_API_KEYS: it has no entry; write one, or unset PES_API_KEYS");
    }
    assert!(load(&[("PES_API_KEYS", "")]).unwrap().auth.keys.is_empty(), "an empty variable counts as unset");
}

/// Each of these is a slip of somebody who knows another program, or the environment's form of the setting.
#[test]
fn a_secret_in_the_wrong_form_is_not_repeated() {
    for (text, expected) in [
        ("[auth]\nkeys = \"acme/ann:read+run:hush\"", "invalid type: string, expected a sequence in `auth.keys`"),
        ("[auth]\nkeys = [\"acme:hush:read\"]", "an API key is written tenant:scope+scope:key or "),
        ("[auth]\nkeys = [{ key = \"hush\" }]", "invalid type: map, expected a string in `auth.keys`"),
        (
            "[auth]\nsealing_keys_old = 'hush\", expected hush'",
            "invalid type: string, expected a sequence in `auth.sealing_keys_old`",
        ),
        ("[auth]\nsealing_key = 4711042", "invalid type: integer, expected a string in `auth.sealing_key`"),
        (
            "[[webhooks]]\nid = \"a\"\nurl = \"http://x\"\nevents = []\nsecrets = \"whsec_hush\"",
            "invalid type: string, expected a sequence in `webhooks",
        ),
        ("[models.tenant_keys]\nacme = \"hush\"", "invalid type: string, expected a map in `models.tenant_keys.acme`"),
        ("[models.providers]\ngroq = \"hush\"", "invalid type: string, expected a table in `models.providers.groq`"),
        (
            "[mcp.servers.shop]\ncommand = \"shop\"\nenv = \"TOKEN=hush\"",
            "invalid type: string, expected a map in `mcp.servers.shop.env`",
        ),
        (
            "[mcp.servers.shop]\nurl = \"http://me:hush/1@shop\"",
            "mcp.servers.shop: its url is not an http or https URL",
        ),
        ("[models.openai]\napi_key = hush", "my.toml:2: "),
        (
            "[auth.oidc.corp]\nissuer = \"https://me:hush@login.example\"\naudience = \"pes\"\ntenant = \"acme\"",
            "auth.oidc.corp: issuer: it must have no user, ",
        ),
        (
            "[auth.oidc.corp]\nissuer = \"https://me:hush/1@login.example\"\naudience = \"pes\"\ntenant = \"acme\"",
            "auth.oidc.corp: issuer: it is no URL: ",
        ),
    ] {
        let error = load_file(text, &[]).unwrap_err();
        let told = error.trim_start_matches("my.toml: ");
        assert!(told.starts_with(expected), "{error}\nshould start with\n{expected}");
        assert!(!error.contains("hush") && !error.contains("4711042"), "{error}");
    }
}

#[test]
fn a_ring_of_sealing_keys_has_no_weak_and_no_doubled_key() {
    const CURRENT: &str = "hush-0123456789-current";
    let load = |current: &str, old: &str| {
        let set = [("PES_SEALING_KEY", current), ("PES_SEALING_KEYS_OLD", old)];
        load(&set.into_iter().filter(|(_, value)| !value.is_empty()).collect::<Vec<_>>())
    };
    let sound = load(CURRENT, "hush-0123456789-first, hush-0123456789-second").unwrap();
    let old: Vec<&str> = sound.auth.sealing_keys_old.iter().map(|key| key.0.expose_secret()).collect();
    assert_eq!(old, ["hush-0123456789-first", "hush-0123456789-second"]);
    assert!(!toml::to_string(&sound).unwrap().contains("hush"));
    for (current, old, expected) in [
        (CURRENT, "hush-0123456789-first,hush", "entry 2 can be guessed: "),
        (CURRENT, CURRENT, "entry 1 is the key of PES_SEALING_KEY; name here only keys that it replaced"),
        (CURRENT, "hush-0123456789-first,hush-0123456789-first", "the entries 1 and 2 are the same key"),
        ("", "hush-0123456789-first", "these keys only open; set PES_SEALING_KEY, which seals from now on"),
        ("hush,0123456789-current", "", "this key has a comma or a line end, or begins or ends with a space"),
        ("hush-0123456789\ncurrent", "", "this key has a comma or a line end, or begins or ends with a space"),
        (" hush-0123456789-current", "", "this key has a comma or a line end, or begins or ends with a space"),
    ] {
        let error = load(current, old).unwrap_err();
        assert!(error.contains(expected) && error.contains("PES_SEALING_KEY"), "{error}\nshould contain\n{expected}");
        assert!(!error.contains("hush"), "{error}");
    }
}

const BYTES: i64 = 1_099_511_627_776;
const MS: i64 = 315_360_000_000;
const COUNT: i64 = 1_000_000_000;
const DAY: i64 = 86_400_000;

/// Each number with the least and the most that a server starts with.
const BOUNDS: [(&str, i64, i64); 59] = [
    ("limits.json_depth", 1, 64),
    ("limits.id_length", 40, BYTES),
    ("limits.body_bytes", 512, BYTES),
    ("limits.header_bytes", 1_024, BYTES),
    ("limits.calls_per_reply", 1, COUNT),
    ("limits.tool_output_bytes", 0, BYTES),
    ("limits.connections", 1, COUNT),
    ("limits.mailbox", 0, COUNT),
    ("limits.ws_message_bytes", 64, BYTES),
    ("limits.socket_queue_bytes", 0, BYTES),
    ("limits.queued_runs", 0, COUNT),
    ("limits.history_messages", 0, COUNT),
    ("limits.items_per_plan", 1, COUNT),
    ("limits.state_bytes", 0, BYTES),
    ("limits.requests_at_once_per_key", 1, COUNT),
    ("limits.documents", 0, COUNT),
    ("limits.keys_per_tenant", 0, COUNT),
    ("limits.page", 1, 1_000),
    ("limits.header_timeout_ms", 1, MS),
    ("limits.body_timeout_ms", 1, MS),
    ("store.connections", 1, 10_000),
    ("runtime.lease_ms", 100, MS),
    ("runtime.worker_threads", 1, 1_024),
    ("runtime.crash_limit", 1, COUNT),
    ("runtime.drain_ms", 0, DAY),
    ("runtime.drain_delay_ms", 0, DAY),
    ("runtime.idle_ms", 0, MS),
    ("models.connect_timeout_ms", 1, MS),
    ("models.header_timeout_ms", 1, MS),
    ("models.stall_timeout_ms", 1, MS),
    ("models.total_timeout_ms", 1, MS),
    ("models.retry_ms", 0, MS),
    ("models.connect_retry_ms", 0, MS),
    ("models.reply_bytes", 1, BYTES),
    ("models.context_window", 1, COUNT),
    ("models.ollama.num_ctx", 1, COUNT),
    ("models.demo.pace_ms", 0, MS),
    ("models.gate.per_provider", 1, COUNT),
    ("models.gate.per_key", 1, COUNT),
    ("models.gate.per_tenant", 1, COUNT),
    ("models.gate.breaker_failures", 1, COUNT),
    ("models.gate.breaker_ms", 0, MS),
    ("models.gate.queue", 0, COUNT),
    ("models.gate.queue_ms", 0, MS),
    ("delegation.poll_ms", 10, MS),
    ("delegation.poll_most_ms", 10, MS),
    ("delegation.call_ms", 1, MS),
    ("egress.connect_timeout_ms", 1, MS),
    ("mcp.start_timeout_ms", 1, MS),
    ("mcp.message_bytes", 1, BYTES),
    ("mcp.tools_per_server", 0, COUNT),
    ("a2a.hold_ms", 0, MS),
    ("a2a.part_bytes", 1, BYTES),
    ("a2a.body_bytes", 512, BYTES),
    ("outbox.attempt_timeout_ms", 1, MS),
    ("outbox.push_for_ms", 0, MS),
    ("outbox.kept_ms", 0, MS),
    ("doors.chat_grace_ms", -1, MS),
    ("telemetry.timeout_ms", 1, MS),
];

/// What looks like a mistake at first sight.
#[test]
fn unusual_keys_and_hosts_are_taken() {
    for key in ["a phrase; that nobody knows", "my \"friend\" o'wanderer\"", "'0123456789abcdef'", "one two:0123456789"]
    {
        let entry = format!("acme:read:{key}");
        let config = load_file(&format!("[auth]\nkeys = [{entry:?}]\n"), &[]);
        assert_eq!(config.unwrap().auth.keys[0].key.expose_secret(), key);
    }
    for host in ["::", "[::1]", "fe80::1%eth0", "[fe80::1%eth0]", "pes.internal"] {
        assert_eq!(load(&[("HOST", host)]).unwrap().server.host, host);
    }
}

/// Lists of numbers, each with the least and the most.
const LISTS: [(&str, i64, i64); 2] = [("outbox.backoff_ms", 1, MS), ("outbox.push_backoff_ms", 1, MS)];

#[test]
fn a_number_beyond_its_bounds_is_refused_by_its_name() {
    let numbers = BOUNDS.map(|(key, least, most)| (key, least, most, ["", ""]));
    let lists = LISTS.map(|(key, least, most)| (key, least, most, ["[7, ", "]"]));
    for (key, least, most, [before, after]) in numbers.into_iter().chain(lists) {
        let load = |value: i64| load_file(&format!("{key} = {before}{value}{after}\n"), &[]);
        for value in [least, most] {
            load(value).unwrap_or_else(|error| panic!("{key} = {value}: {error}"));
        }
        for value in [least - 1, most + 1, i64::MAX] {
            let error = load(value).unwrap_err();
            let is_told = error.starts_with(&format!("{key}: {value} is not between {least} and {most}"));
            // Some types refuse it before.
            let is_of_its_type = error.starts_with("my.toml: invalid value: ") && error.contains(&format!("`{key}`"));
            assert!(is_told || ((value < 0 || value == i64::MAX) && is_of_its_type), "{error}");
        }
    }
}
