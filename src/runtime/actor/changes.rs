//! Changes of a thread that its machine does not decide: those of its profile, and rows that no machine writes (push
//! receivers, the terms of retention). Such a change is made to the thread as it is stored, and made anew if another process
//! wrote the thread meanwhile.

use super::Actor;
use super::command::{AuditedAction, CommandError, CommitExtras, EditedProfile, ProfileEdit};
use super::load::{MAX_ATTEMPTS, contended};
use crate::domain::Millis;
use crate::domain::fault::Fault;
use crate::engine::step::Row;
use crate::store::{Commit, LeaseChange, ThreadRow};

impl Actor {
    /// Commits the profile that `edit` returns. A refusal is final only if it is about the newest version of the thread.
    pub(super) async fn edit_profile(&mut self, edit: &ProfileEdit) -> Result<(), CommandError> {
        self.commit_change(None, |thread, now, commit| {
            let EditedProfile { profile, rows, audit } = edit(thread, now)?;
            commit.rows.extend(rows);
            commit.audit.extend(audit);
            commit.profile = Some(Box::new(profile));
            Ok(())
        })
        .await
    }

    /// Commits a row of the thread.
    pub(super) async fn store_row(&mut self, row: &Row, audit: Option<AuditedAction>) -> Result<(), CommandError> {
        self.commit_change(Some(row), |thread, now, commit| {
            commit.audit.extend(audit.iter().map(|audited| audited.row(thread, now)));
            Ok(())
        })
        .await
    }

    /// Commits the row, as it is to be stored now, and what `change` adds to the commit.
    async fn commit_change(
        &mut self,
        row: Option<&Row>,
        change: impl Fn(&ThreadRow, Millis, &mut Commit) -> Result<(), Fault>,
    ) -> Result<(), CommandError> {
        let extras = CommitExtras::default();
        for _ in 0..MAX_ATTEMPTS {
            self.ensure_loaded(&extras).await?;
            let row = match row {
                Some(row) => Some(self.shared.receiver_row_of_now(self.pk, row).await?),
                None => None,
            };
            let Some(loaded) = &self.loaded else { continue };
            let now = self.shared.now();
            let mut commit = loaded.commit_with_lease(LeaseChange::Keep, now);
            commit.rows.extend(row);
            match change(&loaded.row, now, &mut commit) {
                Ok(()) => {
                    if self.write(commit).await? {
                        return Ok(());
                    }
                }
                Err(fault) if self.confirm_newest().await? => return Err(fault.into()),
                Err(_) => {}
            }
        }
        Err(contended())
    }
}
