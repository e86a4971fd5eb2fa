//! The server as a process: its output, the settings it refuses, how it stops, and its keys.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Map, Value};

use super::{PATIENCE, command, run};
use crate::support::postgres::Database;
use crate::support::unused_address::unused_address;

/// A server on a free port, stopped when dropped.
pub(super) struct Served {
    child: Child,
    pub(super) url: String,
    facts: Vec<String>,
}

/// Waits until it prints `ready`.
pub(super) fn serve(folder: &Path, variables: &[(&str, &str)]) -> Served {
    started(command(folder, &["--port", "0"], variables))
}

/// The same for a command that starts it.
pub(super) fn started(mut command: Command) -> Served {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| tell.send(line)));
    let mut facts = Vec::new();
    while facts.last().is_none_or(|fact| fact != "ready") {
        facts.push(told.recv_timeout(PATIENCE).expect("it says what it serves, then ready"));
    }
    let url = facts.iter().find_map(|fact| fact.strip_prefix("url ")).unwrap().trim().to_owned();
    Served { child, url, facts }
}

impl Served {
    /// Asks it to stop; its exit code and its log.
    pub(super) fn stop(mut self) -> (Option<i32>, String) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        let mut log = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        (self.child.wait().unwrap().code(), log)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[track_caller]
fn refused(output: &Output, code: i32, expected: &str) {
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert!(said.starts_with(expected) && said.trim_end().lines().count() == 1, "{said}\nis not the line\n{expected}…");
}

#[test]
fn it_says_a_fact_per_line_then_ready_and_stops_when_asked() {
    let folder = tempfile::tempdir().unwrap();
    let served = serve(folder.path(), &[]);
    let facts = served.facts.join("\n");
    let names: Vec<&str> = served.facts.iter().map(|fact| fact.split_whitespace().next().unwrap()).collect();
    assert_eq!(names, ["pes", "url", "store", "model", "auth", "ready"], "{facts}");
    assert!(facts.contains("DEMO demo:demo-scripted") && !facts.contains('\u{1b}'), "{facts}");
    assert!(folder.path().join("data/pes.db").exists());

    let health = run(folder.path(), &["health"], &[("PES_URL", &served.url)]);
    assert_eq!(text(&health.stdout), "ready\n", "{}", text(&health.stderr));
    assert_eq!(served.stop().0, Some(0));
}

#[test]
fn a_public_server_without_keys_says_that_anybody_may_do_everything() {
    let folder = tempfile::tempdir().unwrap();
    let auth = |url| serve(folder.path(), &[("PES_PUBLIC_URL", url)]).facts.join("\n");
    assert!(auth("https://pes.example").contains("NO KEYS: whoever reaches https://pes.example may do everything"));
    assert!(auth("http://localhost:7070").contains("open: no keys, loopback only"));
}

#[test]
fn a_hangup_ends_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut served = serve(folder.path(), &[("PES_RUNTIME_DRAIN_DELAY_MS", "1")]);
    kill_process(Pid::from_child(&served.child), Signal::HUP).unwrap();
    let mut log = BufReader::new(served.child.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(log.any(|line| line.contains("SIGHUP changes nothing")), "it ended");
    let health = run(folder.path(), &["health"], &[("PES_URL", &served.url)]);
    assert_eq!(text(&health.stdout), "ready\n", "{}", text(&health.stderr));
    kill_process(Pid::from_child(&served.child), Signal::TERM).unwrap();
    assert!(log.any(|line| line.contains("not ready any more")), "it stopped at once");
    assert_eq!(served.child.wait().unwrap().code(), Some(0));
}

#[test]
fn the_folder_of_a_running_server_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let served = serve(folder.path(), &[]);
    refused(&run(folder.path(), &["--port", "0"], &[]), 9, "pes: database: The data folder ./data is held by process ");
    let expected = format!("pes: database: stop the server at {} first: it holds the database\n", served.url);
    for command in [&["reseal"][..], &["restore", "copy.db"], &["restore", "--adopt"]] {
        refused(&run(folder.path(), command, &[]), 9, &expected);
    }
}

#[test]
fn keys_beside_a_running_server_are_made_by_it_and_the_first_may_do_everything() {
    let folder = tempfile::tempdir().unwrap();
    let served = serve(folder.path(), &[]);
    let keys = |arguments: &[&str], variables: &[(&str, &str)]| {
        run(folder.path(), &[&["keys"], arguments].concat(), variables)
    };
    let without_admin = keys(&["new", "--tenant", "acme", "--scopes", "read,run"], &[]);
    let told =
        format!("pes: {}: 422 invalid: `/scopes` must have admin: this is the first key of the server", served.url);
    refused(&without_admin, 2, &told);
    let first = keys(&["new", "--tenant", "acme"], &[]);
    let (said, key) = (text(&first.stderr), text(&first.stdout));
    assert!(first.status.success() && said.contains("this is the first key"), "{said}");
    assert!(said.contains("`pes keys adopt acme`"), "{said}");
    let token = [("PES_TOKEN", key.trim())];
    let listed = text(&keys(&["ls"], &token).stdout);
    assert!(listed.contains("acme  admin  cli-"), "{listed}");
    let second = keys(&["new", "--tenant", "acme"], &token);
    assert!(second.status.success() && !text(&second.stderr).contains("first"), "{}", text(&second.stderr));
    let nobody = keys(&["ls"], &[]);
    refused(&nobody, 6, &format!("pes: {}: 401 unauthorized: ", served.url));
    let told = "Send a key: `Authorization: Bearer pes_…`. Set PES_TOKEN to a valid key: PES_TOKEN=pes_… pes …. If none is \
                left, stop the server: then `pes keys new --tenant … --scopes admin` needs none.\n";
    refused(&keys(&["new"], &[]), 6, &format!("pes: {}: 401 unauthorized: {told}", served.url));
    refused(&keys(&["adopt", "acme"], &token), 1, "pes: stop the server first");

    // Another folder has another database, not that of the server which runs there.
    let elsewhere = tempfile::tempdir().unwrap();
    let port = served.url.rsplit(':').next().unwrap();
    let output = run(elsewhere.path(), &["keys", "new"], &[("PORT", port)]);
    refused(&output, 1, &format!("pes: the server at {} has another database than ./data: ", served.url));
    assert!(!elsewhere.path().join("data").exists(), "and nothing is made");
}

#[test]
fn a_first_key_that_may_not_administer_says_what_it_locks() {
    let folder = tempfile::tempdir().unwrap();
    let made = run(folder.path(), &["keys", "new", "--scopes", "read"], &[("PORT", "1")]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    assert!(
        text(&made.stderr).contains("it may not `admin`: until a key with that scope exists, "),
        "{}",
        text(&made.stderr)
    );
    let adopted = run(folder.path(), &["keys", "adopt", "acme"], &[("PORT", "1")]);
    assert_eq!(text(&adopted.stdout), "what was made without keys belongs to acme\n", "{}", text(&adopted.stderr));
    let listed = text(&run(folder.path(), &["keys", "ls"], &[("PORT", "1")]).stdout);
    assert!(listed.contains("  acme  read  cli-"), "{listed}");
    assert!(
        !run(folder.path(), &["keys", "adopt", "acme"], &[("PORT", "1")]).status.success(),
        "there is no more of it"
    );
}

#[test]
fn what_failed_is_a_warning_with_code_cause_provider_thread_and_run() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("script.toml"),
        "[[reply]]\nwhen = { query = \"fail\", phase = \"planning\" }\njson = { title = \"No\", refuse = \"Not mine to do.\", todoList = [] }\n",
    )
    .unwrap();
    let variables = [("PES_LOG_FORMAT", "json"), ("PES_DEMO_SCRIPT", "script.toml")];
    let served = serve(folder.path(), &variables);
    let answer = ask(&served.url, "fail");
    assert!(answer.contains("task_refused"), "{answer}");
    let (_, log) = served.stop();
    let lines: Vec<Map<String, Value>> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let warned = lines.iter().find(|line| line["message"] == "a run failed").unwrap_or_else(|| panic!("{log}"));
    assert_eq!((&warned["level"], &warned["code"]), (&"WARN".into(), &"task_refused".into()), "{warned:?}");
    assert_eq!((&warned["provider"], &warned["threadId"]), (&"demo".into(), &"t".into()), "{warned:?}");
    assert!(
        ["cause", "runId", "traceId", "model"].iter().all(|name| !warned[*name].as_str().unwrap().is_empty()),
        "{warned:?}"
    );
}

/// A limit on file sizes simulates a full disk: the file beside the log cannot be created.
#[test]
fn a_database_without_room_on_its_disk_is_exit_9_with_that_reason() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(serve(folder.path(), &[]).stop().0, Some(0));
    let plain = command(folder.path(), &["--port", "0"], &[]);
    let mut without_room = std::process::Command::new("/bin/sh");
    without_room.args(["-c", "trap '' XFSZ; ulimit -f 16; exec \"$0\" \"$@\""]);
    without_room.arg(plain.get_program()).args(plain.get_args()).current_dir(folder.path()).env_clear();
    let output = without_room.output().unwrap();
    refused(&output, 9, "pes: database: ./data/pes.db cannot be used: there is no room left on its disk; make room");
}

#[test]
fn a_port_that_is_taken_is_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    refused(&run(folder.path(), &[], &[("PORT", &port)]), 1, &format!("pes: 127.0.0.1:{port} cannot be bound: "));
    let said = text(&run(folder.path(), &[], &[("PORT", &port)]).stderr);
    assert!(said.contains("choose another with --port or PORT"), "{said}");
    assert!(!folder.path().join("data").exists(), "nothing may be touched");
}

#[test]
fn an_open_address_without_keys_is_refused_until_there_is_one() {
    let folder = tempfile::tempdir().unwrap();
    let open = [("HOST", "0.0.0.0"), ("PORT", "0")];
    refused(
        &run(folder.path(), &[], &open),
        2,
        "pes: configuration: 0.0.0.0 is not loopback and there are no API keys; ",
    );
    let made = run(
        folder.path(),
        &["keys", "new", "--tenant", "acme", "--name", "cli", "--scopes", "read,admin"],
        &[("PORT", "1")],
    );
    let key = text(&made.stdout).trim().to_owned();
    assert!(key.starts_with("pes_"), "{key} {}", text(&made.stderr));

    let served = serve(folder.path(), &[("HOST", "0.0.0.0")]);
    let url = served.url.replace("0.0.0.0", "127.0.0.1");
    let token = [("PES_URL", url.as_str()), ("PES_TOKEN", key.as_str())];
    let listed = text(&run(folder.path(), &["keys", "ls"], &token).stdout);
    assert!(listed.contains("active") && listed.contains("acme  read+admin  cli"), "{listed}");
    let elsewhere = [("PES_URL", "http://127.0.0.1:1"), token[1]];
    let named = run(folder.path(), &["keys", "ls", "--url", &url], &elsewhere);
    assert_eq!(text(&named.stdout), listed, "the flag goes first: {}", text(&named.stderr));
    let nobody = run(folder.path(), &["keys", "ls"], &[("PES_URL", &url)]);
    refused(&nobody, 6, &format!("pes: {url}: 401 unauthorized: "));
}

#[test]
fn keys_are_made_and_revoked_through_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let served =
        serve(folder.path(), &[("PES_API_KEYS", "acme:admin:root-0123456789abcdef,acme:read:reader-0123456789abcdef")]);
    let root = [("PES_URL", served.url.as_str()), ("PES_TOKEN", "root-0123456789abcdef")];
    let keys = |arguments: &[&str], token| run(folder.path(), &[&["keys"], arguments].concat(), token);

    let made = keys(&["new", "--tenant", "acme", "--name", "robot"], &root);
    let (id, key) = (text(&made.stderr), text(&made.stdout));
    let id = id.split_whitespace().next().unwrap();
    let robot = [("PES_URL", served.url.as_str()), ("PES_TOKEN", key.trim())];
    refused(&keys(&["ls"], &robot), 6, &format!("pes: {}: 403 forbidden: ", served.url));
    refused(&keys(&["new", "--tenant", "zeta"], &root), 6, &format!("pes: {}: 403 forbidden: ", served.url));
    assert!(keys(&["revoke", id], &root).status.success());
    assert!(text(&keys(&["ls"], &root).stdout).contains("revoked"));
    refused(&keys(&["revoke", id], &root), 7, &format!("pes: {}: 404 not_found: ", served.url));
}

#[test]
fn each_line_that_tells_of_a_run_names_thread_run_and_trace() {
    let folder = tempfile::tempdir().unwrap();
    let variables = [("PES_LOG_FORMAT", "json"), ("RUST_LOG", "pes=debug")];
    let served = serve(folder.path(), &variables);
    let answer = ask(&served.url, "What can you do?");
    assert!(answer.contains("\"status\":\"success\""), "{answer}");
    let (_, log) = served.stop();
    let lines: Vec<Map<String, Value>> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of_runs: Vec<_> = lines.iter().filter(|line| line.contains_key("runId")).collect();
    assert!(!of_runs.is_empty(), "{log}");
    for line in of_runs {
        assert!(line["threadId"] == "t" && line.contains_key("traceId"), "{line:?}");
    }
    assert!(
        lines.iter().all(|line| ["timestamp", "level", "target", "message"].iter().all(|key| line.contains_key(*key)))
    );
}

const CHATTY: &str = r#"
import json, sys
def say(**more): print(json.dumps({"jsonrpc": "2.0", **more}), flush=True)
for line in sys.stdin:
    ask = json.loads(line)
    if ask["method"] == "initialize":
        server = {"name": "chatty", "version": "1"}
        say(id=ask["id"], result={"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": server})
    elif ask["method"] == "tools/list":
        say(method="notifications/message", params={"level": "info", "data": "canary-7c1f"})
        say(id=ask["id"], result={"tools": []})
    elif "id" in ask:
        say(id=ask["id"], error={"code": -32601, "message": "no such method"})
"#;

#[test]
fn what_an_mcp_server_tells_is_not_in_the_log_unless_its_library_is_named() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("config")).unwrap();
    std::fs::write(folder.path().join("chatty.py"), CHATTY).unwrap();
    let settings = "[mcp.servers.chatty]\ncommand = \"python3\"\nargs = [\"chatty.py\"]\n";
    std::fs::write(folder.path().join("config/local.toml"), settings).unwrap();
    let path = ("PATH", "/usr/local/bin:/usr/bin:/bin");
    for (variables, is_there) in [(&[path][..], false), (&[path, ("RUST_LOG", "info,rmcp=info")][..], true)] {
        let mut served = serve(folder.path(), variables);
        let mut log = BufReader::new(served.child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let mut said = Vec::new();
        // The tools are listed after that line.
        while said.last().is_none_or(|line: &String| !line.contains("an MCP server is ready")) {
            said.push(log.next().unwrap_or_else(|| panic!("{said:?}")));
        }
        assert_eq!(said.iter().any(|line| line.contains("canary-7c1f")), is_there, "{said:?}");
    }
}

/// Waits for the whole answer to a query of the thread `t`.
pub(super) fn ask(url: &str, query: &str) -> String {
    let body = serde_json::json!({ "query": query }).to_string();
    let host = url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(
        stream,
        "POST /threads/t/process HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nPrefer: wait=60\r\n\
         Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// It may start before its database, after a power failure.
#[test]
fn a_start_that_waits_for_its_database_says_so_and_stops_when_asked() {
    let folder = tempfile::tempdir().unwrap();
    let (nobody, _held) = unused_address();
    let url = format!("postgres://pes:hush@{nobody}/pes");
    let mut command = command(folder.path(), &["--port", "0"], &[("DATABASE_URL", &url)]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let said = format!("the start waits up to 60 s for PostgreSQL at {nobody}/pes");
    assert!(log.any(|line| line.contains(&said)), "it ended");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// Prometheus needs no key for this path, and finds nothing else there.
#[test]
fn the_metrics_have_an_address_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let keys = "one:admin:key-a-0123456789abcdef0123456789";
    let served = serve(folder.path(), &[("PES_METRICS_LISTEN", "127.0.0.1:0"), ("PES_API_KEYS", keys)]);
    let url = served.facts.iter().find_map(|fact| fact.strip_prefix("metrics ")).unwrap().trim();
    let address = url.strip_prefix("http://").and_then(|url| url.strip_suffix("/metrics")).unwrap();
    let get = |address: &str, path: &str| {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: prometheus.example\r\nconnection: close\r\n\r\n").unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).unwrap();
        said
    };
    let said = get(address, "/metrics");
    assert!(said.starts_with("HTTP/1.1 200") && said.contains("pes_build_info"), "{said}");
    for path in ["/", "/threads", "/healthz", "/readyz", "/v1/models"] {
        assert!(get(address, path).starts_with("HTTP/1.1 404"), "{path}");
    }
    let main = served.url.strip_prefix("http://").unwrap();
    assert!(get(main, "/metrics").starts_with("HTTP/1.1 401"));
    assert_eq!(served.stop().0, Some(0));

    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let output = run(folder.path(), &["--port", "0"], &[("PES_METRICS_LISTEN", &taken)]);
    refused(&output, 1, &format!("pes: metrics.listen (PES_METRICS_LISTEN): {taken} cannot be bound: "));
}

#[tokio::test]
async fn a_start_logs_no_notice_of_postgres() {
    let (folder, database) = (tempfile::tempdir().unwrap(), Database::fresh().await);
    let url = database.url();
    for _ in 0..2 {
        let served = serve(folder.path(), &[("DATABASE_URL", &url)]);
        let (code, log) = served.stop();
        assert_eq!((code, log.contains("already exists, skipping")), (Some(0), false), "{log}");
    }
}
