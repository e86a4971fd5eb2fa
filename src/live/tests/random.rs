//! Readers of every pace beside random streams and observations: what each of them receives, in which order.

use std::collections::HashMap;

use proptest::prelude::*;
use serde_json::Value;

use super::*;

/// What may happen to one thread; texts and sizes are small, and so is the queue.
#[derive(Clone, Debug)]
enum Op {
    Open(u8),
    Token(u8, Channel, String),
    Close(u8),
    Observe(usize),
    Run(usize),
    Subscribe,
    /// A reader takes up to n frames.
    Read(usize, usize),
    Leave(usize),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        1 => (0u8..3).prop_map(Op::Open),
        8 => (0u8..3, channel(), "[aé\"\n]{1,30}").prop_map(|(s, c, text)| Op::Token(s, c, text)),
        1 => (0u8..3).prop_map(Op::Close),
        3 => (0usize..600).prop_map(Op::Observe),
        1 => (0usize..400).prop_map(Op::Run),
        1 => Just(Op::Subscribe),
        4 => (0usize..4, 0usize..12).prop_map(|(r, n)| Op::Read(r, n)),
        1 => (0usize..4).prop_map(Op::Leave),
    ]
}

fn channel() -> impl Strategy<Value = Channel> {
    prop_oneof![Just(Channel::Response), Just(Channel::Thinking)]
}

/// A subscriber that checks every frame against what was published.
struct Reader {
    subscription: Subscription,
    /// How much of each text this reader has received.
    received: HashMap<(String, String), usize>,
    last_seq: i64,
    has_missed: bool,
}

#[derive(Default)]
struct Published {
    /// Whole texts by stream id and token type.
    texts: HashMap<(String, String), String>,
    open: [Option<(String, StreamPublisher)>; 3],
    streams: usize,
    seq: i64,
}

impl Reader {
    fn read(&mut self, published: &Published, frames: usize) {
        for _ in 0..frames {
            let Some(live) = self.subscription.try_next() else { return };
            match live {
                Live::Gap { .. } => {
                    self.has_missed = true;
                    self.last_seq = published.seq;
                }
                Live::Draining(_) => unreachable!("nobody drains here"),
                Live::Frame(frame) => self.take(published, &json(&frame)),
            }
        }
    }

    fn take(&mut self, published: &Published, frame: &Value) {
        let data = &frame["data"];
        if frame["event"] == "observation" {
            let seq = data["seq"].as_i64().unwrap();
            if seq > self.last_seq {
                assert_eq!(seq, self.last_seq + 1, "an observation is missing without a gap");
                self.last_seq = seq;
            }
            return;
        }
        if frame["event"] == "run" {
            let (seq, _) = data["query"].as_str().unwrap().split_once(' ').unwrap();
            assert!(self.last_seq >= seq.parse().unwrap(), "a run came before what it follows from");
            return;
        }
        let key = (data["streamId"].as_str().unwrap().to_owned(), data["tokenType"].as_str().unwrap().to_owned());
        let (offset, text) = (data["offset"].as_u64().unwrap() as usize, data["data"].as_str().unwrap());
        let received = self.received.entry(key.clone()).or_default();
        assert!(offset >= *received, "a byte came twice");
        self.has_missed |= offset > *received;
        assert_eq!(&published.texts[&key][offset..offset + text.len()], text);
        *received = offset + text.len();
    }
}

fn play(ops: Vec<Op>, queue_bytes: usize, keeps_up: bool) {
    let hub = Hub::new(queue_bytes);
    let mut published = Published::default();
    let mut readers: Vec<Reader> = Vec::new();
    for op in ops {
        match op {
            Op::Open(slot) if published.open[slot as usize].is_none() => {
                published.streams += 1;
                let id = format!("s{}", published.streams);
                let stream = hub.open_stream(PK, head(&id));
                published.open[slot as usize] = Some((id, stream));
            }
            Op::Token(slot, channel, text) => {
                if let Some((id, stream)) = &published.open[slot as usize] {
                    let kind =
                        serde_json::to_value(TokenType::of(Phase::Execution, channel == Channel::Thinking)).unwrap();
                    stream.publish(channel, &text);
                    let key = (id.clone(), kind.as_str().unwrap().to_owned());
                    published.texts.entry(key).or_default().push_str(&text);
                }
            }
            Op::Close(slot) => published.open[slot as usize] = None,
            Op::Observe(size) => {
                published.seq += 1;
                hub.publish_observation(PK, observation(published.seq, size));
            }
            Op::Run(size) => hub.publish_run(PK, &run(published.seq, size), published.seq),
            Op::Subscribe if readers.len() < 4 => readers.push(Reader {
                subscription: hub.subscribe(PK, SubscriptionFilter::default()),
                received: closed_texts(&published),
                last_seq: published.seq,
                has_missed: false,
            }),
            Op::Read(reader, frames) if reader < readers.len() => readers[reader].read(&published, frames),
            Op::Leave(reader) if reader < readers.len() => drop(readers.swap_remove(reader)),
            Op::Open(_) | Op::Subscribe | Op::Read(..) | Op::Leave(_) => {}
        }
        for reader in &mut readers {
            if keeps_up {
                reader.read(&published, usize::MAX);
            }
            let queue = reader.subscription.subscriber.queue.lock();
            assert!(queue.weight <= queue_bytes.max(1500), "a queue grew beyond its limit: {}", queue.weight);
        }
    }
    for mut reader in readers {
        reader.read(&published, usize::MAX);
        assert_eq!(reader.last_seq, published.seq, "observations were lost without a gap");
        if keeps_up {
            let whole: HashMap<_, _> = published.texts.iter().map(|(key, text)| (key.clone(), text.len())).collect();
            assert!(!reader.has_missed && reader.received == whole, "a fast reader missed something");
        }
    }
}

/// The texts that a new subscriber does not get: those of closed streams.
fn closed_texts(published: &Published) -> HashMap<(String, String), usize> {
    let is_closed = |id: &String| !published.open.iter().flatten().any(|(open, _)| open == id);
    published.texts.iter().filter(|((id, _), _)| is_closed(id)).map(|(key, text)| (key.clone(), text.len())).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn slow_readers_see_each_byte_at_most_once_in_order(ops in prop::collection::vec(op(), 1..150), queue in 600usize..4000) {
        play(ops, queue, false);
    }

    #[test]
    fn fast_readers_see_each_byte_exactly_once(ops in prop::collection::vec(op(), 1..150), queue in 600usize..4000) {
        play(ops, queue, true);
    }
}
