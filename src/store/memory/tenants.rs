//! Tenants: a name is its place.

use serde_json::json;

use super::State;
use crate::domain::Millis;
use crate::domain::ids::{TenantPk, ThreadPk};
use crate::store::AuditRow;

impl State {
    fn tenant(&self, name: &str) -> Option<TenantPk> {
        self.tenants.iter().position(|known| known == name).map(|place| TenantPk(place as i64 + 1))
    }

    pub(super) fn rename(&mut self, from: &str, to: &str, by: &str, at: Millis) -> bool {
        let (Some(tenant), other) = (self.tenant(from), self.tenant(to)) else { return false };
        if let Some(other) = other {
            let is_busy = self.threads.values().any(|kept| kept.thread.tenant == other)
                || self.documents.iter().any(|known| known.tenant == other && known.body.is_some())
                || self.used.iter().any(|(owner, ..)| *owner == other);
            if is_busy {
                return false;
            }
            self.tenants[other.0 as usize - 1] = String::new();
            self.keys.iter_mut().filter(|key| key.tenant == other).for_each(|key| key.tenant = tenant);
            self.audit.iter_mut().filter(|line| line.tenant == other).for_each(|line| line.tenant = tenant);
        }
        self.tenants[tenant.0 as usize - 1] = to.to_owned();
        self.keys.iter_mut().filter(|key| key.tenant == tenant).for_each(|key| key.tenant_name = to.to_owned());
        self.audit.push(AuditRow {
            tenant,
            thread: ThreadPk::NONE,
            thread_id: None,
            at,
            actor: by.to_owned(),
            action: "rename tenant".to_owned(),
            detail: json!({ "from": from, "to": to }),
        });
        true
    }
}
