//! `[doors]`

use std::time::Duration;

use super::section::by_path;

section! {
    /// How OpenAI's API at /v1 behaves.
    Doors {
        /// Headers with the id of a thread, besides X-PES-Thread: the conversation ids of front ends.
        thread_headers: Vec<String> = vec!["x-openwebui-chat-id".to_owned()], by_path();
        /// How long a chat completion continues after its client has disconnected, in milliseconds; -1 = to its end. A
        /// completion with a named thread, or one that waits for a person, always continues.
        chat_grace_ms: i64 = 15_000, by_path();
    }
}

impl Doors {
    /// `None`: runs do not end when their clients disconnect.
    pub fn chat_grace(&self) -> Option<Duration> {
        u64::try_from(self.chat_grace_ms).ok().map(Duration::from_millis)
    }
}
