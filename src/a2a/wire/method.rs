//! The methods of an agent, and their names in either version.

use super::Version;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    SendMessage,
    SendStreamingMessage,
    GetTask,
    ListTasks,
    CancelTask,
    SubscribeToTask,
    CreatePushConfig,
    GetPushConfig,
    ListPushConfigs,
    DeletePushConfig,
    GetExtendedAgentCard,
}

impl Method {
    pub const ALL: [Method; 11] = [
        Method::SendMessage,
        Method::SendStreamingMessage,
        Method::GetTask,
        Method::ListTasks,
        Method::CancelTask,
        Method::SubscribeToTask,
        Method::CreatePushConfig,
        Method::GetPushConfig,
        Method::ListPushConfigs,
        Method::DeletePushConfig,
        Method::GetExtendedAgentCard,
    ];

    /// The names in 1.0 and in 0.3, which cannot list tasks.
    fn names(self) -> (&'static str, Option<&'static str>) {
        match self {
            Method::SendMessage => ("SendMessage", Some("message/send")),
            Method::SendStreamingMessage => ("SendStreamingMessage", Some("message/stream")),
            Method::GetTask => ("GetTask", Some("tasks/get")),
            Method::ListTasks => ("ListTasks", None),
            Method::CancelTask => ("CancelTask", Some("tasks/cancel")),
            Method::SubscribeToTask => ("SubscribeToTask", Some("tasks/resubscribe")),
            Method::CreatePushConfig => ("CreateTaskPushNotificationConfig", Some("tasks/pushNotificationConfig/set")),
            Method::GetPushConfig => ("GetTaskPushNotificationConfig", Some("tasks/pushNotificationConfig/get")),
            Method::ListPushConfigs => ("ListTaskPushNotificationConfigs", Some("tasks/pushNotificationConfig/list")),
            Method::DeletePushConfig => {
                ("DeleteTaskPushNotificationConfig", Some("tasks/pushNotificationConfig/delete"))
            }
            Method::GetExtendedAgentCard => ("GetExtendedAgentCard", Some("agent/getAuthenticatedExtendedCard")),
        }
    }

    /// The name in JSON-RPC, where the version has the method.
    pub fn name(self, version: Version) -> Option<&'static str> {
        match version {
            Version::V1 => Some(self.names().0),
            Version::V03 | Version::V03Rest => self.names().1,
        }
    }

    pub fn named(version: Version, name: &str) -> Option<Method> {
        Method::ALL.into_iter().find(|it| it.name(version) == Some(name))
    }
}
