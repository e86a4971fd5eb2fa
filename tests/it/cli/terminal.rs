//! The binary as a client, in a real terminal (tmux).

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use socket2::Socket;

use super::PATIENCE;
use super::client::script;
use super::serving::{serve, text};
use crate::support::unused_address::unused_address;

/// A terminal with a shell, closed when dropped.
pub(super) struct Terminal {
    folder: tempfile::TempDir,
}

impl Terminal {
    pub(super) fn new(columns: u16, rows: u16, variables: &[(&str, &str)]) -> Self {
        let terminal = Self { folder: tempfile::tempdir().unwrap() };
        let variables: Vec<String> = variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let shell = format!("env -i TERM=screen PATH=/usr/bin:/bin PS1='$ ' {} sh", variables.join(" "));
        let (columns, rows) = (columns.to_string(), rows.to_string());
        terminal.tmux(&["new-session", "-d", "-x", &columns, "-y", &rows, &shell]);
        terminal
    }

    #[track_caller]
    pub(super) fn tmux(&self, arguments: &[&str]) -> String {
        let socket = self.folder.path().join("socket");
        let mut command = Command::new("tmux");
        let output = command.arg("-S").arg(socket).args(["-f", "/dev/null"]).args(arguments).output();
        let output = output.expect("tmux is installed");
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    pub(super) fn keys(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    pub(super) fn line(&self, line: &str) {
        self.keys(&[line, "Enter"]);
    }

    /// The screen, once it shows all of these texts.
    #[track_caller]
    pub(super) fn shows(&self, expected: &[&str]) -> String {
        let began = Instant::now();
        loop {
            let shown = self.tmux(&["capture-pane", "-p"]);
            if expected.iter().all(|expected| shown.contains(expected)) {
                return shown;
            }
            assert!(began.elapsed() < PATIENCE, "{shown}\nlacks one of {expected:?}");
            // A terminal sends no notice of a change.
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let socket = self.folder.path().join("socket");
        let _ = Command::new("tmux").arg("-S").arg(socket).arg("kill-server").output();
    }
}

pub(super) fn pes() -> &'static str {
    env!("CARGO_BIN_EXE_pes")
}

const MAIL: &str = "'Send the team an invitation to the dinner.'";
/// Of a server whose model writes slowly: a plan is drawn, and typed into, before its question comes.
const SLOW: &[(&str, &str)] = &[("PES_DEMO_PACE", "40")];

#[test]
fn a_plan_is_drawn_in_place_and_its_question_answered_there() {
    let folder = tempfile::tempdir().unwrap();
    let served = serve(folder.path(), SLOW);
    let terminal = Terminal::new(110, 30, &[("PES_URL", &served.url), ("LANG", "C.UTF-8"), ("NO_COLOR", "1")]);
    terminal.line(&format!("{} run {MAIL} --thread m; echo code $?", pes()));
    let shown = terminal.shows(&["◆ demo_send_email  high risk  cannot be undone", "[a]pprove", "✓  write"]);
    assert_eq!(shown.matches("Dinner invitation").count(), 1, "drawn in place:\n{shown}");
    terminal.line("what");
    terminal.shows(&["Type the letter of an answer."]);
    terminal.line("a");
    let shown = terminal.shows(&["code 0"]);
    assert!(shown.contains("✓  send") && shown.contains("The invitation to the team dinner was written"), "{shown}");
}

#[test]
fn what_is_typed_while_the_plan_is_drawn_moves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let served = serve(folder.path(), SLOW);
    let terminal = Terminal::new(110, 30, &[("PES_URL", &served.url), ("LANG", "C.UTF-8"), ("NO_COLOR", "1")]);
    terminal.line(&format!("clear; {} run {MAIL} --thread m; stty | grep -ow -- -echo; echo code $?", pes()));
    terminal.shows(&["m   demo:demo-scripted"]);
    terminal.keys(&["x", "Enter", "y", "Enter"]);
    let shown = terminal.shows(&["[a]pprove", "✓  write"]);
    let (drawn, _) = shown.split_once("◆ demo_send_email").unwrap();
    let rows: Vec<&str> = drawn.trim().lines().map(|row| row.split_whitespace().next().unwrap_or_default()).collect();
    assert_eq!(rows, ["m", "✓", "◆"], "drawn in place, and nothing else there:\n{shown}");
    terminal.line("a");
    // `stty` names the modes that differ from the usual ones.
    terminal.shows(&["[l]ater  > a\n", "The invitation to the team dinner was written", "code 1"]);
}

#[test]
fn a_command_that_was_stopped_goes_on_below_what_was_printed_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let served = serve(folder.path(), SLOW);
    let terminal = Terminal::new(110, 30, &[("PES_URL", &served.url), ("LANG", "C.UTF-8"), ("NO_COLOR", "1")]);
    terminal.line(&format!("clear; {} run {MAIL} --thread m", pes()));
    terminal.shows(&["m   demo:demo-scripted"]);
    terminal.keys(&["C-z"]);
    terminal.shows(&["Stopped"]);
    terminal.line("echo a''bove; fg >/dev/null; echo code $?");
    let shown = terminal.shows(&["above", "[a]pprove", "✓  write"]);
    let (_, below) = shown.split_once("above\n").unwrap_or_else(|| panic!("it is drawn over:\n{shown}"));
    assert_eq!(below.matches("demo:demo-scripted").count(), 1, "drawn once, in place:\n{shown}");
    assert!(below.contains("✓  write") && below.contains("◆  send"), "{shown}");
    terminal.line("a");
    terminal.shows(&["The invitation to the team dinner was written", "code 0"]);
}

#[test]
fn what_an_earlier_run_did_counts_as_done() {
    let folder = tempfile::tempdir().unwrap();
    let served = serve(folder.path(), SLOW);
    let terminal = Terminal::new(110, 30, &[("PES_URL", &served.url), ("LANG", "C.UTF-8"), ("NO_COLOR", "1")]);
    let dinner = "'Work out a team dinner: 14 guests at 42.50 each, a 12% tip, and the share per guest.'";
    terminal.line(&format!("{} run {dinner} --thread m; echo code $?", pes()));
    terminal.shows(&["code 0"]);
    terminal.line(&format!("clear; {} run {MAIL} --thread m", pes()));
    let shown = terminal.shows(&["[a]pprove"]);
    assert!(shown.contains("5/6") && !shown.contains("1/6"), "{shown}");
    assert!(shown.contains("m  Team dinner "), "a thread keeps its first title, here as in its list:\n{shown}");
}

#[test]
fn a_plan_that_is_partly_over_is_edited_at_its_review() {
    let folder = tempfile::tempdir().unwrap();
    let served = serve(folder.path(), &[]);
    let editor = script(folder.path(), "editor", "sed -i 's/Send the invitation/Mail the invitation/' \"$1\"");
    let variables = [("PES_URL", served.url.as_str()), ("LANG", "C.UTF-8"), ("NO_COLOR", "1"), ("EDITOR", &editor)];
    let terminal = Terminal::new(110, 50, &variables);
    let dinner = "'Work out a team dinner: 14 guests at 42.50 each, a 12% tip, and the share per guest.'";
    terminal.line(&format!("{} run {dinner} --thread m; echo code $?", pes()));
    terminal.shows(&["code 0"]);
    terminal.line(&format!("clear; echo an''other; {} run {MAIL} --thread m --review; echo code $?", pes()));
    terminal.shows(&["another", "Send the invitation", "[e]dit"]);
    terminal.line("e");
    terminal.shows(&["◆ demo_send_email  high risk", "[a]pprove"]);
    terminal.line("a");
    let shown = terminal.shows(&["code 0"]);
    let is_sent = |line: &str| line.trim_start().starts_with('✓') && line.contains("send   Mail the invitation");
    assert!(shown.lines().any(is_sent), "{shown}");
}

#[test]
fn a_terminal_without_unicode_gets_plain_shapes_and_a_resize_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    let served = serve(folder.path(), SLOW);
    let terminal = Terminal::new(100, 30, &[("PES_URL", &served.url), ("LANG", "C"), ("NO_COLOR", "1")]);
    terminal.line(&format!("{} run {MAIL} --thread m; echo code $?", pes()));
    let shown = terminal.shows(&["! demo_send_email", "+  write"]);
    assert!(shown.contains("341d~") && !shown.contains('…'), "{shown}");
    terminal.tmux(&["resize-window", "-x", "60", "-y", "30"]);
    terminal.line("x");
    terminal.shows(&["Why not?"]);
    terminal.line("Not today.");
    let shown = terminal.shows(&["code 3"]);
    // A line that does not fit would wrap, and the next output would overwrite a part of it.
    let (_, drawn) = shown.rsplit_once("Not today.").unwrap();
    let drawn: Vec<&str> = drawn.lines().filter(|line| line.ends_with(" tok") || line.contains("  ")).collect();
    let [head, write, send] = drawn[..] else { panic!("the plan is drawn once:\n{shown}") };
    assert!(head.starts_with("m  Dinner invitation   1/2 ") && head.ends_with(" tok") && head.is_ascii(), "{shown}");
    assert!(write.contains("+  write  ") && write.contains('~') && write.is_ascii(), "{shown}");
    assert!(
        send.contains("x  send ") && send.contains("  rejected: ") && send.ends_with('~') && send.is_ascii(),
        "{shown}"
    );
}

#[test]
fn colours_are_left_out_and_nothing_is_drawn_where_that_is_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let served = serve(folder.path(), SLOW);
    let url = ("PES_URL", served.url.as_str());
    let run = |thread: &str, variables: &[(&str, &str)]| {
        let terminal = Terminal::new(110, 30, &[&[url, ("LANG", "C.UTF-8")], variables].concat());
        terminal.line(&format!("clear; {} run {MAIL} --thread {thread}; echo code $?", pes()));
        let shown = terminal.shows(&["[a]pprove"]);
        (shown, terminal.tmux(&["capture-pane", "-p", "-e"]))
    };
    let (shown, coloured) = run("coloured", &[]);
    assert!(shown.contains("✓  write") && coloured.contains("\u{1b}[32m✓"), "{coloured}");
    let (shown, plain) = run("plain", &[("NO_COLOR", "1")]);
    assert!(shown.contains("✓  write") && !plain.contains('\u{1b}'), "{plain}");
    for variable in [("CI", "1"), ("TERM", "dumb")] {
        let (shown, escapes) = run(variable.1, &[variable, ("NO_COLOR", "1")]);
        assert!(shown.contains(" write completed") && !shown.contains('✓') && !escapes.contains('\u{1b}'), "{shown}");
    }
}

#[test]
fn control_c_detaches_first_and_cancels_at_once_after() {
    let folder = tempfile::tempdir().unwrap();
    let served = serve(folder.path(), &[]);
    let terminal = Terminal::new(110, 30, &[("PES_URL", &served.url), ("LANG", "C.UTF-8")]);
    let run = format!("{} run {MAIL} --thread m; echo code $?", pes());
    terminal.line(&run);
    terminal.shows(&["[a]pprove"]);
    terminal.keys(&["C-c"]);
    let left = "You left; the run waits for an answer. See it: pes watch m. Ctrl-C within 2 s cancels it.";
    terminal.shows(&[left]);
    // Typed while the command still waits for a second Ctrl-C.
    terminal.line("echo is''kept");
    terminal.shows(&["code 0", "iskept\n"]);
    // The quotes distinguish printed text from typed text.
    terminal.line(&format!("clear; echo an''other; {} watch m; echo code $?", pes()));
    terminal.shows(&["another", "[a]pprove"]);
    terminal.keys(&["C-c"]);
    terminal.shows(&[left]);
    terminal.keys(&["C-c"]);
    terminal.shows(&["being cancelled", "code 5"]);
}

#[test]
fn control_c_leaves_also_where_a_reason_or_the_next_query_is_typed() {
    let folder = tempfile::tempdir().unwrap();
    let served = serve(folder.path(), &[]);
    let terminal = Terminal::new(110, 30, &[("PES_URL", &served.url), ("LANG", "C.UTF-8")]);
    terminal.line(&format!("{} run {MAIL} --thread m; echo code $?", pes()));
    terminal.shows(&["[a]pprove"]);
    terminal.line("x");
    terminal.shows(&["Why not?"]);
    terminal.keys(&["C-c"]);
    terminal.shows(&["You left; the run waits for an answer.", "code 0"]);
    terminal.line(&format!("clear; echo an''other; {} chat t; echo code $?", pes()));
    terminal.shows(&["another", "Thread t."]);
    terminal.line("Work out a team dinner: 14 guests at 42.50 each, a 12% tip, and the share per guest.");
    terminal.shows(&["Each guest pays 47.60.", "\n> "]);
    terminal.keys(&["C-c"]);
    terminal.shows(&["code 0"]);
}

#[test]
fn the_end_of_the_input_is_no_reason_and_what_was_edited_is_kept_until_it_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let temporary = folder.path().join("temporary");
    std::fs::create_dir(&temporary).unwrap();
    let served = serve(folder.path(), &[]);
    // At first it leaves out the end of the text, which it adds the next time.
    let slip = "mkdir \"$0.slipped\" 2>/dev/null && sed -i '$d' \"$1\" || echo } >>\"$1\"; sed -i s/team@/all@/ \"$1\"";
    let editor = script(folder.path(), "editor", slip);
    let variables = [("PES_URL", served.url.as_str()), ("EDITOR", &editor), ("TMPDIR", temporary.to_str().unwrap())];
    let terminal = Terminal::new(110, 50, &[&variables[..], &[("LANG", "C.UTF-8")]].concat());
    terminal.line(&format!("{} run {MAIL} --thread m; echo code $?", pes()));
    terminal.shows(&["[a]pprove"]);
    terminal.line("x");
    terminal.shows(&["Why not?"]);
    terminal.keys(&["C-d"]);
    terminal.shows(&["Nothing was sent.", "[l]ater  >\n"]);
    terminal.line("e");
    terminal.shows(&["It is no JSON any more", "Your text is in"]);
    let left = || std::fs::read_dir(&temporary).unwrap().count();
    assert_eq!(left(), 1);
    terminal.line("e");
    terminal.shows(&["code 0"]);
    assert_eq!(left(), 0, "the same text is edited again, and not kept once it is taken");
}

#[test]
fn whoever_waits_for_so_long_only_is_asked_no_longer() {
    let folder = tempfile::tempdir().unwrap();
    let served = serve(folder.path(), &[]);
    let terminal = Terminal::new(110, 30, &[("PES_URL", &served.url), ("LANG", "C.UTF-8")]);
    terminal.line(&format!("{} run {MAIL} --thread m --timeout 8s; echo code $?", pes()));
    terminal.shows(&["[a]pprove"]);
    terminal.line("x");
    terminal.shows(&["Why not?"]);
    terminal.shows(&["The run is not over in time; it goes on.", "code 124"]);
}

/// In a folder of its own, whose server listens on a free port, which stays free while the socket is held.
fn config(folder: &Path) -> Socket {
    let (address, held) = unused_address();
    std::fs::create_dir(folder.join("config")).unwrap();
    std::fs::write(folder.join("config/local.toml"), format!("[server]\nport = {}\n", address.port())).unwrap();
    held
}

#[test]
fn whoever_has_no_server_is_offered_one_that_stays() {
    let folder = tempfile::tempdir().unwrap();
    let _free = config(folder.path());
    let terminal = Terminal::new(110, 30, &[("LANG", "C.UTF-8")]);
    terminal.line(&format!("cd {}; {} chat talk; echo code $?", folder.path().display(), pes()));
    terminal.shows(&["Start one here? [Y/n]"]);
    terminal.line("y");
    let shown = terminal.shows(&["A server starts as process", "It answers at http://127.0.0.1:", "Thread talk."]);
    let mode = |path: &str| std::fs::metadata(folder.path().join(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("data"), mode("data/server.log")), (0o700, 0o600));
    let pid = shown.split_once("as process ").unwrap().1.split(',').next().unwrap().to_owned();
    terminal.line("Work out a team dinner: 14 guests at 42.50 each, a 12% tip, and the share per guest.");
    terminal.shows(&["Each guest pays 47.60."]);
    terminal.line("");
    terminal.shows(&["code 0"]);
    terminal.line(&format!("clear; echo an''other; {} threads; kill {pid}; echo code $?", pes()));
    terminal.shows(&["another", "Team dinner", "code 0"]);
}

#[test]
fn one_that_was_started_on_a_free_port_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let terminal = Terminal::new(110, 30, &[("LANG", "C.UTF-8")]);
    let chat = format!("{} chat talk --port 0; echo code $?", pes());
    terminal.line(&format!("cd {}; {chat}", folder.path().display()));
    terminal.shows(&["Start one here? [Y/n]"]);
    terminal.line("y");
    let shown = terminal.shows(&["A server starts as process", "It answers at http://127.0.0.1:", "Thread talk."]);
    let pid = shown.split_once("as process ").unwrap().1.split(',').next().unwrap().to_owned();
    terminal.line("");
    terminal.shows(&["code 0"]);
    terminal.line(&format!("clear; echo an''other; {chat}"));
    terminal.shows(&["another", "Thread talk."]);
    terminal.line("");
    terminal.shows(&["another", "code 0"]);
    terminal.line(&format!("clear; kill {pid}; echo killed $?"));
    terminal.shows(&["killed 0"]);
}

#[test]
fn one_that_cannot_start_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let metrics = format!("PES_METRICS_LISTEN={}", taken.local_addr().unwrap());
    let terminal = Terminal::new(300, 30, &[("LANG", "C.UTF-8")]);
    terminal.line(&format!("cd {}; {metrics} {} run x --port 0; echo code $?", folder.path().display(), pes()));
    terminal.shows(&["Start one here? [Y/n]"]);
    terminal.line("y");
    let shown = terminal.shows(&["code 1"]);
    let why = "pes: The server ended at once (exit status: 1): metrics.listen (PES_METRICS_LISTEN): 127.0.0.1:";
    let ended = shown.lines().find(|line| line.starts_with(why)).unwrap_or_else(|| panic!("{shown}"));
    assert!(ended.contains(" cannot be bound: ") && ended.ends_with(". More: ./data/server.log"), "{ended}");
    let run = format!("{} run x --port 0 --model openai:gpt-4.1; echo code $?", pes());
    terminal.line(&format!("clear; echo an''other; {run}"));
    terminal.shows(&["another", "Start one here? [Y/n]"]);
    terminal.line("y");
    let shown = terminal.shows(&["code 2"]);
    let why = "pes: The server ended at once (exit status: 2): configuration: ";
    assert!(shown.contains("A server starts as process ") && shown.contains(why), "{shown}");
    assert!(!shown.contains("goes on when this ends"), "{shown}");
}

#[test]
fn control_c_leaves_the_offer_of_a_server_and_the_wait_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let _free = config(folder.path());
    let terminal = Terminal::new(110, 30, &[("LANG", "C.UTF-8")]);
    terminal.line(&format!("cd {}; {} chat; echo code $?", folder.path().display(), pes()));
    terminal.shows(&["Start one here? [Y/n]"]);
    terminal.keys(&["C-c"]);
    terminal.shows(&["\ncode 0"]);
    assert!(!folder.path().join("data").exists(), "nothing was started");
    // A server waits a minute for its database.
    let (nobody, _held) = unused_address();
    let database = format!("DATABASE_URL=postgres://pes@{nobody}/pes");
    terminal.line(&format!("clear; echo an''other; {database} {} run x; echo code $?", pes()));
    terminal.shows(&["another", "Start one here? [Y/n]"]);
    terminal.line("y");
    let shown = terminal.shows(&["A server starts as process"]);
    terminal.keys(&["C-c"]);
    terminal.shows(&["A server starts as process", "\ncode 0"]);
    let pid = shown.split_once("as process ").unwrap().1.split(',').next().unwrap();
    terminal.line(&format!("clear; kill {pid}; echo killed $?"));
    terminal.shows(&["killed 0"]);
}

#[test]
fn an_answer_is_shown_with_codes_and_written_to_a_file_as_it_is() {
    const SCRIPT: &str = r#"
[[reply]]
when = { query = "colours", phase = "planning" }
json = { title = "T", intent = "I", plan = "P", answer = "\u001B[31mred\u202E\u200B \u0645\u06CC\u200C\u062E", todoList = [] }
"#;
    let folder = tempfile::tempdir().unwrap();
    let (script, file) = (folder.path().join("script.toml"), folder.path().join("answer"));
    std::fs::write(&script, SCRIPT).unwrap();
    let served = serve(folder.path(), &[("PES_DEMO_SCRIPT", script.to_str().unwrap())]);
    let terminal = Terminal::new(110, 30, &[("PES_URL", &served.url), ("LANG", "C.UTF-8"), ("NO_COLOR", "1")]);
    terminal.line(&format!("{0} run colours; {0} run colours >{1}; echo code $?", pes(), file.display()));
    terminal.shows(&["<U+001B>[31mred<U+202E><U+200B> می", "code 0"]);
    let written = std::fs::read_to_string(file).unwrap();
    assert_eq!(written, "\u{1b}[31mred\u{202e}\u{200b} می\u{200c}خ\n");
}
