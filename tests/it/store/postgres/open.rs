//! Opening a database either succeeds or fails with one clear line.

use std::time::Duration;

use pes::service::audit::verify::{VerifyAsk, verify};
use pes::store::postgres::Postgres;
use pes::store::{
    BackupStore as _, Committed, Error, KeyStore as _, LeaseStore as _, Registration, Store as _, ThreadReads as _,
    ThreadStore as _,
};
use sqlx::{AssertSqlSafe, Executor};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream, UnixStream};

use super::{creation, process};
use crate::store::migrations::{self, NEWEST};
use crate::support::http::soon;
use crate::support::postgres::Database;
use crate::support::proxy::Proxy;
use crate::support::unused_address::unused_address;

/// A PostgreSQL that recovers answers a connection with this.
const STARTING: &[u8] = b"E\0\0\0\x39SFATAL\0VFATAL\0C57P03\0Mthe database system starts up\0\0";
/// Longer than a test may take.
const LONG: Duration = Duration::from_secs(3600);

/// The content of a packet before the session: a length, and the rest.
pub(super) async fn read_packet(client: &mut TcpStream) -> Vec<u8> {
    let length = client.read_u32().await.unwrap();
    let mut content = vec![0; length as usize - 4];
    client.read_exact(&mut content).await.unwrap();
    content
}

pub(super) async fn refusal(url: String) -> String {
    match Postgres::open(&url.into(), 1).await {
        Err(Error::Unusable(line)) => line,
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("it opened"),
    }
}

#[tokio::test]
async fn processes_that_start_together_migrate_once() {
    let database = Database::fresh().await;
    let stores = futures_util::future::join_all((0..6).map(|_| process(&database))).await;
    assert_eq!(stores[0].commit(creation()).await.unwrap(), Committed::Done);
    assert!(stores[5].thread_by_pk(super::PK).await.unwrap().is_some());
}

#[tokio::test]
async fn a_database_that_a_server_uses_is_not_said_to_be_restored() {
    let database = Database::fresh().await;
    let (store, replica) = (process(&database).await, uuid::Uuid::new_v4());
    let serving = Registration { replica, name: Some("pes-0".to_owned()), former: None };
    store.register(serving, 60_000).await.unwrap();
    let Err(Error::Unusable(why)) = store.mark_restored(4_711).await else { panic!("it was taken") };
    assert!(why.contains("pes-0") && why.contains("stop it first"), "{why}");
    assert_eq!(store.restored().await.unwrap(), None);
    store.unregister(replica).await.unwrap();
    store.mark_restored(4_711).await.unwrap();
    assert_eq!(store.restored().await.unwrap(), Some(4_711));
}

#[tokio::test]
async fn a_database_that_does_not_answer_is_one_line_without_the_password() {
    let (free, _held) = unused_address();
    let line = refusal(format!("postgres://pes:hunter2@{free}/pes")).await;
    assert!(line.contains(&free.to_string()) && line.contains("cannot be reached"), "{line}");
    assert!(!line.contains("hunter2") && !line.contains('\n'), "{line}");
    let line = refusal("postgres://pes:hunter2@[/pes".into()).await;
    assert!(line.contains("DATABASE_URL") && !line.contains("hunter2"), "{line}");
    // An address of IPv6, and no name in brackets that must be looked up.
    let line = refusal("postgres://pes:hunter2@[::1]:1/pes".into()).await;
    assert!(line.contains("PostgreSQL at [::1]:1/pes cannot be reached") && !line.contains("lookup"), "{line}");
    // As `openssl rand -base64` makes them.
    for password in ["hunter/2", "hunter#2", "hunter?2", "7?hunter", "h@hunter/2"] {
        let line = refusal(format!("postgres://pes:{password}@{free}/pes")).await;
        assert!(line.contains("/ as %2F") && !line.contains("hunter"), "{password}: {line}");
    }
}

#[tokio::test]
async fn a_database_that_is_not_there_is_one_line() {
    let database = Database::fresh().await;
    let line = refusal(database.url().replace("/test_", "/no_such_")).await;
    assert!(line.contains("does not exist") && !line.contains('\n'), "{line}");
}

#[tokio::test]
async fn a_database_that_newer_versions_added_to_is_used_and_one_they_took_from_is_left_as_it_is() {
    let database = Database::fresh().await;
    process(&database).await.close().await;
    let mut newer = database.connect().await;
    newer
        .execute(
            "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
             VALUES (999, 'from the future', true, '', 0);
             ALTER TABLE tenants ADD COLUMN from_the_future text",
        )
        .await
        .unwrap();
    let older = process(&database).await;
    assert_eq!(older.commit(creation()).await.unwrap(), Committed::Done);
    older.close().await;
    newer.execute("UPDATE schema_floor SET least = 999; DROP TABLE pulse").await.unwrap();
    let line = refusal(database.url()).await;
    assert!(line.contains("too new") && line.contains("999") && !line.contains('\n'), "{line}");
    let pulse: Option<String> =
        sqlx::query_scalar("SELECT to_regclass('pulse')::text").fetch_one(&mut newer).await.unwrap();
    assert_eq!(pulse, None);
}

#[tokio::test]
async fn large_bodies_are_compressed_with_lz4_where_the_server_can() {
    let database = Database::fresh().await;
    process(&database).await.close().await;
    let mut connection = database.connect().await;
    let can: bool =
        sqlx::query_scalar("SELECT 'lz4' = ANY (enumvals) FROM pg_settings WHERE name = 'default_toast_compression'")
            .fetch_one(&mut connection)
            .await
            .unwrap();
    // Not of indexes.
    let columns = "SELECT count(*) FROM pg_attribute JOIN pg_class c ON c.oid = attrelid
        WHERE c.relkind = 'r' AND attcompression = 'l'";
    let compressed: i64 = sqlx::query_scalar(columns).fetch_one(&mut connection).await.unwrap();
    assert_eq!(compressed, if can { 7 } else { 0 });
}

/// The pool tries again for as long as it may, and keeps the errors of its attempts for itself.
#[tokio::test]
async fn a_database_that_refuses_connections_is_told_of_by_what_waited_for_one() {
    let database = Database::fresh().await;
    let proxy = Proxy::before(database.socket()).await;
    let store = Postgres::open(&database.url_through(proxy.port).into(), 4).await.unwrap();
    proxy.stop().await;
    let Err(Error::Unavailable(why)) = soon(store.ping()).await else { panic!("it was written") };
    assert!(why.starts_with("PostgreSQL cannot be reached: ") && why.contains("Connection refused"), "{why}");
}

#[tokio::test]
async fn a_server_that_may_open_more_connections_than_it_gets_is_told() {
    let database = Database::fresh().await;
    let mut connection = database.connect().await;
    let name: String = sqlx::query_scalar("SELECT current_database()").fetch_one(&mut connection).await.unwrap();
    let role = format!("few_of_{name}");
    let url = database.url().replace("user=postgres", &format!("user={role}"));
    let few = async |url: &str, connections| {
        Postgres::too_few_connections(&url.to_owned().into(), connections).await.unwrap()
    };
    let told = |needed: u32, allowed: u32, what: &str| {
        Some(format!(
            "one server may open {needed} connections (store.connections and 4 more), and PostgreSQL allows {allowed}: \
             raise {what}, or lower store.connections"
        ))
    };
    connection.execute(AssertSqlSafe(format!("CREATE ROLE {role} LOGIN CONNECTION LIMIT 5"))).await.unwrap();
    assert_eq!(few(&url, 1).await, told(6, 5, "the CONNECTION LIMIT of the role"));
    connection.execute(AssertSqlSafe(format!("ALTER ROLE {role} CONNECTION LIMIT 6"))).await.unwrap();
    assert_eq!(few(&url, 2).await, None);
    // The cluster of the tests allows 400.
    assert_eq!(few(&database.url(), 396).await, None);
    assert_eq!(few(&database.url(), 397).await, told(402, 400, "max_connections"));
}

/// Accepts a connection that is closed at once, one that is told that the server starts, and one to the database.
#[tokio::test]
async fn a_start_waits_for_a_database_that_is_not_up() {
    let database = Database::fresh().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = database.url_through(listener.local_addr().unwrap().port()).into();
    let (waited, ()) = soon(async {
        tokio::join!(Postgres::await_connection(&url, LONG), async {
            drop(listener.accept().await.unwrap());
            let (mut client, _) = listener.accept().await.unwrap();
            read_packet(&mut client).await;
            client.write_all(STARTING).await.unwrap();
            drop(client);
            let (mut client, _) = listener.accept().await.unwrap();
            let mut server = UnixStream::connect(database.socket()).await.unwrap();
            // Either side may close it first.
            let _ = copy_bidirectional(&mut client, &mut server).await;
        })
    })
    .await;
    waited.unwrap();
}

/// It closes a connection after it has read from it, so the client gets no error but an end.
#[tokio::test]
async fn a_start_waits_for_a_database_behind_a_proxy_that_has_none_to_connect_to() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("postgres://pes@127.0.0.1:{}/pes?sslmode=prefer", listener.local_addr().unwrap().port()).into();
    let (waited, ()) = soon(async {
        tokio::join!(Postgres::await_connection(&url, LONG), async {
            let (mut client, _) = listener.accept().await.unwrap();
            read_packet(&mut client).await;
            drop(client);
            let (mut client, _) = listener.accept().await.unwrap();
            read_packet(&mut client).await;
            client.write_all(b"N").await.unwrap();
            read_packet(&mut client).await;
            client.write_all(b"E\0\0\0\x2cSFATAL\0VFATAL\0C3D000\0Mno such database\0\0").await.unwrap();
        })
    })
    .await;
    let Err(Error::Unusable(line)) = waited else { panic!("{waited:?}") };
    assert!(line.ends_with(": no such database"), "{line}");
}

#[tokio::test]
async fn a_start_waits_no_longer_than_it_is_told_and_for_nothing_that_waiting_cannot_mend() {
    let refused = async |url: String, patience: Duration| match Postgres::await_connection(&url.into(), patience).await
    {
        Err(Error::Unusable(line)) => line,
        other => panic!("{other:?}"),
    };
    let (free, _held) = unused_address();
    let line = refused(format!("postgres://pes:hunter2@{free}/pes"), Duration::ZERO).await;
    assert!(line.contains("cannot be reached") && !line.contains("hunter2"), "{line}");

    // Something else listens there.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("postgres://pes@{}/pes?sslmode=prefer", listener.local_addr().unwrap());
    let other = async {
        let (mut client, _) = listener.accept().await.unwrap();
        read_packet(&mut client).await;
        client.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
    };
    let (line, ()) = soon(async { tokio::join!(refused(url, LONG), other) }).await;
    assert!(line.contains("cannot be reached"), "{line}");

    let database = Database::fresh().await;
    let line = soon(refused(database.url().replace("/test_", "/no_such_"), LONG)).await;
    assert!(line.starts_with("PostgreSQL refuses ") && line.ends_with(" does not exist"), "{line}");
}

#[tokio::test]
async fn whoever_only_reads_migrates_nothing() {
    let database = Database::fresh().await;
    let mut connection = migrations::postgres_at(1, &database).await;
    let Err(Error::Unusable(line)) = Postgres::open_beside(&database.url().into(), 1).await else {
        panic!("it opened")
    };
    let newest = migrations::newest("postgres");
    let why = format!("it has schema 1, and this version of pes needs {newest}; start the server on it once");
    assert!(line.ends_with(&format!(" cannot be used: {why}")), "{line}");
    let left: i64 = sqlx::query_scalar(NEWEST).fetch_one(&mut connection).await.unwrap();
    assert_eq!(left, 1);
}

#[tokio::test]
async fn whoever_only_reads_needs_no_right_to_write_and_writes_nothing() {
    let database = Database::fresh().await;
    let store = process(&database).await;
    store.tenant("acme", 1).await.unwrap();
    store.close().await;
    let mut connection = database.connect().await;
    let name: String = sqlx::query_scalar("SELECT current_database()").fetch_one(&mut connection).await.unwrap();
    let role = format!("reader_of_{name}");
    let rights = format!(
        "CREATE ROLE {role} LOGIN; REVOKE CREATE ON SCHEMA public FROM PUBLIC;
         GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}"
    );
    connection.execute(AssertSqlSafe(rights)).await.unwrap();
    let url = database.url().replace("user=postgres", &format!("user={role}"));
    let store = Postgres::open_beside(&url.into(), 1).await.unwrap();
    let chains = verify(&store, &VerifyAsk::default()).await.unwrap();
    assert!(chains.iter().all(|chain| chain.broken.is_none()), "{chains:?}");
    assert_eq!(chains.iter().map(|chain| chain.tenant.as_str()).collect::<Vec<_>>(), ["acme"]);
    store.close().await;
    let store = Postgres::open_beside(&database.url().into(), 1).await.unwrap();
    let Err(Error::Unavailable(why)) = store.tenant("other", 1).await else { panic!("it was written") };
    assert!(why.contains("read-only transaction"), "{why}");
}
