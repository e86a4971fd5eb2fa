//! The binary as a client in a pipe: what it prints, to which stream, and its exit codes.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Output, Stdio};

use serde_json::{Value, json};

use super::serving::{Served, serve, text};
use super::{command, run};

/// A server, and a folder in which its client runs.
pub(super) struct Stage {
    folder: tempfile::TempDir,
    served: Served,
}

impl Stage {
    pub(super) fn new() -> Self {
        Self::with(&[])
    }

    /// With these variables for the server.
    pub(super) fn with(variables: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let served = serve(folder.path(), variables);
        Self { folder, served }
    }

    pub(super) fn url(&self) -> &str {
        &self.served.url
    }

    pub(super) fn pes(&self, arguments: &[&str]) -> Output {
        run(self.folder.path(), arguments, &[("PES_URL", &self.served.url)])
    }

    /// With this on stdin.
    pub(super) fn fed(&self, arguments: &[&str], input: &[u8]) -> Output {
        let mut command = command(self.folder.path(), arguments, &[("PES_URL", &self.served.url)]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), input).unwrap();
        child.wait_with_output().unwrap()
    }

    /// Its output; it must succeed.
    #[track_caller]
    pub(super) fn said(&self, arguments: &[&str]) -> String {
        let output = self.pes(arguments);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        text(&output.stdout)
    }

    #[track_caller]
    pub(super) fn refused(&self, arguments: &[&str], code: i32, expected: &str) {
        let output = self.pes(arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.lines().last().unwrap_or_default().contains(expected), "{said}\nshould say\n{expected}");
    }
}

pub(super) const DINNER: &str = "Work out a team dinner: 14 guests at 42.50 each, a 12% tip, and the share per guest.";
pub(super) const MAIL: &str = "Send the team an invitation to the dinner.";

#[test]
fn a_run_prints_its_answer_and_tells_its_progress_by_number() {
    let stage = Stage::new();
    let output = stage.pes(&["run", DINNER, "--thread", "dinner"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stdout).starts_with("**Each guest pays 47.60.**"), "{}", text(&output.stdout));
    let told = text(&output.stderr);
    assert!(!told.contains('\u{1b}'), "{told}");
    let seqs: Vec<i64> = told.lines().map(|line| line.split_once(' ').unwrap().0.parse().unwrap()).collect();
    assert!(seqs.is_sorted() && seqs[0] == 1, "{told}");
    for expected in
        [" plan version=1 items=bill,tip,date,share", " tip called calculator ", " error=", " run completed "]
    {
        assert!(told.contains(expected), "{told}\nlacks {expected}");
    }

    let tree = stage.said(&["plan", "dinner"]);
    assert!(tree.contains("4/4") && tree.contains("1 error"), "{tree}");
    assert!(stage.said(&["plan", "dinner", "diff"]).contains("+ bill"));
    let diff = stage.said(&["plan", "dinner", "diff", "--json"]);
    let changes: Vec<Value> = diff.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(changes[0]["changes"]["changes"][0]["itemId"], "bill", "{diff}");
    assert!(stage.said(&["threads"]).contains("Team dinner"));
    assert!(stage.said(&["usage"]).contains("no price"));
    let replayed = stage.said(&["replay", "dinner", "--at", "10"]);
    assert_eq!(replayed.lines().last().unwrap(), "10 bill in_progress");
    let fork = stage.said(&["fork", "dinner", "--at", "10"]);
    assert!(stage.said(&["replay", fork.trim()]).contains("plan"), "{fork}");
}

#[test]
fn a_run_that_asks_exits_with_4_and_goes_on_when_it_is_answered() {
    let stage = Stage::new();
    stage.refused(&["run", MAIL, "--thread", "mail", "--no-input"], 4, "waits for a person: demo_send_email (sus_");
    stage.refused(&["watch", "mail"], 4, "waits for a person: demo_send_email (sus_");
    let open = stage.said(&["questions"]);
    assert_eq!(open.lines().count(), 1, "{open}");
    assert!(open.starts_with("sus_") && open.contains("demo_send_email"), "{open}");
    assert_eq!(stage.said(&["approve"]), "approved demo_send_email in mail\n");
    assert!(stage.said(&["watch", "mail"]).starts_with("The invitation to the team dinner was written, approved"));
    assert_eq!(stage.said(&["questions"]), "");
    stage.refused(&["approve"], 7, "Nobody is asked anything.");

    stage.refused(&["run", MAIL, "--thread", "other", "--no-input"], 4, "waits for a person");
    let id = stage.said(&["questions"]).split_whitespace().next().unwrap().to_owned();
    let edit = r#"{"to": "team@example.com", "subject": "Dinner", "body": "At seven."}"#;
    stage.said(&["approve", &id, "--edit", edit]);
    let told = text(&stage.pes(&["watch", "other"]).stderr);
    assert!(told.contains("send modified by=local"), "{told}");
    stage.refused(&["approve", &id], 7, "No open question");
    stage.refused(&["reject", "sus_1"], 2, "--help");
}

#[test]
fn of_several_runs_the_newest_is_watched() {
    let stage = Stage::new();
    stage.said(&["run", DINNER, "--thread", "t"]);
    stage.refused(&["run", MAIL, "--thread", "t", "--no-input"], 4, "waits for a person");
    stage.refused(&["watch", "t"], 4, "waits for a person: demo_send_email (sus_");
    let forecast = stage.said(&["plan", "t", "forecast"]);
    assert!(forecast.starts_with("send  Send the invitation"), "what is done is not told of again: {forecast}");
    assert!(forecast.ends_with("\nIt costs nothing: the model is the demo.\n"), "{forecast}");
    stage.said(&["approve"]);
    assert!(stage.said(&["watch", "t"]).starts_with("The invitation to the team dinner was written, approved"));
}

#[test]
fn the_plan_is_reviewed_and_refused_from_here() {
    let stage = Stage::new();
    stage.refused(&["run", DINNER, "--thread", "t", "--review", "--no-input"], 4, "waits for a person: the plan");
    let forecast = stage.said(&["plan", "t", "forecast"]);
    let basis = "There is nothing to say by what it may cost: no item of demo:demo-scripted ran in the last 30 days.\n";
    assert!(forecast.contains("bill") && forecast.ends_with(basis), "{forecast}");
    let id = stage.said(&["questions"]).split_whitespace().next().unwrap().to_owned();
    stage.refused(&["reject", &id, "--reason", " "], 2, "--help");
    assert!(stage.said(&["questions"]).starts_with(&id), "it is still asked");
    refuse_plan(&stage, &id);
    stage.refused(&["watch", "t"], 3, "Try: pes plan t");
    let plan = stage.said(&["plan", "t"]);
    assert!(
        plan.contains("0/4") && plan.ends_with("  plan_rejected: The plan was rejected: a person said no.\n"),
        "{plan}"
    );
}

/// Without a reason, which ends the run.
fn refuse_plan(stage: &Stage, id: &str) {
    let answer = json!({ "suspensionId": id, "approved": false });
    exchange(&stage.served.url, "POST /threads/t/resume", &answer.to_string());
}

#[test]
fn the_frames_of_the_api_are_passed_on_unchanged() {
    let stage = Stage::new();
    let said = stage.said(&["run", DINNER, "--thread", "t", "--json"]);
    let frames: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told: Vec<&Value> =
        frames.iter().filter(|frame| frame["event"] == "observation").map(|frame| &frame["data"]).collect();
    let replayed = stage.said(&["plan", "t", "--json"]);
    assert!(serde_json::from_str::<Value>(&replayed).is_ok(), "{replayed}");
    let log = http(&stage.served.url, "/threads/t/events?after=0&limit=200");
    assert_eq!(told, log["items"].as_array().unwrap().iter().collect::<Vec<_>>());
    assert!(frames.iter().all(|frame| frame["event"] != "token"), "tokens were not asked for");
    // Slow enough to be listened to.
    let slow = Stage::with(&[("PES_DEMO_PACE", "20")]);
    let with_tokens = slow.said(&["run", DINNER, "--json", "--tokens"]);
    assert!(with_tokens.contains(r#"{"event":"token","#));
}

#[test]
fn each_failure_has_its_exit_code_and_says_what_to_do() {
    let stage = Stage::new();
    stage.refused(&["run", DINNER, "--thread", "refunds", "--detach"], 0, "pes watch refunds");
    stage.refused(&["run", DINNER, "--thread", "slow", "--timeout", "0s"], 124, "did not answer in time.");
    stage.refused(&["plan", "refund"], 7, "No thread refund; did you mean `refunds`? Try: pes threads");
    stage.refused(&["watch", "nothing"], 7, "Try: pes threads");
    stage.refused(&["run", "x", "--timeout", "soon"], 2, "--help");
    stage.refused(&["answer", "sus_1"], 2, "--help");
    for thread in ["a/b", "a?b", ".."] {
        stage.refused(&["fork", thread], 2, "--help");
    }
    let nobody = tempfile::tempdir().unwrap();
    let away = run(nobody.path(), &["threads", "--url", "http://127.0.0.1:1"], &[]);
    assert_eq!(away.status.code(), Some(9), "{}", text(&away.stderr));
    assert!(text(&away.stderr).contains("Start a server with `pes serve`, or set PES_URL."));
    let away = run(nobody.path(), &["run", "x", "--port", "1"], &[]);
    assert_eq!(away.status.code(), Some(9), "{}", text(&away.stderr));
    assert!(!nobody.path().join("data").exists(), "nobody was asked, so nothing was started");

    let failing = tempfile::tempdir().unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/scripts/cases.toml");
    let served = serve(failing.path(), &[("PES_DEMO_SCRIPT", script)]);
    let failed = run(failing.path(), &["run", "Fail at once."], &[("PES_URL", &served.url)]);
    assert_eq!(failed.status.code(), Some(1), "{}", text(&failed.stderr));
    let said = text(&failed.stderr);
    assert!(said.contains("The run failed. ") && said.contains(&format!("{}/docs#", served.url)), "{said}");

    let keyed = tempfile::tempdir().unwrap();
    let served = serve(keyed.path(), &[("PES_API_KEYS", "acme:read:pes_0123456789abcdef0123")]);
    let nobody = run(keyed.path(), &["threads"], &[("PES_URL", &served.url)]);
    assert_eq!(nobody.status.code(), Some(6), "{}", text(&nobody.stderr));
    let token = ("PES_TOKEN", "pes_0123456789abcdef0123");
    let reader = run(keyed.path(), &["run", "x"], &[("PES_URL", &served.url), token]);
    assert_eq!(reader.status.code(), Some(6), "{}", text(&reader.stderr));
}

#[test]
fn what_runs_is_cancelled_by_the_ids_of_a_pipe() {
    let stage = Stage::new();
    stage.refused(&["run", MAIL, "--thread", "a", "--no-input"], 4, "waits");
    let output = stage.fed(&["cancel", "-"], b"gone\na?\na\n");
    assert!(text(&output.stdout).starts_with("a run_"), "what is gone keeps nothing running: {}", text(&output.stdout));
    let told = text(&output.stderr);
    assert!(told.contains("gone: ") && told.contains("404") && told.contains("a?: "), "{told}");
    assert_eq!((output.status.code(), told.contains("2 of 3 threads were not cancelled.")), (Some(3), true), "{told}");
    stage.refused(&["cancel", "gone"], 7, "No thread gone");
    let one = stage.fed(&["cancel", "-"], b"gone\n");
    assert_eq!((one.status.code(), text(&one.stderr).contains("1 of 1 threads were not")), (Some(3), true));
    stage.refused(&["watch", "a"], 5, "The run was cancelled.");
}

#[test]
fn a_plan_that_was_changed_meanwhile_is_not_overwritten() {
    let stage = Stage::new();
    stage.refused(&["run", DINNER, "--thread", "t", "--review", "--no-input"], 4, "waits");
    let (pes, url) = (env!("CARGO_BIN_EXE_pes"), &stage.served.url);
    let inner = script(stage.folder.path(), "inner", "sed -i 's/Compute a tip/Work out a tip/' \"$1\"");
    let outer = format!(
        "stat -c %a \"$1\" >&2 && PES_URL={url} EDITOR={inner} {pes} plan t edit >&2 && sed -i 's/Compute the bill/Work out the bill/' \"$1\""
    );
    let outer = script(stage.folder.path(), "outer", &outer);
    let temporary = stage.folder.path().join("temporary");
    std::fs::create_dir(&temporary).unwrap();
    let temporary = ("TMPDIR", temporary.to_str().unwrap());
    let variables = [("PES_URL", url.as_str()), ("EDITOR", &outer), ("PATH", "/usr/bin:/bin"), temporary];
    let edited = run(stage.folder.path(), &["plan", "t", "edit"], &variables);
    let said = text(&edited.stderr);
    assert_eq!(edited.status.code(), Some(8), "{said}");
    assert!(said.starts_with("600\n"), "others may not read what is edited: {said}");
    // The processed entry is gone, the other is unchanged.
    let left: Vec<_> = std::fs::read_dir(temporary.1).unwrap().map(|file| file.unwrap().path()).collect();
    let [left] = &left[..] else { panic!("{left:?}") };
    assert!(said.contains(&format!("Your text is in {}.", left.display())), "{said}");
    assert!(std::fs::read_to_string(left).unwrap().contains("Work out the bill"));
    let tree = stage.said(&["plan", "t"]);
    assert!(tree.contains("Work out a tip") && tree.contains("Compute the bill"), "{tree}");
}

pub(super) fn script(folder: &Path, name: &str, line: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{line}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_closed_pipe_ends_it_quietly() {
    let stage = Stage::new();
    stage.said(&["run", DINNER, "--thread", "t"]);
    let variables = [("PES_URL", stage.served.url.as_str())];
    let mut child = command(stage.folder.path(), &["replay", "t"], &variables)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Nobody reads any of the output.
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
}

#[test]
fn a_closed_pipe_changes_no_exit_code() {
    let stage = Stage::new();
    let unread = |arguments: &[&str]| {
        let variables = [("PES_URL", stage.served.url.as_str())];
        let mut command = command(stage.folder.path(), arguments, &variables);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop((child.stdout.take(), child.stderr.take()));
        child.wait().unwrap().code()
    };
    assert_eq!(unread(&["run", DINNER, "--thread", "t", "--review", "--no-input"]), Some(4));
    let id = stage.said(&["questions"]).split_whitespace().next().unwrap().to_owned();
    refuse_plan(&stage, &id);
    assert_eq!(unread(&["watch", "t"]), Some(3), "its answer is partial, whoever reads it");
    assert_eq!(unread(&["watch", "nothing"]), Some(7));
    for thread in ["m", "n"] {
        let arguments = ["run", MAIL, "--thread", thread, "--json", "--no-input"];
        assert_eq!(unread(&arguments), Some(4), "it still waits for a person");
    }
    assert_eq!((unread(&["approve"]), unread(&["plan"])), (Some(2), Some(2)), "nothing was chosen");
    assert_eq!((unread(&["version"]), unread(&["completions", "bash"])), (Some(0), Some(0)));
}

#[test]
fn nothing_that_others_wrote_reaches_the_terminal_as_it_is() {
    let stage = Stage::new();
    let hostile = "\u{1b}]0;owned\u{7}\u{1b}[31mred\u{202e}tfel";
    let output = stage.pes(&["run", hostile, "--thread", "t"]);
    let everything =
        text(&output.stdout) + &text(&output.stderr) + &stage.said(&["threads"]) + &stage.said(&["replay", "t"]);
    assert!(everything.contains("<U+001B>") && everything.contains("<U+202E>"), "{everything}");
    assert!(!everything.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{everything:?}");
}

#[test]
fn settings_tell_where_they_come_from() {
    let folder = tempfile::tempdir().unwrap();
    let explained = run(folder.path(), &["config", "--explain", "--host", "127.0.0.1"], &[("PORT", "7171")]);
    let said = text(&explained.stdout);
    for expected in ["server.port = 7171  # PORT", "server.host = \"127.0.0.1\"  # flags", "  # default"] {
        assert!(said.contains(expected), "{said}\nlacks {expected}");
    }
    let completions = run(folder.path(), &["completions", "bash"], &[]);
    assert!(text(&completions.stdout).contains("questions"));
}

/// A JSON answer of the server.
pub(super) fn http(url: &str, path: &str) -> Value {
    exchange(url, &format!("GET {path}"), "")
}

/// The JSON answer to such a request.
pub(super) fn exchange(url: &str, line: &str, body: &str) -> Value {
    let address = url.strip_prefix("http://").unwrap();
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    let length = body.len();
    let head = format!("{line} HTTP/1.0\r\nHost: {address}\r\nContent-Type: application/json\r\n");
    let request = format!("{head}Content-Length: {length}\r\n\r\n{body}");
    std::io::Write::write_all(&mut stream, request.as_bytes()).unwrap();
    let mut reader = BufReader::new(stream);
    let mut header = String::new();
    while reader.read_line(&mut header).unwrap() > 2 {
        header.clear();
    }
    let mut body = String::new();
    reader.read_to_string(&mut body).unwrap();
    serde_json::from_str(&body).unwrap()
}

#[test]
fn a_thread_goes_into_a_file_and_comes_back() {
    let stage = Stage::new();
    stage.said(&["run", DINNER, "--thread", "dinner"]);
    assert_eq!(stage.said(&["export", "dinner", "-o", "dinner.ndjson"]), "");
    let file = stage.folder.path().join("dinner.ndjson");
    let written = std::fs::read(&file).unwrap();
    assert!(
        written.starts_with(br#"{"format":"pes-thread/1""#) && !stage.folder.path().join("dinner.ndjson.part").exists()
    );
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let piped = stage.said(&["export", "dinner"]);
    assert_eq!(piped.lines().count(), text(&written).lines().count());
    stage.refused(&["export", "dinner", "-o", "dinner.ndjson"], 8, "is there already; name another file");
    stage.refused(&["export", "nobody", "-o", "nobody.ndjson"], 7, "No thread nobody");
    assert!(!stage.folder.path().join("nobody.ndjson").exists());
    stage.refused(&["export", "dinner", "-o", "gone/d.ndjson"], 1, "pes: gone/d.ndjson.part cannot be written: ");

    stage.refused(&["import", "dinner.ndjson"], 8, "thread_exists");
    assert_eq!(stage.said(&["import", "dinner.ndjson", "--as", "copy", "--dry-run"]).trim(), "copy");
    stage.refused(&["export", "copy"], 7, "No thread copy");
    assert_eq!(stage.said(&["import", "dinner.ndjson", "--as", "copy"]).trim(), "copy");
    assert_eq!(stage.said(&["export", "copy"]).lines().count(), piped.lines().count() + 1, "and who brought it");
    std::fs::write(&file, &written[..written.len() / 2]).unwrap();
    stage.refused(&["import", "dinner.ndjson", "--as", "other"], 2, "import_invalid: Line ");
    stage.refused(&["import", "gone.ndjson"], 7, "cannot be read");
}

#[test]
fn schedules_are_listed_paused_and_asked_at_once() {
    let stage = Stage::new();
    let nightly =
        r#"{ "id": "nightly", "cron": "30 2 * * *", "timezone": "Europe/Berlin", "query": "What is 1 + 1?" }"#;
    exchange(&stage.served.url, "POST /schedules", nightly);
    let listed = stage.said(&["schedules"]);
    assert!(listed.contains("active  30 2 * * * Europe/Berlin") && listed.contains("What is 1 + 1?"), "{listed}");
    let as_json: Value = serde_json::from_str(&stage.said(&["schedules", "--json"])).unwrap();
    assert_eq!(as_json["items"][0]["id"], "nightly");
    assert_eq!(stage.said(&["schedules", "pause", "nightly"]).trim(), "nightly is paused");
    assert!(stage.said(&["schedules"]).contains("paused  30 2"));
    let thread = stage.said(&["schedules", "trigger", "nightly"]);
    stage.said(&["watch", thread.trim()]);
    assert_eq!(stage.said(&["schedules", "resume", "nightly"]).trim(), "nightly goes on");
    assert!(stage.said(&["schedules"]).contains("active  30 2"));
    stage.refused(&["schedules", "pause", "nobody"], 7, "not_found");
}
