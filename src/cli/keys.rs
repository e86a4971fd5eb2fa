//! `pes keys`: through the server at PES_URL, else in the database itself, which must not be held by a server.

use std::sync::Arc;

use super::Error;
use super::args::KeysCommand;
use super::server::Server;
use crate::auth::{self, ApiKey, Issued, NewKey};
use crate::config::Config;
use crate::config::auth::scope_name;
use crate::config::env::Variables;
use crate::runtime::clock::{Clock, System};
use crate::store::Store;

pub(super) async fn keys(
    command: KeysCommand,
    variables: &Variables,
    load: impl Fn() -> Result<Config, Error>,
) -> Result<(), Error> {
    let place = match Server::of(variables)? {
        Some(server) => Place::Server(Box::new(server)),
        None => Place::Store(crate::store::open(&load()?.store).await?),
    };
    let done = run(command, &place).await;
    if let Place::Store(store) = &place {
        store.close().await;
    }
    done
}

/// What the audit calls whoever holds the database.
const OPERATOR: &str = "local";

/// Where the keys are.
enum Place {
    Server(Box<Server>),
    Store(Arc<dyn Store>),
}

async fn run(command: KeysCommand, place: &Place) -> Result<(), Error> {
    match command {
        KeysCommand::New { tenant, name, scopes } => {
            let new = NewKey { tenant, name, scopes };
            new.check().map_err(|fault| Error::Failed(fault.detail))?;
            let issued = place.issue(&new).await?;
            eprintln!("{} (shown only now)", issued.key_id);
            println!("{}", issued.key);
        }
        KeysCommand::Ls => place.list().await?.iter().for_each(print),
        KeysCommand::Revoke { key_id } => {
            place.revoke(&key_id).await?;
            println!("{key_id} is revoked");
        }
    }
    Ok(())
}

fn print(key: &ApiKey) {
    let scopes: Vec<&str> = key.scopes.iter().copied().map(scope_name).collect();
    let state = if key.revoked_at.is_some() { "revoked" } else { "active" };
    println!("{}  {state:7}  {}  {}  {}", key.key_id, key.tenant, scopes.join("+"), key.name);
}

impl Place {
    async fn issue(&self, new: &NewKey) -> Result<Issued, Error> {
        match self {
            Place::Server(server) => server.issue(new).await,
            Place::Store(store) => match auth::issue(&**store, new, OPERATOR, System::default().now()).await? {
                Some(issued) => Ok(issued),
                None => Err(Error::Failed(auth::taken(&new.name).detail)),
            },
        }
    }

    async fn list(&self) -> Result<Vec<ApiKey>, Error> {
        match self {
            Place::Server(server) => server.list().await,
            Place::Store(store) => Ok(auth::list(&**store).await?),
        }
    }

    async fn revoke(&self, key_id: &str) -> Result<(), Error> {
        match self {
            Place::Server(server) => server.revoke(key_id).await,
            Place::Store(store) if auth::revoke(&**store, key_id, OPERATOR, System::default().now()).await? => Ok(()),
            Place::Store(_) => Err(Error::Failed(format!("there is no active key {key_id}"))),
        }
    }
}
