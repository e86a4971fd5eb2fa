//! The library face: the same runtime without HTTP.

use std::sync::Arc;

use pes::store::memory::Memory;
use pes::{AgentProps, Config, Instance};

/// An instance that keeps nothing, with the demo model at full speed.
async fn instance() -> Instance {
    let mut config = Config::default();
    config.models.demo.pace_ms = 0;
    Instance::build(config).store(Arc::new(Memory::new())).open().await.unwrap()
}

#[tokio::test]
async fn a_question_gets_its_answer() {
    let instance = instance().await;
    let prompt = instance.runtime().models()[0].prompts[0].clone();
    let answer = instance.process(AgentProps::new("t1", prompt)).await.unwrap();
    assert!(answer.response.content.contains("47.60"), "{}", answer.response.content);
    assert_eq!(answer.metadata.llm_calls, 11);
    instance.close().await;
}
