//! What frames say to readers in this process.

use super::*;

/// A reader in this process is told what the bytes say, and need not read them.
#[test]
fn a_frame_tells_what_its_bytes_say() {
    let hub = Hub::new(1 << 18);
    hub.open_stream(PK, head("s"));
    let mut reader = hub.subscribe(PK, Wants::default());
    for (thinking, text) in [(false, "é"), (true, "hm"), (false, "\"")] {
        hub.token(PK, &"s".into(), thinking, text);
    }
    for _ in 0..3 {
        let Some(Live::Frame(frame)) = reader.try_next() else { panic!("a frame was due") };
        assert_eq!(serde_json::to_value(frame.token().unwrap()).unwrap(), json(&frame)["data"]);
    }
    for kind in ObservationType::ALL {
        let frame = Encoded::observation(&Observation { kind: *kind, ..observation(7, 3) });
        let told = frame.told().map(|told| serde_json::to_value(told).unwrap());
        let is_standing = ObservationType::STANDING.contains(kind);
        assert_eq!(told, is_standing.then(|| json(&frame)["data"].clone()), "{}", kind.as_str());
    }
}
