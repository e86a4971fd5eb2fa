//! `DATABASE_URL`.

use std::str::FromStr;

use secrecy::{ExposeSecret, SecretString};
use sqlx::postgres::PgConnectOptions;

use crate::store::{Error, Result};

const IN_PASSWORD: &str = "In its password write / as %2F, @ as %40, ? as %3F, # as %23, and % as %25";

/// What connects to this address.
pub(super) fn options(url: &SecretString) -> Result<PgConnectOptions> {
    let unusable = |why: &dyn std::fmt::Display| {
        Error::Unusable(format!("DATABASE_URL is not a PostgreSQL address: {why}. {IN_PASSWORD}"))
    };
    // A part of the password would be taken for the host and the database, and be shown.
    let address = url.expose_secret().split_once("://").map_or("", |(_, address)| address);
    let rest = address.find(['/', '?', '#']).map_or("", |at| &address[at..]);
    let path = if rest.starts_with('?') { rest } else { rest.split('?').next().unwrap_or_default() };
    if path.contains('@') {
        return Err(unusable(&"an @ stands behind a /, ? or #"));
    }
    let options = PgConnectOptions::from_str(url.expose_secret()).map_err(|error| unusable(&error))?;
    let options = options.application_name("pes");
    // The driver would look for a host with brackets in its name.
    let ipv6 = options.get_host().strip_prefix('[').and_then(|host| host.strip_suffix(']')).map(str::to_owned);
    Ok(match ipv6 {
        Some(address) => options.host(&address),
        None => options,
    })
}

/// The address of the database, without its password.
pub(super) fn location(options: &PgConnectOptions) -> String {
    let database = options.get_database().unwrap_or_else(|| options.get_username());
    match options.get_socket() {
        Some(folder) => format!("{}/{database}", folder.display()),
        None if options.get_host().starts_with('/') => format!("{}/{database}", options.get_host()),
        None if options.get_host().contains(':') => {
            format!("[{}]:{}/{database}", options.get_host(), options.get_port())
        }
        None => format!("{}:{}/{database}", options.get_host(), options.get_port()),
    }
}
