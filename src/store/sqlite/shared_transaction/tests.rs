use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rusqlite::Transaction;
use tokio::sync::oneshot::Receiver;

use super::super::write_connection::WriteConnection;
use super::{PendingWrite, Write, write};
use crate::config::Synchronous;
use crate::store::{Chores, Error, Result};

/// A database with one table, and a connection that writes to it.
struct Bed {
    folder: tempfile::TempDir,
    connection: WriteConnection,
    chores: Chores,
}

type Asking = (Box<dyn Write>, Receiver<Result<usize>>);

impl Bed {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pes.db");
        rusqlite::Connection::open(&path).unwrap().execute_batch("CREATE TABLE t (a UNIQUE)").unwrap();
        let file = Arc::new(std::fs::File::options().read(true).write(true).open(&path).unwrap());
        let connection = WriteConnection::open(path, file, Vec::new(), Synchronous::Normal).unwrap();
        Self { folder, connection, chores: Chores::new() }
    }

    /// The answers to these writes, written while the transaction is not older than that.
    fn write<const N: usize>(&mut self, asked: [Asking; N], longest: Duration) -> [Result<usize>; N] {
        let (writes, answers): (Vec<_>, Vec<_>) = asked.into_iter().unzip();
        let mut writes = writes.into_iter();
        while let Some(first) = writes.next() {
            write(&mut self.connection, first, || writes.next(), longest, &self.chores);
        }
        let told: Vec<_> = answers.into_iter().map(|mut answer| answer.try_recv().expect("it is told")).collect();
        told.try_into().unwrap()
    }

    fn rows(&self) -> i64 {
        rows(self.folder.path())
    }
}

fn rows(folder: &Path) -> i64 {
    let connection = rusqlite::Connection::open(folder.join("pes.db")).unwrap();
    connection.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap()
}

fn asked(write: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<usize> + Send + 'static) -> Asking {
    let (asked, answered) = PendingWrite::new(write, None);
    (Box::new(asked), answered)
}

fn insert(value: i64) -> Asking {
    asked(move |tx| tx.execute("INSERT INTO t VALUES (?1)", [value]))
}

#[test]
fn writes_share_a_transaction_and_one_that_is_refused_fails_alone() {
    let mut bed = Bed::new();
    let beside = bed.folder.path().to_owned();
    let refused = asked(|tx| tx.execute("INSERT INTO t VALUES (2)", []).and_then(|_| tx.execute("no statement", [])));
    let seen = asked(move |_| Ok(usize::try_from(rows(&beside)).unwrap()));
    let [first, refused, seen, last] = bed.write([insert(1), refused, seen, insert(2)], Duration::MAX);
    assert!(matches!((&first, &last), (Ok(1), Ok(1))), "{first:?} {last:?}");
    assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");
    assert!(matches!(seen, Ok(0)), "nobody sees the first before all are stored: {seen:?}");
    assert_eq!(bed.rows(), 2);
    assert!(bed.chores.held_us.load(Ordering::Relaxed) > 0);
}

/// SQLite itself ends the transaction.
#[test]
fn where_there_is_no_room_nothing_of_the_transaction_is_stored_and_later_ones_are() {
    let mut bed = Bed::new();
    let large = asked(|tx| {
        tx.pragma_update(None, "max_page_count", 1)?;
        tx.execute("INSERT INTO t VALUES (zeroblob(100000))", [])
    });
    let [first, large, last] = bed.write([insert(1), large, insert(2)], Duration::MAX);
    assert!(
        matches!((&first, &large), (Err(Error::Unavailable(_)), Err(Error::Unavailable(_)))),
        "{first:?} {large:?}"
    );
    assert!(matches!(last, Ok(1)), "{last:?}");
    assert_eq!(bed.rows(), 1);
}

#[test]
fn a_panic_fails_all_that_share_the_transaction_and_none_after_it() {
    let mut bed = Bed::new();
    let panics = asked(|_| panic!("a defect"));
    let told = bed.write([insert(1), panics], Duration::MAX);
    assert!(told.iter().all(|told| matches!(told, Err(Error::Unavailable(_)))), "{told:?}");
    assert_eq!(bed.rows(), 0);
    let [told] = bed.write([insert(1)], Duration::MAX);
    assert!(matches!(told, Ok(1)), "{told:?}");
}

#[test]
fn each_is_told_where_no_transaction_begins() {
    let mut bed = Bed::new();
    let [set] = bed.write([asked(|tx| tx.pragma_update(None, "busy_timeout", 0).map(|()| 0))], Duration::MAX);
    set.unwrap();
    let mut other = rusqlite::Connection::open(bed.folder.path().join("pes.db")).unwrap();
    let held = other.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).unwrap();
    let [told] = bed.write([insert(1)], Duration::MAX);
    assert!(matches!(told, Err(Error::Unavailable(_))), "{told:?}");
    drop(held);
    let [told] = bed.write([insert(1)], Duration::MAX);
    assert!(matches!(told, Ok(1)), "{told:?}");
}

#[test]
fn nothing_joins_a_transaction_that_is_old() {
    let mut bed = Bed::new();
    let (second, mut answer) = insert(2);
    let mut second = Some(second);
    write(&mut bed.connection, insert(1).0, || second.take(), Duration::ZERO, &bed.chores);
    assert!(answer.try_recv().is_err());
    assert_eq!(bed.rows(), 1);
}
