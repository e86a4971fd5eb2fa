//! Spans as OTLP sends them: `ExportTraceServiceRequest` of opentelemetry-proto 1.x, in the wire format of Protocol Buffers.
//! Of that format four things are needed; so they are written here.

use super::span::{Attribute, Attributes, Kind, Span, SpanEvent};
use crate::domain::Millis;

/// The trace that spans belong to.
pub(super) type TraceId = [u8; 16];

/// What OTLP calls the kinds and the status of an error.
const INTERNAL: u64 = 1;
const SERVER: u64 = 2;
const CLIENT: u64 = 3;
const STATUS_ERROR: u64 = 2;

/// From this size on a request is not made larger: collectors refuse more than a few megabytes, and one span may hold some
/// texts of 32 KiB.
const REQUEST_BYTES: usize = 1 << 20;

/// The requests that tell all of these spans of these traces.
pub(super) fn requests<'s>(
    resource: &Attributes,
    spans: impl IntoIterator<Item = &'s (TraceId, Span)>,
) -> Vec<Vec<u8>> {
    let mut requests = Vec::new();
    let mut scope_spans = Message::default();
    let mut spans = spans.into_iter().peekable();
    while let Some((trace, one)) = spans.next() {
        if scope_spans.0.is_empty() {
            scope_spans.message(1, &scope());
        }
        scope_spans.message(2, &span(trace, one));
        if scope_spans.0.len() >= REQUEST_BYTES || spans.peek().is_none() {
            requests.push(request(resource, &std::mem::take(&mut scope_spans)));
        }
    }
    requests
}

fn request(resource: &Attributes, scope_spans: &Message) -> Vec<u8> {
    let mut resource_message = Message::default();
    attributes(&mut resource_message, 1, resource);
    let mut resource_spans = Message::default();
    resource_spans.message(1, &resource_message);
    resource_spans.message(2, scope_spans);
    let mut request = Message::default();
    request.message(1, &resource_spans);
    request.0
}

fn scope() -> Message {
    let mut scope = Message::default();
    scope.text(1, "pes");
    scope.text(2, env!("CARGO_PKG_VERSION"));
    scope
}

fn span(trace: &TraceId, span: &Span) -> Message {
    let mut message = Message::default();
    message.bytes(1, trace);
    message.bytes(2, &span.id.0);
    if let Some(parent) = span.parent {
        message.bytes(4, &parent.0);
    }
    message.text(5, &span.name);
    message.number(
        6,
        match span.kind {
            Kind::Internal => INTERNAL,
            Kind::Server => SERVER,
            Kind::Client => CLIENT,
        },
    );
    message.fixed64(7, nanos(span.start));
    message.fixed64(8, nanos(span.end));
    attributes(&mut message, 9, &span.attributes);
    for one in &span.events {
        message.message(11, &event(one));
    }
    if let Some(id) = span.link {
        let mut link = Message::default();
        link.bytes(1, trace);
        link.bytes(2, &id.0);
        message.message(13, &link);
    }
    if let Some(failure) = &span.failure {
        let mut status = Message::default();
        status.text(2, failure);
        status.number(3, STATUS_ERROR);
        message.message(15, &status);
    }
    message
}

fn event(event: &SpanEvent) -> Message {
    let mut message = Message::default();
    message.fixed64(1, nanos(event.at));
    message.text(2, event.name);
    attributes(&mut message, 3, &event.attributes);
    message
}

fn attributes(message: &mut Message, field: u32, attributes: &Attributes) {
    for (name, value) in attributes {
        let mut pair = Message::default();
        pair.text(1, name);
        pair.message(2, &any(value));
        message.message(field, &pair);
    }
}

/// `AnyValue`.
fn any(value: &Attribute) -> Message {
    let mut message = Message::default();
    match value {
        Attribute::Text(text) => message.text(1, text),
        Attribute::Whole(number) => message.number(3, number.cast_unsigned()),
        Attribute::Number(number) => message.fixed64(4, number.to_bits()),
        Attribute::Texts(texts) => {
            let mut list = Message::default();
            for text in texts {
                list.message(1, &any(&Attribute::Text(text.clone())));
            }
            message.message(5, &list);
        }
    }
    message
}

fn nanos(at: Millis) -> u64 {
    u64::try_from(at).unwrap_or_default().saturating_mul(1_000_000)
}

/// A message of Protocol Buffers as it is written.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn number(&mut self, field: u32, number: u64) {
        self.tag(field, 0);
        self.varint(number);
    }

    fn fixed64(&mut self, field: u32, number: u64) {
        self.tag(field, 1);
        self.0.extend(number.to_le_bytes());
    }

    fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.tag(field, 2);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
    }

    fn text(&mut self, field: u32, text: &str) {
        self.bytes(field, text.as_bytes());
    }

    fn message(&mut self, field: u32, message: &Message) {
        self.bytes(field, &message.0);
    }

    fn tag(&mut self, field: u32, wire_type: u32) {
        self.varint(u64::from(field << 3 | wire_type));
    }

    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number.to_le_bytes()[0] | 0x80);
            number >>= 7;
        }
        self.0.push(number.to_le_bytes()[0]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traces::span::SpanId;

    #[test]
    fn no_request_is_much_larger_than_collectors_take_and_every_span_is_in_one() {
        let told = |id: u8| {
            let mut span = Span::begun(SpanId([id; 8]), "chat".to_owned(), Kind::Client, 1);
            span.set("gen_ai.output.messages", "x".repeat(32 * 1024));
            ([1; 16], span)
        };
        let spans: Vec<(TraceId, Span)> = (1..=100).map(told).collect();
        let requests = requests(&Vec::new(), &spans);
        assert_eq!(requests.len(), 4);
        assert!(requests.iter().all(|request| request.len() < REQUEST_BYTES + 64 * 1024));
        let holds =
            |id: u8| requests.iter().filter(|request| request.windows(8).any(|window| window == [id; 8])).count();
        assert!((2..=100).all(|id| holds(id) == 1));
        assert!(super::requests(&Vec::new(), &[]).is_empty());
    }
}
