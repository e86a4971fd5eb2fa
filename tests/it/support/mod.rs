//! Shared by all tests.

pub mod app;
pub mod cases;
pub mod clocked;
pub mod collector;
pub mod demo;
pub mod exported;
pub mod fixed_address;
pub mod http;
pub mod issuer;
pub mod metrics;
pub mod otlp;
pub mod postgres;
pub mod process;
pub mod proxy;
pub mod slow_tool;
pub mod store;
pub mod tampered;
pub mod tool;
pub mod unused_address;
pub mod wire;
pub mod ws;

/// Runs the futures at the same time and returns their outputs in order.
pub async fn together<T: Send + 'static>(
    futures: impl IntoIterator<Item = impl Future<Output = T> + Send + 'static>,
) -> Vec<T> {
    let tasks: Vec<_> = futures.into_iter().map(tokio::spawn).collect();
    let mut outputs = Vec::new();
    for task in tasks {
        outputs.push(task.await.unwrap());
    }
    outputs
}
