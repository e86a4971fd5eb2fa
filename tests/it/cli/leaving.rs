//! The client can be stopped during a request, even if the server does not answer.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::client::script;
use super::serving::{serve, text};
use super::terminal::{Terminal, pes};
use super::{PATIENCE, command, run};

/// Shorter than the time-out of a request.
const SOON: Duration = Duration::from_secs(20);

/// A server that gives one of these answers to each request, and none to later requests.
struct Silent {
    url: String,
    /// The beginning of each request that got no answer.
    unanswered: mpsc::Receiver<String>,
}

impl Silent {
    fn after(answers: Vec<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (tell, unanswered) = mpsc::channel();
        let mut answers = answers.into_iter();
        std::thread::spawn(move || {
            // Dropping the connection would count as an answer.
            let mut open = Vec::new();
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let asked = head(&mut stream);
                match answers.next() {
                    Some(answer) => stream.write_all(answer.as_bytes()).unwrap(),
                    None => tell.send(asked).unwrap(),
                }
                open.push(stream);
            }
        });
        Self { url, unanswered }
    }

    /// Waits for a request that gets no answer.
    #[track_caller]
    fn is_asked(&self, expected: &str) {
        let asked = self.unanswered.recv_timeout(PATIENCE).unwrap();
        assert!(asked.starts_with(expected), "{asked}");
    }
}

fn head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.extend_from_slice(&byte);
    }
    text(&head)
}

fn found(body: &Value) -> String {
    let body = body.to_string();
    format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn thread() -> String {
    let newest = json!({ "runId": "run_1", "status": "running", "query": "?" });
    found(&json!({ "threadId": "t", "lastSeq": 4, "title": "", "lastRun": newest }))
}

/// Everything was printed before.
fn stream() -> String {
    let head = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/event-stream\r\n\r\n";
    format!("{head}event: caught_up\ndata: {{\"seq\":4}}\n\n")
}

/// As [`stream`], but the server ends it.
fn ended_stream() -> String {
    let event = "event: caught_up\ndata: {\"seq\":4}\n\n";
    let head = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/event-stream\r\n";
    format!("{head}Content-Length: {}\r\n\r\n{event}", event.len())
}

fn run_that_is(status: &str) -> Value {
    let usage = json!({ "inputTokens": 0, "outputTokens": 0, "thinkingTokens": 0, "cachedInputTokens": 0 });
    json!({
        "runId": "run_1", "threadId": "t", "status": status, "query": "?", "traceId": "x", "model": "m",
        "provider": "p", "createdAt": 1, "llmCalls": 1, "toolCalls": 0, "usage": usage
    })
}

fn suspended() -> String {
    found(&run_that_is("suspended"))
}

fn open() -> String {
    let asked = json!({
        "suspensionId": "sus_1", "threadId": "t", "runId": "run_1", "kind": "approval", "status": "pending",
        "message": "May it?", "feedbackSchema": { "inputType": "confirm", "prompt": "May it?" }, "createdAt": 1
    });
    found(&json!({ "items": [asked] }))
}

fn nothing_open() -> String {
    found(&json!({ "items": [] }))
}

/// Its exit code and its stderr, if Ctrl-C ends it as soon as this request gets no answer.
fn interrupted(
    silent: &Silent,
    request: &str,
    arguments: &[&str],
    folder: &Path,
    variables: &[(&str, &str)],
) -> (Option<i32>, String) {
    let mut command = command(folder, arguments, &[&[("PES_URL", silent.url.as_str())], variables].concat());
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    silent.is_asked(request);
    let began = Instant::now();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(began.elapsed() < SOON, "it waited for the server: {arguments:?}");
    (output.status.code(), text(&output.stderr))
}

#[test]
fn control_c_is_heard_while_the_server_is_silent() {
    let (folder, silent) = (tempfile::tempdir().unwrap(), Silent::after(vec![thread(), stream()]));
    let arguments = ["watch", "t", "--after", "4"];
    let (code, said) = interrupted(&silent, "GET /runs/run_1 ", &arguments, folder.path(), &[]);
    assert_eq!((code, said.contains("You left; the run goes on.")), (Some(0), true), "{said}");
}

#[test]
fn whoever_waits_for_so_long_only_does_not_wait_for_a_silent_server() {
    let folder = tempfile::tempdir().unwrap();
    let silent = Silent::after(vec![thread(), found(&json!({ "runId": "run_1", "status": "running" })), stream()]);
    let began = Instant::now();
    let arguments = ["run", "x", "--thread", "t", "--timeout", "1s"];
    let output = run(folder.path(), &arguments, &[("PES_URL", &silent.url)]);
    let said = text(&output.stderr);
    silent.is_asked("GET /runs/run_1 ");
    let told = said.contains("The run is not over in time; it goes on. Try: pes watch t");
    assert_eq!((output.status.code(), told), (Some(124), true), "{said}");
    assert!(began.elapsed() < SOON, "it waited for the server: {said}");
}

#[test]
fn nor_where_the_server_is_silent_from_the_beginning() {
    let folder = tempfile::tempdir().unwrap();
    let began = Instant::now();
    let timed = |silent: &Silent| {
        let arguments = ["run", "x", "--thread", "t", "--timeout", "1s"];
        let output = run(folder.path(), &arguments, &[("PES_URL", &silent.url)]);
        (output.status.code(), text(&output.stderr))
    };
    let silent = Silent::after(Vec::new());
    let late = "Nothing was asked.\npes: The server did not answer in time.\n";
    assert_eq!(timed(&silent), (Some(124), late.to_owned()));
    silent.is_asked("GET /threads/t ");
    let silent = Silent::after(vec![thread()]);
    let (code, said) = timed(&silent);
    silent.is_asked("POST /threads/t/process ");
    let told = said.contains("The query may have been sent. `pes watch t` shows it.");
    assert_eq!((code, told), (Some(124), true), "{said}");
    assert!(began.elapsed() < SOON, "it waited for the server: {said}");
}

#[test]
fn control_c_is_heard_while_a_query_is_on_its_way() {
    let (folder, silent) = (tempfile::tempdir().unwrap(), Silent::after(vec![thread()]));
    let arguments = ["run", "x", "--thread", "t"];
    let (code, said) = interrupted(&silent, "POST /threads/t/process ", &arguments, folder.path(), &[]);
    let told = said.contains("The query may have been sent. `pes watch t` shows it.");
    assert_eq!((code, told), (Some(0), true), "{said}");
}

#[test]
fn a_change_that_is_on_its_way_may_have_been_made() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("thread"), "{}\n").unwrap();
    let none: &[String] = &[];
    for (arguments, answers, request, shown_by) in [
        (&["approve", "sus_1"][..], &[open()][..], "POST /threads/t/resume ", "pes questions"),
        (&["cancel", "t"], none, "POST /threads/t/cancel ", "pes threads"),
        (&["fork", "t"], none, "POST /threads/t/fork ", "pes threads"),
        (&["import", "thread"], none, "POST /imports?dryRun=false ", "pes threads"),
        (&["schedules", "pause", "nightly"], none, "PATCH /schedules/nightly ", "pes schedules"),
        (&["schedules", "trigger", "nightly"], none, "POST /schedules/nightly/trigger ", "pes schedules"),
        (&["tenants", "rm", "acme", "--yes"], none, "DELETE /tenants/acme ", "pes tenants"),
        (&["keys", "revoke", "key_1"], none, "DELETE /keys/key_1 ", "pes keys ls"),
    ] {
        let silent = Silent::after(answers.to_vec());
        let told = format!("\npes: The request may have been sent. Try: {shown_by}\n");
        assert_eq!(interrupted(&silent, request, arguments, folder.path(), &[]), (Some(130), told), "{arguments:?}");
    }
    let editor = script(folder.path(), "editor", "echo '[1]' >\"$1\"");
    let temporary = folder.path().to_str().unwrap();
    let variables = [("EDITOR", editor.as_str()), ("TMPDIR", temporary), ("PATH", "/usr/bin:/bin")];
    let silent = Silent::after(vec![found(&json!([]))]);
    let arguments = ["plan", "t", "edit"];
    let (code, said) = interrupted(&silent, "PATCH /threads/t/plan ", &arguments, folder.path(), &variables);
    let told = said.ends_with(".json.\npes: The request may have been sent. Try: pes plan t diff\n");
    assert_eq!((code, told), (Some(130), true), "{said}");
}

#[test]
fn whoever_only_watches_leaves_a_silent_server_without_a_word() {
    let (folder, silent) = (tempfile::tempdir().unwrap(), Silent::after(Vec::new()));
    let left = interrupted(&silent, "GET /threads/t ", &["watch", "t"], folder.path(), &[]);
    assert_eq!(left, (Some(0), String::new()));
}

#[test]
fn an_answer_that_is_on_its_way_may_have_been_sent() {
    let silent = Silent::after(vec![thread(), stream(), suspended(), open()]);
    let terminal = Terminal::new(110, 30, &[("PES_URL", &silent.url), ("LANG", "C.UTF-8")]);
    terminal.line(&format!("{} watch t --after 4; echo code $?", pes()));
    terminal.shows(&["[a]pprove"]);
    terminal.line("a");
    silent.is_asked("POST /threads/t/resume ");
    terminal.keys(&["C-c"]);
    terminal.shows(&["The answer may have been sent.", "You left; the run goes on.", "code 0"]);
}

#[test]
fn a_query_that_is_on_its_way_may_have_been_sent() {
    let silent = Silent::after(vec![thread(), nothing_open()]);
    let terminal = Terminal::new(110, 30, &[("PES_URL", &silent.url), ("LANG", "C.UTF-8")]);
    terminal.line(&format!("{} chat t; echo code $?", pes()));
    terminal.shows(&["Thread t."]);
    terminal.line("And now?");
    silent.is_asked("POST /threads/t/process ");
    terminal.keys(&["C-c"]);
    terminal.shows(&["The query may have been sent.", "code 0"]);
}

/// The shell of the test restores no modes of the terminal.
#[test]
fn a_command_that_sigterm_ends_lets_the_terminal_show_what_is_typed() {
    let folder = tempfile::tempdir().unwrap();
    // The plan is drawn for as long as the test takes.
    let served = serve(folder.path(), &[("PES_DEMO_PACE", "1000000")]);
    let terminal = Terminal::new(110, 30, &[("PES_URL", &served.url), ("LANG", "C.UTF-8"), ("NO_COLOR", "1")]);
    terminal.line(&format!("clear; sh -c 'echo pid $$; exec {} run hello --thread m'; echo code $?", pes()));
    let shown = terminal.shows(&["pid ", "m   demo:demo-scripted"]);
    let pid = shown.lines().find_map(|row| row.strip_prefix("pid ")).unwrap().trim();
    kill_process(Pid::from_raw(pid.parse().unwrap()).unwrap(), Signal::TERM).unwrap();
    terminal.shows(&["code 143"]);
    terminal.keys(&["typed"]);
    terminal.shows(&["$ typed"]);
}

fn busy() -> String {
    "HTTP/1.1 503 No\r\nConnection: close\r\nContent-Length: 0\r\n\r\n".to_owned()
}

#[test]
fn an_outage_during_a_question_is_told_below_it_and_its_end_with_the_prompt() {
    let asked = [suspended(), open()];
    let answers = [&[thread(), ended_stream()][..], &asked, &[busy(), stream()], &asked].concat();
    let silent = Silent::after(answers);
    let terminal = Terminal::new(200, 30, &[("PES_URL", &silent.url), ("LANG", "C.UTF-8")]);
    terminal.line(&format!("{} watch t --after 4; echo code $?", pes()));
    let away = |seconds: u8, why: &str| {
        format!("The server does not answer (again in {seconds} s; what you see is as of observation 4): {why}.\n")
    };
    let is_busy = format!("{}: status 503, and not the error of a pes server", silent.url);
    let prompt = "[a]pprove  [x] reject  [l]ater  >\n";
    let expected =
        [prompt, &away(1, "the stream ended"), &away(2, &is_busy), "The server answers again.\n", prompt].concat();
    terminal.shows(&[&expected]);
    terminal.line("a");
    silent.is_asked("POST /threads/t/resume ");
}

#[test]
fn an_outage_without_a_question_is_told_in_the_tree() {
    let running = found(&run_that_is("running"));
    let over = format!("{}event: run\ndata: {}\n\n", stream(), run_that_is("completed"));
    let before = [thread(), ended_stream(), running.clone(), nothing_open()];
    let silent = Silent::after([&before[..], &[busy(), over, running, nothing_open()]].concat());
    let terminal = Terminal::new(110, 30, &[("PES_URL", &silent.url), ("LANG", "C.UTF-8")]);
    terminal.line(&format!("{} watch t --after 4; echo code $?", pes()));
    let shown = terminal.shows(&["  The server does not answer (again in 2 s; "]);
    assert_eq!((shown.matches("does not answer").count(), shown.matches(" tok").count()), (1, 1), "{shown}");
    let shown = terminal.shows(&["code 0"]);
    assert_eq!((shown.matches("does not answer").count(), shown.matches(" tok").count()), (0, 1), "{shown}");
}
