//! Answers questions.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::args::{AnswerArguments, ApproveArguments};
use super::card;
use super::lists;
use super::plan_view::subject;
use super::show::line;
use super::stop::unless_interrupted;
use super::terminal::{has_terminal, print, tell, variable};
use crate::cli::Error;
use crate::cli::server::Server;
use crate::domain::hitl::{AskedQuestion, Suspension, SuspensionKind};

/// Sends an answer. Absent members stay absent.
pub(super) async fn send(server: &Server, thread: &str, asked: &AskedQuestion, answer: Value) -> Result<(), Error> {
    let mut body = answer;
    body["suspensionId"] = json!(asked.suspension_id);
    // Names the arguments that were shown, so that no others can be approved.
    if body["approved"] == true
        && body.get("modifiedArgs").is_none()
        && let Some(digest) = &asked.digest
    {
        body["digest"] = json!(digest);
    }
    let _: Value = server.post(&format!("/threads/{thread}/resume"), &body).await?;
    Ok(())
}

pub(super) async fn approve(server: &Server, arguments: ApproveArguments) -> Result<(), Error> {
    let ApproveArguments { suspension, edit, reason } = arguments;
    let found = match suspension {
        Some(id) => find(server, &id).await?,
        None => only_one(server).await?,
    };
    // A pause has no yes or no: it only ends.
    let mut answer = if found.kind == SuspensionKind::Pause { json!({}) } else { json!({ "approved": true }) };
    if let Some(edit) = edit {
        answer["modifiedArgs"] = edit;
    }
    if let Some(reason) = reason {
        answer["reason"] = json!(reason);
    }
    send_and_report(server, &found, answer, ("approve", "approved")).await
}

pub(super) async fn reject(server: &Server, suspension: &str, reason: &str) -> Result<(), Error> {
    let found = find(server, suspension).await?;
    send_and_report(server, &found, json!({ "approved": false, "reason": reason }), ("reject", "rejected")).await
}

pub(super) async fn answer(server: &Server, arguments: AnswerArguments) -> Result<(), Error> {
    let found = find(server, &arguments.suspension).await?;
    let given = arguments.given;
    let body = match (given.value, given.done) {
        (Some(text), _) => json!({ "value": card::value(&text, &found.feedback_schema) }),
        (None, Some(result)) => json!({ "action": "done", "value": result }),
        (None, None) if given.retry => json!({ "action": "retry" }),
        (None, None) if given.skip => json!({ "action": "skip" }),
        (None, None) => json!({ "action": "abort" }),
    };
    send_and_report(server, &found, body, ("answer", "answered")).await
}

/// Sends an answer, and prints the outcome. `verb`: the command, and its past participle for the output.
async fn send_and_report(server: &Server, found: &Suspension, answer: Value, verb: (&str, &str)) -> Result<(), Error> {
    let (asked, (command, word)) = (found.asked(), verb);
    let usual = commands(found.kind, found.suspension_id.as_str());
    let sending = send(server, found.thread_id.as_str(), &asked, answer);
    match unless_interrupted(sending, "pes questions").await {
        Err(Error::Usage(why)) if !usual.contains(&format!("pes {command} ")) => {
            return Err(Error::Usage(format!("{}. Try: {usual}", why.trim_end_matches('.'))));
        }
        sent => sent?,
    }
    print(&format!("{word} {} in {}", subject(&asked), line(found.thread_id.as_str())))
}

/// The commands that answer a question of this kind.
pub(super) fn commands(kind: SuspensionKind, id: &str) -> String {
    match kind {
        SuspensionKind::Approval | SuspensionKind::PlanReview | SuspensionKind::Budget => {
            format!("pes approve {id}, or pes reject {id} --reason …")
        }
        SuspensionKind::Pause => format!("pes approve {id}"),
        SuspensionKind::InDoubt => format!("pes answer {id} --retry, --done VALUE, --skip or --abort"),
        SuspensionKind::Input | SuspensionKind::ClientTool | SuspensionKind::PeerInput | SuspensionKind::PeerAuth => {
            format!("pes answer {id} VALUE")
        }
    }
}

/// Finds a question by its id or by an unambiguous part of it.
async fn find(server: &Server, id: &str) -> Result<Suspension, Error> {
    only_like(lists::open_questions(server).await?, id, |one| one.suspension_id.as_str())
}

/// The only open question whose id begins so; `id_of` reads the id of one.
pub(super) fn only_like<T>(open: Vec<T>, id: &str, id_of: fn(&T) -> &str) -> Result<T, Error> {
    let mut like: Vec<T> = open.into_iter().filter(|one| id_of(one).starts_with(id)).collect();
    match (like.pop(), like.is_empty()) {
        (Some(found), true) => Ok(found),
        (Some(_), false) => {
            Err(Error::Usage(format!("`{id}` begins the ids of several questions. Try: pes questions")))
        }
        (None, _) => {
            Err(Error::NotFound(format!("No open question {id}: it is answered, or never was. Try: pes questions")))
        }
    }
}

async fn only_one(server: &Server) -> Result<Suspension, Error> {
    let mut open = lists::open_questions(server).await?;
    match (open.pop(), open.is_empty()) {
        (Some(found), true) => Ok(found),
        (Some(last), false) => {
            open.push(last);
            // The exit code stays correct if stdout is closed.
            let _ = lists::print_questions(&open);
            Err(Error::Usage("There are several. Name one: pes approve ID".to_owned()))
        }
        (None, _) => Err(Error::NotFound("Nobody is asked anything.".to_owned())),
    }
}

/// What a person wrote in $EDITOR. Its file stays until the outcome is known.
pub(super) struct Draft {
    value: Value,
    path: PathBuf,
}

impl Draft {
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// Deletes the file if the server took the value; else reports its path, and keeps it for the next [`edited`].
    pub fn settle<T>(self, sent: Result<T, Error>, kept: &mut Option<PathBuf>) -> Result<T, Error> {
        if sent.is_ok() {
            forget(&self.path);
        } else {
            self.tell_where();
            *kept = Some(self.path);
        }
        sent
    }

    /// Reports the path of the file, which stays.
    pub fn tell_where(&self) {
        tell(&where_it_is(&self.path));
    }
}

fn where_it_is(path: &Path) -> String {
    format!("Your text is in {}.", path.display())
}

/// A failure is ignored: the file is in the folder for temporary files.
fn forget(path: &Path) {
    let _ = fs::remove_file(path);
}

/// Opens this value in $EDITOR, or what was made of it before and could not be sent; `None`: it was not changed. `kept`: the
/// file of the text that could not be sent.
pub(super) fn edited(value: &Value, kept: &mut Option<PathBuf>) -> Result<Option<Draft>, Error> {
    edited_by(value, kept, run_editor)
}

fn edited_by(
    value: &Value,
    kept: &mut Option<PathBuf>,
    edit: impl FnOnce(&Path) -> Result<(), Error>,
) -> Result<Option<Draft>, Error> {
    let text = format!("{value:#}\n");
    let path = match kept.take() {
        Some(path) => path,
        None => written(&text).map_err(|why| Error::Failed(format!("The text cannot be edited: {why}")))?,
    };
    let outcome = edit(&path);
    let unreadable = |why| Error::Failed(format!("{} cannot be read: {why}. Nothing was sent.", path.display()));
    let new = fs::read_to_string(&path).map_err(unreadable)?;
    if new == text {
        forget(&path);
        return outcome.map(|()| None);
    }
    let place = where_it_is(&path);
    let no_json = |why| Error::Failed(format!("It is no JSON any more: {why}. {place} Nothing was sent."));
    let parsed = match outcome {
        Ok(()) => serde_json::from_str::<Value>(&new).map_err(no_json),
        Err(why) => {
            tell(&place);
            Err(why)
        }
    };
    match parsed {
        Ok(new) if new == *value => {
            forget(&path);
            Ok(None)
        }
        Ok(value) => Ok(Some(Draft { value, path })),
        Err(why) => {
            *kept = Some(path);
            Err(why)
        }
    }
}

/// Writes a text to a new file that only this user may read.
fn written(text: &str) -> io::Result<PathBuf> {
    let path = std::env::temp_dir().join(format!("pes-{}.json", uuid::Uuid::new_v4().simple()));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    file.write_all(text.as_bytes()).inspect_err(|_| forget(&path))?;
    Ok(path)
}

fn run_editor(path: &Path) -> Result<(), Error> {
    let chosen = ["VISUAL", "EDITOR"].into_iter().find_map(variable);
    // The default editor needs a terminal; a configured program may not.
    if chosen.is_none() && !has_terminal() {
        return Err(Error::Usage(
            "There is no terminal for `vi`: set EDITOR to a program that changes the file that it is given.".to_owned(),
        ));
    }
    let editor = chosen.unwrap_or_else(|| "vi".to_owned());
    let mut words = editor.split_whitespace();
    let program = words.next().unwrap_or("vi");
    let status = Command::new(program).args(words).arg(path).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(Error::Failed(format!("`{program}` failed; nothing was sent."))),
        Err(why) => {
            tell("Set EDITOR to the editor that you use.");
            Err(Error::Failed(format!("`{program}` cannot be started: {why}")))
        }
    }
}

#[cfg(test)]
mod tests;
