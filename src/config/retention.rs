//! `[retention]`

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Error;
use super::section::{by_path, file_only};
use crate::domain::retention::{Kept, Terms};

section! {
    /// How long data is kept: a number of days, or "forever". Older data is deleted in small steps.
    Retention {
        /// Observations of completed runs, and the data that belongs to them. State, runs and messages stay, but older
        /// events can no longer be read.
        log_days: Kept = Kept::Days(90), by_path();
        /// Inactive threads, counted from their last activity: the whole thread is deleted. Its audit stays.
        thread_days: Kept = Kept::Days(400), by_path();
        /// The usage of model calls, also of deleted threads, and the spending of past days and months.
        usage_days: Kept = Kept::Days(400), by_path();
        /// Lines of the audit, in chain order; a line that records the deletion replaces them. Revoked and expired keys are
        /// forgotten with them, or with the threads if these are kept longer.
        audit_days: Kept = Kept::Days(730), by_path();
        /// The terms for the threads of one tenant, by its name, and whether its threads may be deleted at all. Write
        /// them as [retention.tenants.NAME] tables.
        tenants: BTreeMap<String, TenantRetention> = BTreeMap::new(), file_only().example(
            "{ acme = { log_days = 30, thread_days = \"forever\" }, umbrella = { hold = \"case 4711\" } }");
    }
}

/// The terms for the threads of one tenant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TenantRetention {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_days: Option<Kept>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread_days: Option<Kept>,
    /// Why no data of this tenant may be deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold: Option<String>,
}

impl Retention {
    /// The terms of a tenant's threads without terms of their own.
    pub fn of_tenant(&self, tenant: &str) -> Terms {
        let server = Terms { log_days: Some(self.log_days), thread_days: Some(self.thread_days) };
        let own = self.tenants.get(tenant);
        let own = own.map(|own| Terms { log_days: own.log_days, thread_days: own.thread_days });
        own.unwrap_or_default().or(server)
    }

    /// Why no data of this tenant may be deleted.
    pub fn hold_of(&self, tenant: &str) -> Option<&str> {
        self.tenants.get(tenant)?.hold.as_deref()
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        let own = self.tenants.values().flat_map(|own| [own.log_days, own.thread_days]).flatten();
        if own.chain([self.log_days, self.thread_days, self.usage_days, self.audit_days]).all(Kept::is_valid) {
            return Ok(());
        }
        Err(Error("retention: 0 days would keep nothing; write 1 or more, or \"forever\"".to_owned()))
    }
}
