//! Tasks, messages, artifacts and stream frames: the JSON that both versions share. Other agents' answers are read as far
//! as they can be understood, messages to this server exactly.

use std::borrow::Cow;

use serde_json::Value;

use super::super::types::{
    Artifact, ArtifactUpdate, Message, Part, Role, SendResult, StatusUpdate, StreamEvent, Task, TaskPage, TaskState,
    TaskStatus,
};
use super::json::{Doc, Object, Read, count, refuse, text, time, timestamp};
use super::{Version, v1, v03, v03_rest};

impl Version {
    pub fn task(self, task: &Task) -> Value {
        Doc::new()
            .maybe("kind", self.kind("task"))
            .put("id", task.id.as_str())
            .put("contextId", task.context_id.as_str())
            .put("status", self.status(&task.status))
            .list("artifacts", task.artifacts.iter().map(|it| self.artifact(it)))
            .list("history", task.history.iter().map(|it| self.message(it)))
            .map("metadata", &task.metadata)
            .done()
    }

    pub fn read_task(self, value: &Value) -> Read<Task> {
        let it = Object::of(value)?;
        Ok(Task {
            id: it.name("id")?,
            context_id: it.text("contextId")?,
            status: it.need("status", |it| self.read_status(it))?,
            artifacts: it.list("artifacts", |it| self.read_artifact(it))?,
            history: it.list("history", |it| self.read_agent_message(it))?,
            metadata: it.map("metadata")?,
        })
    }

    fn status(self, status: &TaskStatus) -> Value {
        Doc::new()
            .put("state", self.state(status.state))
            .maybe("message", status.message.as_ref().map(|it| self.message(it)))
            .maybe("timestamp", status.timestamp.map(timestamp))
            .done()
    }

    fn read_status(self, value: &Value) -> Read<TaskStatus> {
        let it = Object::of(value)?;
        Ok(TaskStatus {
            state: named_state(&it.name("state")?).unwrap_or(TaskState::Unspecified),
            message: it.maybe("message", |it| self.read_agent_message(it))?,
            // Nothing depends on it.
            timestamp: it.maybe("timestamp", time).unwrap_or_default(),
        })
    }

    pub fn state(self, state: TaskState) -> &'static str {
        match self {
            Version::V1 => v1::state(state),
            Version::V03 => v03::state(state),
            Version::V03Rest => v03_rest::state(state),
        }
    }

    pub fn message(self, message: &Message) -> Value {
        let (role, message) = match self {
            Version::V1 => (v1::role(message.role), Cow::Borrowed(message)),
            Version::V03 => (v03::role(message.role), Cow::Borrowed(message)),
            Version::V03Rest => (v1::role(message.role), v03_rest::with_metadata(message)),
        };
        Doc::new()
            .maybe("kind", self.kind("message"))
            .put("messageId", message.message_id.as_str())
            .maybe("contextId", message.context_id.as_deref())
            .maybe("taskId", message.task_id.as_deref())
            .put("role", role)
            .put(self.parts(), message.parts.iter().map(|it| self.part(it)).collect::<Vec<_>>())
            .map("metadata", &message.metadata)
            .texts("extensions", &message.extensions)
            .texts("referenceTaskIds", &message.reference_task_ids)
            .done()
    }

    /// Reads a message to this server.
    pub fn read_message(self, value: &Value) -> Read<Message> {
        let it = Object::of(value)?;
        let (id, role) = (it.name("messageId")?, it.need("role", read_role)?);
        self.read_message_with(it, id, role, |it| self.read_part(it))
    }

    /// Reads a message in an answer of another agent. Its id and its role may be missing.
    fn read_agent_message(self, value: &Value) -> Read<Message> {
        let it = Object::of(value)?;
        let role = it.maybe("role", read_role).ok().flatten().unwrap_or(Role::Agent);
        self.read_message_with(it, it.text("messageId")?, role, |it| Ok(self.read_agent_part(it)))
    }

    fn read_message_with(
        self,
        it: Object<'_>,
        message_id: String,
        role: Role,
        read_part: impl Fn(&Value) -> Read<Part>,
    ) -> Read<Message> {
        let message = Message {
            message_id,
            context_id: it.word("contextId")?,
            task_id: it.word("taskId")?,
            role,
            parts: it.list(self.parts(), read_part)?,
            metadata: it.map("metadata")?,
            extensions: it.texts("extensions")?,
            reference_task_ids: it.texts("referenceTaskIds")?,
        };
        Ok(match self {
            Version::V1 | Version::V03 => message,
            Version::V03Rest => v03_rest::without_metadata(message),
        })
    }

    pub fn part(self, part: &Part) -> Value {
        match self {
            Version::V1 => v1::part(part),
            Version::V03 => v03::part(part),
            Version::V03Rest => v03_rest::part(part),
        }
    }

    pub fn read_part(self, value: &Value) -> Read<Part> {
        match self {
            Version::V1 => v1::read_part(value),
            Version::V03 => v03::read_part(value),
            Version::V03Rest => v03_rest::read_part(value),
        }
    }

    /// Reads a part in an answer of another agent. What is no part that is known here is kept as data.
    fn read_agent_part(self, value: &Value) -> Part {
        self.read_part(value).unwrap_or_else(|_| Part::data(value.clone()))
    }

    fn artifact(self, artifact: &Artifact) -> Value {
        Doc::new()
            .put("artifactId", artifact.artifact_id.as_str())
            .maybe("name", artifact.name.as_deref())
            .maybe("description", artifact.description.as_deref())
            .put("parts", artifact.parts.iter().map(|it| self.part(it)).collect::<Vec<_>>())
            .map("metadata", &artifact.metadata)
            .texts("extensions", &artifact.extensions)
            .done()
    }

    fn read_artifact(self, value: &Value) -> Read<Artifact> {
        let it = Object::of(value)?;
        Ok(Artifact {
            artifact_id: it.text("artifactId")?,
            name: it.word("name")?,
            description: it.word("description")?,
            parts: it.list("parts", |it| Ok(self.read_agent_part(it)))?,
            metadata: it.map("metadata")?,
            extensions: it.texts("extensions")?,
        })
    }

    /// An event that others may follow, unless it ends the task.
    pub fn event(self, event: &StreamEvent) -> Value {
        self.event_of_stream(event, false)
    }

    /// The last event of its stream, which 0.3 marks.
    pub fn last_event(self, event: &StreamEvent) -> Value {
        self.event_of_stream(event, true)
    }

    fn event_of_stream(self, event: &StreamEvent, is_last: bool) -> Value {
        let (name, value) = match event {
            StreamEvent::Task(task) => ("task", self.task(task)),
            StreamEvent::Message(message) => ("message", self.message(message)),
            StreamEvent::StatusUpdate(update) => ("statusUpdate", self.status_update(update, is_last)),
            StreamEvent::ArtifactUpdate(update) => ("artifactUpdate", self.artifact_update(update)),
        };
        match self {
            Version::V1 | Version::V03Rest => Doc::new().put(name, value).done(),
            Version::V03 => value,
        }
    }

    pub fn read_event(self, value: &Value) -> Read<StreamEvent> {
        let (name, it) = match self {
            Version::V1 | Version::V03Rest => v1::event(value)?,
            Version::V03 => (v03::kind(value)?, value),
        };
        match name {
            "task" => self.read_task(it).map(StreamEvent::Task),
            "message" => self.read_agent_message(it).map(StreamEvent::Message),
            "statusUpdate" | "status-update" => self.read_status_update(it).map(StreamEvent::StatusUpdate),
            "artifactUpdate" | "artifact-update" => self.read_artifact_update(it).map(StreamEvent::ArtifactUpdate),
            _ => refuse("is neither a task nor a message nor an update"),
        }
    }

    fn status_update(self, update: &StatusUpdate, is_last: bool) -> Value {
        let is_final = match self {
            Version::V1 => None,
            Version::V03 | Version::V03Rest => Some(is_last || update.status.state.is_terminal()),
        };
        Doc::new()
            .maybe("kind", self.kind("status-update"))
            .put("taskId", update.task_id.as_str())
            .put("contextId", update.context_id.as_str())
            .put("status", self.status(&update.status))
            .maybe("final", is_final)
            .map("metadata", &update.metadata)
            .done()
    }

    fn read_status_update(self, value: &Value) -> Read<StatusUpdate> {
        let it = Object::of(value)?;
        Ok(StatusUpdate {
            task_id: it.name("taskId")?,
            context_id: it.text("contextId")?,
            status: it.need("status", |it| self.read_status(it))?,
            metadata: it.map("metadata")?,
        })
    }

    fn artifact_update(self, update: &ArtifactUpdate) -> Value {
        Doc::new()
            .maybe("kind", self.kind("artifact-update"))
            .put("taskId", update.task_id.as_str())
            .put("contextId", update.context_id.as_str())
            .put("artifact", self.artifact(&update.artifact))
            .flag("append", update.append)
            .flag("lastChunk", update.last_chunk)
            .map("metadata", &update.metadata)
            .done()
    }

    fn read_artifact_update(self, value: &Value) -> Read<ArtifactUpdate> {
        let it = Object::of(value)?;
        Ok(ArtifactUpdate {
            task_id: it.name("taskId")?,
            context_id: it.text("contextId")?,
            artifact: it.need("artifact", |it| self.read_artifact(it))?,
            append: it.flag("append")?,
            last_chunk: it.flag("lastChunk")?,
            metadata: it.map("metadata")?,
        })
    }

    /// The result of `SendMessage`.
    pub fn sent(self, sent: &SendResult) -> Value {
        let (name, value) = match sent {
            SendResult::Task(task) => ("task", self.task(task)),
            SendResult::Message(message) => ("message", self.message(message)),
        };
        match self {
            Version::V1 | Version::V03Rest => Doc::new().put(name, value).done(),
            Version::V03 => value,
        }
    }

    pub fn read_sent(self, value: &Value) -> Read<SendResult> {
        match self.read_event(value)? {
            StreamEvent::Task(task) => Ok(SendResult::Task(task)),
            StreamEvent::Message(message) => Ok(SendResult::Message(message)),
            StreamEvent::StatusUpdate(_) | StreamEvent::ArtifactUpdate(_) => refuse("is neither a task nor a message"),
        }
    }

    pub fn task_page(self, page: &TaskPage) -> Value {
        Doc::new()
            .put("tasks", page.tasks.iter().map(|it| self.task(it)).collect::<Vec<_>>())
            .put("nextPageToken", page.next_page_token.as_str())
            .put("pageSize", page.page_size)
            .put("totalSize", page.total_size)
            .done()
    }

    /// Without the tasks that cannot be read.
    pub fn read_task_page(self, value: &Value) -> Read<TaskPage> {
        let it = Object::of(value)?;
        Ok(TaskPage {
            tasks: it.list("tasks", |it| Ok(self.read_task(it).ok()))?.into_iter().flatten().collect(),
            next_page_token: it.text("nextPageToken")?,
            page_size: it.maybe("pageSize", count)?.unwrap_or_default(),
            total_size: it.maybe("totalSize", count)?.unwrap_or_default(),
        })
    }

    /// The name of the member with a message's parts.
    fn parts(self) -> &'static str {
        match self {
            Version::V1 | Version::V03 => "parts",
            Version::V03Rest => "content",
        }
    }

    /// Only 0.3 has a `kind` in each document.
    fn kind(self, kind: &'static str) -> Option<&'static str> {
        match self {
            Version::V1 | Version::V03Rest => None,
            Version::V03 => Some(kind),
        }
    }
}

/// By the name in either version.
pub(super) fn named_state(name: &str) -> Option<TaskState> {
    TaskState::ALL.into_iter().find(|it| [v1::state(*it), v03::state(*it), v03_rest::state(*it)].contains(&name))
}

fn read_role(value: &Value) -> Read<Role> {
    let name = text(value)?;
    let role = [Role::User, Role::Agent].into_iter().find(|it| v1::role(*it) == name || v03::role(*it) == name);
    role.map_or_else(|| refuse("is neither the user's nor the agent's"), Ok)
}
