//! `[policy]`

use super::section::file_only;
use crate::domain::policy::PolicyRule;

section! {
    /// The server's own policy rules. Neither tenants nor threads can loosen their denials.
    Policy {
        /// Rules in the form of `PUT /policy`, also as tables `[[policy.rules]]`.
        rules: Vec<PolicyRule> = Vec::new(),
            file_only().example("[{ id = \"no-mail-out\", tool = \"mail__*\", action = \"deny\" }]");
    }
}
