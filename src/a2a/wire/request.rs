//! Parameters of requests, and push configurations.

use serde_json::Value;

use super::super::types::{
    ListQuery, PushConfig, PushListQuery, PushPage, PushQuery, SendRequest, TaskQuery, TaskState,
};
use super::json::{Doc, Object, Read, count, refuse, text, time, timestamp};
use super::task::named_state;
use super::{Version, v1, v03, v03_rest};

impl Version {
    pub fn send_request(self, request: &SendRequest) -> Value {
        let configuration = match self {
            Version::V1 => v1::configuration(&request.configuration),
            Version::V03 => v03::configuration(&request.configuration),
            Version::V03Rest => v03_rest::configuration(&request.configuration),
        };
        Doc::new()
            .maybe("tenant", self.tenant(&request.tenant))
            .put("message", self.message(&request.message))
            .put("configuration", configuration)
            .map("metadata", &request.metadata)
            .done()
    }

    pub fn read_send_request(self, value: &Value) -> Read<SendRequest> {
        let it = Object::of(value)?;
        let configuration = match self {
            Version::V1 => it.maybe("configuration", v1::read_configuration)?,
            Version::V03 => it.maybe("configuration", v03::read_configuration)?,
            Version::V03Rest => it.maybe("configuration", v03_rest::read_configuration)?,
        };
        Ok(SendRequest {
            tenant: it.word("tenant")?,
            message: it.need(self.message_name(it), |it| self.read_message(it))?,
            configuration: configuration.unwrap_or_default(),
            metadata: it.map("metadata")?,
        })
    }

    pub fn task_query(self, query: &TaskQuery) -> Value {
        Doc::new()
            .maybe("tenant", self.tenant(&query.tenant))
            .put("id", query.id.as_str())
            .maybe("historyLength", query.history_length)
            .map("metadata", &query.metadata)
            .done()
    }

    pub fn read_task_query(self, value: &Value) -> Read<TaskQuery> {
        let it = Object::of(value)?;
        Ok(TaskQuery {
            tenant: it.word("tenant")?,
            id: it.name("id")?,
            history_length: it.maybe("historyLength", count)?,
            metadata: it.map("metadata")?,
        })
    }

    pub fn list_query(self, query: &ListQuery) -> Value {
        Doc::new()
            .maybe("tenant", self.tenant(&query.tenant))
            .maybe("contextId", query.context_id.as_deref())
            .maybe("status", query.status.map(|it| self.state(it)))
            .maybe("pageSize", query.page_size)
            .maybe("pageToken", query.page_token.as_deref())
            .maybe("historyLength", query.history_length)
            .maybe("statusTimestampAfter", query.status_timestamp_after.map(timestamp))
            .flag("includeArtifacts", query.include_artifacts)
            .done()
    }

    pub fn read_list_query(self, value: &Value) -> Read<ListQuery> {
        let it = Object::of(value)?;
        let status =
            it.maybe("status", |value| named_state(&text(value)?).map_or_else(|| refuse("is no state of a task"), Ok))?;
        Ok(ListQuery {
            tenant: it.word("tenant")?,
            context_id: it.word("contextId")?,
            status: status.filter(|it| *it != TaskState::Unspecified),
            page_size: it.maybe("pageSize", count)?,
            page_token: it.word("pageToken")?,
            history_length: it.maybe("historyLength", count)?,
            status_timestamp_after: it.maybe("statusTimestampAfter", time)?,
            include_artifacts: it.flag("includeArtifacts")?,
        })
    }

    pub fn push(self, config: &PushConfig) -> Value {
        match self {
            Version::V1 => v1::push(config),
            Version::V03 => v03::push(config),
            Version::V03Rest => v03_rest::push(config),
        }
    }

    pub fn read_push(self, value: &Value) -> Read<PushConfig> {
        match self {
            Version::V1 => v1::read_push(value),
            Version::V03 => v03::read_push(value),
            Version::V03Rest => v03_rest::read_push(value),
        }
    }

    #[cfg(any(test, feature = "internals"))]
    pub fn push_query(self, query: &PushQuery) -> Value {
        let (task, config) = self.push_names();
        Doc::new()
            .maybe("tenant", self.tenant(&query.tenant))
            .put(task, query.task_id.as_str())
            .maybe(config, query.id.as_deref())
            .done()
    }

    pub fn read_push_query(self, value: &Value) -> Read<PushQuery> {
        let (task, config) = self.push_names();
        let it = Object::of(value)?;
        let id = match self {
            Version::V1 => Some(it.name(config)?),
            Version::V03 | Version::V03Rest => it.word(config)?,
        };
        Ok(PushQuery { tenant: it.word("tenant")?, task_id: it.name(task)?, id })
    }

    #[cfg(any(test, feature = "internals"))]
    pub fn push_list_query(self, query: &PushListQuery) -> Value {
        Doc::new()
            .maybe("tenant", self.tenant(&query.tenant))
            .put(self.push_names().0, query.task_id.as_str())
            .maybe("pageSize", query.page_size)
            .maybe("pageToken", query.page_token.as_deref())
            .done()
    }

    pub fn read_push_list_query(self, value: &Value) -> Read<PushListQuery> {
        let it = Object::of(value)?;
        Ok(PushListQuery {
            tenant: it.word("tenant")?,
            task_id: it.name(self.push_names().0)?,
            page_size: it.maybe("pageSize", count)?,
            page_token: it.word("pageToken")?,
        })
    }

    pub fn push_page(self, page: &PushPage) -> Value {
        let configs: Vec<Value> = page.configs.iter().map(|it| self.push(it)).collect();
        match self {
            Version::V1 | Version::V03Rest => {
                Doc::new().put("configs", configs).put("nextPageToken", page.next_page_token.as_str()).done()
            }
            Version::V03 => Value::Array(configs),
        }
    }

    #[cfg(any(test, feature = "internals"))]
    pub fn read_push_page(self, value: &Value) -> Read<PushPage> {
        let read = |it| self.read_push(it);
        match self {
            Version::V1 | Version::V03Rest => {
                let it = Object::of(value)?;
                Ok(PushPage { configs: it.list("configs", read)?, next_page_token: it.text("nextPageToken")? })
            }
            Version::V03 => Ok(PushPage { configs: super::json::list(value, read)?, next_page_token: String::new() }),
        }
    }

    /// The protobuf definition of 0.3 names it `request`.
    fn message_name(self, it: Object<'_>) -> &'static str {
        match self {
            Version::V03Rest if it.has("request") => "request",
            Version::V1 | Version::V03 | Version::V03Rest => "message",
        }
    }

    /// The names of task and configuration in a query.
    fn push_names(self) -> (&'static str, &'static str) {
        match self {
            Version::V1 => ("taskId", "id"),
            Version::V03 | Version::V03Rest => ("id", "pushNotificationConfigId"),
        }
    }

    /// 0.3 has no tenants.
    fn tenant(self, tenant: &Option<String>) -> Option<&str> {
        match self {
            Version::V1 => tenant.as_deref(),
            Version::V03 | Version::V03Rest => None,
        }
    }
}
