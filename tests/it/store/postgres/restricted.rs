//! A role with few rights, a database that takes no writes, and poolers before PostgreSQL.

use pes::store::postgres::Postgres;
use pes::store::{Committed, Store as _, ThreadStore as _};
use sqlx::{AssertSqlSafe, Executor as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, UnixStream};

use super::open::{read_packet, refusal};
use super::{creation, process};
use crate::store::migrations;
use crate::support::http::soon;
use crate::support::postgres::Database;

/// The address of the database for a role that may read and write rows, and change no table.
async fn for_rows_only(database: &Database) -> String {
    let mut connection = database.connect().await;
    let name: String = sqlx::query_scalar("SELECT current_database()").fetch_one(&mut connection).await.unwrap();
    let role = format!("rows_of_{name}");
    let rights = format!(
        "CREATE ROLE {role} LOGIN; REVOKE CREATE ON SCHEMA public FROM PUBLIC;
         GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role}"
    );
    connection.execute(AssertSqlSafe(rights)).await.unwrap();
    database.url().replace("user=postgres", &format!("user={role}"))
}

#[tokio::test]
async fn a_role_that_may_change_no_table_serves_a_schema_that_is_complete() {
    let database = Database::fresh().await;
    process(&database).await.close().await;
    let store = Postgres::open(&for_rows_only(&database).await.into(), 1).await.unwrap();
    assert_eq!(store.commit(creation()).await.unwrap(), Committed::Done);
}

/// Some servers keep roles from reading what the others do.
#[tokio::test]
async fn a_role_that_may_not_read_what_the_server_does_commits_all_the_same() {
    let database = Database::fresh().await;
    process(&database).await.close().await;
    let url = for_rows_only(&database).await;
    let hide = "REVOKE ALL ON pg_catalog.pg_stat_activity FROM PUBLIC";
    database.connect().await.execute(hide).await.unwrap();
    let store = Postgres::open(&url.into(), 1).await.unwrap();
    assert_eq!(store.commit(creation()).await.unwrap(), Committed::Done);
}

#[tokio::test]
async fn a_role_that_may_change_no_table_is_told_so_before_a_migration() {
    let database = Database::fresh().await;
    drop(migrations::postgres_at(14, &database).await);
    let line = refusal(for_rows_only(&database).await).await;
    assert!(line.ends_with(" cannot be prepared: permission denied for schema public"), "{line}");
}

#[tokio::test]
async fn a_database_that_takes_no_writes_is_told_apart_at_the_start() {
    let database = Database::fresh().await;
    process(&database).await.close().await;
    let mut connection = database.connect().await;
    let name: String = sqlx::query_scalar("SELECT current_database()").fetch_one(&mut connection).await.unwrap();
    let read_only = format!("ALTER DATABASE {name} SET default_transaction_read_only = on");
    connection.execute(AssertSqlSafe(read_only)).await.unwrap();
    let line = refusal(database.url()).await;
    assert!(line.contains("takes no writes: it is a standby") && line.contains("DATABASE_URL"), "{line}");
}

/// Forwards one connection without the settings that the client sends at its start.
async fn without_settings(listener: &TcpListener, database: &Database) {
    let (mut client, _) = listener.accept().await.unwrap();
    let packet = read_packet(&mut client).await;
    let text = String::from_utf8(packet[4..].to_vec()).unwrap();
    let words: Vec<&str> = text.trim_end_matches('\0').split('\0').collect();
    let kept = words.chunks(2).filter(|pair| pair[0] != "options").flatten().map(|word| format!("{word}\0"));
    let kept = [&packet[..4], kept.collect::<String>().as_bytes(), b"\0"].concat();
    let mut server = UnixStream::connect(database.socket()).await.unwrap();
    server.write_u32(u32::try_from(kept.len()).unwrap() + 4).await.unwrap();
    server.write_all(&kept).await.unwrap();
    // Either side may close it first.
    let _ = copy_bidirectional(&mut client, &mut server).await;
}

#[tokio::test]
async fn a_pooler_that_removes_the_settings_of_a_session_is_refused() {
    let database = Database::fresh().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = database.url_through(listener.local_addr().unwrap().port());
    let (line, ()) = soon(async { tokio::join!(refusal(url), without_settings(&listener, &database)) }).await;
    assert!(line.starts_with("the settings of our sessions do not reach the database at "), "{line}");
    assert!(line.ends_with("Is it a pooler, such as PgBouncer? pes needs connections to PostgreSQL itself"), "{line}");
}

#[tokio::test]
async fn a_pooler_that_refuses_the_settings_of_a_session_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("postgres://pes@127.0.0.1:{}/pes?sslmode=disable", listener.local_addr().unwrap().port());
    let pooler = async {
        let (mut client, _) = listener.accept().await.unwrap();
        read_packet(&mut client).await;
        let fields = b"SFATAL\0C08P01\0Munsupported startup parameter: options\0\0";
        client.write_all(b"E").await.unwrap();
        client.write_u32(u32::try_from(fields.len()).unwrap() + 4).await.unwrap();
        client.write_all(fields).await.unwrap();
        let _ = client.read_u8().await;
    };
    let (line, ()) = soon(async { tokio::join!(refusal(url), pooler) }).await;
    assert!(line.contains("unsupported startup parameter: options. Is it a pooler, such as PgBouncer?"), "{line}");
}
