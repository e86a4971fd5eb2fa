//! `[telemetry]`

use secrecy::SecretString;
use serde::{Deserialize, Serialize};

use super::section::{by_path, named};

section! {
    /// Traces of runs for an OpenTelemetry collector. The environment variables are those of OpenTelemetry.
    Telemetry {
        /// The collector's base URL: traces go to `/v1/traces` below it. Without it, and without `traces_endpoint`,
        /// nothing is sent.
        endpoint: Option<String> = None, named("OTEL_EXPORTER_OTLP_ENDPOINT").example("\"http://localhost:4318\"");
        /// The complete URL for traces, instead of the one below `endpoint`.
        traces_endpoint: Option<String> = None, named("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT").example(
            "\"https://collector.example/v1/traces\"");
        /// Headers of every request, as `name=value,name=value`; values are percent-encoded.
        #[serde(with = "super::secret")]
        headers: Option<SecretString> = None, named("OTEL_EXPORTER_OTLP_HEADERS").secret().example(
            "\"authorization=Bearer%20KEY\"");
        /// http/protobuf: the only supported protocol.
        protocol: Protocol = Protocol::HttpProtobuf, named("OTEL_EXPORTER_OTLP_PROTOCOL");
        /// The timeout of one request, in milliseconds.
        timeout_ms: u64 = 10_000, named("OTEL_EXPORTER_OTLP_TIMEOUT");
        /// Sends nothing, whatever else is set.
        disabled: bool = false, named("OTEL_SDK_DISABLED");
        /// The name of this server in traces.
        service_name: String = "pes".to_owned(), named("OTEL_SERVICE_NAME");
        /// More attributes of this server in traces, as `name=value,name=value`; values are percent-encoded.
        resource_attributes: Option<String> = None, named("OTEL_RESOURCE_ATTRIBUTES").example(
            "\"deployment.environment.name=production\"");
        /// Which runs are traced: always_on, always_off, traceidratio, or one of them with the prefix parentbased_,
        /// which follows the `traceparent` of the run's caller, if there is one.
        sampler: Sampler = Sampler::ParentbasedAlwaysOn, named("OTEL_TRACES_SAMPLER");
        /// The share of runs that a ratio traces, from 0 to 1.
        sampler_arg: f64 = 1.0, named("OTEL_TRACES_SAMPLER_ARG");
        /// none, or spans: spans contain prompts, replies, arguments and results, each text up to 32 KiB.
        content: Content = Content::None, by_path();
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Protocol {
    #[serde(rename = "http/protobuf")]
    HttpProtobuf,
}

/// Which runs are traced. This depends only on the trace's id and the caller's headers, so that every process decides
/// the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sampler {
    AlwaysOn,
    AlwaysOff,
    #[serde(rename = "traceidratio")]
    TraceIdRatio,
    ParentbasedAlwaysOn,
    ParentbasedAlwaysOff,
    #[serde(rename = "parentbased_traceidratio")]
    ParentbasedTraceIdRatio,
}

/// Which contents spans have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Content {
    None,
    Spans,
}
