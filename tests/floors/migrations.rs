//! A migration runs beside servers that commit: each locks one of their tables at most, and what reads a whole
//! table is documented.

use std::collections::BTreeSet;

use super::docs::read;
use super::{keep, root};

/// The migrations of a database in their order: name and statements.
fn migrations(database: &str) -> Vec<(String, String)> {
    let files = std::fs::read_dir(root().join("migrations").join(database)).unwrap();
    let mut paths: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    paths.sort();
    let name = |path: &std::path::Path| path.file_stem().unwrap().to_str().unwrap().to_owned();
    paths.iter().map(|path| (name(path), std::fs::read_to_string(path).unwrap())).collect()
}

/// The names that follow these words.
fn named_after<'s>(sql: &'s str, words: &'s str) -> impl Iterator<Item = &'s str> {
    let is_name = |c: char| c == '_' || c.is_ascii_alphanumeric();
    sql.split(words).skip(1).filter_map(move |rest| rest.split(|c| !is_name(c)).next())
}

/// The statements, without comments.
fn statements(sql: &str) -> Vec<String> {
    let lines = sql.lines().filter(|line| !line.trim_start().starts_with("--"));
    let code: Vec<&str> = lines.map(|line| line.split(" --").next().unwrap_or_default()).collect();
    code.join(" ").split(';').map(|statement| statement.trim().to_owned()).collect()
}

/// The tables of which a migration makes an index, without those that it makes itself.
fn indexed(sql: &str) -> BTreeSet<String> {
    let statements = statements(sql);
    let made: BTreeSet<&str> = statements.iter().flat_map(|one| named_after(one, "CREATE TABLE ")).collect();
    let indexes = statements.iter().filter(|one| one.starts_with("CREATE INDEX ") || one.starts_with("CREATE UNIQUE"));
    let tables = indexes.flat_map(|one| named_after(one, " ON ").take(1));
    tables.filter(|table| !made.contains(table)).map(str::to_owned).collect()
}

/// The tables that a migration locks against commits. Settings of a table do not: `ALTER TABLE t SET (…)`.
fn locked(sql: &str) -> BTreeSet<String> {
    let statements = statements(sql);
    let altered = statements.iter().filter(|one| one.starts_with("ALTER TABLE ") && !one.contains(" SET ("));
    let altered = altered.flat_map(|one| named_after(one, "ALTER TABLE ")).map(str::to_owned);
    indexed(sql).into_iter().chain(altered).collect()
}

/// The tables that commits write.
fn written() -> BTreeSet<String> {
    let source = |name: &str| std::fs::read_to_string(root().join("src/store/postgres").join(name)).unwrap();
    let sql = ["batch_sql.rs", "batch_shared_sql.rs"].map(source).concat();
    ["INSERT INTO ", "    UPDATE "].iter().flat_map(|words| named_after(&sql, words)).map(str::to_owned).collect()
}

/// Two of them would be locked in another order than commits lock them.
#[test]
fn a_migration_locks_at_most_one_table_that_commits_write() {
    let written = written();
    assert!(
        ["thread_rows", "deliveries", "audit", "spend"].iter().all(|table| written.contains(*table)),
        "{written:?}"
    );
    let two = |sql: &str| {
        let both: Vec<String> = locked(sql).intersection(&written).cloned().collect();
        (both.len() > 1).then(|| both.join(", "))
    };
    let first = |(name, _): &(String, String)| name == "0001_schema";
    let all = migrations("postgres").into_iter().filter(|migration| !first(migration));
    keep(all.filter_map(|(name, sql)| Some(format!("{name} locks {}", two(&sql)?))).collect());

    let tuned = "ALTER TABLE thread_rows SET (fillfactor = 50); ALTER TABLE observations SET (fillfactor = 50);";
    let own = "CREATE TABLE spend (a int);\n-- Of spend.\nCREATE INDEX s ON spend (a); CREATE INDEX a ON audit (n);";
    let both = "CREATE UNIQUE INDEX d ON deliveries (id);\nALTER TABLE thread_rows ADD COLUMN a bigint;";
    assert_eq!([tuned, own, both].map(two), [None, None, Some("deliveries, thread_rows".to_owned())]);
}

/// The rows of the table of migrations, without their last column.
fn documented(text: &str) -> BTreeSet<&str> {
    let table = text.split("\n| migration | reads |\n").nth(1).unwrap_or_default();
    let rows = table.lines().take_while(|line| line.starts_with('|'));
    rows.filter_map(|row| row.split(" | ").next()).flat_map(|names| names.split('`').skip(1).step_by(2)).collect()
}

#[test]
fn every_migration_that_builds_an_index_is_documented() {
    let text = read("docs/OPERATIONS.md");
    let named = documented(&text);
    let reads = |database| migrations(database).into_iter().filter(|(_, sql)| !indexed(sql).is_empty());
    let reading: BTreeSet<String> = ["sqlite", "postgres"].into_iter().flat_map(reads).map(|(name, _)| name).collect();
    assert!(reading.contains("0003_retention"), "{reading:?}");
    assert_eq!(named, reading.iter().map(String::as_str).collect::<BTreeSet<_>>());
    let row = "\n| migration | reads |\n|---|---|\n| `0001_a`, `0002_b` | all of `c` |\n\n| `0003_d` |";
    assert_eq!(documented(row), BTreeSet::from(["0001_a", "0002_b"]));
}
