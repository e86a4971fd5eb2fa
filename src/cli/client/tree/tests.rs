use serde_json::{Value, json};

use super::{Canvas, draw};
use crate::cli::client::events::ObservationFrame;
use crate::cli::client::plain;
use crate::cli::client::plan_view::PlanView;
use crate::cli::client::terminal::{Size, Style};

const PLAIN: Style = Style { unicode: true, colour: false };

fn frame(seq: i64, kind: &str, content: Value) -> ObservationFrame {
    let (thread_id, kind) = ("t".into(), kind.to_owned());
    ObservationFrame { seq, thread_id, parent_id: None, timestamp: 0, kind, content, metadata: None }
}

fn take(view: &mut PlanView, item: Option<&str>, kind: &str, content: Value) {
    let told = frame(view.seq + 1, kind, content);
    view.take(&ObservationFrame { parent_id: item.map(Into::into), ..told });
}

/// A plan whose items are named `a0`, `a1` and so on, each with the status at its index.
fn plan(statuses: &[(usize, &str)]) -> PlanView {
    let statuses = statuses.iter().flat_map(|(number, status)| std::iter::repeat_n(*status, *number));
    let item = |(at, status): (usize, &str)| {
        json!({
            "id": format!("a{at}"), "description": "It", "status": status, "createdTimestamp": 0, "updatedTimestamp": 0
        })
    };
    let items: Vec<Value> = statuses.enumerate().map(item).collect();
    let mut view = PlanView::default();
    let content = json!({ "planVersion": 1, "plan": "", "rawOutput": "", "todoList": items });
    take(&mut view, None, "PLAN", content);
    assert_eq!(view.items.len(), items.len(), "the plan was read");
    view
}

fn asks(view: &mut PlanView, item: &str) {
    let asked = json!({
        "suspensionId": format!("sus_{item}"), "kind": "approval", "message": "May it?", "toolName": "send",
        "feedbackSchema": { "inputType": "confirm", "prompt": "May it?" }
    });
    take(view, Some(item), "AGENT_SUSPENDED", asked);
}

fn drawn(view: &PlanView, rows: usize) -> Vec<String> {
    let lines = draw(view, "t", Canvas { now: 0, size: Size { columns: 80, rows }, style: PLAIN, turn: 0 });
    assert!(lines.len() < rows.max(1), "{} lines on {rows} rows:\n{}", lines.len(), lines.join("\n"));
    lines
}

fn has(lines: &[String], shape: &str, id: &str) -> bool {
    lines.iter().any(|line| line.starts_with(&format!("  {shape}  {id} ")))
}

#[test]
fn a_plan_that_fits_is_shown_whole() {
    let lines = drawn(&plan(&[(2, "completed"), (1, "in_progress"), (5, "pending")]), 24);
    assert_eq!(lines.len(), 9, "{}", lines.join("\n"));
}

#[test]
fn what_is_over_gives_way_before_what_is_pending() {
    let lines = drawn(&plan(&[(12, "completed"), (1, "in_progress"), (10, "pending")]), 20);
    assert!(lines[1].starts_with("  ✓ ") && lines[1].ends_with(" done"), "{}", lines.join("\n"));
    assert!(has(&lines, "⠋", "a12") && has(&lines, "○", "a22"), "{}", lines.join("\n"));
}

#[test]
fn what_is_pending_gives_way_to_what_runs_or_asks() {
    let mut view = plan(&[(4, "completed"), (20, "pending"), (2, "in_progress"), (20, "pending")]);
    asks(&mut view, "a45");
    for rows in [7, 10, 24] {
        let lines = drawn(&view, rows);
        let text = lines.join("\n");
        assert!(lines.iter().any(|line| line == "  ✓ 4 done"), "{text}");
        assert!(lines.iter().any(|line| line.starts_with("  ○ ") && line.ends_with(" pending")), "{text}");
        assert!(has(&lines, "⠋", "a24") && has(&lines, "⠋", "a25") && has(&lines, "◆", "a45"), "{text}");
        assert_eq!(lines.len(), rows - 1, "no row is left empty:\n{text}");
    }
    assert!(drawn(&view, 7).iter().any(|line| line == "  ○ 39 pending"));
}

#[test]
fn what_asks_gives_way_last() {
    let mut view = plan(&[(5, "completed"), (60, "in_progress"), (5, "pending")]);
    asks(&mut view, "a30");
    let lines = drawn(&view, 12);
    assert!(has(&lines, "◆", "a30"), "{}", lines.join("\n"));
    assert!(lines.iter().any(|line| line.ends_with(" running")), "{}", lines.join("\n"));
}

#[test]
fn however_few_rows_there_are_no_more_lines_are_drawn() {
    let mut view = plan(&[(5, "completed"), (5, "in_progress"), (5, "pending")]);
    asks(&mut view, "a7");
    for rows in 0..20 {
        drawn(&view, rows);
        drawn(&PlanView::default(), rows);
    }
}

#[test]
fn what_the_run_itself_asks_is_told_with_its_id() {
    let review = json!({
        "suspensionId": "sus_1", "kind": "plan_review", "message": "May it?", "expiresAt": 61_000,
        "feedbackSchema": { "inputType": "confirm", "prompt": "May it?" }
    });
    let expected = "  ◆ asks you: the plan (sus_1), 1m 1s left";
    let mut view = PlanView::default();
    take(&mut view, None, "AGENT_SUSPENDED", review.clone());
    assert_eq!(drawn(&view, 24)[1..], [expected]);

    let mut view = plan(&[(5, "completed"), (20, "pending")]);
    take(&mut view, None, "AGENT_SUSPENDED", review);
    asks(&mut view, "a7");
    for rows in [7, 10, 24, 40] {
        let lines = drawn(&view, rows);
        assert_eq!(lines.last().map(String::as_str), Some(expected), "{}", lines.join("\n"));
        assert!(has(&lines, "◆", "a7"), "{}", lines.join("\n"));
    }
}

#[test]
fn a_call_in_doubt_is_not_asked_by_a_rule() {
    let mut view = plan(&[(1, "in_progress")]);
    let asked = json!({
        "suspensionId": "sus_1", "kind": "in_doubt", "message": "It may have had its effect.", "toolName": "send",
        "feedbackSchema": { "inputType": "select", "prompt": "Retry it?" },
        "policy": { "action": "auto", "rule": "default for write tools = auto", "scope": "default" }
    });
    take(&mut view, Some("a0"), "AGENT_SUSPENDED", asked.clone());
    let size = Size { columns: 120, rows: 24 };
    let lines = draw(&view, "t", Canvas { now: 0, size, style: PLAIN, turn: 0 });
    assert!(lines[1].ends_with("asks you: send (in doubt, it may have been made)"), "{}", lines[1]);
    let frame = ObservationFrame { parent_id: Some("a0".into()), ..frame(9, "AGENT_SUSPENDED", asked) };
    let told = plain::line_of(&frame);
    assert_eq!(told.as_deref(), Some("9 a0 asks send: in doubt, it may have been made id=sus_1"));
}

#[test]
fn a_note_that_is_too_long_is_cut_at_its_rule_with_a_mark() {
    let asked = json!({
        "suspensionId": "sus_1", "kind": "approval", "message": "May it?", "toolName": "send", "expiresAt": 10_000,
        "feedbackSchema": { "inputType": "confirm", "prompt": "May it?" },
        "policy": { "action": "ask", "rule": "default for irreversible tools = ask", "scope": "default" }
    });
    let mut view = plan(&[(1, "in_progress")]);
    take(&mut view, Some("a0"), "AGENT_SUSPENDED", asked);
    let note = "asks you: send, 10.0s left (default for irreversible tools";
    assert!(drawn(&view, 24)[1].ends_with(&format!("{note}…")), "{}", drawn(&view, 24)[1]);
    let size = Size { columns: 86, rows: 24 };
    let coloured = Canvas { now: 0, size, style: Style { unicode: true, colour: true }, turn: 0 };
    let whole = draw(&view, "t", coloured);
    assert!(whole[1].ends_with(&format!("{note} = ask)")), "colours take no columns: {}", whole[1]);
}

#[test]
fn a_running_tool_is_named_until_it_returns() {
    let mut view = plan(&[(1, "in_progress")]);
    let calls = json!([
        { "callId": "call_1", "toolName": "find", "arguments": {} }, { "callId": "call_2", "toolName": "pay", "arguments": {} }
    ]);
    take(&mut view, Some("a0"), "TOOL_CALL", json!({ "streamId": "s", "iteration": 1, "toolCalls": calls }));
    assert!(drawn(&view, 24)[1].ends_with("  calls find, pay"), "{}", drawn(&view, 24)[1]);
    let returned = json!({ "callId": "call_1", "toolName": "find", "status": "success", "output": 1, "durationMs": 1 });
    take(&mut view, Some("a0"), "TOOL_EXECUTION", returned);
    assert!(drawn(&view, 24)[1].ends_with("  calls pay"), "{}", drawn(&view, 24)[1]);
    let ended = json!({
        "itemId": "a0", "from": "in_progress", "status": "failed", "attempt": 1,
        "item": { "status": "failed", "updatedTimestamp": 0 }
    });
    take(&mut view, Some("a0"), "ITEM_STATUS_CHANGE", ended);
    assert!(!drawn(&view, 24)[1].contains("calls"), "{}", drawn(&view, 24)[1]);
}

#[test]
fn a_notice_stands_below_the_plan_and_takes_one_of_the_rows() {
    let mut view = plan(&[(12, "completed"), (1, "in_progress"), (10, "pending")]);
    view.notice = Some("The server does not answer: ".to_owned() + &"it is away, ".repeat(9));
    for rows in [7, 20, 40] {
        let lines = drawn(&view, rows);
        let last = "  The server does not answer: it is away, it is away, it is away, it is away, i…";
        assert_eq!(lines.last().map(String::as_str), Some(last), "{}", lines.join("\n"));
        assert!(has(&lines, "⠋", "a12"), "{}", lines.join("\n"));
    }
}

#[test]
fn no_plan_is_awaited_of_a_run_that_ended_without_one() {
    let usage = json!({ "inputTokens": 0, "outputTokens": 0, "thinkingTokens": 0, "cachedInputTokens": 0 });
    let ended = json!({ "status": "completed", "totalDurationMs": 1, "llmCalls": 1, "toolCalls": 0, "usage": usage });
    let message = json!({ "messageId": "m", "threadId": "t", "role": "USER", "content": "hello", "timestamp": 0 });
    let started = json!({ "query": "hello", "message": message, "model": "m", "provider": "p" });
    let awaits = "  The plan appears here as soon as the model has written it.";
    let mut view = PlanView::default();
    for _ in 0..2 {
        take(&mut view, None, "RUN_STARTED", started.clone());
        assert_eq!(drawn(&view, 24)[1..], [awaits]);
        let content = json!({ "planVersion": 0, "plan": "", "rawOutput": "", "todoList": [] });
        take(&mut view, None, "PLAN", content.clone());
        assert_eq!(plain::line_of(&frame(view.seq, "PLAN", content)), None);
        take(&mut view, None, "RUN_FINISHED", ended.clone());
        assert_eq!(drawn(&view, 24)[1..], [""; 0]);
    }
}

#[test]
fn the_time_of_a_run_ends_with_it() {
    let usage = json!({ "inputTokens": 0, "outputTokens": 0, "thinkingTokens": 0, "cachedInputTokens": 0 });
    let ended = json!({ "status": "completed", "totalDurationMs": 1, "llmCalls": 1, "toolCalls": 0, "usage": usage });
    let message = json!({ "messageId": "m", "threadId": "t", "role": "USER", "content": "hello", "timestamp": 0 });
    let started = json!({ "query": "hello", "message": message, "model": "m", "provider": "p" });
    let mut view = PlanView::default();
    let size = Size { columns: 80, rows: 24 };
    let head = |view: &PlanView| draw(view, "t", Canvas { now: 11_000, size, style: PLAIN, turn: 0 }).remove(0);
    view.take(&ObservationFrame { timestamp: 1_000, ..frame(1, "RUN_STARTED", started) });
    assert_eq!(head(&view), "t   p:m   10.0s   0 tok");
    view.take(&ObservationFrame { timestamp: 3_900, ..frame(2, "RUN_FINISHED", ended) });
    assert_eq!(head(&view), "t   p:m   2.9s   0 tok");
}

/// A change of an item's status, with a reason.
fn ends(view: &mut PlanView, item: &str, status: &str, reason: &str) {
    let members = json!({ "status": status, "reason": reason, "updatedTimestamp": 0 });
    let ended = json!({
        "itemId": item, "from": "in_progress", "status": status, "attempt": 1, "reason": reason, "item": members
    });
    take(view, Some(item), "ITEM_STATUS_CHANGE", ended);
}

#[test]
fn an_item_that_failed_says_why_and_is_not_counted_as_done() {
    let mut view = plan(&[(2, "completed"), (2, "in_progress")]);
    ends(&mut view, "a2", "failed", "key_refused: 401");
    ends(&mut view, "a3", "cancelled", "a2 failed");
    let lines = drawn(&view, 24);
    assert_eq!(lines[0], "t      2/4   0 tok");
    assert!(has(&lines, "✗", "a2") && lines[3].ends_with("  key_refused: 401"), "{}", lines[3]);
    assert!(has(&lines, "–", "a3") && lines[4].ends_with("  a2 failed"), "{}", lines[4]);
    let began = json!({
        "itemId": "a2", "from": "failed", "status": "in_progress", "attempt": 2,
        "item": { "status": "in_progress", "updatedTimestamp": 0 }
    });
    take(&mut view, Some("a2"), "ITEM_STATUS_CHANGE", began);
    assert!(view.items[2].reason.is_none(), "it is done again");
}

#[test]
fn the_line_of_what_is_over_tells_how_it_ended() {
    let view = plan(&[(8, "completed"), (2, "failed"), (1, "cancelled"), (4, "pending")]);
    assert_eq!(drawn(&view, 7)[1], "  ✓ 8 done  ✗ 2 failed  – 1 cancelled");
}

#[test]
fn on_a_narrow_terminal_the_title_stays_readable() {
    let started = json!({ "query": "?", "model": "demo-scripted", "provider": "demo", "message": {
        "messageId": "m", "threadId": "t", "role": "USER", "content": "?", "timestamp": 0
    } });
    let mut view = plan(&[(2, "completed"), (2, "pending")]);
    take(&mut view, None, "RUN_STARTED", started);
    view.title = "Slow disks of the archive".to_owned();
    let head = |columns| {
        let canvas = Canvas { now: 61_000, size: Size { columns, rows: 24 }, style: PLAIN, turn: 0 };
        draw(&view, "t", canvas).remove(0)
    };
    assert_eq!(head(80), "t  Slow disks of the archive   demo:demo-scripted   2/4   1m 1s   0 tok");
    assert_eq!(head(40), "t  Slow disks of …   2/4   1m 1s   0 tok");
    assert_eq!(head(30), "t  Slow disks o…   2/4   1m 1s");
}
