//! One JSON object per line: `timestamp, level, target, message`, the fields of the spans around it, its own fields.

use std::fmt::Debug;
use std::io::Write as _;

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use crate::runtime::clock::{Clock, System};

pub(super) struct Lines;

/// A span's fields, stored in its extensions.
struct Fields(Map<String, Value>);

impl<S: Subscriber + for<'s> LookupSpan<'s>> Layer<S> for Lines {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut fields = Fields(Map::new());
        attributes.record(&mut fields);
        span.extensions_mut().insert(fields);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(fields) = span.extensions_mut().get_mut::<Fields>() {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut line = line(event);
        for span in context.event_scope(event).into_iter().flat_map(|scope| scope.from_root()) {
            if let Some(fields) = span.extensions().get::<Fields>() {
                line.extend(fields.0.clone());
            }
        }
        let mut own = Fields(Map::new());
        event.record(&mut own);
        line.extend(own.0);
        let mut text = Value::Object(line).to_string();
        text.push('\n');
        // A failure to log must not stop the work that is logged.
        let _ = std::io::stderr().write_all(text.as_bytes());
    }
}

fn line(event: &Event<'_>) -> Map<String, Value> {
    let now = jiff::Timestamp::from_millisecond(System::default().now()).map(|now| now.to_string()).unwrap_or_default();
    let metadata = event.metadata();
    Map::from_iter([
        ("timestamp".to_owned(), now.into()),
        ("level".to_owned(), metadata.level().as_str().into()),
        ("target".to_owned(), metadata.target().into()),
    ])
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}").into());
    }
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.into());
    }
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.insert(field.name().to_owned(), value.into());
    }
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.insert(field.name().to_owned(), value.into());
    }
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.0.insert(field.name().to_owned(), value.into());
    }
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}
