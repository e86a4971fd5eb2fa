//! Serves an agent core from outside the crate: `cargo run --example custom_core -- "your question"`. The core itself
//! is in `oneshot.rs`.

pub mod oneshot;

use std::error::Error;
use std::sync::Arc;

use pes::domain::ids::ThreadId;
use pes::domain::settings::ThreadConfig;
use pes::service::threads::{self, NewThreadAsk};
use pes::{AgentProps, Config, Instance};

use oneshot::Oneshot;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let question = std::env::args().nth(1).unwrap_or_else(|| "What is this?".to_owned());
    println!("{}", answer(&question).await?);
    Ok(())
}

/// Runs a query on a thread with our core.
pub async fn answer(question: &str) -> Result<String, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let mut config = Config::default();
    config.store.data_dir = folder.path().to_owned();
    let instance = Instance::build(config).core(Arc::new(Oneshot)).open().await?;
    let config = ThreadConfig { agent_core: Some(Oneshot::NAME.to_owned()), ..ThreadConfig::default() };
    let thread = NewThreadAsk { thread_id: Some(ThreadId::from("t1")), config, ..NewThreadAsk::default() };
    threads::create(instance.service(), instance.caller(), thread, None).await?;
    let answered = instance.process(AgentProps::new("t1", question)).await;
    instance.close().await;
    Ok(answered?.response.content)
}
