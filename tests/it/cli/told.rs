//! What lists and refusals print is enough for a person to write the next command.

use std::io::ErrorKind;
use std::net::TcpListener;

use serde_json::{Value, json};

use super::client::{DINNER, MAIL, Stage, exchange, http};
use super::serving::{serve, text};
use super::{answer_once, run};

fn first_word(said: &str) -> String {
    said.split_whitespace().next().unwrap_or_default().to_owned()
}

#[test]
fn an_answer_that_does_not_fit_is_told_where_and_what_does() {
    let stage = Stage::new();
    stage.refused(&["run", MAIL, "--thread", "m", "--no-input"], 4, "waits for a person");
    let edit = ["approve", "--edit", r#"{"to":"x"}"#];
    stage.refused(&edit, 2, "422 invalid: `modifiedArgs` does not fit its schema. /modifiedArgs: ");
    let id = first_word(&stage.said(&["questions"]));
    let expected =
        format!("/approved: an approval needs true or false. Try: pes approve {id}, or pes reject {id} --reason");
    stage.refused(&["answer", &id, "hello"], 2, &expected);
    let slip = stage.pes(&["answer", &id, "--done", "{bad"]);
    let told = text(&slip.stderr).contains("'{bad' for '--done <VALUE>': it begins like JSON: ");
    assert_eq!((slip.status.code(), told), (Some(2), true), "{}", text(&slip.stderr));
}

#[test]
fn an_empty_id_is_the_id_of_no_question() {
    let stage = Stage::new();
    stage.refused(&["run", MAIL, "--thread", "m", "--no-input"], 4, "waits for a person");
    let open = stage.said(&["questions"]);
    for empty in [&["approve", ""][..], &["reject", "", "--reason", "no"], &["answer", "", "yes"]] {
        stage.refused(empty, 2, "--help");
        assert_eq!(stage.said(&["questions"]), open, "{empty:?}");
    }
}

#[test]
fn a_thread_that_nobody_named_is_found_again() {
    let stage = Stage::new();
    let ran = stage.pes(&["run", DINNER]);
    let told = text(&ran.stderr);
    let thread = first_word(told.split_once(" run started thread=").unwrap_or_else(|| panic!("{told}")).1);
    assert_eq!(first_word(&stage.said(&["threads"])), thread, "{told}");
    assert!(stage.said(&["plan", &thread]).contains("4/4"));
    stage.refused(&["run", MAIL, "--thread", &thread, "--no-input"], 4, "waits for a person");
    let open = stage.said(&["questions"]);
    assert_eq!(open.split_whitespace().nth(1), Some(thread.as_str()), "{open}");
}

#[test]
fn a_mistyped_thread_is_told_the_most_similar_one_if_any_is() {
    let stage = Stage::new();
    for thread in ["inv_20261121aaaa", "inv_40971305bbbb"] {
        stage.said(&["run", DINNER, "--thread", thread]);
    }
    let expected = "No thread inv_20261121aaac; did you mean `inv_20261121aaaa`? Try: pes threads";
    for command in ["plan", "fork", "export", "cancel"] {
        stage.refused(&[command, "inv_20261121aaac"], 7, expected);
    }
    stage.refused(&["watch", "inv_86868686zzzz"], 7, "No thread inv_86868686zzzz. Try: pes threads");
}

#[test]
fn whoever_cancels_what_does_not_run_is_told_so() {
    let stage = Stage::new();
    stage.said(&["run", DINNER, "--thread", "t"]);
    let output = stage.pes(&["cancel", "t"]);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), "Nothing runs in t.\n".to_owned()));
}

#[test]
fn a_plan_that_waits_for_a_person_says_so() {
    let stage = Stage::new();
    stage.refused(&["run", DINNER, "--thread", "t", "--review", "--no-input"], 4, "waits for a person: the plan");
    let id = first_word(&stage.said(&["questions"]));
    let shown = stage.said(&["plan", "t"]);
    assert!(shown.contains(&format!(" asks you: the plan ({id})")), "{shown}");
}

#[test]
fn the_server_that_flags_name_is_asked_and_no_flag_is_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let served = serve(folder.path(), &[]);
    let (_, port) = served.url.rsplit_once(':').unwrap();
    let pes = |arguments: &[&str], variables: &[(&str, &str)]| {
        let output = run(folder.path(), arguments, variables);
        (output.status.code().unwrap(), text(&output.stderr))
    };
    for asks in [&["threads"][..], &["health"], &["health", "--port", "0"], &["keys", "ls", "--port", "0"]] {
        let (code, said) = pes(asks, &[]);
        assert_eq!(code, 0, "{asks:?} finds the one that holds the folder: {said}");
    }
    let nobody =
        "pes: No server uses the folder gone. Start one with `pes serve --data-dir gone`, or leave --data-dir out.\n";
    assert_eq!(pes(&["health", "--data-dir", "gone"], &[("PORT", port)]), (1, nobody.to_owned()));
    for asks in [&["threads", "--port", "1"][..], &["run", "hi", "--port", "1"], &["keys", "ls", "--port", "1"]] {
        let (code, said) = pes(asks, &[]);
        assert_eq!((code, said.contains("127.0.0.1:1")), (9, true), "{asks:?}: {said}");
    }
    let elsewhere = [("PES_URL", "http://127.0.0.1:1")];
    let on_port = [&["threads", "--port", port][..], &["health", "--port", port]];
    for asks in on_port.into_iter().chain([&["threads", "--data-dir", "data"][..], &["health", "--data-dir", "data"]]) {
        let (code, said) = pes(asks, &elsewhere);
        assert_eq!(code, 0, "{asks:?}: {said}");
    }
    let (model, both) = (["--model", "demo:demo-scripted"], ["--port", port, "--data-dir", "gone"]);
    for asks in [&["threads"][..], &["run", "hi"], &["keys", "ls"], &["health"]] {
        for flags in [&model[..], &both, &["--url", served.url.as_str(), "--port", "1"]] {
            let (code, said) = pes(&[asks, flags].concat(), &[]);
            assert_eq!((code, said.contains("leave ")), (2, true), "{asks:?} {flags:?}: {said}");
        }
    }
    assert_eq!(pes(&["threads"], &[]).1, "No threads. Try: pes run \"…\"\n", "nothing was asked");
}

#[test]
fn a_command_without_a_server_refuses_the_flags_of_one() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |arguments: &[&str], variables: &[(&str, &str)], expected: &str| {
        let output = run(folder.path(), arguments, variables);
        let said = text(&output.stderr);
        assert_eq!((output.status.code(), said.contains(expected)), (Some(2), true), "{arguments:?}: {said}");
    };
    let opens = [&["verify"][..], &["backup", "f"], &["restore", "f"], &["reseal"]];
    let others = [&["doctor"][..], &["config"], &["version"], &["completions", "bash"], &["serve"], &[]];
    for command in opens.into_iter().chain(others) {
        let expected = "--url names a server to ask, and this command asks none: leave it out.";
        refused(&[command, &["--url", "http://127.0.0.1:1"]].concat(), &[], expected);
    }
    for command in opens.into_iter().chain([&["version"][..], &["config", "--template"]]) {
        for flag in [["--port", "1"], ["--host", "::1"], ["--model", "demo:demo-scripted"]] {
            let expected = format!("{} says nothing to this command: leave it out.", flag[0]);
            refused(&[command, &flag].concat(), &[], &expected);
        }
    }
    let database = [("DATABASE_URL", "postgres://127.0.0.1:1/pes")];
    for command in opens.into_iter().chain([&["keys", "ls"][..], &["doctor"], &["serve"], &[]]) {
        refused(&[command, &["--data-dir", "d"]].concat(), &database, "another database: leave one out.");
    }
    // The file says which server is asked, also where the variable names another.
    let elsewhere = [("PES_URL", "http://127.0.0.1:1")];
    refused(&["threads", "--config", "gone.toml"], &elsewhere, "gone.toml cannot be read");
    refused(&["threads", "--config", "gone.toml", "--url", "http://127.0.0.1:1"], &[], "leave one out");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn what_would_be_ignored_is_refused() {
    let stage = Stage::new();
    for flags in [&["--json"][..], &["--no-input"], &["--timeout", "5m"]] {
        stage.refused(&[&["run", DINNER, "-d"], flags].concat(), 2, "--help");
    }
    stage.refused(
        &["schedules", "--json", "pause", "nightly"],
        2,
        "--json is for the list of schedules: leave it out.",
    );
    stage.refused(&["tenants", "--json", "reopen", "t"], 2, "--json is for the list of tenants: leave it out.");
    for command in ["revoke", "rotate"] {
        stage.refused(&["keys", command, "../threads/t"], 2, "--help");
    }
    assert_eq!(stage.said(&["threads"]), "");
}

/// `wss` would be sent without TLS.
#[test]
fn no_key_goes_to_what_is_no_address_of_http() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    for url in [format!("wss://{address}"), format!("htps://{address}"), format!("localhost:{}", address.port())] {
        for asks in [&["threads"][..], &["keys", "ls"], &["health"]] {
            let output = run(folder.path(), asks, &[("PES_URL", &url), ("PES_TOKEN", "pes_0123456789abcdef0123")]);
            let said = text(&output.stderr);
            assert_eq!((output.status.code(), said.contains("as in http://localhost:7070")), (Some(2), true), "{said}");
        }
    }
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
}

#[test]
fn what_asks_nothing_makes_no_thread() {
    let stage = Stage::new();
    // Nobody types anything here.
    for arguments in [["run", ""], ["run", " "], ["run", "-"]] {
        stage.refused(&arguments, 2, "the query is empty");
    }
    stage.said(&["chat"]);
    assert_eq!(stage.said(&["threads"]), "");
}

#[test]
fn what_is_not_text_is_no_query_and_no_list_of_threads() {
    let stage = Stage::new();
    for asks in ["run", "cancel"] {
        let output = stage.fed(&[asks, "-"], b"d\xe9p\xf4t");
        let said = (output.status.code(), text(&output.stderr));
        assert_eq!(said, (Some(2), "pes: What is on stdin is not UTF-8.\n".to_owned()), "{asks}");
    }
    let talk = stage.fed(&["chat"], b"d\xe9p\xf4t\nAnd then?\n");
    let said = text(&talk.stderr);
    assert!(talk.status.code() == Some(2) && said.ends_with("pes: What is on stdin is not UTF-8.\n"), "{said}");
    assert_eq!(stage.said(&["threads"]), "");
}

#[test]
fn sums_are_called_by_their_group() {
    let stage = Stage::new();
    stage.said(&["run", DINNER, "--thread", "t"]);
    assert!(stage.said(&["usage", "--by", "tenant"]).starts_with("default  "));
    let both = stage.said(&["usage", "--by", "run,model"]);
    assert!(both.starts_with("run_") && both.contains(" demo:demo-scripted "), "{both}");
    stage.refused(&["usage", "--by", "hour"], 2, "--help");
}

#[test]
fn where_no_thread_stands_so_there_may_be_others() {
    let stage = Stage::new();
    stage.said(&["run", DINNER, "--thread", "t"]);
    stage.refused(&["threads", "--status", "suspnded"], 2, "--help");
    let none = stage.pes(&["threads", "--status", "suspended"]);
    assert_eq!((none.status.code(), text(&none.stderr)), (Some(0), "None is suspended.\n".to_owned()));
}

#[test]
fn threads_are_found_by_a_part_of_their_title_and_a_partial_answer_is_told_apart() {
    let stage = Stage::new();
    stage.said(&["run", DINNER, "--thread", "dinner"]);
    stage.refused(&["run", MAIL, "--thread", "mail", "--no-input"], 4, "waits for a person");
    let id = first_word(&stage.said(&["questions"]));
    stage.said(&["reject", &id, "--reason", "Not today."]);
    stage.refused(&["watch", "mail"], 3, "Try: pes plan mail");
    for (search, found) in [("team d", "dinner  idle "), ("invitation", "mail  partial "), ("MAIL", "mail  partial ")] {
        let listed = stage.said(&["threads", "--search", search]);
        assert!(listed.starts_with(found) && listed.lines().count() == 1, "{search}: {listed}");
    }
    let none = stage.pes(&["threads", "--search", "a&b"]);
    assert_eq!((none.status.code(), text(&none.stderr)), (Some(0), "None has `a&b` in its title or id.\n".to_owned()));
}

#[test]
fn a_copy_and_a_cancel_are_answered_as_json() {
    let stage = Stage::new();
    stage.refused(&["run", MAIL, "--thread", "m", "--no-input"], 4, "waits for a person");
    let said = |arguments: &[&str]| -> Value { serde_json::from_str(&stage.said(arguments)).unwrap() };
    stage.said(&["run", DINNER, "--thread", "d"]);
    let copy = said(&["fork", "d", "--json"])["threadId"].as_str().unwrap().to_owned();
    assert_eq!(http(stage.url(), &format!("/threads/{copy}"))["threadId"], copy);
    let run = http(stage.url(), "/threads/m")["lastRun"]["runId"].clone();
    assert_eq!(said(&["cancel", "m", "--json"]), json!({ "threadId": "m", "runIds": [run] }));
    stage.refused(&["watch", "m"], 5, "The run was cancelled.");
    assert_eq!(said(&["cancel", "m", "--json"]), json!({ "threadId": "m", "runIds": [] }));
}

#[test]
fn no_editor_is_started_in_a_pipe() {
    let stage = Stage::new();
    stage.refused(&["run", DINNER, "--thread", "t", "--review", "--no-input"], 4, "waits");
    stage.refused(&["plan", "t", "edit"], 2, "There is no terminal for `vi`: set EDITOR to a program");
}

#[test]
fn what_was_never_told_is_not_played() {
    let stage = Stage::new();
    stage.said(&["run", DINNER, "--thread", "t"]);
    let last = http(stage.url(), "/threads/t")["lastSeq"].as_i64().unwrap();
    let (whole, then) = (stage.said(&["replay", "t"]), stage.said(&["replay", "t", "--at", &last.to_string()]));
    assert_eq!(whole, then);
    let beyond = (last + 1).to_string();
    for command in ["replay", "fork"] {
        stage.refused(&[command, "t", "--at", &beyond], 2, &format!("The last observation is {last}."));
    }
}

#[test]
fn a_thread_goes_through_a_pipe() {
    let stage = Stage::new();
    stage.said(&["run", DINNER, "--thread", "t"]);
    let written = stage.said(&["export", "t"]);
    let made = stage.fed(&["import", "-", "--as", "copy"], written.as_bytes());
    assert_eq!((made.status.code(), text(&made.stdout)), (Some(0), "copy\n".to_owned()), "{}", text(&made.stderr));
    assert!(stage.said(&["plan", "copy"]).contains("4/4"));
    let nothing = stage.fed(&["import", "-"], b"");
    assert_eq!(nothing.status.code(), Some(2), "{}", text(&nothing.stderr));
}

#[test]
fn what_operators_ask_is_told_as_json() {
    let stage = Stage::new();
    let json = |arguments: &[&str]| serde_json::from_str::<Value>(&stage.said(arguments)).unwrap();
    assert_eq!(json(&["keys", "ls", "--json"]), json!({ "items": [] }));
    assert_eq!(text(&stage.pes(&["keys", "ls"]).stderr), "No keys are stored. Try: pes keys new\n");
    let folder = tempfile::tempdir().unwrap();
    let output = run(folder.path(), &["doctor", "--json"], &[]);
    let doctor: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &doctor["ok"]), (Some(0), &json!(true)), "{doctor}");
    let wrong = [("PES_AGENT_CORE", "nope")];
    let output = run(folder.path(), &["doctor", "--json"], &wrong);
    let doctor: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &doctor["ok"]), (Some(1), &json!(false)), "{doctor}");
    let checks = doctor["checks"].as_array().unwrap();
    let settings = checks.iter().find(|check| check["check"] == "settings").unwrap();
    let why = settings["detail"].as_str().unwrap();
    assert!(settings["ok"] == false && why.starts_with("There is no agent core `nope`"), "{settings}");
}

#[test]
fn what_a_restore_holds_back_is_told_and_a_schedule_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let said = |arguments: &[&str]| {
        let output = run(folder.path(), arguments, &[]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let served = serve(folder.path(), &[]);
    let hourly = json!({ "id": "hourly", "everyMs": 3_600_000, "query": "What is 1 + 1?" });
    exchange(&served.url, "POST /schedules", &hourly.to_string());
    let asks = run(folder.path(), &["run", MAIL, "--thread", "m", "--no-input"], &[]);
    assert_eq!(asks.status.code(), Some(4), "{}", text(&asks.stderr));
    assert_eq!(served.stop().0, Some(0));
    said(&["restore", "--adopt"]);
    let _served = serve(folder.path(), &[]);
    let open = said(&["questions"]);
    let pause = open.lines().find(|line| line.contains("  the pause  ")).unwrap_or_else(|| panic!("{open}"));
    assert!(
        pause.contains("  restored: this is as of ") && pause.ends_with(", and may be done again. Go on?"),
        "{pause}"
    );
    let held = said(&["schedules"]);
    assert!(held.contains("  halted  every 1h ") && held.contains("held back: restored from a backup"), "{held}");
    assert_eq!(said(&["schedules", "resume", "hourly"]), "hourly goes on\n");
    let resumed = said(&["schedules"]);
    assert!(resumed.contains("  active  every 1h ") && resumed.contains("What is 1 + 1?"), "{resumed}");
}

#[test]
fn what_answers_and_is_no_pes_is_told_apart_from_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let said = |arguments: &[&str], port: u16| {
        let port = port.to_string();
        let output = run(folder.path(), &[arguments, &["--port", &port]].concat(), &[]);
        (output.status.code(), text(&output.stderr))
    };
    for asks in [&["run", "x"][..], &["threads"]] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let other = answer_once(listener, "HTTP/1.0 404 File not found\r\n\r\nno such file".to_owned());
        let expected = format!("pes: http://127.0.0.1:{port}: status 404, and not the error of a pes server\n");
        assert_eq!(said(asks, port), (Some(1), expected), "{asks:?}");
        other.join().unwrap();
        let (code, nobody) = said(asks, port);
        let told = nobody.starts_with(&format!("pes: No answer from http://127.0.0.1:{port}: cannot reach "));
        assert_eq!((code, told), (Some(9), true), "{asks:?}: {nobody}");
    }
}

/// The query itself makes a new thread.
#[test]
fn a_query_that_is_refused_leaves_no_thread() {
    let folder = tempfile::tempdir().unwrap();
    let served = serve(folder.path(), &[("PES_LIMITS_SPEND_TENANT_DAY_TOKENS", "1")]);
    let here = [("PES_URL", served.url.as_str())];
    let refused = run(folder.path(), &["run", "hello"], &here);
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("No run is accepted: the cap of 1 tokens a day of the tenant is less than "), "{said}");
    assert_eq!(http(&served.url, "/threads")["items"], json!([]));
}
