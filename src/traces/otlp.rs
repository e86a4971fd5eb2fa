//! Spans in OTLP: `ExportTraceServiceRequest` of opentelemetry-proto 1.x, in the wire format of Protocol Buffers. Only four
//! constructs of that format are needed, so they are encoded here instead of with a library.

use super::span::{Attribute, Attributes, Span, SpanEvent, SpanKind};
use crate::domain::Millis;

/// The trace that spans belong to.
pub(super) type TraceId = [u8; 16];

/// What OTLP calls the kinds and the status of an error.
const INTERNAL: u64 = 1;
const SERVER: u64 = 2;
const CLIENT: u64 = 3;
const STATUS_ERROR: u64 = 2;

/// A request of this size gets no further span: collectors reject more than a few megabytes, and one span may have several
/// texts of 32 KiB.
const REQUEST_BYTES: usize = 1 << 20;

/// The requests that export all of these spans.
pub(super) fn requests<'s>(
    resource: &Attributes,
    spans: impl IntoIterator<Item = &'s (TraceId, Span)>,
) -> Vec<Vec<u8>> {
    let mut requests = Vec::new();
    let mut spans = spans.into_iter().peekable();
    while spans.peek().is_some() {
        let mut request = Message::default();
        request.message(1, |resource_spans| {
            resource_spans.message(1, |message| attributes(message, 1, resource));
            resource_spans.message(2, |scope_spans| {
                scope_spans.message(1, scope);
                let start = scope_spans.0.len();
                while scope_spans.0.len() - start < REQUEST_BYTES
                    && let Some((trace, one)) = spans.next()
                {
                    scope_spans.message(2, |message| span(message, trace, one));
                }
            });
        });
        requests.push(request.0);
    }
    requests
}

fn scope(message: &mut Message) {
    message.text(1, "pes");
    message.text(2, env!("CARGO_PKG_VERSION"));
}

fn span(message: &mut Message, trace: &TraceId, span: &Span) {
    message.bytes(1, trace);
    message.bytes(2, &span.id.0);
    if let Some(parent) = span.parent {
        message.bytes(4, &parent.0);
    }
    message.text(5, &span.name);
    message.number(
        6,
        match span.kind {
            SpanKind::Internal => INTERNAL,
            SpanKind::Server => SERVER,
            SpanKind::Client => CLIENT,
        },
    );
    message.fixed64(7, nanos(span.start));
    message.fixed64(8, nanos(span.end));
    attributes(message, 9, &span.attributes);
    for one in &span.events {
        message.message(11, |message| event(message, one));
    }
    if let Some(id) = span.link {
        message.message(13, |link| {
            link.bytes(1, trace);
            link.bytes(2, &id.0);
        });
    }
    if let Some(failure) = &span.failure {
        message.message(15, |status| {
            status.text(2, failure);
            status.number(3, STATUS_ERROR);
        });
    }
}

fn event(message: &mut Message, event: &SpanEvent) {
    message.fixed64(1, nanos(event.at));
    message.text(2, event.name);
    attributes(message, 3, &event.attributes);
}

fn attributes(message: &mut Message, field: u32, attributes: &Attributes) {
    for (name, value) in attributes {
        message.message(field, |pair| {
            pair.text(1, name);
            pair.message(2, |message| any_value(message, value));
        });
    }
}

/// `AnyValue`.
fn any_value(message: &mut Message, value: &Attribute) {
    match value {
        Attribute::Text(text) => message.text(1, text),
        Attribute::Integer(number) => message.number(3, number.cast_unsigned()),
        Attribute::Float(number) => message.fixed64(4, number.to_bits()),
        Attribute::TextList(texts) => message.message(5, |list| {
            for text in texts {
                list.message(1, |message| message.text(1, text));
            }
        }),
    }
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

    /// Writes a nested message: everything that `write` appends.
    fn message(&mut self, field: u32, write: impl FnOnce(&mut Message)) {
        self.tag(field, 2);
        let start = self.0.len();
        write(self);
        let end = self.0.len();
        self.varint((end - start) as u64);
        // The length goes before the content.
        let used = self.0.len() - end;
        self.0[start..].rotate_right(used);
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
        let large = |id: u8| {
            let mut span = Span::new(SpanId([id; 8]), "chat".to_owned(), SpanKind::Client, 1);
            span.set("gen_ai.output.messages", "x".repeat(32 * 1024));
            ([1; 16], span)
        };
        let spans: Vec<(TraceId, Span)> = (1..=100).map(large).collect();
        let requests = requests(&Vec::new(), &spans);
        assert_eq!(requests.len(), 4);
        assert!(requests.iter().all(|request| request.len() < REQUEST_BYTES + 64 * 1024));
        let holds =
            |id: u8| requests.iter().filter(|request| request.windows(8).any(|window| window == [id; 8])).count();
        assert!((2..=100).all(|id| holds(id) == 1));
        assert!(super::requests(&Vec::new(), &[]).is_empty());
    }
}
