//! Questions that somebody other than the terminal of the run answers, or that an earlier run asked.

use serde_json::Value;

use super::client::{MAIL, Stage, http};
use super::serving::text;
use super::terminal::{Terminal, pes};

/// The demo model's answer to an unknown query, and such a query.
const UNKNOWN: &str = "it only knows these prompts";
const OTHER: &str = "And what do we drink?";

/// One mail, and another one after the first was approved.
const MAILS: &str = r#"
[[reply]]
when = { query = "mails", phase = "planning" }
json = { title = "Send", intent = "Send", plan = "Send.", todoList = [
    { id = "mails", description = "Send both mails", stepType = "tool", requiredTools = ["demo_send_email"] },
] }

[[reply]]
when = { item = "mails", phase = "execution", iteration = [1, 2] }
calls = [{ tool = "demo_send_email", arguments = { to = "a@example.com", subject = "S", body = "B" } }]

[[reply]]
when = { item = "mails", phase = "execution" }
text = "Done."

[[reply]]
when = { query = "mails", phase = "synthesis" }
text = "The mails are dealt with."
"#;

/// A tool that asks by itself: no rule does.
const WORD: &str = r#"
[[reply]]
when = { query = "word", phase = "planning" }
json = { title = "Ask", intent = "Ask", plan = "Ask.", todoList = [
    { id = "ask", description = "Ask for a word", stepType = "tool", requiredTools = ["ask_user"] },
] }

[[reply]]
when = { item = "ask", phase = "execution" }
calls = [{ tool = "ask_user", arguments = { question = "Which word?" } }]
"#;

fn terminal(stage: &Stage) -> Terminal {
    Terminal::new(110, 40, &[("PES_URL", stage.url()), ("LANG", "C.UTF-8"), ("NO_COLOR", "1")])
}

#[test]
fn a_question_is_listed_with_its_arguments_and_shown_in_full() {
    let stage = Stage::new();
    stage.refused(&["run", MAIL, "--thread", "mail", "--no-input"], 4, "waits for a person");
    let listed = stage.pes(&["questions"]);
    let open = text(&listed.stdout);
    let arguments =
        "  body: Dear all, we meet on Friday at seven. T…, subject: Team dinner on Friday, to: team@example.com\n";
    assert!(open.contains(arguments), "{open}");
    let id = open.split_whitespace().next().unwrap();
    let how = format!("Answer with pes approve {id}, or pes reject {id} --reason …\n");
    let all = format!("{how}`pes questions {id}` shows everything that the decision needs.\n");
    assert_eq!(text(&listed.stderr), all);
    let one = stage.pes(&["questions", &id[..12]]);
    let (shown, told) = (text(&one.stdout), text(&one.stderr));
    assert!(shown.starts_with(&format!("{id} in mail, item send\n! demo_send_email  high risk")), "{shown}");
    assert!(shown.contains("    to       team@example.com\n  digest "), "{shown}");
    assert_eq!(told, how);
    let whole: Value = serde_json::from_str(&stage.said(&["questions", id, "--json"])).unwrap();
    assert_eq!(whole, http(stage.url(), "/suspensions?status=pending")["items"][0]);
    stage.refused(&["questions", "sus_none"], 7, "No open question sus_none");
}

#[test]
fn what_was_typed_for_a_question_that_others_answered_is_no_answer_to_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script.toml");
    std::fs::write(&script, MAILS).unwrap();
    let stage = Stage::with(&[("PES_DEMO_SCRIPT", script.to_str().unwrap())]);
    let terminal = terminal(&stage);
    terminal.line(&format!("{} run mails --thread m; echo code $?", pes()));
    terminal.shows(&["[a]pprove"]);
    terminal.keys(&["a"]);
    terminal.shows(&["> a"]);
    let first = stage.said(&["approve"]);
    assert_eq!(first, "approved demo_send_email in m\n");
    let shown = terminal.shows(&["Answered: approved by local.", "> a\n", "[l]ater  >\n"]);
    assert_eq!(shown.matches("[a]pprove").count(), 2, "{shown}");
    terminal.line("");
    terminal.shows(&["Type the letter of an answer."]);
    terminal.line("a");
    terminal.shows(&["The mails are dealt with.", "code 0"]);
}

#[test]
fn the_query_behind_a_question_that_others_answered_is_asked() {
    let stage = Stage::new();
    let terminal = terminal(&stage);
    terminal.line(&format!("{} chat m; echo code $?", pes()));
    terminal.shows(&["Thread m.", "\n>\n"]);
    terminal.line(MAIL);
    terminal.shows(&["[a]pprove"]);
    stage.said(&["approve"]);
    terminal.shows(&["The invitation to the team dinner was written, approved", "\n>\n"]);
    terminal.line(OTHER);
    terminal.shows(&[UNKNOWN]);
    terminal.line("");
    terminal.shows(&["code 0"]);
}

#[test]
fn a_talk_begins_with_the_question_that_is_open_and_is_gone_on_with_later() {
    let stage = Stage::new();
    stage.refused(&["run", MAIL, "--thread", "m", "--no-input"], 4, "waits for a person");
    let variables = [("PES_URL", stage.url()), ("LANG", "C.UTF-8"), ("NO_COLOR", "1")];
    let terminal = Terminal::new(200, 40, &variables);
    let chat = format!("{} chat m; echo code $?", pes());
    terminal.line(&chat);
    terminal.shows(&["◆ demo_send_email  high risk", "[a]pprove"]);
    terminal.line("l");
    terminal.shows(&["). Answer it (`pes questions`), then: pes chat m\n", "code 4"]);
    terminal.line(&format!("clear; echo an''other; {chat}"));
    terminal.shows(&["another", "✓  write", "[a]pprove"]);
    terminal.line("a");
    terminal.shows(&["The invitation to the team dinner was written, approved", "\n>\n"]);
    terminal.line("");
    terminal.shows(&["another", "code 0"]);
}

#[test]
fn a_question_from_before_what_is_watched_is_seen() {
    let stage = Stage::new();
    stage.refused(&["run", MAIL, "--thread", "m", "--no-input"], 4, "waits for a person");
    let last = http(stage.url(), "/threads/m")["lastSeq"].to_string();
    stage.refused(&["watch", "m", "--after", &last], 4, "waits for a person: demo_send_email (sus_");
    let terminal = terminal(&stage);
    terminal.line(&format!("{} watch m --after {last}; echo code $?", pes()));
    terminal.shows(&["◆ demo_send_email  high risk", "[a]pprove"]);
    terminal.line("a");
    terminal.shows(&["The invitation to the team dinner was written, approved", "code 0"]);
}

#[test]
fn whoever_watches_from_beyond_the_end_is_asked_what_comes() {
    let stage = Stage::new();
    stage.refused(&["run", MAIL, "--thread", "m", "--review", "--no-input"], 4, "waits for a person: the plan");
    let terminal = terminal(&stage);
    terminal.line(&format!("{} watch m --after 1000000; echo code $?", pes()));
    terminal.shows(&["[a]pprove"]);
    terminal.line("a");
    terminal.shows(&["◆ demo_send_email  high risk", "cannot be undone"]);
    terminal.line("a");
    terminal.shows(&["The invitation to the team dinner was written, approved", "code 0"]);
}

#[test]
fn a_run_behind_one_that_asks_waits_for_a_person_too() {
    let stage = Stage::new();
    stage.refused(&["run", MAIL, "--thread", "m", "--no-input"], 4, "waits for a person");
    let waits = "The run is queued behind one that waits for a person: demo_send_email (sus_";
    stage.refused(&["run", OTHER, "--thread", "m", "--no-input"], 4, waits);
    stage.refused(&["watch", "m"], 4, waits);
    let queued =
        "It is queued behind another run, which may wait for a person (`pes questions`). `pes watch m` shows it.";
    stage.refused(&["run", OTHER, "--thread", "m", "-d"], 0, queued);
    stage.refused(&["run", MAIL, "--thread", "n", "-d"], 0, "It runs. `pes watch n` shows it.");
    stage.said(&["cancel", "n"]);
    let listed = stage.said(&["threads"]);
    let queued: Vec<_> = listed.lines().filter_map(|line| line.split_once("  queued: ")).collect();
    let [(thread, query)] = queued[..] else { panic!("only m has waiting messages: {listed}") };
    assert_eq!((thread.split_whitespace().next(), query), (Some("m"), OTHER), "{listed}");
    let plan = stage.said(&["plan", "m"]);
    let queued: Vec<_> = plan.lines().filter(|line| line.starts_with("  queued ")).collect();
    assert_eq!(queued.len(), 2, "{plan}");
    assert!(queued.iter().all(|line| line.contains(&format!(" ago: {OTHER}  (run_"))), "{plan}");
    let open: Value = http(stage.url(), "/suspensions?threadId=m");
    assert_eq!(open["items"].as_array().unwrap().len(), 1, "{open}");
    let terminal = terminal(&stage);
    terminal.line(&format!("{} watch m; echo code $?", pes()));
    terminal.shows(&["◆ demo_send_email  high risk", "[a]pprove"]);
    terminal.line("a");
    terminal.shows(&[UNKNOWN, "code 0"]);
}

#[test]
fn a_forecast_promises_nothing_about_people_where_a_tool_asks_them() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script.toml");
    std::fs::write(&script, WORD).unwrap();
    let stage = Stage::with(&[("PES_DEMO_SCRIPT", script.to_str().unwrap())]);
    stage.refused(&["run", "word", "--thread", "m", "--no-input"], 4, "waits for a person: ask_user (sus_");
    let forecast = stage.said(&["plan", "m", "forecast"]);
    let expected = "\nNo rule asks a person; a tool, or a call in doubt, may still ask one.\n";
    assert!(
        forecast.starts_with("ask  Ask for a word\n    ask_user: auto (") && forecast.contains(expected),
        "{forecast}"
    );
}
