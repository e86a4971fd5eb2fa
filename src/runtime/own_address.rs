//! Where this server is reached, by agents and by people. It is known once the listener is bound.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::config::Config;
use crate::domain::console_urls::{ConsoleUrls, OwnUrl};
use crate::domain::message::ConversationMessage;
use crate::domain::run::{Run, RunResource};

pub(super) struct OwnAddress {
    /// `server.public_url` is set: agents on other machines reach it.
    has_public_url: bool,
    base: OnceLock<String>,
    /// Not set if people cannot open the base URL.
    console_urls: OnceLock<ConsoleUrls>,
}

impl OwnAddress {
    pub(super) fn unknown(config: &Config) -> Self {
        let has_public_url = config.server.public_url.is_some();
        Self { has_public_url, base: OnceLock::new(), console_urls: OnceLock::new() }
    }

    /// Only the first call counts: other agents get that URL.
    pub(super) fn set(&self, url: OwnUrl) {
        if let Some(urls) = ConsoleUrls::of(&url.base, url.is_public) {
            self.console_urls.set(urls).ok();
        }
        self.base.set(url.base).ok();
    }

    /// The URLs of the console; `None`: no address is known.
    pub(super) fn console_urls(&self) -> Option<&ConsoleUrls> {
        self.console_urls.get()
    }

    /// The URLs of the console for other agents; `None`: no public address is configured.
    pub(super) fn public_console_urls(&self) -> Option<&ConsoleUrls> {
        self.console_urls().filter(|urls| urls.is_public())
    }

    /// A run as clients see it, with its URL in the console.
    pub(super) fn resource(&self, run: &Run, answer: Option<ConversationMessage>) -> RunResource {
        let url = self.console_urls().map(|urls| urls.run(&run.thread_id, &run.run_id));
        RunResource { url, ..run.resource(answer) }
    }

    /// The base URL for callbacks; `None`: the agent could not reach it, so it is polled.
    pub(super) fn base_for(&self, is_loopback: bool) -> Option<String> {
        static WARNED: AtomicBool = AtomicBool::new(false);
        let base = self.base.get()?;
        if is_loopback || self.has_public_url {
            return Some(base.clone());
        }
        if !WARNED.swap(true, Ordering::SeqCst) {
            tracing::warn!("without PES_PUBLIC_URL other agents cannot report here; they are asked how tasks stand");
        }
        None
    }
}
