use clap::Parser as _;

use super::{named_url, only_asks};
use crate::cli::Error;
use crate::cli::args::Arguments;
use crate::config::env::Variables;

const ELSEWHERE: &str = "http://elsewhere";

/// The named server, with this value in `PES_URL`.
fn asked(arguments: &[&str]) -> Result<Option<String>, Error> {
    let arguments = Arguments::parse_from([&["pes", "threads"], arguments].concat());
    let variables: Variables = [("PES_URL".to_owned(), ELSEWHERE.to_owned())].into_iter().collect();
    named_url(arguments.url, &arguments.flags, &variables)
}

#[test]
fn a_flag_stands_above_the_variable() {
    assert_eq!(asked(&[]).unwrap().as_deref(), Some(ELSEWHERE));
    assert_eq!(asked(&["--url", "http://here"]).unwrap().as_deref(), Some("http://here"));
    for flag in [["--port", "1"], ["--host", "::1"], ["--data-dir", "d"], ["--config", "c"]] {
        assert_eq!(asked(&flag).unwrap(), None, "{flag:?}");
    }
}

#[test]
fn a_flag_that_would_say_nothing_is_refused() {
    for flag in [["--port", "1"], ["--host", "::1"], ["--data-dir", "d"], ["--model", "demo:x"], ["--config", "c"]] {
        let why = asked(&["--url", "http://here", flag[0], flag[1]]).unwrap_err();
        assert!(matches!(&why, Error::Usage(why) if why.contains(flag[0])), "{why}");
    }
    assert!(matches!(asked(&["--model", "demo:x"]), Err(Error::Usage(_))), "the server of PES_URL has a model");
    let asks = |arguments: &[&str]| only_asks(&Arguments::parse_from([&["pes", "threads"], arguments].concat()).flags);
    assert!(asks(&["--port", "1"]).is_ok() && asks(&["--data-dir", "d"]).is_ok());
    assert!(matches!(asks(&["--port", "1", "--data-dir", "d"]), Err(Error::Usage(_))));
    assert!(matches!(asks(&["--model", "demo:x"]), Err(Error::Usage(_))));
}
