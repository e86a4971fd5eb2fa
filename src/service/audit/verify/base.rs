//! Where a chain begins whose first lines were forgotten because of their age: the checkpoint up to which they were stands
//! for them, and a line says so, which the server signs that forgets.

use std::collections::VecDeque;

use serde_json::json;

use super::signatures::{Signatures, SignedBy};
use super::{Checked, Kept, missing};
use crate::auth::Signed;
use crate::domain::Millis;
use crate::domain::ids::{TenantPk, ThreadPk};
use crate::store::chain::FORGOTTEN;
use crate::store::{ChainedLine, Checkpoint, Result, Store};

/// The checkpoint before the first line that is there; `None`: nothing was forgotten, or taken away up to no checkpoint.
pub(super) async fn find(store: &dyn Store, tenant: TenantPk) -> Result<Option<Checkpoint>> {
    let mut first = first_line(store, tenant).await?;
    while let Some(n) = first {
        let before = store.checkpoints(tenant, n - 2, 1).await?.pop();
        let before = before.filter(|before| before.n > 0 && before.n == n - 1);
        first = first_line(store, tenant).await?;
        // Unless lines were forgotten in between.
        if before.is_some() || first == Some(n) {
            return Ok(before);
        }
    }
    Ok(None)
}

async fn first_line(store: &dyn Store, tenant: TenantPk) -> Result<Option<i64>> {
    Ok(store.chained_lines(tenant, 0, 1).await?.pop().map(|first| first.n))
}

/// Neither it nor what others kept of the lines before it is so young that they had to stay.
pub(super) fn check_age(base: &Checkpoint, kept: &VecDeque<&Kept>, oldest: Option<Millis>) -> Checked {
    let Some(oldest) = oldest else { return Ok(()) };
    let is_young = |kept: &&Kept| kept.n <= base.n && kept.payload["at"].as_i64().is_some_and(|at| at >= oldest);
    if base.at < oldest && !kept.iter().any(is_young) {
        return Ok(());
    }
    Err(format!(
        "lines 1 to {} were taken away before they were as old as `retention.audit_days` says, or that was less then",
        base.n
    ))
}

/// What lines say of others that were forgotten.
#[derive(Default)]
pub(super) struct Forgotten {
    /// Up to which line.
    told: i64,
    /// The same of those that are signed with a key that is known.
    signed: i64,
    /// The last that is not, and who signed it instead.
    unsigned: Option<(i64, SignedBy)>,
}

impl Forgotten {
    /// Looks at a line. An error if its signature is wrong.
    pub fn read(&mut self, chained: &ChainedLine, signatures: &mut Signatures<'_>) -> Checked {
        let ChainedLine { n, line, .. } = chained;
        let is_told = line.action == FORGOTTEN && line.thread == ThreadPk::NONE;
        let Some(upto) = line.detail["upto"].as_i64().filter(|_| is_told) else { return Ok(()) };
        self.told = self.told.max(upto);
        let payload = json!({ "upto": upto, "hash": line.detail["hash"] });
        let (of, jws) = (format!("line {n}"), line.detail["jws"].as_str());
        match signatures.check(of, Signed::Forgotten, jws, &payload, &["upto", "hash"])? {
            SignedBy::Current | SignedBy::Former => self.signed = self.signed.max(upto),
            other @ (SignedBy::Unknown(_) | SignedBy::Nobody) => self.unsigned = Some((*n, other)),
        }
        Ok(())
    }

    /// Whether lines tell of all that is missing before the chain begins; with a key, whether it is the server that says
    /// so.
    pub fn check(&self, base: i64, signatures: &Signatures<'_>) -> Checked {
        if self.told < base {
            return Err(missing(1, base));
        }
        if !signatures.are_verified() || self.signed >= base {
            return Ok(());
        }
        let how = match &self.unsigned {
            Some((n, SignedBy::Unknown(key))) => format!(
                "line {n} says that they were too old, and is signed with the key {key}: if that was yours, give its public \
                 half with --keys"
            ),
            Some((n, _)) => format!(
                "line {n} says that they were too old, and no server with a key signed it: if they were forgotten before \
                 there was one, --since {base} believes it"
            ),
            None => "no line says that all of them were too old".to_owned(),
        };
        Err(format!("lines 1 to {base} are missing: {how}"))
    }
}
