//! The arguments of the tools.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::tools::{DEFAULT_WAIT_SECS, MAX_ASK_WAIT_SECS, MAX_STATUS_WAIT_SECS};
use crate::domain::fault::{Code, Fault};
use crate::domain::hitl::Answer;
use crate::http::json::typed;

/// The arguments of `ask` and `start`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Query {
    pub(super) query: String,
    pub(super) thread: Option<String>,
    #[serde(default)]
    wait: Option<u64>,
    pub(super) idempotency_key: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Status {
    pub(super) run_id: String,
    #[serde(default)]
    wait: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Cancel {
    pub(super) run_id: String,
}

impl Query {
    pub(super) fn ask(arguments: Value) -> Result<Self, Fault> {
        let query: Query = read(arguments)?;
        let is_empty = |text: &String| text.trim().is_empty();
        if is_empty(&query.query) {
            return Err(wrong("query", "must say something"));
        }
        if query.idempotency_key.as_ref().is_some_and(is_empty) {
            return Err(wrong("idempotencyKey", "must say something"));
        }
        query.wait()?;
        Ok(query)
    }

    /// The arguments of `start`, which does not wait.
    pub(super) fn start(mut arguments: Value) -> Result<Self, Fault> {
        if let Some(arguments) = arguments.as_object_mut()
            && arguments.contains_key("wait")
        {
            return Err(wrong("wait", "is for `ask`"));
        }
        Self::ask(arguments)
    }

    /// Seconds.
    pub(super) fn wait(&self) -> Result<u64, Fault> {
        bounded(self.wait.unwrap_or(DEFAULT_WAIT_SECS), MAX_ASK_WAIT_SECS)
    }

    /// What makes two calls the same request: everything but `wait`.
    pub(super) fn fingerprint(&self) -> Value {
        json!([self.query, self.thread])
    }
}

impl Status {
    pub(super) fn read(arguments: Value) -> Result<Self, Fault> {
        let status: Status = read(arguments)?;
        status.wait()?;
        Ok(status)
    }

    /// Seconds.
    pub(super) fn wait(&self) -> Result<u64, Fault> {
        bounded(self.wait.unwrap_or(0), MAX_STATUS_WAIT_SECS)
    }
}

impl Cancel {
    pub(super) fn read(arguments: Value) -> Result<Self, Fault> {
        read(arguments)
    }
}

/// The arguments of `answer`.
pub(super) fn answer(arguments: Value) -> Result<Answer, Fault> {
    read(arguments)
}

/// Takes the arguments of a call. A call may have none.
pub(super) fn of(params: &mut Map<String, Value>) -> Value {
    match params.remove("arguments") {
        None | Some(Value::Null) => json!({}),
        Some(arguments) => arguments,
    }
}

fn read<T: serde::de::DeserializeOwned>(arguments: Value) -> Result<T, Fault> {
    typed(arguments).map_err(|fault| match fault.errors.first() {
        Some(pointed) => {
            let place =
                if pointed.pointer.is_empty() { "The arguments" } else { pointed.pointer.trim_start_matches('/') };
            Fault { detail: format!("{place}: {}.", pointed.detail), ..fault }
        }
        None => fault,
    })
}

fn bounded(seconds: u64, most: u64) -> Result<u64, Fault> {
    if seconds <= most { Ok(seconds) } else { Err(wrong("wait", &format!("is at most {most} seconds"))) }
}

fn wrong(name: &str, how: &str) -> Fault {
    Fault::new(Code::Invalid, format!("`{name}` {how}.")).at(format!("/{name}"), how)
}
