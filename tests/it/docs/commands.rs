//! Bash runs every `sh` block, in its document's order, against a server started for the document; those of the guide also
//! after those of README.md, which names it as what to read next.

use rstest::rstest;
use serde_json::Value;
use tokio::process::Command;

use super::blocks::{Block, RUN, blocks, documents};
use super::shape::difference;
use crate::support::app::App;
use crate::support::http::soon;

/// A marker that bash prints after each block, and that no answer contains.
const END: &str = "--- end of block ---";

/// The commands of all blocks as one script, so that a block sees the variables of earlier blocks.
fn script(app: &App, commands: &[&Block]) -> String {
    let mut script = format!("B=http://{}; J='content-type: application/json'\n", app.address);
    // Without settings of the tests' environment; a refusal ends the script.
    script.push_str("curl() { command curl -q --fail-with-body \"$@\"; }\n");
    for block in commands {
        script.push_str(&block.text);
        script.push_str(&format!("\nprintf '\\n%s\\n' '{END}'\n"));
    }
    // The address that a reader would use.
    script.replace("B=http://127.0.0.1:7070", &format!("B=http://{}", app.address))
}

/// The output of a block's last command.
fn answer(said: &str) -> Option<Value> {
    serde_json::Deserializer::from_str(said).into_iter().map_while(Result::ok).last()
}

#[rstest]
#[case(&["README.md", "docs/GUIDE.md"])]
#[case(&["docs/AGENTS.md"])]
#[case(&["docs/GUIDE.md"])]
#[case(&["docs/POLICY.md"])]
#[tokio::test]
async fn the_commands_of_a_document_do_what_it_shows(#[case] documents: &[&str]) {
    let app = App::with(|config| config.models.demo.script = None).await;
    for document in documents {
        do_what_it_shows(&app, document).await;
    }
}

async fn do_what_it_shows(app: &App, document: &str) {
    let all = blocks(document);
    let commands: Vec<&Block> = all.iter().filter(|block| block.kind == "sh").collect();
    assert!(!commands.is_empty(), "{document}");
    let mut bash = Command::new("bash");
    bash.args(["-eu", "-o", "pipefail", "-c", &script(app, &commands)]).env("no_proxy", "*").kill_on_drop(true);
    let output = soon(bash.output()).await.expect("there is bash");
    let (said, errors) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{document}: {said}{errors}");
    let said: Vec<&str> = said.split(END).collect();
    for (block, said) in commands.iter().zip(said) {
        let Some(shown) = all.iter().find(|next| block.is_answered_by(next)) else { continue };
        let answer = answer(said).unwrap_or_else(|| panic!("{document}:{}: no JSON in {said}", block.line));
        let shown_value: Value = serde_json::from_str(&shown.text).unwrap();
        let found = difference(&shown_value, &answer, "");
        assert_eq!(found, None, "{document}:{}: the server says {answer:#}", shown.line);
    }
}

#[test]
fn every_block_is_of_a_kind_that_is_tried() {
    for document in documents() {
        let document = document.as_str();
        let is_run = RUN.contains(&document);
        let all = blocks(document);
        for block in &all {
            let place = format!("{document}:{}", block.line);
            match block.kind.as_str() {
                "sh" => assert!(is_run, "{place}: the commands of this document are not run"),
                "json" if is_run => {
                    let is_answer = all.iter().any(|command| command.kind == "sh" && command.is_answered_by(block));
                    assert!(is_answer, "{place}: no command answers this; put it right below one");
                }
                "json" => drop(serde_json::from_str::<Value>(&block.text).unwrap_or_else(|no| panic!("{place}: {no}"))),
                "toml" => drop(block.text.parse::<toml::Table>().unwrap_or_else(|no| panic!("{place}: {no}"))),
                "console" | "text" => {}
                // Settings of foreign clients, which the peer tests cover.
                "tsx" | "ts" | "python" | "yaml" if document == "docs/CLIENTS.md" => {}
                // What `deploy/prometheus/prometheus.yml` has: tests/floors/deploy.rs compares them.
                "yaml" if document == "docs/METRICS.md" => {}
                other => panic!("{place}: `{other}` is no kind of block"),
            }
        }
    }
}
