//! Two processes and one thread: only the holder of the fence may write.

use pes::domain::ids::ThreadPk;
use pes::store::{
    Commit, Committed, Error, Fence, LeaseChange, LeaseStore as _, NewThread, ThreadReads as _, ThreadStore as _,
};
use sqlx::{AssertSqlSafe, Executor, PgConnection};
use uuid::Uuid;

use super::{PK, creation, process, said, transition};
use crate::store::bed::registration;
use crate::support::postgres::Database;

const TTL: i64 = 60_000;

fn claim(fence: Fence, last_seq: i64, replica: Uuid) -> (Commit, Uuid) {
    let lease = Uuid::new_v4();
    let commit = Commit { lease: LeaseChange::Claim { lease, replica }, ..transition(fence, last_seq, "claimed") };
    (commit, lease)
}

#[tokio::test]
async fn a_stale_owner_writes_nothing() {
    let database = Database::fresh().await;
    let (old, new) = (process(&database).await, process(&database).await);
    let (ours, theirs) = (Uuid::new_v4(), Uuid::new_v4());
    old.register(registration(ours), TTL).await.unwrap();
    new.register(registration(theirs), TTL).await.unwrap();

    assert_eq!(old.commit(creation()).await.unwrap(), Committed::Done);
    let (claiming, lease) = claim(Fence { version: 1, ..Fence::NEW }, 0, ours);
    assert_eq!(old.commit(claiming).await.unwrap(), Committed::Done);
    let held = Fence { epoch: 1, lease: Some(lease), version: 2 };
    assert_eq!(old.commit(transition(held.clone(), 1, "ours")).await.unwrap(), Committed::Done);
    let held = Fence { version: 3, ..held };

    // While its owner is alive nobody can claim it; afterwards anybody may.
    let (taking, taken) = claim(held.clone(), 2, theirs);
    assert_eq!(new.commit(taking.clone()).await.unwrap(), Committed::Stale);
    old.register(registration(ours), 0).await.unwrap();
    new.end_expired().await.unwrap();
    let claimable = new.claimable(0, theirs, taken, 10).await.unwrap();
    assert_eq!(claimable.into_iter().map(|found| found.pk).collect::<Vec<_>>(), [PK]);
    assert_eq!(new.commit(taking).await.unwrap(), Committed::Done);

    assert_eq!(old.commit(transition(held, 2, "stale")).await.unwrap(), Committed::Stale);
    let (thread, rows) = new.load(PK).await.unwrap().unwrap();
    assert_eq!(thread.fence, Fence { epoch: 2, lease: Some(taken), version: 4 });
    assert_eq!((thread.replica, thread.last_seq), (Some(theirs), 3));
    assert_eq!(rows[0].body, "\"claimed\"");
    assert_eq!(said(&new).await, ["claimed", "ours", "claimed"]);
    assert!(new.claimable(0, theirs, taken, 10).await.unwrap().is_empty());
}

#[tokio::test]
async fn of_many_processes_deciding_at_once_one_wins() {
    let database = Database::fresh().await;
    let (one, other) = (process(&database).await, process(&database).await);
    assert_eq!(one.commit(creation()).await.unwrap(), Committed::Done);
    let fence = Fence { version: 1, ..Fence::NEW };
    let decisions = (0..100).map(|n| {
        let store = if n % 2 == 0 { &one } else { &other };
        store.commit(transition(fence.clone(), 0, &n.to_string()))
    });
    let outcomes = futures_util::future::join_all(decisions).await;
    assert_eq!(outcomes.iter().filter(|outcome| matches!(outcome, Ok(Committed::Done))).count(), 1);
    assert!(outcomes.iter().all(|outcome| outcome.is_ok()));
    assert_eq!(said(&one).await.len(), 1);
}

#[tokio::test]
async fn of_many_processes_creating_one_id_one_wins() {
    let database = Database::fresh().await;
    let (one, other) = (process(&database).await, process(&database).await);
    let creations = (0..40).map(|n| {
        let store = if n % 2 == 0 { &one } else { &other };
        store.commit(Commit { pk: ThreadPk(100 + n), token: Uuid::new_v4(), ..creation() })
    });
    let outcomes = futures_util::future::join_all(creations).await;
    assert_eq!(outcomes.iter().filter(|outcome| matches!(outcome, Ok(Committed::Done))).count(), 1);
    assert_eq!(outcomes.iter().filter(|outcome| matches!(outcome, Ok(Committed::Exists))).count(), 39);
}

/// A locked row is being written, so a commit with that version is already stale; it fails without waiting.
#[tokio::test]
async fn a_row_that_somebody_holds_delays_nobody() {
    let database = Database::fresh().await;
    let store = process(&database).await;
    let next_door = Commit { pk: ThreadPk(PK.0 + 2), ..creation() };
    for creation in [creation(), named(next_door.clone(), "u")] {
        assert_eq!(store.commit(creation).await.unwrap(), Committed::Done);
    }
    let mut somebody: PgConnection = database.connect().await;
    somebody.execute("BEGIN; SELECT FROM threads WHERE pk = 7 FOR UPDATE").await.unwrap();
    let fence = Fence { version: 1, ..Fence::NEW };
    let (claiming, _) = claim(fence.clone(), 0, Uuid::new_v4());
    for commit in [transition(fence.clone(), 0, "alone"), claiming] {
        assert_eq!(store.commit(commit).await.unwrap(), Committed::Stale);
    }
    let beside = Commit { pk: next_door.pk, ..transition(fence.clone(), 0, "beside") };
    assert_eq!(store.commit(beside).await.unwrap(), Committed::Done);
    somebody.execute("ROLLBACK").await.unwrap();
    assert_eq!(store.commit(transition(fence, 0, "now")).await.unwrap(), Committed::Done);
}

fn named(commit: Commit, id: &str) -> Commit {
    let create = commit.create.map(|new| NewThread { thread_id: id.into(), ..new });
    Commit { create, token: Uuid::new_v4(), ..commit }
}

/// From now on a row for which this holds is refused, as if another transaction had come first.
async fn races(admin: &mut PgConnection, when: &str) {
    let trigger = format!(
        "CREATE FUNCTION race() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF {when} THEN RAISE EXCEPTION 'it came between' USING ERRCODE = '40001'; END IF;
            RETURN NEW;
        END $$;
        CREATE TRIGGER race BEFORE INSERT ON thread_rows FOR EACH ROW EXECUTE FUNCTION race()"
    );
    admin.execute(AssertSqlSafe(trigger)).await.unwrap();
}

#[tokio::test]
async fn a_commit_that_loses_every_race_is_not_stored_and_may_be_sent_again() {
    let database = Database::fresh().await;
    let store = process(&database).await;
    assert_eq!(store.commit(creation()).await.unwrap(), Committed::Done);
    races(&mut database.connect().await, "NEW.body LIKE '%late%'").await;
    let fence = Fence { version: 1, ..Fence::NEW };
    let late = store.commit(transition(fence.clone(), 0, "late")).await;
    assert!(matches!(late, Err(Error::Unavailable(_))), "{late:?}");
    assert_eq!(store.commit(transition(fence, 0, "in time")).await.unwrap(), Committed::Done);
    assert_eq!(said(&store).await, ["in time"]);
}

#[tokio::test]
async fn commits_see_what_others_wrote_whatever_the_default_of_the_database_is() {
    let database = Database::fresh().await;
    let mut admin = database.connect().await;
    let name: String = sqlx::query_scalar("SELECT current_database()").fetch_one(&mut admin).await.unwrap();
    let strict = format!("ALTER DATABASE {name} SET default_transaction_isolation = serializable");
    admin.execute(AssertSqlSafe(strict)).await.unwrap();
    let store = process(&database).await;
    races(&mut admin, "current_setting('transaction_isolation') <> 'read committed'").await;
    assert_eq!(store.commit(creation()).await.unwrap(), Committed::Done);
    let fence = Fence { version: 1, ..Fence::NEW };
    assert_eq!(store.commit(transition(fence, 0, "said")).await.unwrap(), Committed::Done);
}
