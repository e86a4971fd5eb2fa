//! `[policy]`

use super::section::file_only;
use crate::domain::policy::PolicyRule;

section! {
    /// Who must be asked: the server's own rules, which no tenant and no thread loosens where they deny.
    Policy {
        /// Rules as `PUT /policy` takes them, also written as tables `[[policy.rules]]`.
        rules: Vec<PolicyRule> = Vec::new(),
            file_only().example("[{ id = \"no-mail-out\", tool = \"mail__*\", action = \"deny\" }]");
    }
}
