//! A database whose disk is full.

use pes::store::{Committed, Error, Store as _, ThreadStore as _};
use sqlx::Executor as _;

use super::{creation, process};
use crate::support::postgres::Database;

/// No table gets another page: no thread is created, and of the table that health checks write, the page that is there
/// takes what fits into it.
const FILL: &str = "
CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full'; END $$;
CREATE TRIGGER full_disk BEFORE INSERT ON threads EXECUTE FUNCTION no_room();
CREATE TRIGGER full_disk BEFORE INSERT OR UPDATE ON pulse
    FOR EACH ROW WHEN (octet_length(NEW.ballast) > 8192) EXECUTE FUNCTION no_room()";

const FREE: &str = "DROP FUNCTION no_room CASCADE";

#[tokio::test]
async fn a_server_is_not_ready_while_its_smallest_commits_find_no_room() {
    let database = Database::fresh().await;
    let store = process(&database).await;
    store.ping().await.unwrap();
    let mut admin = database.connect().await;
    admin.execute(FILL).await.unwrap();
    store.ping().await.expect("no commit has failed yet");
    assert!(matches!(store.commit(creation()).await, Err(Error::Unavailable(why)) if why.contains("No space left")));
    for _ in 0..2 {
        let Err(Error::Unavailable(why)) = store.ping().await else { panic!("the check must fail") };
        assert!(why.contains("No space left"), "{why}");
    }
    admin.execute(FREE).await.unwrap();
    store.ping().await.unwrap();
    assert_eq!(store.commit(creation()).await.unwrap(), Committed::Done);
}
