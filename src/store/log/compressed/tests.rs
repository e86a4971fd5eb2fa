use proptest::prelude::*;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::*;

/// The entry of a tool call, as most are.
fn entry() -> String {
    let call = |id: &str| json!({ "callId": id, "toolName": "search", "arguments": { "query": "Ærø, ferries" } });
    let policy = json!({ "action": "auto", "rule": "default for read tools = auto", "scope": "default" });
    let told = json!([
        { "type": "LLM_STREAM_METADATA", "id": "obs_01a22d6a-702c-7000-a443-36659c0cb634", "parentId": "find",
          "title": "Model figures", "content": { "streamId": "str_01a22d6a-6f34-7009-b11a-b2611403c920",
          "inputTokens": 442, "outputTokens": 15, "thinkingTokens": 0, "cachedInputTokens": 0, "timeToFirstTokenMs": 311,
          "totalGenerationTimeMs": 936, "stopReason": "tool_use", "provider": "openai", "model": "gpt-5-mini",
          "promptDigest": "88233d35db8e23f75581ddf11c19d5f6" } },
        { "type": "LLM_STREAM_END", "id": "obs_01a22d6a-702c-7001-a270-ce4632f18be6", "parentId": "find",
          "title": "Model answered", "content": { "streamId": "str_01a22d6a-6f34-7009-b11a-b2611403c920", "text": "" } },
        { "type": "TOOL_CALL", "id": "obs_01a22d6a-702c-7003-9bbc-deee9ff7f5b5", "parentId": "find", "title": "Tools called",
          "content": { "streamId": "str_01a22d6a-6f34-7009-b11a-b2611403c920", "iteration": 1, "toolCalls": [call("call_1")] } },
        { "type": "TOOL_EXECUTION", "id": "obs_01a22d6a-702c-7004-a7b7-19fdbdac0b44", "parentId": "find",
          "title": "search ended", "content": { "callId": "call_1", "toolName": "search", "status": "success",
          "output": { "ferries": 3 }, "durationMs": 20 }, "metadata": { "policy": policy } },
        { "type": "LLM_STREAM_START", "id": "obs_01a22d6a-702c-7006-a18a-f65e23bf3f8a", "parentId": "find",
          "title": "Model called", "content": { "streamId": "str_01a22d6a-702c-7005-a795-f2b8a7c4477f", "phase": "execution",
          "provider": "openai", "model": "gpt-5-mini", "attempt": 1, "iteration": 2 } },
    ]);
    let run = "run_01a22d6a-6818-7000-87f6-873dac15652d";
    json!({ "runId": run, "traceId": "", "timestamp": 1_796_058_280_102_i64, "told": told }).to_string()
}

/// What is stored in these forms cannot be read with any other text.
#[test]
fn the_dictionary_does_not_change() {
    let digest: String = Sha256::digest(DICTIONARY).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(
        (PLAIN, PACKED, digest.as_str()),
        (1, 2, "b4b86be0960564e17442a241c552bc05ae5ddd7d1c815b965d8002a7ec65ff82")
    );
}

#[test]
fn an_entry_takes_less_than_three_tenths_of_its_text() {
    let (text, stored) = (entry(), compressed(&entry()).unwrap());
    assert!(stored.len() * 10 < text.len() * 3, "{} of {}", stored.len(), text.len());
    assert_eq!(decompressed(&stored).unwrap(), text);
}

fn plain(text: &str) -> Vec<u8> {
    let block = compress_with_dict(text.as_bytes(), DICTIONARY);
    [&[PLAIN][..], &(text.len() as u32).to_le_bytes(), &block].concat()
}

#[test]
fn an_entry_whose_ids_are_digits_is_read() {
    assert_eq!(decompressed(&plain(&entry())).unwrap(), entry());
}

#[test]
fn what_would_be_no_smaller_stays_as_it_is() {
    assert_eq!(compressed(""), None);
    assert_eq!(compressed("é"), None);
}

#[test]
fn damage_is_an_error() {
    for stored in [compressed(&entry()).unwrap(), plain(&entry())] {
        for end in 0..stored.len() {
            assert!(decompressed(&stored[..end]).is_err(), "cut at {end}");
        }
        let with = |at: usize, byte: u8| {
            let mut damaged = stored.clone();
            damaged[at] = byte;
            decompressed(&damaged)
        };
        let why = |read: Result<String>| read.unwrap_err().to_string();
        assert!(why(with(0, 3)).contains("unknown form"));
        assert!(why(with(4, 0xff)).contains("too short for its length"), "nothing of that size is allocated");
        assert!(with(1, stored[1] ^ 1).is_err(), "another length");
    }
}

proptest! {
    #[test]
    fn every_text_is_read_as_it_was_written(text in ".{0,400}", times in 1usize..40) {
        let text = text.repeat(times);
        if let Some(stored) = compressed(&text) {
            prop_assert!(stored.len() < text.len());
            prop_assert_eq!(decompressed(&stored).unwrap(), text);
        }
    }

    #[test]
    fn no_bytes_are_read_with_a_panic(
        form in PLAIN..=PACKED,
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
        length in 0u32..3_000,
    ) {
        let stored = [&[form][..], &length.to_le_bytes(), &bytes].concat();
        if let Ok(text) = decompressed(&stored) {
            prop_assert_eq!(text.len(), length as usize);
        }
    }
}
