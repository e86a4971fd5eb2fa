//! `pes backup` and `pes restore` as an operator runs them: nothing done after a backup is repeated unless a person
//! asks for it.

use std::os::unix::fs::{MetadataExt as _, chown, symlink};
use std::path::Path;

use rstest::rstest;
use serde_json::{Value, json};
use sqlx::{Connection as _, SqliteConnection};

use super::story;
use crate::support::http::soon;
use crate::support::process::{Address, Place, Server};
use crate::support::wire::{Wire, answer};

/// Held where the first step's model call has been sent: no tool was called yet, and the next call is of a counting
/// tool that may not be repeated.
const BEFORE_THE_CALL: &str = "model.before@2";

async fn ask(address: Address) -> String {
    let ask = address.ask("POST", "/threads/t/process").json(&json!({ "query": "diamond" }));
    ask.send().await.expect(202)["runId"].as_str().unwrap().to_owned()
}

/// Returns once the run has ended or waits for a person.
async fn waited(address: Address, run: &str) -> Value {
    address.ask("GET", &format!("/runs/{run}?wait=30")).send().await.expect(200)
}

/// A server held before the first call of its run.
async fn before_the_call(place: &Place) -> (Server, String) {
    let mut server = Server::start(place, Some(BEFORE_THE_CALL)).await;
    let run = ask(server.address).await;
    server.must_reach().await;
    (server, run)
}

/// The question to a person before the run continues.
async fn held_back(address: Address) -> Value {
    let inbox = address.ask("GET", "/suspensions").send().await.expect(200);
    let [asked] = inbox["items"].as_array().unwrap().as_slice() else { panic!("one question: {inbox:#}") };
    assert_eq!(asked["kind"], "pause");
    assert!(asked["message"].as_str().unwrap().starts_with("restored: this is as of "), "{asked:#}");
    asked.clone()
}

async fn goes_on(address: Address, run: &str, asked: &Value) {
    let answer = json!({ "suspensionId": asked["suspensionId"], "approved": true });
    address.ask("POST", "/threads/t/resume").json(&answer).send().await.expect(202);
    assert_eq!(waited(address, run).await["status"], "completed");
}

fn done(place: &Place, arguments: &[&str]) -> String {
    let output = place.run(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Replaces the data with the backup.
fn restore(place: &Place, arguments: &[&str], aside: &str) {
    std::fs::rename(place.folder().join("data"), place.folder().join(aside)).unwrap();
    let said = done(place, &[&["restore", "copy.db"], arguments].concat());
    assert!(said.contains("keys that were revoked after the backup are valid again"), "{said}");
}

#[tokio::test]
async fn a_call_made_after_the_backup_is_not_made_again_unless_somebody_says_so() {
    let place = Place::sqlite(story::SCRIPT);
    let (server, run) = before_the_call(&place).await;
    done(&place, &["backup", "copy.db"]);
    assert_eq!(place.run(&["backup", "copy.db"]).status.code(), Some(8), "it is there already");
    is_described(place.folder());
    server.kill().await;
    assert_eq!(place.lines().len(), 0);
    let server = Server::start(&place, None).await;
    assert_eq!(waited(server.address, &run).await["status"], "completed");
    server.kill().await;
    let made = place.lines();
    assert_eq!(made.len(), 4, "what was done after the backup");

    restore(&place, &[], "before");
    let server = Server::start(&place, None).await;
    let asked = held_back(server.address).await;
    assert_eq!(waited(server.address, &run).await["status"], "suspended");
    let other = server.address.ask("POST", "/threads/other/process").json(&json!({ "query": "question" }));
    let other = other.send().await.expect(202);
    assert_eq!(waited(server.address, other["runId"].as_str().unwrap()).await["status"], "suspended");
    assert_eq!(place.lines(), made, "a run that was asked for later got as far as it can, this one nowhere");
    goes_on(server.address, &run, &asked).await;
    assert_eq!(place.lines().len(), 8, "that person knew");
    server.kill().await;

    restore(&place, &["--resume"], "held");
    let server = Server::start(&place, None).await;
    assert_eq!(waited(server.address, &run).await["status"], "completed");
    assert_eq!(place.lines().len(), 12, "that is what `--resume` is for");
    server.kill().await;
}

/// The restored server is asked for nothing: its start alone tells of the question.
#[tokio::test]
async fn a_webhook_is_told_of_the_question_of_a_restored_run() {
    let mut wire = Wire::serve(vec![answer("204 No Content", "", "")]).await;
    let place = Place::sqlite(story::SCRIPT);
    let receiver = wire.address;
    place.configure(&format!(
        "[[webhooks]]\nid = \"ops\"\nurl = \"http://{receiver}/\"\nevents = [\"suspension.requested\"]\n"
    ));
    let (server, _) = before_the_call(&place).await;
    done(&place, &["backup", "copy.db"]);
    server.kill().await;
    restore(&place, &[], "before");
    let server = Server::start(&place, None).await;
    let asked = held_back(server.address).await;
    let told = soon(wire.request()).await.body;
    assert_eq!((&told["type"], &told["data"]["kind"]), (&json!("suspension.requested"), &json!("pause")), "{told:#}");
    assert_eq!(told["data"]["suspensionId"], asked["suspensionId"]);
    let page =
        format!("http://{}/#/questions/{}", server.address.socket_addr(), asked["suspensionId"].as_str().unwrap());
    assert_eq!(told["data"]["url"], page.as_str());
    server.kill().await;
}

#[tokio::test]
async fn a_backup_beside_a_server_is_in_its_audit() {
    let place = Place::sqlite(story::SCRIPT);
    let server = Server::start(&place, None).await;
    done(&place, &["backup", "copy.db"]);
    let told = server.address.ask("GET", "/audit").send().await.expect(200);
    let line = &told["items"][0];
    assert_eq!((&line["actor"], &line["action"]), (&json!("local"), &json!("backup")), "{told:#}");
    assert_eq!(line["detail"]["program"], env!("CARGO_PKG_VERSION"));
    server.kill().await;
    restore(&place, &["--resume"], "before");
    let server = Server::start(&place, None).await;
    let told = server.address.ask("GET", "/audit").send().await.expect(200);
    let line = &told["items"][0];
    assert_eq!((&line["action"], &line["detail"]["resumed"]), (&json!("restore"), &json!(true)), "{told:#}");
    assert_eq!(line["detail"]["asOf"], told["items"][1]["at"], "as of when it was taken");
    server.kill().await;
}

/// A limit on file sizes simulates a full disk: the copy does not fit, what the audit records beside the database does.
#[tokio::test]
async fn a_backup_that_fails_leaves_nothing() {
    let place = Place::sqlite(story::SCRIPT);
    Server::start(&place, None).await.kill().await;
    done(&place, &["backup", "copy.db"]);
    let bytes = std::fs::metadata(place.folder().join("copy.db")).unwrap().len();
    assert!(bytes > 128 << 10, "{bytes} bytes are within the limit");
    // More than SQLite keeps in memory of a copy.
    let database = format!("sqlite:{}", place.folder().join("data/pes.db").display());
    let mut connection = SqliteConnection::connect(&database).await.unwrap();
    sqlx::query("CREATE TABLE filler AS SELECT zeroblob(8388608)").execute(&mut connection).await.unwrap();
    // Else the line of the audit would stand beyond the limit.
    sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    let mut without_room = std::process::Command::new("/bin/sh");
    without_room.args(["-c", "trap '' XFSZ; ulimit -f 128; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_pes")]);
    without_room.args(["backup", "other.db"]).current_dir(place.folder()).env_clear();
    let output = without_room.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), said.contains("other.db.part cannot be used")), (Some(9), true), "{said}");
    // The name of the manifest is taken, which is seen only when the copy is complete.
    symlink("gone", place.folder().join("third.db.json")).unwrap();
    assert_eq!(place.run(&["backup", "third.db"]).status.code(), Some(1));
    let mut left = files_of(place.folder());
    left.retain(|name| name.contains("other.db") || name.contains("third.db"));
    assert_eq!(left, ["third.db.json"]);
    std::fs::remove_file(place.folder().join("copy.db")).unwrap();
    let output = place.run(&["backup", "copy.db"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), said.contains("copy.db.json is there already")), (Some(8), true), "{said}");
}

/// Nor does a part of the data of others stay on a disk that is full.
#[tokio::test]
async fn a_restore_that_fails_leaves_nothing() {
    let place = Place::sqlite(story::SCRIPT);
    Server::start(&place, None).await.kill().await;
    done(&place, &["backup", "copy.db"]);
    let mut without_room = std::process::Command::new("/bin/sh");
    without_room.args(["-c", "trap '' XFSZ; ulimit -f 128; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_pes")]);
    without_room.args(["restore", "copy.db"]).current_dir(place.folder()).env_clear().env("PES_DATA_DIR", "other");
    let output = without_room.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), said.contains("pes.db.new cannot be used: ")), (Some(9), true), "{said}");
    assert_eq!(files_of(&place.folder().join("other")), ["pes.lock"]);
}

/// The second one would empty the first one's copy, which would still be described as complete.
#[tokio::test]
async fn of_two_backups_into_the_same_file_the_second_is_refused() {
    let place = Place::sqlite(story::SCRIPT);
    Server::start(&place, None).await.kill().await;
    let part = place.folder().join("copy.db.part");
    std::fs::write(&part, "of the first").unwrap();
    let first = std::fs::File::create(place.folder().join("copy.db.part.lock")).unwrap();
    first.lock().unwrap();
    let output = place.run(&["backup", "copy.db"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), said.contains("another backup writes copy.db.part")), (Some(8), true), "{said}");
    assert_eq!(std::fs::read_to_string(&part).unwrap(), "of the first");
    // It was killed.
    drop(first);
    done(&place, &["backup", "copy.db"]);
    let mut left = files_of(place.folder());
    left.retain(|name| name.contains("copy.db"));
    assert_eq!(left, ["copy.db", "copy.db.json"]);
    restore(&place, &[], "before");
    let output = place.run(&["backup", "nowhere/copy.db"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        (output.status.code(), said.contains("nowhere/copy.db.part.lock cannot be written")),
        (Some(1), true),
        "{said}"
    );
}

/// The copy is not what is damaged, also where the damage is found only while the copy is made.
#[tokio::test]
async fn a_backup_of_a_damaged_database_names_it_and_says_what_to_do() {
    let place = Place::sqlite(story::SCRIPT);
    Server::start(&place, None).await.kill().await;
    done(&place, &["backup", "copy.db"]);
    restore(&place, &[], "before");
    let database = place.folder().join("data/pes.db");
    let whole = std::fs::read(&database).unwrap();
    let mut broken = whole.clone();
    broken[first_page_of(&database, "deliveries").await].fill(0xFF);
    let (damaged, restore) = ("it is damaged (", "; restore the data folder from a backup.\n");
    let empty = ("it is empty; ", "restore the data folder from a backup, or move it away to begin anew.\n");
    for (content, (begin, end)) in
        [(broken, (damaged, restore)), (vec![b'x'; 8_192], (damaged, restore)), (Vec::new(), empty)]
    {
        std::fs::write(&database, content).unwrap();
        let output = place.run(&["backup", "other.db"]);
        let said = String::from_utf8(output.stderr).unwrap();
        let begin = format!("pes: database: {} cannot be used: {begin}", database.display());
        assert_eq!(output.status.code(), Some(9), "{said}");
        assert!(said.starts_with(&begin) && said.ends_with(end), "{said}");
        assert!(!files_of(place.folder()).iter().any(|name| name.contains("other.db")));
    }
    std::fs::write(&database, whole).unwrap();
    done(&place, &["backup", "other.db"]);
}

/// The bytes of the first page of a table.
async fn first_page_of(database: &Path, table: &str) -> std::ops::Range<usize> {
    let mut connection = SqliteConnection::connect(&format!("sqlite:{}", database.display())).await.unwrap();
    let ask = "SELECT rootpage, page_size FROM sqlite_schema, pragma_page_size WHERE name = ?";
    let (page, size): (i64, i64) = sqlx::query_as(ask).bind(table).fetch_one(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    let (page, size) = (page as usize, size as usize);
    (page - 1) * size..page * size
}

fn files_of(folder: &Path) -> Vec<String> {
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    files.collect()
}

/// The folder of a service belongs to its user, and root restores into it. Other users cannot give a folder away: for them
/// this shows only that the files are their own.
#[tokio::test]
async fn what_is_put_back_belongs_to_the_owner_of_the_folder() {
    const OTHER: u32 = 65_534;
    let place = Place::sqlite(story::SCRIPT);
    let server = Server::start(&place, None).await;
    done(&place, &["backup", "copy.db"]);
    server.kill().await;
    let data = place.folder().join("data");
    std::fs::rename(&data, place.folder().join("before")).unwrap();
    std::fs::create_dir(&data).unwrap();
    let is_root = rustix::process::geteuid().is_root();
    if is_root {
        chown(&data, Some(OTHER), Some(OTHER)).unwrap();
    }
    done(&place, &["restore", "copy.db"]);
    let expected = if is_root { OTHER } else { rustix::process::geteuid().as_raw() };
    let mut owners = Vec::new();
    for file in std::fs::read_dir(&data).unwrap().map(Result::unwrap) {
        let is = file.metadata().unwrap();
        owners.push((file.file_name().into_string().unwrap(), is.uid(), is.mode() & 0o777));
    }
    owners.sort();
    assert_eq!(owners, ["pes.db", "pes.lock"].map(|name| (name.to_owned(), expected, 0o600)));
}

/// The manifest describes the copy.
fn is_described(folder: &Path) {
    let manifest: Value = serde_json::from_slice(&std::fs::read(folder.join("copy.db.json")).unwrap()).unwrap();
    assert_eq!(manifest["format"], "pes-backup/1");
    assert_eq!(manifest["bytes"], std::fs::metadata(folder.join("copy.db")).unwrap().len());
    assert!(!folder.join("copy.db.part").exists());
    let mode = |name: &str| std::fs::metadata(folder.join(name)).unwrap().mode() & 0o777;
    assert_eq!((mode("copy.db"), mode("copy.db.json")), (0o600, 0o600));
}

/// A copy restored by other tools is as the process left it when it died: held where it could continue by itself.
#[rstest]
#[case(Place::sqlite(story::SCRIPT))]
#[case(Place::postgres(story::SCRIPT).await)]
#[tokio::test]
async fn a_database_that_other_tools_put_back_is_adopted(#[case] place: Place) {
    let (server, run) = before_the_call(&place).await;
    server.kill().await;
    // On PostgreSQL a killed process counts as alive until its lease expires.
    let adopted = (0..1_000).find_map(|_| {
        let said = place.run(&["restore", "--adopt"]);
        (said.status.code() != Some(9)).then_some(said)
    });
    let adopted = adopted.expect("its lease ends");
    let said = String::from_utf8(adopted.stdout).unwrap();
    assert!(adopted.status.success() && said.contains("wait for a person"), "{said}");
    assert!(said.contains("keys that were revoked after the backup are valid again"), "{said}");
    let server = Server::start(&place, None).await;
    let asked = held_back(server.address).await;
    assert_eq!(place.run(&["restore", "--adopt"]).status.code(), Some(9), "a server uses it");
    let refused = place.run(&["restore", "--adopt", "copy.db"]);
    assert_eq!(refused.status.code(), Some(2), "a file, or --adopt");
    assert_eq!(waited(server.address, &run).await["status"], "suspended");
    assert_eq!(place.lines().len(), 0);
    goes_on(server.address, &run, &asked).await;
    assert_eq!(place.lines().len(), 4);
    server.kill().await;
    let server = Server::start(&place, None).await;
    let inbox = server.address.ask("GET", "/suspensions").send().await.expect(200);
    assert_eq!(inbox["items"], json!([]), "it is asked once");
    server.kill().await;
}
