//! Facts: the content of each type of observation, as a type of its own.
//!
//! The engine records facts; the readers of observations match on them: the fold, the audit, the outbox, the metrics
//! and the doors. A fact serialises to the `content` of its observation, member by member in the order of its struct. A
//! text that may be large is a `Value`, because the recorded form may be a reference to a payload. A reader that passes
//! contents on passes on the JSON itself, with the members that no struct here knows.

mod call;
mod model;
mod payloads;
mod plan;
mod run;
mod state;

pub use call::{A2aTaskBody, AgentResumedBody, SuspensionTimeoutBody, ToolCallBody};
pub use model::{
    LlmStreamEndBody, LlmStreamErrorBody, LlmStreamMetadataBody, LlmStreamStartBody, Purpose, ThoughtsBody,
};
pub use plan::{ItemMembers, ItemStatusChangeBody, PlanBody, PlanSource, PlanUpdateBody, WholePlan, WholePlanUpdate};
pub use run::{
    ErrorBody, FinalResponseBody, IntentBody, RecordedMessage, RunFinishedBody, RunStartedBody, SynthesisBody,
    SynthesisStatus, TitleBody,
};
pub use state::{StateUpdateBody, Summary};

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
#[cfg(feature = "schema")]
use utoipa::{
    PartialSchema as _, ToSchema as _,
    openapi::{RefOr, Schema},
};

use super::hitl::AskedQuestion;
use super::observation::ObservationType;
use super::to_value;
use super::tool::ToolResult;

/// The shape that readers get: the recorded one, unless another one is given.
#[cfg(feature = "schema")]
macro_rules! read_shape {
    ($body:ty) => {
        $body
    };
    ($body:ty, $whole:ty) => {
        $whole
    };
}

macro_rules! facts {
    ($($name:ident($body:ty) $(read as $whole:ty)?),+ $(,)?) => {
        /// The content of an observation, by its type, as it is recorded: payloads may be references, and a `PLAN` or
        /// `PLAN_UPDATE` holds changes only.
        #[derive(Clone, Debug, PartialEq, Serialize)]
        #[serde(untagged)]
        pub enum Fact { $(
            #[doc = concat!("The content of an [`ObservationType::", stringify!($name), "`].")]
            $name($body),
        )+ }

        impl Fact {
            /// The type of the observation that has this content.
            pub fn kind(&self) -> ObservationType {
                match self { $(Fact::$name(_) => ObservationType::$name,)+ }
            }

            /// Parses the content of an observation of this type, as JSON or as its text; members that it does not know
            /// are left out.
            pub fn read<'de, D: Deserializer<'de>>(kind: ObservationType, content: D) -> Result<Self, D::Error> {
                match kind { $(ObservationType::$name => <$body>::deserialize(content).map(Fact::$name),)+ }
            }
        }

        /// For each type of observation, the name of the schema of its content as readers get it. Adds those schemas,
        /// and all that they refer to.
        #[cfg(feature = "schema")]
        pub fn schemas(all: &mut Vec<(String, RefOr<Schema>)>) -> Vec<(ObservationType, String)> {
            vec![$({
                type Read = read_shape!($body $(, $whole)?);
                let name = Read::name().into_owned();
                all.push((name.clone(), Read::schema()));
                Read::schemas(all);
                (ObservationType::$name, name)
            },)+]
        }

        $(impl From<$body> for Fact {
            fn from(body: $body) -> Self {
                Fact::$name(body)
            }
        })+
    };
}

facts! {
    RunStarted(RunStartedBody),
    Intent(IntentBody),
    Title(TitleBody),
    Plan(PlanBody) read as WholePlan,
    PlanUpdate(PlanUpdateBody) read as WholePlanUpdate,
    ItemStatusChange(ItemStatusChangeBody),
    LlmStreamStart(LlmStreamStartBody),
    LlmStreamMetadata(LlmStreamMetadataBody),
    LlmStreamEnd(LlmStreamEndBody),
    LlmStreamError(LlmStreamErrorBody),
    Thoughts(ThoughtsBody),
    ToolCall(ToolCallBody),
    ToolExecution(ToolResult),
    AgentSuspended(AskedQuestion),
    AgentResumed(AgentResumedBody),
    SuspensionTimeout(SuspensionTimeoutBody),
    A2aTask(A2aTaskBody),
    StateUpdate(StateUpdateBody),
    Synthesis(SynthesisBody),
    FinalResponse(FinalResponseBody),
    Error(ErrorBody),
    RunFinished(RunFinishedBody),
}

impl Fact {
    /// The fact as the content of an observation.
    pub fn content(&self) -> Value {
        to_value(self)
    }
}

/// The content of a stored observation does not match its type.
#[derive(Debug, thiserror::Error)]
#[error("observation {seq} of type {} cannot be read: {why}", kind.as_str())]
pub struct Unreadable {
    /// The position of the observation in its thread.
    pub seq: i64,
    /// The type that it is stored with.
    pub kind: ObservationType,
    /// What the parser met.
    pub why: serde_json::Error,
}
