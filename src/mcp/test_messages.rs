//! Valid and corrupt messages of a server, for tests of the code that reads them.

use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};

/// A test that reads longer than this hangs.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// Marks valid messages, to distinguish them from corrupted ones.
const WHOLE: &str = "whole-";

pub(super) fn config() -> ProptestConfig {
    ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() }
}

/// A response with this number.
pub(super) fn message(number: usize) -> String {
    json!({ "jsonrpc": "2.0", "id": format!("{WHOLE}{number}"), "result": { "content": [] } }).to_string()
}

/// Whether the text is a [`message`].
pub(super) fn is_whole(text: &str) -> bool {
    serde_json::from_str(text).is_ok_and(|value: Value| {
        let number = value["id"].as_str().and_then(|id| id.strip_prefix(WHOLE)?.parse().ok());
        number.is_some_and(|number| message(number) == text)
    })
}

/// Whether the parsed value is a [`message`].
pub(super) fn is_numbered(message: &Value) -> bool {
    message["id"].as_str().is_some_and(|id| id.starts_with(WHOLE))
}

/// Valid messages, messages that were cut or changed, other messages, and random bytes.
pub(super) fn piece() -> impl Strategy<Value = Vec<u8>> {
    const OTHERS: &[&str] = &[
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"call_1","progress":1}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"?","requestedSchema":{}}}"#,
        r#"{"jsonrpc":"2.0","id":"other","result":{"tools":[{"name":"a","execution":{"taskSupport":"required"}}]}}"#,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}"#,
        r#"[{"jsonrpc":"2.0","id":1,"result":{}}]"#,
        r#"{"jsonrpc":"1.0","id":18446744073709551616,"result":null}"#,
        r#"{"id":"other","result":"taskSupport"}"#,
        "[[[[[[[[[[[[[[[[[[[[[[[[",
        "Listening on stdio ...",
        "\u{feff}{}",
    ];
    let other = prop::sample::select(OTHERS);
    prop_oneof![
        4 => (0_usize..1_000).prop_map(|number| message(number).into_bytes()),
        1 => other.clone().prop_map(|text| text.as_bytes().to_vec()),
        1 => other.clone().prop_flat_map(|text| (0..text.len()).prop_map(move |end| text.as_bytes()[..end].to_vec())),
        1 => (other, any::<prop::sample::Index>(), any::<u8>()).prop_map(|(text, at, byte)| {
            let mut bytes = text.as_bytes().to_vec();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            bytes
        }),
        1 => prop::collection::vec(any::<u8>(), 0..40),
        1 => (0_usize..1_500).prop_map(|length| vec![b'x'; length]),
    ]
}

/// Each piece followed by its terminator.
pub(super) fn joined(pieces: &[Vec<u8>], ends: Vec<&str>) -> Vec<u8> {
    pieces.iter().zip(ends).flat_map(|(piece, end)| [piece, end.as_bytes()].concat()).collect()
}
