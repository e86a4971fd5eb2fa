//! Which database a command uses: never one that it would have to make, and with `--data-dir` no other than that of the folder.

use std::process::Output;

use pes::runtime::clock::{Clock as _, System};
use sqlx::Executor as _;

use super::run;
use super::serving::{serve, text};
use crate::support::clocked::{HOUR, MINUTE};
use crate::support::postgres::Database;
use crate::support::store::migrated;

#[track_caller]
fn refused(output: &Output, code: i32, expected: &str) {
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), said.contains(expected)), (Some(code), true), "{said}");
}

/// Its output; it must succeed.
#[track_caller]
fn said(output: &Output) -> String {
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn a_command_about_a_database_makes_none() {
    let folder = tempfile::tempdir().unwrap();
    let pes = |arguments: &[&str]| run(folder.path(), arguments, &[("PORT", "1")]);
    for command in [
        &["restore", "--adopt"][..],
        &["keys", "ls"],
        &["keys", "revoke", "key_none"],
        &["keys", "rotate", "key_none"],
        &["keys", "adopt", "acme"],
        &["reseal"],
    ] {
        refused(&pes(command), 9, "pes: database: ./data has no database; name it with PES_DATA_DIR");
        refused(&pes(&[command, &["--data-dir", "typo"]].concat()), 9, "pes: database: typo has no database; ");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);

    assert!(
        said(&pes(&["keys", "new", "--name", "ann"])).starts_with("pes_"),
        "the first key may come before the server"
    );
    assert!(said(&pes(&["keys", "ls"])).contains("  default  admin  ann  "));
    let adopted = said(&pes(&["restore", "--adopt"]));
    assert!(adopted.starts_with("adopted sqlite ./data/pes.db: at the next start, "), "{adopted}");
}

/// The key of a folder is made with its first secret.
#[test]
fn where_no_secret_was_ever_stored_there_is_nothing_to_seal_again() {
    let folder = tempfile::tempdir().unwrap();
    let pes = |arguments: &[&str]| run(folder.path(), arguments, &[("PORT", "1")]);
    said(&pes(&["keys", "new"]));
    assert_eq!(said(&pes(&["reseal"])), "no secrets are stored: there is nothing to seal\n");
    assert!(!folder.path().join("data/sealing.key").exists(), "it made a key for nothing");
}

#[tokio::test]
async fn a_command_about_a_database_makes_no_tables_on_postgresql() {
    let (folder, database) = (tempfile::tempdir().unwrap(), Database::fresh().await);
    let url = database.url();
    let variables = [("DATABASE_URL", url.as_str()), ("PES_SEALING_KEY", "0123456789abcdef0123456789abcdef")];
    let pes = |arguments: &[&str]| run(folder.path(), arguments, &variables);
    for command in [&["restore", "--adopt"][..], &["keys", "ls"], &["reseal"], &["restore", "--adopt"]] {
        refused(&pes(command), 9, " has no tables of pes; name another with DATABASE_URL");
    }
    said(&pes(&["keys", "new"]));
    let adopted = said(&pes(&["restore", "--adopt"]));
    assert!(adopted.starts_with("adopted postgres"), "{adopted}");
}

#[tokio::test]
async fn a_postgresql_is_adopted_as_of_the_time_of_its_own_clock() {
    let (folder, database) = (tempfile::tempdir().unwrap(), migrated().await);
    let mut other = database.connect().await;
    // From then on its clock is ahead.
    for statement in [
        "CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql
            AS $$ SELECT pg_catalog.clock_timestamp() + interval '1 hour' $$",
        "DO $$ BEGIN
            EXECUTE format('ALTER DATABASE %I SET search_path = public, pg_catalog', current_database());
        END $$",
    ] {
        other.execute(statement).await.unwrap();
    }
    said(&run(folder.path(), &["restore", "--adopt"], &[("DATABASE_URL", database.url().as_str())]));
    let as_of: i64 = sqlx::query_scalar("SELECT as_of FROM restored").fetch_one(&mut other).await.unwrap();
    let ahead = as_of - System::default().now();
    assert!((ahead - HOUR).abs() < MINUTE, "{ahead}");
}

#[test]
fn for_a_folder_that_no_server_uses_no_other_server_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let served = serve(folder.path(), &[]);
    let port = served.url.rsplit(':').next().unwrap();
    let pes = |arguments: &[&str]| run(folder.path(), arguments, &[("PORT", port)]);
    for command in [&["threads"][..], &["questions"], &["approve"], &["cancel", "t"], &["run", "hello", "-d"]] {
        let expected = "pes: No server uses the folder other. Start one with `pes serve --data-dir other`, or leave ";
        refused(&pes(&[command, &["--data-dir", "other"]].concat()), 9, expected);
    }
    assert!(!folder.path().join("other").exists());
    let elsewhere = [("PORT", port), ("DATABASE_URL", "postgres://127.0.0.1:1/pes")];
    refused(
        &run(folder.path(), &["threads", "--data-dir", "other"], &elsewhere),
        2,
        "another database: leave one out.",
    );
    assert_eq!(said(&pes(&["threads", "--data-dir", "data"])), "", "nothing was asked of it");
}

/// Something may use it.
#[test]
fn a_folder_is_not_called_unused_if_it_cannot_be_looked_at_or_is_held() {
    let folder = tempfile::tempdir().unwrap();
    let pes = |command: &str, named: &str| run(folder.path(), &[command, "--data-dir", named], &[]);
    std::fs::write(folder.path().join("plain"), "").unwrap();
    refused(&pes("threads", "plain/data"), 9, "pes: The folder plain/data cannot be looked at: Not a directory ");
    refused(&pes("health", "plain/data"), 1, "pes: The folder plain/data cannot be looked at: Not a directory ");
    std::fs::create_dir(folder.path().join("data")).unwrap();
    let held = std::fs::File::create(folder.path().join("data/pes.lock")).unwrap();
    held.try_lock().unwrap();
    refused(&pes("threads", "data"), 9, "pes: The process that uses the folder data has not announced a URL: ");
    refused(&pes("health", "data"), 1, "pes: The process that uses the folder data has not announced a URL: ");
    held.unlock().unwrap();
    refused(&pes("threads", "data"), 9, "pes: No server uses the folder data. ");
}
