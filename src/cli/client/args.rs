//! Commands that ask a server, and their flags.

mod subcommands;

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use serde_json::Value;

use super::card::result;
use crate::domain::thread::ThreadStatus;

pub(in crate::cli) use subcommands::{PlanCommand, ScheduleCommand, TenantCommand};

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum ClientCommand {
    /// Ask the agent, watch it, answer its questions, print the answer
    Run(RunArguments),
    /// Talk with the agent, line by line
    Chat {
        /// Continue this thread
        #[arg(value_parser = id)]
        thread: Option<String>,
    },
    /// Watch the newest run of a thread; exits as it ends. In a pipe the runs before it are printed first
    Watch(WatchArguments),
    /// List the open questions, or show one in full
    Questions {
        /// Only this question, by its id or as much of its beginning as is unique
        #[arg(value_parser = id)]
        suspension: Option<String>,
        /// Print the response of the API
        #[arg(long)]
        json: bool,
    },
    /// Approve a tool call or a plan; without an id, the only open question
    Approve(ApproveArguments),
    /// Reject a tool call or a plan
    Reject {
        /// The question, by its id or as much of its beginning as is unique
        #[arg(value_parser = id)]
        suspension: String,
        /// The reason, which the model gets
        #[arg(long, value_parser = reason)]
        reason: String,
    },
    /// Answer a question that is not yes or no
    Answer(AnswerArguments),
    /// List threads, the newest first
    Threads {
        /// Only those with this status
        #[arg(long, value_parser = PossibleValuesParser::new(ThreadStatus::ALL.map(ThreadStatus::as_str)))]
        status: Option<String>,
        /// Only those whose title or id contains this text
        #[arg(long, value_name = "TEXT")]
        search: Option<String>,
        /// Print the list as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show a plan, edit it, or show how it changed or what it may do
    Plan {
        /// By default the only thread with an active run
        #[arg(value_parser = id)]
        thread: Option<String>,
        #[command(subcommand)]
        command: Option<PlanCommand>,
        /// Print it as JSON
        #[arg(long, global = true)]
        json: bool,
    },
    /// Replay the past of a thread
    Replay(ReplayArguments),
    /// Copy a thread as it was; prints the new id
    Fork {
        /// The thread to copy
        #[arg(value_parser = id)]
        thread: String,
        /// As of this observation; by default as it is now
        #[arg(long, value_parser = seq, allow_negative_numbers = true)]
        at: Option<i64>,
        /// Print the response of the API
        #[arg(long)]
        json: bool,
    },
    /// Write a whole thread as lines of JSON
    Export(ExportArguments),
    /// Create a thread from a file of `pes export`; prints its id
    Import(ImportArguments),
    /// Cancel the runs of a thread; `-` reads ids from stdin
    Cancel {
        /// The thread, or `-`
        #[arg(value_parser = id)]
        thread: String,
        /// Print the runs that are cancelled as JSON, one line for each thread
        #[arg(long)]
        json: bool,
    },
    /// List schedules; pause one, resume it, or run it now
    Schedules {
        #[command(subcommand)]
        command: Option<ScheduleCommand>,
        /// Print the list as JSON
        #[arg(long)]
        json: bool,
    },
    /// List the tenants of the server; remove one, or open it again: needs a key with the scope operator
    Tenants {
        #[command(subcommand)]
        command: Option<TenantCommand>,
        /// Print the list as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the tokens and the cost of model calls
    Usage {
        /// How calls are grouped; `tenant` needs a key with the scope admin, or read and operator for all tenants
        #[arg(long, value_parser = ["day", "model", "run", "item", "run,model", "tenant"])]
        by: Option<String>,
        /// Print the list as JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ExportArguments {
    /// The thread to write
    #[arg(value_parser = id)]
    pub thread: String,
    /// Write to this file, which must not exist yet; by default to stdout
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ImportArguments {
    /// The exported file; `-` reads it from stdin
    pub file: PathBuf,
    /// The id of the new thread; by default that of the exported one
    #[arg(long = "as", value_name = "ID", value_parser = id)]
    pub id: Option<String>,
    /// Check everything, and create nothing
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct RunArguments {
    /// The query; `-` reads it from stdin
    pub query: String,
    /// The thread; by default a new one
    #[arg(long, value_parser = id)]
    pub thread: Option<String>,
    /// Have the plan approved before its first item begins
    #[arg(long)]
    pub review: bool,
    /// Stop waiting after this time, such as `90s`, `5m` or `2h`; the run continues
    #[arg(long, value_parser = duration)]
    pub timeout: Option<Duration>,
    /// Never prompt: exit 4 when the run waits for a person
    #[arg(long)]
    pub no_input: bool,
    /// Start the run, print its thread, and do not wait
    #[arg(short, long, conflicts_with_all = ["json", "no_input", "timeout"])]
    pub detach: bool,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct WatchArguments {
    /// The thread to watch
    #[arg(value_parser = id)]
    pub thread: String,
    /// Begin after this observation
    #[arg(long, default_value_t = 0, value_parser = seq, allow_negative_numbers = true)]
    pub after: i64,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Clone, Copy, Debug, Args)]
pub(in crate::cli) struct Output {
    /// Print the frames of the API to stdout, one per line
    #[arg(long)]
    pub json: bool,
    /// With --json, also print tokens
    #[arg(long, requires = "json")]
    pub tokens: bool,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ApproveArguments {
    /// The question, by its id or as much of its beginning as is unique
    #[arg(value_parser = id)]
    pub suspension: Option<String>,
    /// Run the call with exactly these arguments instead, a JSON object
    #[arg(long, value_parser = object)]
    pub edit: Option<Value>,
    /// The reason, which the audit has
    #[arg(long)]
    pub reason: Option<String>,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(in crate::cli) struct GivenAnswer {
    /// A value; text that is not JSON is a string
    pub value: Option<String>,
    /// For a call in doubt: make it again
    #[arg(long)]
    pub retry: bool,
    /// For a call in doubt: it was made, with this result; text that is not JSON is a string
    #[arg(long, value_name = "VALUE", value_parser = result)]
    pub done: Option<Value>,
    /// For a call in doubt: continue without it
    #[arg(long)]
    pub skip: bool,
    /// For a call in doubt: give up its item
    #[arg(long)]
    pub abort: bool,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct AnswerArguments {
    /// The question, by its id or as much of its beginning as is unique
    #[arg(value_parser = id)]
    pub suspension: String,
    #[command(flatten)]
    pub given: GivenAnswer,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ReplayArguments {
    /// The thread to replay
    #[arg(value_parser = id)]
    pub thread: String,
    /// Only show the thread as it was after this observation
    #[arg(long, value_parser = seq, allow_negative_numbers = true)]
    pub at: Option<i64>,
    /// How many times as fast as it was; pauses are shortened
    #[arg(long, default_value_t = 4.0, allow_negative_numbers = true)]
    pub speed: f64,
    /// Print the frames of the API to stdout, one per line
    #[arg(long, conflicts_with = "speed")]
    pub json: bool,
}

/// Added to the present, a longer time may have no representation.
const LONGEST_DAYS: u64 = 36_500;

pub(in crate::cli) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is no time; write 90s, 5m, 2h or 7d, at most {LONGEST_DAYS}d");
    let (at, unit) = text.char_indices().next_back().ok_or_else(wrong)?;
    let seconds: u64 = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        _ => return Err(wrong()),
    };
    let number: u64 = text[..at].parse().map_err(|_| wrong())?;
    let all = number.checked_mul(seconds).filter(|seconds| *seconds <= LONGEST_DAYS * 86_400);
    all.map(Duration::from_secs).ok_or_else(wrong)
}

/// Characters that are allowed in a path, at least one: an empty id, for example of an unset variable, begins every id. The
/// server checks the other rules of ids.
pub(in crate::cli) fn id(text: &str) -> Result<String, String> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte));
    if is_plain && text.bytes().any(|byte| byte != b'.') {
        Ok(text.to_owned())
    } else {
        Err("an id consists of letters, digits and `._:-`".to_owned())
    }
}

/// The number of an observation.
fn seq(text: &str) -> Result<i64, String> {
    let number = text.parse().ok().filter(|number| *number >= 0);
    number.ok_or_else(|| "it is the number of an observation, such as 42".to_owned())
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser as _;

    use super::duration;
    use crate::cli::args::Arguments;

    /// What is printed for these arguments in place of the command.
    fn printed(arguments: &[&str]) -> String {
        let parsed = Arguments::try_parse_from(["pes"].iter().chain(arguments));
        parsed.unwrap_err().to_string()
    }

    #[test]
    fn a_refusal_shows_the_order_that_is_right_and_no_flag_that_is_wrong() {
        for command in ["edit", "diff", "forecast"] {
            let told = printed(&["plan", command, "t"]);
            assert!(told.contains(&format!("Usage: pes plan [THREAD] {command} [OPTIONS]")), "{told}");
        }
        for arguments in [["fork", "t", "--at", "-1"], ["replay", "t", "--at", "-1"], ["watch", "t", "--after", "-1"]] {
            let told = printed(&arguments);
            assert!(
                told.contains("it is the number of an observation, such as 42") && !told.contains("tip:"),
                "{told}"
            );
        }
        assert!(
            Arguments::try_parse_from(["pes", "replay", "t", "--speed", "-2"]).is_ok(),
            "it has an error of its own"
        );
    }

    #[test]
    fn help_is_a_command_too() {
        assert_eq!(printed(&["help"]), printed(&["--help"]));
        assert_eq!(printed(&["help", "run"]), printed(&["run", "--help"]));
        assert!(printed(&["help"]).contains("PES_TOKEN"));
    }

    #[test]
    fn what_is_no_time_or_too_long_is_refused() {
        let seconds = |text: &str| duration(text).map(|found| found.as_secs());
        assert_eq!([seconds("90s"), seconds("5m"), seconds("2h"), seconds("7d")], [90, 300, 7_200, 604_800].map(Ok));
        assert_eq!(duration("36500d"), Ok(Duration::from_secs(36_500 * 86_400)));
        for text in ["", "s", "5", "-5s", "5м", "5ä", "36501d", "18446744073709551615s", "18446744073709551615d"] {
            let expected = format!("`{text}` is no time; write 90s, 5m, 2h or 7d, at most 36500d");
            assert_eq!(duration(text), Err(expected));
        }
    }
}
