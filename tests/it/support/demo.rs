//! Configurations with the demo model.

use std::cell::RefCell;
use std::path::PathBuf;

use pes::Config;
use tempfile::NamedTempFile;

/// The replies that most tests share.
pub const SCRIPT: &str = include_str!("script.toml");

thread_local! {
    static SCRIPTS: RefCell<Vec<NamedTempFile>> = const { RefCell::new(Vec::new()) };
}

/// The default configuration, with the demo model without delays.
pub fn at_once() -> Config {
    let mut config = Config::default();
    config.models.demo.pace_ms = 0;
    config
}

/// The same with a demo model that answers by this script.
pub fn scripted(script: &str) -> Config {
    let mut config = at_once();
    config.models.demo.script = Some(file(script));
    config
}

/// A file with this script. It is removed when the test's thread ends.
pub fn file(script: &str) -> PathBuf {
    let file = NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), script).expect("it can be written");
    let path = file.path().to_owned();
    SCRIPTS.with_borrow_mut(|scripts| scripts.push(file));
    path
}
