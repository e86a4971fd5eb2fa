//! `pes doctor` finds what a start would fail on, the start reports the same, and a healthy setup is not reported.

use std::path::Path;
use std::process::Command;

use serde_json::{Map, Value};

use super::client::http;
use super::run as pes;
use super::serving::{ask, serve, text};
use crate::store::migrations::{self, NEWEST};
use crate::support::issuer::{Issuer, Signer};
use crate::support::postgres::Database;
use crate::support::unused_address::unused_address;

/// The doctor's output for an unhealthy setup.
fn doctor(folder: &Path, variables: &[(&str, &str)]) -> String {
    let output = pes(folder, &["doctor"], variables);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}{}", text(&output.stderr));
    said
}

#[track_caller]
fn has(said: &str, line: &str) {
    assert!(said.lines().any(|told| told.starts_with(line)), "{line}\nis not in\n{said}");
}

#[test]
fn the_doctor_looks_at_everything_around() {
    let folder = tempfile::tempdir().unwrap();
    let (nobody, _held) = unused_address();
    let somebody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let there = somebody.local_addr().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let issuer = runtime.block_on(Issuer::with(&[&Signer::eddsa("k1"), &Signer::es256("k2")]));
    std::fs::create_dir(folder.path().join("config")).unwrap();
    let settings = format!(
        "[[webhooks]]\nid = \"ops\"\nurl = \"http://{nobody}/\"\nevents = [\"run.failed\"]\n\
         [[agents]]\nid = \"peer\"\ncard = \"http://{there}/card.json\"\n\
         [mcp.servers.gone]\ncommand = \"no-such-program\"\n\
         [auth.oidc.away]\nissuer = \"http://{nobody}\"\naudience = \"pes\"\ntenant = \"acme\"\n\
         [auth.oidc.corp]\nissuer = \"{}\"\naudience = \"pes\"\ntenant = \"acme\"\n",
        issuer.url
    );
    std::fs::write(folder.path().join("config/local.toml"), settings).unwrap();
    let output = pes(folder.path(), &["doctor"], &[("PATH", "/bin")]);
    let said = text(&output.stdout);
    for line in [
        "ok   database  ",
        "ok   folder  ",
        "ok   sealing key  ",
        &format!("FAIL webhook ops  {nobody} cannot be reached: "),
        &format!("ok   agent peer  {there} takes connections"),
        &format!("FAIL issuer away  http://{nobody}/.well-known/openid-configuration: cannot reach "),
        "ok   issuer corp  publishes keys: 2",
        "FAIL mcp server gone  there is no program `no-such-program`; ",
        "ok   model demo:demo-scripted (default)  answers in ",
    ] {
        assert!(said.lines().any(|told| told.starts_with(line)), "{line}\nis not in\n{said}");
    }
    assert_eq!(output.status.code(), Some(1));
    assert!(!folder.path().join("data").exists(), "looking makes nothing");

    std::fs::remove_file(folder.path().join("config/local.toml")).unwrap();
    let served = serve(folder.path(), &[]);
    let output = pes(folder.path(), &["doctor"], &[]);
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}");
    let expected =
        format!("ok   database  in use by the server at {}: schema, keys and secrets are not checked; ", served.url);
    assert!(said.contains(&expected), "{said}");
}

#[test]
fn an_mcp_server_that_cannot_start_is_not_well() {
    let folder = tempfile::tempdir().unwrap();
    let somebody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let there = somebody.local_addr().unwrap();
    let plain = folder.path().join("plain");
    std::fs::write(&plain, "#!/bin/sh\n").unwrap();
    let settings = format!(
        "[mcp.servers.header]\nurl = \"http://{there}/mcp\"\nheaders = {{ authorization = \"file:/nope\" }}\n\
         [mcp.servers.variable]\ncommand = \"sh\"\nenv = {{ A = \"env:NOPE_X\" }}\n\
         [mcp.servers.folder]\ncommand = \"sh\"\ncwd = \"/nope\"\n\
         [mcp.servers.mode]\ncommand = \"{0}\"\n\
         [mcp.servers.relative]\ncommand = \"./plain\"\ncwd = \"{1}\"\n\
         [mcp.servers.off]\ncommand = \"no-such-program\"\nenabled = false\n\
         [mcp.servers.well]\ncommand = \"sh\"\nenv = {{ A = \"env:PATH\" }}\ncwd = \"/\"\n",
        plain.display(),
        folder.path().display(),
    );
    std::fs::create_dir(folder.path().join("config")).unwrap();
    std::fs::write(folder.path().join("config/local.toml"), settings).unwrap();
    let output = pes(folder.path(), &["doctor"], &[("PATH", "/bin")]);
    let said = text(&output.stdout);
    for line in [
        "FAIL mcp server header  authorization: the secret `file:/nope` cannot be read: ",
        "FAIL mcp server variable  A: the secret `env:NOPE_X` is empty; set NOPE_X",
        "FAIL mcp server folder  /nope cannot be entered: No such file or directory",
        &format!("FAIL mcp server mode  {} may not be executed by this user; ", plain.display()),
        &format!("FAIL mcp server relative  {}/./plain may not be executed by this user; ", folder.path().display()),
        "ok   mcp server well  /bin/sh is there",
    ] {
        has(&said, line);
    }
    assert!(!said.contains("mcp server off"), "{said}");
    let failed = text(&output.stderr);
    assert!(failed.contains("5 of ") && output.status.code() == Some(1), "{failed}");
}

#[test]
fn an_issuer_whose_login_asks_for_no_rights_is_warned_about() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let issuer = runtime.block_on(Issuer::with(&[&Signer::eddsa("k1")]));
    std::fs::create_dir(folder.path().join("config")).unwrap();
    let settings = |more: &str| {
        let text = format!(
            "[auth.oidc.corp]\nissuer = \"{}\"\naudience = \"pes\"\ntenant = \"acme\"\nclient_id = \"pes\"\n{more}",
            issuer.url
        );
        std::fs::write(folder.path().join("config/local.toml"), text).unwrap();
    };
    let warning = "login_scope requests none of read, run, approve, admin: ";
    settings("");
    let said = text(&pes(folder.path(), &["doctor"], &[]).stdout);
    has(&said, &format!("ok   issuer corp  publishes keys: 1; {warning}"));
    let (_, log) = serve(folder.path(), &[]).stop();
    assert!(log.contains("people of an issuer may get no rights") && log.contains(warning), "{log}");
    for more in ["login_scope = \"openid run\"\n", "scope_claim = \"roles\"\n"] {
        settings(more);
        let said = text(&pes(folder.path(), &["doctor"], &[]).stdout);
        assert!(said.lines().any(|line| line == "ok   issuer corp  publishes keys: 1"), "{more}{said}");
    }
}

#[test]
fn broken_rules_are_told_one_by_one_by_the_server_and_by_the_doctor() {
    let folder = tempfile::tempdir().unwrap();
    let rules = "[[policy.rules]]\nid = \"\"\ntool = \"\"\naction = \"deny\"\n";
    std::fs::create_dir(folder.path().join("config")).unwrap();
    std::fs::write(folder.path().join("config/local.toml"), rules).unwrap();
    let why = "[[policy.rules]]: These rules cannot be used. /rules/0/id: must have 1 to 128 bytes; /rules/0/tool: must be \
               a name or a glob";
    let start = pes(folder.path(), &["--port", "0"], &[]);
    assert_eq!(text(&start.stderr).trim(), format!("pes: configuration: {why}"));
    assert_eq!(start.status.code(), Some(2));
    has(&doctor(folder.path(), &[]), &format!("FAIL settings  {why}"));
}

#[test]
fn the_doctor_refuses_the_settings_that_a_start_refuses() {
    let folder = tempfile::tempdir().unwrap();
    let settings = "[[webhooks]]\nid = \"ops\"\nurl = \"http://127.0.0.1:1/\"\nevents = [\"run.failed\"]\nsecrets = [\"hush\"]\n\
                    [[agents]]\nid = \"peer\"\ncard = \"http://127.0.0.1:1/card.json\"\ntoken = \"env:NO_SUCH_TOKEN\"\n";
    std::fs::create_dir(folder.path().join("config")).unwrap();
    std::fs::write(folder.path().join("config/local.toml"), settings).unwrap();
    let wrong = [("PES_AGENT_CORE", "nope"), ("RUST_LOG", "pes=loud"), ("HOST", "0.0.0.0")];
    let said = doctor(folder.path(), &wrong);
    for line in [
        "FAIL settings  webhooks ops: a secret is written env:NAME or file:PATH",
        "FAIL settings  agents peer: the secret `env:NO_SUCH_TOKEN` is empty",
        "FAIL settings  There is no agent core `nope`; use one of: pes",
        "FAIL settings  log.filter (RUST_LOG): `pes=loud`",
        "FAIL keys  0.0.0.0 is not loopback and there are no API keys; ",
    ] {
        has(&said, line);
    }
    assert!(!said.contains("hush") && !said.contains("ok   settings"), "{said}");
}

#[test]
fn an_address_that_is_not_called_and_a_timeout_of_0_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("config")).unwrap();
    let tool = "[[tools.http]]\nname = \"find\"\ndescription = \"Finds.\"\ninput_schema = { type = \"object\" }\n";
    let webhook = "[[webhooks]]\nid = \"ops\"\nevents = [\"run.failed\"]\n";
    let agent = "[[agents]]\nid = \"peer\"\n";
    let table = [
        (tool, "url = \"localhost:9000/find\"", "tools.http find: `url` is not an http or https URL"),
        (tool, "url = \"htps://shop.example/find\"", "tools.http find: `url` is not an http or https URL"),
        (tool, "url = \"/find\"", "tools.http find: `url` is no URL: "),
        (tool, "url = \"http://127.0.0.1:1/\"\ntimeout_ms = 0", "tools.http find: timeout_ms must be greater than 0"),
        (webhook, "url = \"localhost:9000/hook\"", "webhooks ops: `url` is not an http or https URL"),
        (agent, "card = \"localhost:9000/card.json\"", "agents peer: `card` is not an http or https URL"),
        (agent, "card = \"http://127.0.0.1:1/\"\ntimeout_ms = 0", "agents peer: timeout_ms must be greater than 0"),
    ];
    for (settings, more, why) in table {
        std::fs::write(folder.path().join("config/local.toml"), [settings, more].concat()).unwrap();
        has(&doctor(folder.path(), &[]), &format!("FAIL settings  {why}"));
    }
}

#[test]
fn a_start_with_wrong_settings_opens_nothing_and_waits_for_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (free, _held) = unused_address();
    let away = format!("postgres://pes@{free}/pes");
    for more in [vec![], vec![("DATABASE_URL", away.as_str())]] {
        let wrong = [vec![("PES_AGENT_CORE", "nope")], more].concat();
        let start = pes(folder.path(), &["--port", "0"], &wrong);
        let said = text(&start.stderr);
        assert_eq!(start.status.code(), Some(2), "{said}");
        assert!(said.starts_with("pes: configuration: There is no agent core `nope`; "), "{said}");
        assert!(!folder.path().join("data").exists(), "{wrong:?}");
    }
}

#[test]
fn mistakes_in_the_servers_layer_are_told_at_the_start_and_by_the_doctor() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("config")).unwrap();
    let agent = "[agent.templates]\nsupport = \"You help.\"\n[agent.system_prompt]\ntag = \"suport\"\n";
    let execution = "[agent.execution]\nmaxParallelItems = 0\n";
    let told = [
        (agent, "agent.system_prompt: There is no template `suport`; known: support."),
        (execution, "agent.execution: `maxParallelItems` is 0; it must be 1 to 64."),
    ];
    for (settings, why) in told {
        std::fs::write(folder.path().join("config/local.toml"), settings).unwrap();
        let start = pes(folder.path(), &["--port", "0"], &[]);
        assert_eq!(text(&start.stderr).trim(), format!("pes: configuration: {why}"));
        assert_eq!(start.status.code(), Some(2));
    }
    std::fs::write(folder.path().join("config/local.toml"), [agent, execution].concat()).unwrap();
    let said = doctor(folder.path(), &[]);
    told.iter().for_each(|(_, why)| has(&said, &format!("FAIL settings  {why}")));
}

#[test]
fn no_control_sequence_of_a_finding_reaches_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let said = doctor(folder.path(), &[("PES_AGENT_CORE", "\u{1b}[31mred\u{202e}")]);
    has(&said, "FAIL settings  There is no agent core `<U+001B>[31mred<U+202E>`; use one of: pes");
    assert!(!said.contains(['\u{1b}', '\u{202e}']), "{said:?}");
}

#[test]
fn a_folder_that_cannot_be_made_or_looked_at_is_not_well() {
    let folder = tempfile::tempdir().unwrap();
    let said = doctor(folder.path(), &[("PES_DATA_DIR", "/proc/nobody/data")]);
    has(&said, "FAIL folder  /proc/nobody/data is not there, and /proc cannot be written: ");
    std::fs::write(folder.path().join("plain"), "").unwrap();
    let said = doctor(folder.path(), &[("PES_DATA_DIR", "plain/data")]);
    has(&said, "FAIL folder  plain/data cannot be looked at: ");
    has(&said, "FAIL database  plain/data cannot be looked at: ");
    has(&said, "ok   settings  ");
}

/// A disk with little space left still takes an empty file. Here no file may have more than 64 KiB.
#[test]
fn a_folder_that_takes_too_little_for_a_start_is_not_well() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("data")).unwrap();
    let limited = "trap '' XFSZ; ulimit -f 128; exec \"$0\" doctor";
    let output = Command::new("/bin/sh")
        .args(["-c", limited, env!("CARGO_BIN_EXE_pes")])
        .current_dir(folder.path())
        .env_clear()
        .output()
        .expect("there is a shell");
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}{}", text(&output.stderr));
    has(&said, "FAIL folder  ./data cannot be written: File too large (os error 27); raise the limit on ");
    assert_eq!(std::fs::read_dir(folder.path().join("data")).unwrap().count(), 0, "nothing is left");
}

#[tokio::test]
async fn the_doctor_migrates_nothing() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("data")).unwrap();
    let mut file = migrations::sqlite(&folder.path().join("data")).await;
    let said = text(&pes(folder.path(), &["doctor"], &[]).stdout);
    let newest = migrations::newest("sqlite");
    has(&said, &format!("ok   database  it has schema 1; the first start migrates it to {newest}"));
    let left: i64 = sqlx::query_scalar(NEWEST).fetch_one(&mut file).await.unwrap();
    assert_eq!(left, 1);

    let database = Database::fresh().await;
    let url = database.url();
    let shared = [("DATABASE_URL", url.as_str()), ("HOST", "0.0.0.0")];
    let said = doctor(folder.path(), &shared);
    has(&said, "ok   database  it has no tables yet; the first start makes them");
    has(&said, "FAIL keys  0.0.0.0 is not loopback and there are no API keys; ");
    let mut connection = migrations::postgres_at(1, &database).await;
    let said = doctor(folder.path(), &shared);
    let newest = migrations::newest("postgres");
    has(&said, &format!("ok   database  it has schema 1; the first start migrates it to {newest}"));
    let left: i64 = sqlx::query_scalar(NEWEST).fetch_one(&mut connection).await.unwrap();
    assert_eq!(left, 1);
}

/// A person who declines is not told to look at the log.
#[test]
fn the_no_of_a_person_is_no_warning() {
    let folder = tempfile::tempdir().unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/support/script.toml");
    let variables = [("PES_LOG_FORMAT", "json"), ("PES_DEMO_SCRIPT", script)];
    let served = serve(folder.path(), &variables);
    ask(&served.url, "send");
    let asked = http(&served.url, "/suspensions")["items"][0]["suspensionId"].clone();
    let here = [("PES_URL", served.url.as_str())];
    let refused = pes(folder.path(), &["reject", asked.as_str().unwrap(), "--reason", "not today"], &here);
    assert!(refused.status.success(), "{}", text(&refused.stderr));
    pes(folder.path(), &["watch", "t"], &here);
    let (_, log) = served.stop();
    let lines: Vec<Map<String, Value>> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told = lines.iter().find(|line| line["message"] == "an item failed").unwrap_or_else(|| panic!("{log}"));
    assert_eq!((&told["level"], &told["code"]), (&"INFO".into(), &"rejected".into()), "{told:?}");
}
