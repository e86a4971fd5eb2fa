//! Whether an MCP server of the settings can be started or reached.

use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use secrecy::ExposeSecret as _;

use super::around::reach;
use crate::config::McpServer;
use crate::config::env::Variables;

/// Reads what its settings refer to, and looks for its program or opens a connection; starts and sends nothing.
pub(super) async fn mcp_server(server: &McpServer, variables: &Variables) -> Result<String, String> {
    let mut path = variables.get("PATH").unwrap_or_default().to_owned();
    for (name, reference) in server.env.iter().chain(&server.headers) {
        let value = reference.resolve(variables).map_err(|why| format!("{name}: {why}"))?;
        if name == "PATH" {
            value.expose_secret().clone_into(&mut path);
        }
    }
    match (&server.url, &server.command) {
        (Some(url), _) => reach(url).await,
        (None, Some(command)) => program(command, server.cwd.as_deref(), &path),
        (None, None) => Err("it has neither a command nor a url".to_owned()),
    }
}

/// Whether this program can be started in this folder; without one, in that of the server.
fn program(command: &str, folder: Option<&Path>, path: &str) -> Result<String, String> {
    let folder = folder.unwrap_or(Path::new("."));
    access(folder, Access::EXEC_OK).map_err(|error| format!("{} cannot be entered: {error}", folder.display()))?;
    if !folder.is_dir() {
        return Err(format!("{} is no folder", folder.display()));
    }
    let places: Vec<PathBuf> = if command.contains('/') {
        vec![folder.join(command)]
    } else {
        std::env::split_paths(path).map(|listed| folder.join(listed).join(command)).collect()
    };
    let files: Vec<PathBuf> = places.into_iter().filter(|path| path.is_file()).collect();
    let can_start = |path: &&PathBuf| access(path.as_path(), Access::EXEC_OK).is_ok();
    match (files.iter().find(can_start), files.first()) {
        (Some(path), _) => Ok(format!("{} is there", path.display())),
        (None, Some(path)) => {
            Err(format!("{} may not be executed by this user; set its mode with chmod", path.display()))
        }
        (None, None) => Err(format!("there is no program `{command}`; install it, or name its whole path")),
    }
}
