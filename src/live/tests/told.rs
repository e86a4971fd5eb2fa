//! The values of frames, for readers in this process.

use super::*;

/// A reader in this process gets the frame's value and need not parse its bytes.
#[test]
fn a_frame_tells_what_its_bytes_say() {
    let hub = Hub::new(1 << 18);
    let stream = hub.open_stream(PK, head("s"));
    let mut reader = hub.subscribe(PK, SubscriptionFilter::default());
    for (channel, text) in [(Channel::Response, "é"), (Channel::Thinking, "hm"), (Channel::Response, "\"")] {
        stream.publish(channel, text);
    }
    for _ in 0..3 {
        let Some(Live::Frame(frame)) = reader.try_next() else { panic!("a frame was due") };
        assert_eq!(serde_json::to_value(frame.token().unwrap()).unwrap(), json(&frame)["data"]);
    }
    for kind in ObservationType::ALL {
        let frame = Encoded::observation(Observation { kind: *kind, ..observation(7, 3) });
        let value = frame.as_observation().map(|observation| serde_json::to_value(observation).unwrap());
        let has_content = ObservationType::OF_CALLER_STATUS.contains(kind);
        assert_eq!(value, has_content.then(|| json(&frame)["data"].clone()), "{}", kind.as_str());
    }
}
