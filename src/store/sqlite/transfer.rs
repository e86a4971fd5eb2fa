//! Import of a whole thread.

use async_trait::async_trait;
use rusqlite::{Transaction, params};

use super::{Sqlite, batch};
use crate::store::committer::Sending;
use crate::store::{Committed, NewImport, Result, TransferStore};

#[async_trait]
impl TransferStore for Sqlite {
    async fn import_thread(&self, import: NewImport) -> Result<Committed> {
        let NewImport { commit, log, min_seq, last_seq, base } = import;
        let prepared = self.committer.prepared(commit);
        let log = self.committer.formatted(log).await?;
        let store = move |tx: &Transaction<'_>| {
            let outcomes = batch::write(tx, std::slice::from_ref(&prepared), Sending::First)?;
            let outcome = outcomes.into_iter().next().unwrap_or(Committed::Stale);
            if outcome == Committed::Done {
                log.iter().try_for_each(|entry| batch::write_entry(tx, prepared.commit.pk.0, entry))?;
                tx.prepare_cached("UPDATE threads SET min_seq = ?2, last_seq = ?3 WHERE pk = ?1")?.execute([
                    prepared.commit.pk.0,
                    min_seq,
                    last_seq,
                ])?;
            }
            if let (Committed::Done, Some(base)) = (&outcome, &base) {
                tx.prepare_cached("INSERT INTO bases (pk, seq, body) VALUES (?1, ?2, ?3)")?.execute(params![
                    prepared.commit.pk.0,
                    min_seq - 1,
                    base
                ])?;
            }
            Ok(outcome)
        };
        self.writer.write(store).await
    }
}
