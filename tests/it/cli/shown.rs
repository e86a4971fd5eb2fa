//! What `pes config` shows and never shows, and environment variables that settings name.

use std::path::Path;
use std::process::Output;

use pes::config::template;

use super::run as pes;

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[track_caller]
fn shown(folder: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> String {
    let Output { status, stdout, stderr } = pes(folder, arguments, variables);
    assert!(status.success(), "{}", text(&stderr));
    text(&stdout)
}

#[test]
fn variables_that_settings_refer_to_are_known() {
    let folder = tempfile::tempdir().unwrap();
    let file = "[auth.oidc.corp]\nissuer = \"https://login.example/realms/corp\"\naudience = \"pes\"\ntenant = \"acme\"\n\
                client_id = \"pes-console\"\nclient_secret = \"env:PES_CLIENT_SECRET\"\n[mcp]\ntenant_env = [\"PES_LENT\"]\n";
    std::fs::write(folder.path().join("pes.toml"), file).unwrap();
    let arguments = ["config", "--config", "pes.toml"];
    for name in ["PES_CLIENT_SECRET", "PES_LENT", "PES_THREAD", "PES_MCP_PROCESS", "PES_TOKEN", "PES_URL"] {
        shown(folder.path(), &arguments, &[(name, "hush")]);
    }
    let by_variable = [("GROQ_API_KEY", "env:PES_MY_KEY"), ("PES_MY_KEY", "hush"), ("PES_MODEL", "groq:m")];
    shown(folder.path(), &arguments, &by_variable);
    let refused = pes(folder.path(), &arguments, &[("PES_CLIENT_SECRE", "hush")]);
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("unknown name `PES_CLIENT_SECRE`; did you mean `PES_CLIENT_SECRET`?"), "{said}");
}

/// Every secret of the template, by its environment variable.
const SECRETS: [(&str, &str); 10] = [
    ("DATABASE_URL", "postgres://pes:canary-a@host/pes"),
    ("OPENAI_API_KEY", "canary-b"),
    ("ANTHROPIC_API_KEY", "canary-c"),
    ("GEMINI_API_KEY", "canary-d"),
    ("OLLAMA_API_KEY", "canary-e"),
    ("PES_API_KEYS", "acme:read:canary-f-0123456789"),
    ("PES_SEALING_KEY", "canary-g-0123456789"),
    ("PES_SEALING_KEYS_OLD", "canary-h-0123456789,canary-i-0123456789"),
    ("PES_AUDIT_KEY", "ca9a4100112233445566778899aabbccddeeff00112233445566778899aabbcc"),
    ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20canary-j"),
];

/// And those that only a file can set, with URLs that contain passwords.
const FILE: &str = r#"
[[webhooks]]
id = "ops"
url = "https://me:canary-k@ops.example/pes"
events = ["run.failed"]
secrets = ["canary-l", "env:OPS_SECRET"]
[[agents]]
id = "research"
card = "https://canary-m@research.example/card.json"
token = "canary-n"
[[tools.http]]
name = "find_order"
description = "Finds an order."
url = "https://me:canary-o@shop.example/tools/order"
input_schema = { type = "object" }
secret = "canary-p"
[models.openai]
base_url = "http://me:canary-q@localhost:1/v1?page=@1"
[models.ollama]
host = "me:canary-r@localhost:11434"
[models.providers.mine]
base_url = "http://me:can@canary-s@gpu:8000/v1"
api_key = "canary-t"
[models.tenant_keys.acme]
openai = "canary-u"
[auth.oidc.corp]
issuer = "https://login.example"
audience = "pes"
tenant = "acme"
client_id = "pes"
client_secret = "canary-v"
[mcp.servers.shop]
url = "https://me:canary-w@shop.example/mcp"
headers = { authorization = "canary-x" }
[mcp.servers.local]
command = "local"
args = ["--db=postgres://me:canary-y@host/db", "plain@example"]
env = { TOKEN = "canary-z" }
[telemetry]
endpoint = "http://me:canary-0@collector:4318"
traces_endpoint = "http://me:canary-1@collector:4318/v1/traces"
"#;

#[test]
fn no_secret_is_shown_wherever_it_stands() {
    let named: Vec<String> = template::template()
        .lines()
        .filter_map(|line| line.strip_prefix("# Environment: ")?.split_once(" or "))
        .map(|(name, _)| name.to_owned())
        .collect();
    let given: Vec<&str> = SECRETS.iter().map(|(name, _)| *name).collect();
    assert_eq!(named, given, "a canary for each secret of the template");
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("pes.toml"), FILE).unwrap();
    for more in [None, Some("--explain"), Some("--json")] {
        let arguments: Vec<&str> = ["config", "--config", "pes.toml"].into_iter().chain(more).collect();
        let shown = shown(folder.path(), &arguments, &SECRETS);
        assert!(!shown.contains("canary") && !shown.contains("ca9a41"), "{shown}");
        // Values that are not secret are shown.
        for plain in ["https://ops.example/pes", "http://localhost:1/v1?page=@1", "http://gpu:8000/v1"] {
            assert!(shown.contains(plain), "{plain}\n{shown}");
        }
        for plain in ["localhost:11434", "plain@example", "env:OPS_SECRET", "[redacted]", "http://collector:4318/v1"] {
            assert!(shown.contains(plain), "{plain}\n{shown}");
        }
    }
}
