//! The clients in `clients/`, as their users install them: built, packed, installed, and run through a whole scenario.

mod breaking_proxy;
mod examples;
mod faults;
mod stories;

use std::path::Path;
use std::process::Command;

/// A change of the API must also change the clients' types.
#[test]
fn the_types_of_the_clients_are_those_of_the_api() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let check = Command::new("python3").args(["-B", "clients/generate.py", "--check"]).current_dir(root).output();
    let check = check.expect("there is python3");
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stderr));
}
