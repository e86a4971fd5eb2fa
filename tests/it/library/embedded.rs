//! What a program that embeds an instance keeps: its metrics.

use metrics_exporter_prometheus::PrometheusBuilder;
use pes::AgentProps;

use crate::counts::alone;

/// The recorder of a server keeps each sample until the server counts it, which an instance has nobody for.
#[test]
fn an_instance_installs_no_recorder_of_metrics_and_uses_that_of_its_program() {
    let this = "library::embedded::an_instance_installs_no_recorder_of_metrics_and_uses_that_of_its_program";
    alone(this, async || {
        super::instance().await.close().await;
        let recorder = PrometheusBuilder::new().build_recorder();
        let numbers = recorder.handle();
        assert!(metrics::set_global_recorder(recorder).is_ok(), "the instance has installed another one");
        let instance = super::instance().await;
        instance.process(AgentProps::new("t", "hello")).await.unwrap();
        assert!(numbers.render().contains("pes_model_calls_total"), "{}", numbers.render());
        instance.close().await;
    });
}
