//! The start of a chain whose first lines were deleted because of their age. The checkpoint of the last deleted line
//! replaces them. A line records the deletion; the server that deletes signs it.

use std::collections::VecDeque;

use serde_json::json;

use super::signatures::{Signatures, SignedBy};
use super::stop::Match;
use super::{KeptCheckpoint, missing};
use crate::auth::Signed;
use crate::domain::Millis;
use crate::domain::ids::{TenantPk, ThreadPk};
use crate::store::chain::FORGOTTEN;
use crate::store::{self, ChainedLine, Checkpoint, Store};

/// The checkpoint before the first remaining line. `None`: nothing was deleted, or the deletion does not end at a
/// checkpoint.
pub(super) async fn find(store: &dyn Store, tenant: TenantPk) -> store::Result<Option<Checkpoint>> {
    let mut first = first_line(store, tenant).await?;
    while let Some(n) = first {
        let before = store.checkpoints(tenant, n - 2, 1).await?.pop();
        let before = before.filter(|before| before.n > 0 && before.n == n - 1);
        first = first_line(store, tenant).await?;
        // If the first line has changed, lines were deleted in the meantime: try again.
        if before.is_some() || first == Some(n) {
            return Ok(before);
        }
    }
    Ok(None)
}

async fn first_line(store: &dyn Store, tenant: TenantPk) -> store::Result<Option<i64>> {
    Ok(store.chained_lines(tenant, 0, 1).await?.pop().map(|first| first.n))
}

/// Checks that everything up to the base was old enough to be deleted, by the time of its checkpoint. Only a signed time
/// proves it: if keys are known, one of them must have signed the checkpoint.
pub(super) fn check_age(base: &Checkpoint, oldest: Option<Millis>, signatures: &mut Signatures<'_>) -> Match {
    let Checkpoint { n, at, jws, .. } = base;
    match signatures.checkpoint(*n, jws.as_deref(), &base.payload(""))? {
        SignedBy::Unknown(key) => {
            return Err(format!(
                "checkpoint {n}, where the chain begins, is signed with the key {key}: if that was yours, give its public \
                 half with --keys"
            ));
        }
        SignedBy::Nobody if signatures.are_verified() => {
            return Err(format!(
                "checkpoint {n}, where the chain begins, is not signed, so nothing proves that the lines before were too \
                 old: if it was made before there was a key, --since {n} believes it"
            ));
        }
        SignedBy::Nobody | SignedBy::Current | SignedBy::Former => {}
    }
    if oldest.is_some_and(|oldest| *at >= oldest) { Err(too_young(*n)) } else { Ok(()) }
}

/// Checks that no externally stored checkpoint up to the base is so young that its line had to be kept.
pub(super) fn check_kept(base: &Checkpoint, kept: &VecDeque<&KeptCheckpoint>, oldest: Option<Millis>) -> Match {
    let is_young = |at: i64| oldest.is_some_and(|oldest| at >= oldest);
    let is_missing = |kept: &&KeptCheckpoint| kept.n <= base.n && kept.payload["at"].as_i64().is_some_and(is_young);
    if kept.iter().any(is_missing) { Err(too_young(base.n)) } else { Ok(()) }
}

fn too_young(n: i64) -> String {
    format!(
        "lines 1 to {n} were taken away before they were as old as `retention.audit_days` says, or that was less then"
    )
}

/// What the lines record about deleted lines.
#[derive(Default)]
pub(super) struct DeletionRecords {
    /// The last line whose deletion is recorded.
    recorded: i64,
    /// The last line whose deletion is recorded with the signature of a known key.
    signed: i64,
    /// The last record without such a signature, and who signed it instead.
    unsigned: Option<(i64, SignedBy)>,
}

impl DeletionRecords {
    /// Reads a line. An error if its signature is wrong.
    pub fn read(&mut self, chained: &ChainedLine, signatures: &mut Signatures<'_>) -> Match {
        let ChainedLine { n, line, .. } = chained;
        let is_record = line.action == FORGOTTEN && line.thread == ThreadPk::NONE;
        let Some(upto) = line.detail["upto"].as_i64().filter(|_| is_record) else { return Ok(()) };
        self.recorded = self.recorded.max(upto);
        let payload = json!({ "upto": upto, "hash": line.detail["hash"] });
        let (of, jws) = (format!("line {n}"), line.detail["jws"].as_str());
        match signatures.check(of, Signed::Forgotten, jws, &payload, &["upto", "hash"])? {
            SignedBy::Current | SignedBy::Former => self.signed = self.signed.max(upto),
            other @ (SignedBy::Unknown(_) | SignedBy::Nobody) => self.unsigned = Some((*n, other)),
        }
        Ok(())
    }

    /// Checks that the lines record the deletion of everything before the base; if keys are known, with the signature of one
    /// of them.
    pub fn check(&self, base: i64, signatures: &Signatures<'_>) -> Match {
        if self.recorded < base {
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
