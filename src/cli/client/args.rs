//! Commands that ask a server, and their flags.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::Value;

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum ClientCommand {
    /// Ask the agent, watch it, answer its questions, print the answer
    Run(RunArguments),
    /// Talk with the agent, line by line
    Chat {
        /// Go on in this thread
        #[arg(value_parser = id)]
        thread: Option<String>,
    },
    /// Watch a run that is under way; exits as it ends
    Watch(WatchArguments),
    /// List the open questions
    Questions {
        /// As the API answers
        #[arg(long)]
        json: bool,
    },
    /// Approve a tool call or a plan; without an id the only one that is open
    Approve(ApproveArguments),
    /// Refuse a tool call or a plan
    Reject {
        suspension: String,
        /// The model is told
        #[arg(long, value_parser = reason)]
        reason: String,
    },
    /// Answer a question that is neither yes nor no
    Answer(AnswerArguments),
    /// List threads, the newest first
    Threads {
        /// idle, running, suspended, waiting, failed, quarantined
        #[arg(long)]
        status: Option<String>,
        #[arg(long)]
        json: bool,
    },
    /// Show a plan; edit it, see how it changed, or what it may do
    Plan {
        /// Without it the only thread that runs or asks
        #[arg(value_parser = id)]
        thread: Option<String>,
        #[command(subcommand)]
        command: Option<PlanCommand>,
        #[arg(long, global = true)]
        json: bool,
    },
    /// Play the past of a thread again
    Replay(ReplayArguments),
    /// Copy a thread as it was; prints the new id
    Fork {
        #[arg(value_parser = id)]
        thread: String,
        /// As of this observation; else as it is
        #[arg(long)]
        at: Option<i64>,
    },
    /// Write a thread out whole, as lines of JSON
    Export(ExportArguments),
    /// Make a thread of what `pes export` wrote; prints its id
    Import(ImportArguments),
    /// Cancel what runs in a thread; `-` reads ids from stdin
    Cancel {
        #[arg(value_parser = id)]
        thread: String,
    },
    /// List schedules; pause one, let it go on, or ask now what it asks
    Schedules {
        #[command(subcommand)]
        command: Option<ScheduleCommand>,
        #[arg(long)]
        json: bool,
    },
    /// What calls of models took and cost
    Usage {
        /// What is summed; `tenant` needs a key with the scope admin
        #[arg(long, value_parser = ["day", "model", "run", "item", "run,model", "tenant"])]
        by: Option<String>,
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ExportArguments {
    #[arg(value_parser = id)]
    pub thread: String,
    /// Into this file, which is not there yet; else to stdout
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ImportArguments {
    /// `-` reads it from stdin
    pub file: PathBuf,
    /// Under this id; else under the one that it had
    #[arg(long = "as", value_name = "ID", value_parser = id)]
    pub id: Option<String>,
    /// Check everything, and make nothing
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct RunArguments {
    /// What is asked; `-` reads it from stdin
    pub query: String,
    /// In this thread; else in a new one
    #[arg(long, value_parser = id)]
    pub thread: Option<String>,
    /// Ask before the first item of the plan begins
    #[arg(long)]
    pub review: bool,
    /// Give up after so long, as `90s`, `5m` or `2h`; the run goes on
    #[arg(long, value_parser = duration)]
    pub timeout: Option<Duration>,
    /// Ask nothing here: exit 4 when the run waits for a person
    #[arg(long)]
    pub no_input: bool,
    /// Start it, print its thread, and do not wait
    #[arg(short, long)]
    pub detach: bool,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct WatchArguments {
    #[arg(value_parser = id)]
    pub thread: String,
    /// What comes after this observation
    #[arg(long, default_value_t = 0)]
    pub after: i64,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Clone, Copy, Debug, Args)]
pub(in crate::cli) struct Output {
    /// The frames of the API on stdout, one a line
    #[arg(long)]
    pub json: bool,
    /// With --json: tokens, too
    #[arg(long, requires = "json")]
    pub tokens: bool,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ApproveArguments {
    pub suspension: Option<String>,
    /// Other arguments, as a JSON object: exactly these run
    #[arg(long, value_parser = object)]
    pub edit: Option<Value>,
    #[arg(long)]
    pub reason: Option<String>,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(in crate::cli) struct GivenAnswer {
    /// A value; text that is no JSON is a string
    pub value: Option<String>,
    /// In doubt: make the call again
    #[arg(long)]
    pub retry: bool,
    /// In doubt: it was made, with this result
    #[arg(long, value_name = "VALUE")]
    pub done: Option<String>,
    /// In doubt: go on without it
    #[arg(long)]
    pub skip: bool,
    /// In doubt: give up the item
    #[arg(long)]
    pub abort: bool,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct AnswerArguments {
    pub suspension: String,
    #[command(flatten)]
    pub given: GivenAnswer,
}

#[derive(Clone, Copy, Debug, Subcommand)]
pub(in crate::cli) enum PlanCommand {
    /// Edit it in $EDITOR: the file has all items, those that did not begin yet can be changed
    Edit,
    /// How the plan came to be what it is
    Diff,
    /// What its items may do, and who is asked
    Forecast,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum ScheduleCommand {
    /// No time of it has a run
    Pause {
        #[arg(value_parser = id)]
        schedule: String,
    },
    /// It goes on, with the rights of your key; what the pause left out is not made up for
    Resume {
        #[arg(value_parser = id)]
        schedule: String,
    },
    /// Ask it now; prints the thread
    Trigger {
        #[arg(value_parser = id)]
        schedule: String,
    },
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ReplayArguments {
    #[arg(value_parser = id)]
    pub thread: String,
    /// Only show how it was after this observation
    #[arg(long)]
    pub at: Option<i64>,
    /// So many times as fast as it was; pauses are shortened
    #[arg(long, default_value_t = 4.0)]
    pub speed: f64,
}

pub(in crate::cli) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is no time; write 90s, 5m, 2h or 7d");
    let (number, unit) = text.split_at(text.len().saturating_sub(1));
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(seconds).map(Duration::from_secs).ok_or_else(wrong)
}

/// Characters that are allowed in a path. The server checks the other rules of ids.
pub(super) fn id(text: &str) -> Result<String, String> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte));
    if is_plain && text.bytes().any(|byte| byte != b'.') {
        Ok(text.to_owned())
    } else {
        Err("an id consists of letters, digits and `._:-`".to_owned())
    }
}

/// Refuses an empty reason, for example of an unset variable: a plan refused without a reason ends its run.
fn reason(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        return Err("it is empty; to end the run: pes cancel THREAD".to_owned());
    }
    Ok(text.to_owned())
}

fn object(text: &str) -> Result<Value, String> {
    match serde_json::from_str(text) {
        Ok(Value::Object(object)) => Ok(Value::Object(object)),
        Ok(_) => Err("arguments are a JSON object".to_owned()),
        Err(error) => Err(format!("no JSON: {error}")),
    }
}
