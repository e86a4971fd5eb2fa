use serde_json::{Value, json};

use super::compatible::{DIALECTS, Dialect, Reasoning};
use super::wire::Wire;
use super::{ChatCompletions, request};
use crate::domain::model::{Delta, FailureKind, ModelFailure, ModelRequest, StopReason};
use crate::domain::prompt::PromptMessage;
use crate::provider::client::Protocol;
use crate::provider::wire::Framing;
use crate::provider::wire::tests::{asked, cut_everywhere, passed_on, planned, read, replay_everywhere, reply};

/// The name of a cassette says what its dialect replays.
fn wire(case: &str) -> Wire {
    match case {
        "deepseek_tools" => Wire::new(Reasoning::Content, "deepseek-chat"),
        "openrouter_details" => Wire::new(Reasoning::Details, "some/model"),
        _ => Wire::default(),
    }
}

fn body(dialect: &Dialect, request: &ModelRequest) -> Value {
    serde_json::from_slice(&request::body(dialect, request)).unwrap()
}

fn heard<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Delta>, Result<(), ModelFailure>) {
    read(Framing::Events, Wire::default(), pieces)
}

#[test]
fn the_request_is_what_each_dialect_understands() {
    for dialect in DIALECTS {
        let mut step = asked("some-model");
        step.params.retain(|name, _| !dialect.refuses.contains(&name.as_str()));
        let bodies = [body(dialect, &step), body(dialect, &planned("some-model"))];
        insta::assert_json_snapshot!(dialect.name, bodies);
    }
}

fn dialect(name: &str) -> &'static Dialect {
    DIALECTS.iter().find(|known| known.name == name).unwrap()
}

/// The rules of Mistral and of local templates: no user message right after a result; and apart from calls and results,
/// user and assistant alternate.
fn is_in_turns(messages: &[Value]) -> bool {
    let said: Vec<&Value> = messages.iter().skip_while(|said| said["role"] == "system").collect();
    let is_apart = said.windows(2).all(|pair| pair[0]["role"] != "tool" || pair[1]["role"] != "user");
    let spoken = said.iter().filter(|said| said["role"] != "tool" && said.get("tool_calls").is_none());
    is_apart && spoken.enumerate().all(|(at, said)| said["role"] == if at % 2 == 0 { "user" } else { "assistant" })
}

#[test]
fn those_who_take_turns_only_are_given_turns_and_every_word() {
    let user = |text: &str| PromptMessage::User { content: text.into() };
    let mut step = asked("some-model");
    step.messages.insert(1, user("What was said before"));
    step.messages.extend([user("One call is left."), user("Answer now.")]);
    for name in ["mistral", "any", "vllm", "lmstudio", "llamacpp", "ollama-v1"] {
        for request in [&step, &planned("some-model")] {
            let sent = body(dialect(name), request);
            let messages = sent["messages"].as_array().unwrap();
            assert!(is_in_turns(messages), "{name}: {messages:#?}");
        }
        let messages = body(dialect(name), &step)["messages"].clone();
        assert_eq!(messages[1]["content"], "What was said before\n\nCompute a tip of 12% of the bill");
        let [.., result, _, last] = messages.as_array().unwrap().as_slice() else { panic!("{messages}") };
        assert_eq!((&result["role"], &result["content"]), (&json!("tool"), &json!("error: not JSON")));
        assert_eq!((&last["role"], &last["content"]), (&json!("user"), &json!("One call is left.\n\nAnswer now.")));
    }
    assert_eq!(body(dialect("openai"), &step)["messages"].as_array().map(Vec::len), Some(8), "as it is");
}

#[test]
fn older_families_are_asked_for_a_form_in_words_alone() {
    let table = [
        ("gpt-4o", true),
        ("gpt-4o-mini-2024-07-18", true),
        ("gpt-4.1", true),
        ("gpt-5", true),
        ("o1", true),
        ("ft:gpt-4o-mini-2024-07-18:us::a", true),
        ("gpt-4", false),
        ("gpt-4-0613", false),
        ("gpt-4-turbo", false),
        ("gpt-4o-2024-05-13", false),
        ("gpt-3.5-turbo", false),
        ("ft:gpt-3.5-turbo-0125:us::a", false),
        ("o1-mini", false),
    ];
    for (model, is_taken) in table {
        let sent = body(dialect("openai"), &planned(model));
        assert_eq!(sent.get("response_format").is_some(), is_taken, "{model}");
    }
    let routed = body(dialect("openrouter"), &planned("openai/gpt-4-turbo"));
    assert_eq!(routed.get("response_format"), None);
}

/// Only for OpenAI's own endpoint: others offer models of the same names with other rules.
#[test]
fn parameters_that_a_family_refuses_are_not_admitted() {
    let refused = |dialect: &Dialect, model: &str, params: &Value| {
        let fault = ChatCompletions(*dialect).admit(model, params.as_object().unwrap()).err()?;
        Some(fault.errors[0].pointer.replace("/options/llmParams/", ""))
    };
    let (cold, low) = (json!({"temperature": 0.2}), json!({"reasoningEffort": "low"}));
    let stop = json!({"stop": "END"});
    let cold_without = json!({"temperature": 0.2, "reasoningEffort": "none"});
    let cold_with = json!({"temperature": 0.2, "reasoningEffort": "low"});
    let table = [
        ("gpt-5", &cold, Some("temperature")),
        ("gpt-5-mini-2025-08-07", &cold, Some("temperature")),
        ("o1", &cold, Some("temperature")),
        ("o3-pro", &json!({"topP": 0.5}), Some("topP")),
        ("o4-mini", &stop, Some("stop")),
        ("o3", &stop, Some("stop")),
        ("o3-mini", &stop, None),
        ("o3-mini-2025-01-31", &stop, None),
        ("o1", &stop, None),
        ("o1", &json!({"stop": "END", "topP": 0.5}), Some("topP")),
        ("gpt-5", &stop, Some("stop")),
        ("ft:o4-mini-2025-04-16:us::a", &json!({"presencePenalty": 1}), Some("presencePenalty")),
        ("gpt-5", &json!({"frequencyPenalty": 1}), Some("frequencyPenalty")),
        ("gpt-5", &json!({"temperature": 1, "maxTokens": 9, "seed": 1, "reasoningEffort": "low"}), None),
        ("gpt-5.1", &cold, None),
        ("gpt-5.1", &cold_without, None),
        ("gpt-5.1", &cold_with, Some("temperature")),
        ("gpt-5-chat-latest", &cold, None),
        ("gpt-5-chat-latest", &low, Some("reasoningEffort")),
        ("gpt-4.1-mini", &low, Some("reasoningEffort")),
        ("gpt-4o", &cold, None),
        ("o10", &cold, None),
        ("nobody-knows", &cold_with, None),
    ];
    for (model, params, expected) in table {
        assert_eq!(refused(dialect("openai"), model, params).as_deref(), expected, "{model} {params}");
        assert_eq!(refused(dialect("any"), model, params), None, "{model} {params}");
    }
}

/// A schema without members cannot be enforced, and would be rejected.
#[test]
fn any_object_is_asked_for_as_that() {
    let any = ModelRequest { response_schema: Some(json!({ "type": "object" }).into()), ..planned("gpt-5") };
    let sent = body(dialect("openai"), &any);
    assert_eq!(sent["response_format"], json!({ "type": "json_object" }));
}

#[test]
fn every_cassette_gives_its_reply_wherever_it_is_split() {
    replay_everywhere("openai", Framing::Events, 16, wire);
}

#[test]
fn a_reply_that_was_cut_is_never_taken_for_a_shorter_one() {
    cut_everywhere("openai", Framing::Events, wire);
}

#[test]
fn reasoning_comes_back_to_whom_it_came_from() {
    let sent = |name: &str, model: &str, replay: Value| {
        let mut request = asked(model);
        for message in &mut request.messages {
            if let PromptMessage::Assistant { replay: kept, .. } = message {
                *kept = Some(replay.clone());
            }
        }
        body(dialect(name), &request)["messages"][2].clone()
    };
    let kept = |blocks: Value| json!({"wire": "openai", "model": "m", "blocks": blocks});
    assert_eq!(sent("deepseek", "m", kept(json!("hm")))["reasoning_content"], "hm");
    assert_eq!(sent("openrouter", "m", kept(json!([{"data": "x"}])))["reasoning_details"][0]["data"], "x");
    let message = sent("groq", "m", kept(json!("hm")));
    assert_eq!((message.get("reasoning_content"), message.get("reasoning_details")), (None, None));
    let of_other = sent("deepseek", "other", kept(json!("hm")));
    assert_eq!(of_other["reasoning_content"], "", "of another model, for which there is none");
}

#[test]
fn only_a_reply_with_calls_needs_its_reasoning() {
    let mut request = asked("m");
    let said = PromptMessage::Assistant { content: "Hi.".into(), tool_calls: Vec::new(), replay: None };
    request.messages.insert(1, said);
    let messages = body(dialect("deepseek"), &request)["messages"].clone();
    assert_eq!((messages[1].get("reasoning_content"), &messages[3]["reasoning_content"]), (None, &json!("")));
}

#[test]
fn short_ids_are_the_same_for_call_and_result() {
    let mistral = DIALECTS.iter().find(|dialect| dialect.has_short_ids).unwrap();
    let messages = body(mistral, &asked("m"))["messages"].clone();
    for place in 0..2 {
        let (call, result) = (&messages[2]["tool_calls"][place]["id"], &messages[3 + place]["tool_call_id"]);
        assert_eq!((call, call.as_str().map(str::len)), (result, Some(9)));
    }
}

#[test]
fn what_is_not_the_protocol_is_broken_and_errors_are_classified() {
    let table = [
        ("data: {\"choices\": 7}\n\n", FailureKind::Broken),
        ("data: <html>\n\n", FailureKind::Broken),
        ("data: {\"error\": {\"message\": \"slow\", \"code\": 429}}\n\n", FailureKind::Retry),
        ("data: {\"object\": \"error\", \"message\": \"too long\", \"code\": 400}\n\n", FailureKind::Refused),
        ("data: {\"choices\": [{\"delta\": {\"content\": \"a\"}}]}\n\ndata: [DONE]\n\n", FailureKind::Incomplete),
        ("<html>not a stream</html>", FailureKind::Incomplete),
        ("", FailureKind::Incomplete),
    ];
    for (text, kind) in table {
        assert_eq!(heard([text.as_bytes()]).1.unwrap_err().kind, kind, "{text}");
    }
}

#[test]
fn what_a_vendor_says_before_it_breaks_off_is_told() {
    let stream = "data: {\"choices\": [{\"delta\": {\"content\": \"a\"}}]}\n\nevent: error\ndata: {\"message\": \"no room\"}\n\n";
    let failure = heard([stream.as_bytes()]).1.unwrap_err();
    let told = "the reply ended without saying why it stopped; it said: no room";
    assert_eq!((failure.kind, failure.message.as_str()), (FailureKind::Incomplete, told));
}

/// The calls that these fragments form: index, id, name and arguments of each.
fn called(pieces: &[(Option<u64>, &str, &str, &str)]) -> Value {
    let event = |(index, id, name, arguments): &(Option<u64>, &str, &str, &str)| {
        let call = json!({"index": index, "id": id, "function": {"name": name, "arguments": arguments}});
        format!("data: {}\n\n", json!({"choices": [{"delta": {"tool_calls": [call]}}]}))
    };
    let pieces: String = pieces.iter().map(event).collect();
    reply(heard([pieces.as_bytes()]).0)["calls"].clone()
}

#[test]
fn whole_calls_under_one_index_are_calls_of_their_own() {
    let (one, two) = (r#"{"x":"}"}"#, r#"{"x":2}"#);
    for id in ["", "c"] {
        let calls = json!([[id, "a", one], [id, "b", two], [id, "b", "{}"]]);
        for index in [Some(0), None] {
            let pieces = [(index, id, "a", one), (index, id, "b", two), (index, id, "b", "{}")];
            assert_eq!(called(&pieces), calls, "{index:?} {id}");
        }
    }
    let begun_in_pieces = [(Some(0), "", "a", r#"{"x":"#), (Some(0), "", "", "1}"), (Some(0), "", "b", "{}")];
    assert_eq!(called(&begun_in_pieces), json!([["", "a", r#"{"x":1}"#], ["", "b", "{}"]]));
    let without_arguments = [(Some(0), "", "a", "{}"), (Some(0), "", "b", "")];
    assert_eq!(called(&without_arguments), json!([["", "a", "{}"], ["", "b", ""]]));
}

#[test]
fn a_name_with_every_piece_and_a_call_said_again_make_no_further_call() {
    let pieces = [(Some(0), "c", "a", r#"{"x":[{"#), (Some(0), "c", "a", r#"}]}"#), (Some(0), "c", "a", "")];
    let said = called(&pieces);
    assert_eq!((said.as_array().map(Vec::len), &said[0][2]), (Some(1), &json!(r#"{"x":[{}]}"#)));
    let again = [(Some(0), "c", "a", r#"{"x":1}"#), (Some(0), "c", "a", r#"{"x":1}"#)];
    assert_eq!(called(&again), json!([["c", "a", r#"{"x":1}"#]]), "the same call, told whole a second time");
}

#[test]
fn the_number_of_calls_is_bounded_and_other_choices_are_ignored() {
    let call = |index: u64| {
        let call = json!({"index": index, "id": format!("c{index}"), "function": {"name": "f", "arguments": "{}"}});
        format!("data: {}\n\n", json!({"choices": [{"delta": {"tool_calls": [call]}}]}))
    };
    let many: String = (0..300).map(call).collect();
    assert_eq!(heard([many.as_bytes()]).1.unwrap_err().kind, FailureKind::Broken);

    let other = json!({"choices": [{"index": 1, "delta": {"content": "other"}, "finish_reason": "stop"}]});
    let mine = json!({"choices": [{"index": 0, "delta": {"content": "mine"}, "finish_reason": "weird"}]});
    let (deltas, _) = heard([format!("data: {other}\n\ndata: {mine}\n\n").as_bytes()]);
    assert_eq!(deltas, [Delta::Text("mine".into()), Delta::Stop(StopReason::Other("weird".into()))]);
}

/// What arrived before is no reply, but what it took is counted.
#[test]
fn a_reply_that_the_vendor_broke_off_is_not_whole() {
    let ended = |reason: &str| {
        let said = json!({"choices": [{"delta": {"content": "half"}, "finish_reason": reason}],
            "usage": {"prompt_tokens": 12, "completion_tokens": 3}});
        heard([format!("data: {said}\n\ndata: [DONE]\n\n").as_bytes()])
    };
    for reason in ["error", "abort", "insufficient_system_resource"] {
        let (deltas, ended) = ended(reason);
        let failure = ended.unwrap_err();
        assert_eq!(
            (failure.kind, failure.message),
            (FailureKind::Incomplete, format!("the reply broke off: {reason}"))
        );
        let [Delta::Text(_), Delta::Usage(usage)] = &deltas[..] else { panic!("{reason}: {deltas:?}") };
        assert_eq!((usage.input_tokens, usage.output_tokens), (12, 3), "{reason}");
    }
    for reason in ["length", "max_tokens", "model_length"] {
        let (deltas, ended) = ended(reason);
        assert_eq!((deltas.last(), ended), (Some(&Delta::Stop(StopReason::MaxTokens)), Ok(())), "{reason}");
    }
}

/// Grok counts thinking separately from output, and the total includes both.
#[test]
fn what_is_thought_is_among_the_output_however_it_is_counted() {
    let usage = |written: u64, total: u64| {
        let details = json!({ "reasoning_tokens": 386 });
        let usage = json!({
            "prompt_tokens": 12, "completion_tokens": written, "total_tokens": total, "completion_tokens_details": details,
        });
        let said = json!({ "choices": [{ "index": 0, "delta": { "content": "4" }, "finish_reason": "stop" }], "usage": usage });
        let stream = format!("data: {said}\n\ndata: [DONE]\n\n");
        let (deltas, _) = heard([stream.as_bytes()]);
        let Some(Delta::Usage(used)) = deltas.iter().find(|delta| matches!(delta, Delta::Usage(_))) else { panic!() };
        (used.output_tokens, used.thinking_tokens)
    };
    assert_eq!(usage(1, 399), (387, 386), "beside");
    assert_eq!(usage(387, 399), (387, 386), "within");
}

#[test]
fn a_server_that_does_not_stream_is_understood() {
    let call = json!({"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}});
    let message = json!({"role": "assistant", "content": "<think>t</think>hi", "tool_calls": [call]});
    let whole = json!({"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}).to_string();
    let (deltas, ended) = read(Framing::Whole, Wire::default(), whole.as_bytes().chunks(7));
    assert_eq!(ended, Ok(()));
    let said = reply(deltas);
    assert_eq!(
        (&said["text"], &said["thinking"], &said["calls"]),
        (&json!("hi"), &json!("t"), &json!([["c", "f", "{}"]]))
    );
}

#[test]
fn a_message_after_or_beside_its_pieces_is_not_said_twice() {
    let piece = json!({"choices": [{"delta": {"content": "hi"}}]});
    let whole =
        |delta: Value| json!({"choices": [{"message": {"content": "hi"}, "delta": delta, "finish_reason": "stop"}]});
    for last in [whole(Value::Null), whole(json!({})), whole(json!({"content": ""}))] {
        let (deltas, ended) = heard([format!("data: {piece}\n\ndata: {last}\n\n").as_bytes()]);
        assert_eq!((reply(deltas)["text"].clone(), ended), (json!("hi"), Ok(())), "{last}");
    }
}

#[test]
fn a_megabyte_of_arguments_in_tiny_pieces_costs_linear_time() {
    for name in [Value::Null, json!("f")] {
        let function = json!({"name": name, "arguments": "{123456789"});
        let piece = json!({"choices": [{"delta": {"tool_calls": [{"index": 0, "function": function}]}}]});
        let piece = format!("data: {piece}\n\n");
        let passed = passed_on(Framing::Events, Wire::default(), "", &piece, 100_000);
        assert_eq!(passed, (100_000, 1_000_000), "each piece is passed on alone, nothing is repeated");
    }
}

fn text(deltas: &[Delta]) -> String {
    let texts =
        deltas.iter().filter_map(|delta| if let Delta::Text(text) = delta { Some(text.as_str()) } else { None });
    texts.collect()
}

/// As servers send it that cut texts by UTF-16 units.
#[test]
fn a_character_whose_halves_come_in_two_chunks_is_whole_and_a_lone_half_breaks_nothing() {
    let chunks = [
        r#"{"choices": [{"delta": {"content": "a\ud83d"}}]}"#,
        r#"{"choices": [{"delta": {"content": "\ude00b \\ud83d \ud83d, \ud83d\ude00 \ude00\ud83d"}}]}"#,
        r#"{"choices": [{"delta": {"content": "c"}, "finish_reason": "stop"}]}"#,
        r#"{"choices": [{"delta": {"content": "\ude00"}}]}"#,
        "[DONE]",
    ];
    let stream: String = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
    let (deltas, ended) = heard([stream.as_bytes()]);
    let whole = "a\u{1f600}b \\ud83d \u{fffd}, \u{1f600} \u{fffd}c\u{fffd}";
    assert_eq!((text(&deltas).as_str(), ended), (whole, Ok(())));
}

#[test]
fn usage_figures_that_are_no_counts_cost_no_reply() {
    let used = |usage: Value| {
        let said = json!({"choices": [{"delta": {"content": "whole"}, "finish_reason": "stop"}], "usage": usage});
        let (deltas, ended) = heard([format!("data: {said}\n\ndata: [DONE]\n\n").as_bytes()]);
        assert_eq!((text(&deltas).as_str(), ended), ("whole", Ok(())));
        deltas.into_iter().find_map(|delta| if let Delta::Usage(usage) = delta { Some(usage) } else { None })
    };
    for (figure, read) in [(json!(12), 12), (json!(1.5), 2), (json!(-1), 0), (json!("many"), 0), (json!(null), 0)] {
        let usage = used(json!({ "prompt_tokens": figure, "completion_tokens": 3 })).unwrap();
        assert_eq!((usage.input_tokens, usage.output_tokens), (read, 3), "{figure}");
    }
    assert_eq!(used(json!("none")), None);
}
