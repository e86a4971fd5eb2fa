//! Commands that need no server: what they print, and the exit codes of impossible requests.

use std::ffi::OsStr;
use std::fs::Permissions;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use super::{answer_once, command, run as pes};
use crate::support::unused_address::unused_address;

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[track_caller]
fn refused(output: &Output, code: i32, expected: &str) {
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert!(said.starts_with(expected), "{said}\nshould start with\n{expected}");
    assert_eq!(said.trim_end().lines().count(), 1, "one line, not\n{said}");
}

#[test]
fn an_unusable_configuration_is_one_line_and_exit_2() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    std::fs::write(at.join("broken.toml"), "[server\n").unwrap();
    std::fs::write(at.join("unknown.toml"), "[server]\nprot = 1\n").unwrap();
    let run = |arguments: &[&str], variables: &[(&str, &str)]| pes(at, arguments, variables);

    refused(&run(&["--config", "broken.toml"], &[]), 2, "pes: configuration: broken.toml:1: ");
    refused(&run(&["--config", "gone.toml"], &[]), 2, "pes: configuration: gone.toml cannot be read: ");
    refused(
        &run(&["serve", "--config", "unknown.toml"], &[]),
        2,
        "pes: configuration: unknown.toml: unknown key `server.prot`; did you mean `port`?",
    );
    refused(
        &run(&[], &[("PES_LEASE", "1")]),
        2,
        "pes: configuration: environment: unknown name `PES_LEASE`; did you mean",
    );
    refused(
        &run(&[], &[("PES_ENV", "production")]),
        2,
        "pes: configuration: PES_ENV=production refuses the demo model",
    );
    refused(&run(&["--model", "gpt"], &[]), 2, "pes: configuration: flags: `gpt` is not provider:model");
    refused(&run(&["--model", ""], &[]), 2, "pes: configuration: flags: an empty text is not provider:model (");
    refused(&run(&[], &[("RUST_LOG", "pes=loud")]), 2, "pes: configuration: log.filter (RUST_LOG): `pes=loud`");
    // It would be the name of a library, and nothing else would be logged.
    let told =
        "pes: configuration: log.filter (RUST_LOG): `warning` is no level: error, warn, info, debug, trace or off;";
    refused(&run(&[], &[("RUST_LOG", "pes=debug, warning")]), 2, told);
    assert!(!at.join("data").exists(), "nothing may be touched");
}

/// A folder or key that is ignored would be another one: an empty database, or an open server.
#[test]
fn a_variable_that_is_not_utf_8_is_refused_if_it_is_a_setting() {
    let folder = tempfile::tempdir().unwrap();
    let latin_1 = OsStr::from_bytes(b"d\xe9p\xf4t");
    for name in ["PES_DATA_DIR", "PES_API_KEYS", "PES_ANYTHING", "DATABASE_URL"] {
        let output = command(folder.path(), &["config"], &[]).env(name, latin_1).output().unwrap();
        refused(&output, 2, &format!("pes: configuration: environment: the value of `{name}` is not UTF-8"));
    }
    let others = command(folder.path(), &["config"], &[]).env("UNRELATED", latin_1).output().unwrap();
    assert!(others.status.success(), "{}", text(&others.stderr));
}

/// `sudo -u pes pes keys ls` in the home of root. Nothing is closed to root itself.
#[test]
fn a_working_directory_that_may_not_be_entered_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", "chmod 0 . && exec \"$0\" config", env!("CARGO_BIN_EXE_pes")]);
    let output = shell.current_dir(folder.path()).env_clear().env("PATH", "/usr/bin:/bin").output().unwrap();
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o700)).unwrap();
    if rustix::process::geteuid().is_root() {
        assert!(output.status.success(), "{}", text(&output.stderr));
    } else {
        let expected = "pes: configuration: config/default.toml cannot be looked for in the working directory /";
        refused(&output, 2, expected);
    }
}

#[test]
fn the_effective_configuration_is_printed_without_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let variables = [("OPENAI_API_KEY", "hush"), ("PES_API_KEYS", "acme:read:hush-0123456789abc"), ("PORT", "1")];
    let output = pes(folder.path(), &["config", "--port", "2"], &variables);
    let shown = text(&output.stdout);
    assert!(output.status.success());
    assert!(shown.contains("port = 2") && shown.contains("api_key = \"[redacted]\""), "{shown}");
    assert!(!shown.contains("hush"), "{shown}");

    let template = pes(folder.path(), &["config", "--template"], &[]);
    assert_eq!(text(&template.stdout), pes::config::template::template());
    let version = pes(folder.path(), &["version"], &[]);
    assert_eq!(text(&version.stdout).trim(), concat!("pes ", env!("CARGO_PKG_VERSION")));
}

#[test]
fn config_local_toml_is_read_when_no_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("config")).unwrap();
    std::fs::write(folder.path().join("config/default.toml"), "[server]\nport = 1\n[limits]\npage = 7\n").unwrap();
    std::fs::write(folder.path().join("config/local.toml"), "[server]\nport = 2\n").unwrap();
    let shown = text(&pes(folder.path(), &["config"], &[]).stdout);
    assert!(shown.contains("port = 2") && shown.contains("page = 7"), "{shown}");
}

#[test]
fn health_of_nobody_fails_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let (nobody, _held) = unused_address();
    let url = format!("http://{nobody}");
    let expected = format!("pes: {url} does not answer: ");
    refused(&pes(folder.path(), &["health", "--url", &url], &[]), 1, &expected);
    refused(&pes(folder.path(), &["health"], &[("PES_URL", &url)]), 1, &expected);
    let port = url.rsplit(':').next().unwrap();
    refused(&pes(folder.path(), &["health"], &[("PORT", port), ("HOST", "0.0.0.0")]), 1, &expected);
}

#[test]
fn health_says_what_is_failing() {
    let folder = tempfile::tempdir().unwrap();
    let body = r#"{ "code": "draining", "failing": ["the server is stopping"] }"#;
    // A proxy may answer in the older version.
    for version in ["1.1", "1.0"] {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let head = format!("HTTP/{version} 503 Service Unavailable\r\nContent-Length: {}\r\n\r\n", body.len());
        let answering = answer_once(listener, head + body);
        let expected = format!("pes: {url} is not ready: 503 Service Unavailable: the server is stopping\n");
        refused(&pes(folder.path(), &["health", "--url", &url], &[]), 1, &expected);
        answering.join().unwrap();
    }
}

#[test]
fn a_refusal_says_what_there_is() {
    let folder = tempfile::tempdir().unwrap();
    refused(&pes(folder.path(), &["restore", "nope.db"], &[]), 7, "pes: there is no nope.db");
    let scopes = pes(folder.path(), &["keys", "new", "--scopes", "rum"], &[]);
    let said = text(&scopes.stderr);
    assert!(said.contains("`rum` is no scope; use read, run, approve or admin"), "{said}");
    assert!(!said.contains("operator"), "no key that is made here can have it: {said}");
    assert!(!folder.path().join("data").exists());
}

#[test]
fn help_is_a_command_and_the_usage_of_a_part_of_a_plan_begins_with_its_thread() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, usage) in [
        (&["help"][..], "Usage: pes [OPTIONS] [COMMAND]\n"),
        (&["help", "watch"], "Usage: pes watch [OPTIONS] <THREAD>\n"),
    ] {
        let output = pes(folder.path(), arguments, &[]);
        let said = text(&output.stdout);
        assert_eq!((output.status.code(), said.contains(usage)), (Some(0), true), "{said}");
    }
    for part in ["edit", "diff", "forecast"] {
        let output = pes(folder.path(), &["plan", part, "dinner"], &[]);
        let said = text(&output.stderr);
        let usage = format!("unexpected argument 'dinner' found\n\nUsage: pes plan [THREAD] {part} [OPTIONS]\n");
        assert_eq!((output.status.code(), said.contains(&usage)), (Some(2), true), "{said}");
    }
}

#[test]
fn what_no_key_can_be_is_wrong_usage_and_told_by_its_flag() {
    let folder = tempfile::tempdir().unwrap();
    let new = ["keys", "new"];
    let rotate = ["keys", "rotate", "key_1"];
    for (command, flag, value, expected) in [
        (&new[..], "--name", "", "a name must have 1 to 128 bytes"),
        (&new[..], "--name", "policy", "a name must not be policy, "),
        (&new[..], "--tenant", "", "a tenant must have 1 to 128 bytes"),
        (&new[..], "--scopes", "read,operator", "only keys in PES_API_KEYS can be operators"),
        (&new[..], "--expires", "0s", "the key would expire at once"),
        (&rotate[..], "--expires", "0s", "the key would expire at once"),
        (&rotate[..], "--overlap", "999d", "`999d` is too long; at most 30d"),
    ] {
        let output = pes(folder.path(), &[command, &[flag, value]].concat(), &[]);
        let said = text(&output.stderr);
        let is_named = said.contains(&format!("'{flag} <")) && said.contains(expected);
        assert_eq!((output.status.code(), is_named), (Some(2), true), "{flag} {value}: {said}");
    }
    let adopted = pes(folder.path(), &["keys", "adopt", ""], &[]);
    assert_eq!(adopted.status.code(), Some(2), "{}", text(&adopted.stderr));
    let token = [("PES_TOKEN", "pes_x\ny"), ("PES_URL", "http://127.0.0.1:1")];
    refused(&pes(folder.path(), &["threads"], &token), 2, "pes: PES_TOKEN holds characters that no key has");
    assert!(!folder.path().join("data").exists(), "nothing may be touched");
}

/// The exit codes are those of the same command through a server.
#[test]
fn without_a_server_a_key_that_is_missing_or_in_the_way_has_an_exit_code_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let keys = |arguments: &[&str]| pes(folder.path(), &[&["keys"], arguments].concat(), &[("PORT", "1")]);
    assert!(keys(&["new", "--name", "shop"]).status.success());
    refused(&keys(&["new", "--name", "shop"]), 8, "pes: ");
    refused(&keys(&["revoke", "key_none"]), 7, "pes: there is no active key key_none\n");
    refused(&keys(&["rotate", "key_none"]), 7, "pes: there is no active key key_none\n");
    let listed = text(&keys(&["ls"]).stdout);
    let key = listed.split_whitespace().next().unwrap();
    assert!(keys(&["rotate", key, "--overlap", "24h"]).status.success());
    refused(&keys(&["rotate", key, "--overlap", "24h"]), 8, "pes: The former value of this key is valid until ");
}

/// Only the start of a server waits for its database, which it does for a minute.
#[test]
fn a_database_that_is_not_there_is_one_line_and_exit_9() {
    let folder = tempfile::tempdir().unwrap();
    let (nobody, _held) = unused_address();
    let url = format!("postgres://pes:hush@{nobody}/pes");
    let began = Instant::now();
    let output = pes(folder.path(), &["keys", "ls"], &[("DATABASE_URL", &url)]);
    assert!(began.elapsed() < Duration::from_secs(45), "it waited {:?}", began.elapsed());
    refused(&output, 9, "pes: database: ");
    assert!(!text(&output.stderr).contains("hush"), "{}", text(&output.stderr));
}
