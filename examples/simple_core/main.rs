//! Serves an agent core that is one function: `cargo run --example simple_core -- "your question"`. The core itself is
//! in `careful.rs`; `examples/custom_core/` implements a whole machine.

pub mod careful;

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use pes::domain::run::AgentFinalResponse;
use pes::engine::pes::Pes;
use pes::{AgentProps, Config, Instance};

use careful::Careful;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let question = std::env::args().nth(1).unwrap_or_else(|| "How much is 6 times 7?".to_owned());
    println!("{}", answer(&question).await?.response.content);
    Ok(())
}

/// Runs a query on a thread with our core.
pub async fn answer(question: &str) -> Result<AgentFinalResponse, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let instance = open(folder.path(), |_| {}).await?;
    let answered = instance.process(AgentProps::new("t1", question)).await;
    instance.close().await;
    Ok(answered?)
}

/// An instance that keeps its threads in this folder.
pub async fn open(folder: &Path, adjust: impl FnOnce(&mut Config)) -> Result<Instance, Box<dyn Error>> {
    let script = folder.join("script.toml");
    std::fs::write(&script, SCRIPT)?;
    let mut config = Config::default();
    config.store.data_dir = folder.to_owned();
    config.agent.core = "careful".to_owned();
    config.models.demo.script = Some(script);
    adjust(&mut config);
    Ok(Instance::build(config).core(Arc::new(Pes::simple(Careful))).open().await?)
}

/// The script of the demo model; a real model needs none.
const SCRIPT: &str = r#"
[[reply]]
when = { iteration = 2 }
calls = [{ tool = "calculator", arguments = { expression = "6 * 7" } }]

[[reply]]
when = { iteration = 3 }
text = "Forty-two, I think."

[[reply]]
when = { iteration = 4 }
text = "It is 42."
"#;
