//! Chooses the server of a command: the one of its flags, else that of `PES_URL`, else the one on this machine. A flag without
//! effect is refused: its user would take the answer of another server or model for that of the requested one.

use super::Error;
use super::args::Flags;
use crate::config::env::Variables;

/// The named address; `None`: the server on this machine.
pub(super) fn named(url: Option<String>, flags: &Flags, variables: &Variables) -> Result<Option<String>, Error> {
    if url.is_some() {
        only_asks(flags)?;
        return match flags.of_this_machine() {
            Some(flag) => Err(Error::Usage(format!("--url names the server, and {flag} another one: leave one out."))),
            None => Ok(url),
        };
    }
    if flags.names_address() || flags.names_folder() {
        return Ok(None);
    }
    let named = variables.get("PES_URL").map(str::to_owned);
    if named.is_some() { only_asks(flags).map(|()| named) } else { Ok(None) }
}

/// Refuses flags that only apply to the start of a server.
pub(super) fn only_asks(flags: &Flags) -> Result<(), Error> {
    if flags.names_model() {
        return Err(Error::Usage(
            "--model is for a server that is started here, and this asks one that runs: leave it out. Another model: \
             pes serve --model …, with a --port and a --data-dir of its own."
                .to_owned(),
        ));
    }
    if flags.names_address() && flags.names_folder() {
        return Err(Error::Usage(
            "--data-dir says nothing beside --host or --port, which name the server that is asked: leave one out."
                .to_owned(),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
