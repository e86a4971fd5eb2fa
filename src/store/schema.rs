//! Migrations: embedded, applied when a store opens, forward only.

use std::borrow::Cow;

use sqlx::SqlSafeStr;
use sqlx::migrate::{Migration, MigrationType, Migrator};

use super::{Error, Result};

/// `(version, words, sql)`, as in the file's name.
pub(crate) type Migrations = &'static [(i64, &'static str, &'static str)];

pub(crate) fn migrator(migrations: Migrations) -> Migrator {
    let all = migrations.iter().map(|(version, words, sql)| {
        Migration::new(*version, Cow::Borrowed(words), MigrationType::Simple, (*sql).into_sql_str(), false)
    });
    Migrator::with_migrations(all.collect())
}

/// To be asked before anything is changed. `applied` is the newest migration that the database has.
pub(crate) fn refuse_newer(applied: Option<i64>, migrations: Migrations, whose: &str) -> Result<()> {
    let known = migrations.iter().map(|(version, ..)| *version).max().unwrap_or(0);
    match applied {
        Some(applied) if applied > known => Err(Error::Unusable(format!(
            "{whose} has schema {applied}, and this version of pes knows schemas up to {known}; start a newer pes. \
             Nothing was changed."
        ))),
        Some(_) | None => Ok(()),
    }
}
