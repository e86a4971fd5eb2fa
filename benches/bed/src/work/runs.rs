//! W1: a plan, three items with one tool call each, a synthesis: 8 model calls, durable. Compared with 8 such calls through
//! the bare proxy; and, on request, with its calls and commits without the server.

use memchr::memmem;
use serde_json::json;

use crate::Outcome;
use crate::bed::{Bed, PARTS, Target};
use crate::load::{Connection, Done, Limit, closed_loop, post};
use crate::model::script::Knobs;
use crate::raw::Raw;
use crate::report::{ALONE, Book};

/// A tool whose calls are answered in the decision itself.
pub(super) const AT_ONCE: &str = "calculator";
/// A service: its calls are effects, with one commit before and one after each.
const SERVICE: &str = "multiply";

const CASES: [(&str, usize, &str); 5] = [
    (ALONE, 1, AT_ONCE),
    ("16 clients", 16, AT_ONCE),
    ("64 clients", 64, AT_ONCE),
    ("256 clients", 256, AT_ONCE),
    ("64 clients, HTTP tool", 64, SERVICE),
];

fn settings(bed: &Bed) -> String {
    let tool =
        "name = \"multiply\"\ndescription = \"Multiplies.\"\ninput_schema = { type = \"object\" }\nclass = \"read\"\n";
    format!("[[tools.http]]\n{tool}idempotent = true\nurl = \"http://{}/tool\"\n", bed.model.address)
}

pub async fn measure(bed: &Bed, book: &mut Book) -> Outcome<()> {
    let subjects = bed.servers(&settings(bed)).await?;
    let parts = bed.parts().await?;
    let mut targets = vec![Target::Proxy];
    targets.extend(subjects.iter().map(Target::Server));
    targets.extend(parts.iter().flat_map(|of_one| PARTS.map(|which| Target::Parts(of_one, which))));
    // Warms up pools and caches.
    for target in &targets {
        slice(bed, target, bed.rounds(), 16, SERVICE).await?;
    }
    let mut raw = Raw::open(bed).await?;
    for round in 0..bed.rounds() {
        raw.measure(book).await?;
        for (case, clients, tool) in CASES {
            // The parts are those of a run whose tool is answered in the decision.
            for target in targets.iter().filter(|target| tool == AT_ONCE || !matches!(target, Target::Parts(..))) {
                let work = slice(bed, target, round, clients, tool);
                let measured = bed.slice(target, work).await?;
                book.add("W1", case, "run", &target.name(), measured);
            }
        }
    }
    drop(targets);
    for subject in subjects {
        let name = subject.name.clone();
        subject.server.stop().await?;
        if subject.place.database.is_none() {
            let bytes = crate::process::size_of(&subject.place.data())? as f64;
            let per_run = bytes / 1024.0 / book.count("W1", &name) as f64;
            book.fact("W1", "all", &name, "KiB in the store for each run", per_run);
        }
    }
    Ok(())
}

/// The model's own limit, far above what the workloads need.
pub async fn ceiling(bed: &Bed, book: &mut Book) -> Outcome<()> {
    for _ in 0..3 {
        let mut measured = bed.slice(&Target::Model, slice(bed, &Target::Model, 0, 64, AT_ONCE)).await?;
        measured.done.count *= 8;
        book.add("model", "64 clients", "call", "model", measured);
    }
    Ok(())
}

pub(super) async fn slice(
    bed: &Bed,
    target: &Target<'_>,
    round: usize,
    clients: usize,
    tool: &'static str,
) -> Outcome<Done> {
    let to = target.address(bed);
    match target {
        Target::Model | Target::Proxy => {
            let calls = calls(tool);
            closed_loop(to, clients, Limit::Time(bed.slice_time()), async move |connection: &mut Connection, _| {
                for call in &calls {
                    if connection.ask(call, |_| {}).await? != 200 {
                        return Err("the model did not answer".into());
                    }
                }
                Ok(())
            })
            .await
        }
        Target::Parts(_, which) => {
            let ask = post(&format!("/{which}"), "", false);
            closed_loop(to, clients, Limit::Time(bed.slice_time()), async move |connection: &mut Connection, _| {
                match connection.ask(&ask, |_| {}).await? {
                    200 => Ok(()),
                    status => Err(format!("the parts of a run answered {status}").into()),
                }
            })
            .await
        }
        Target::Server(_) => {
            let query = Knobs { items: 3, tool: Some(tool.to_owned()), ..Knobs::default() }.words();
            let body = json!({ "query": format!("Multiply three times, {query}") }).to_string();
            let prefix = format!("w1-{round}-{clients}-{tool}");
            closed_loop(to, clients, Limit::Time(bed.slice_time()), async move |connection: &mut Connection, nth| {
                let ask = post(&format!("/threads/{prefix}-{nth}/process"), &body, true);
                let (status, said) = connection.whole(&ask).await?;
                let has = |words: &[u8]| memmem::find(&said, words).is_some();
                if status == 200 && has(br#""status":"success""#) && has(br#""llmCalls":8,"toolCalls":3"#) {
                    return Ok(());
                }
                Err(format!("a run went wrong: {status} {}", String::from_utf8_lossy(&said)).into())
            })
            .await
        }
    }
}

/// The eight calls of such a run, as long as the server's, and those of the tool.
fn calls(tool: &str) -> Vec<Vec<u8>> {
    const BYTES: usize = 4_000;
    let call = |stage: &str, items: usize, is_end: bool, tools: bool| {
        let knobs = Knobs { items, tool: Some(tool.to_owned()), ..Knobs::default() }.words();
        let system = json!({ "role": "system", "content": format!("{stage} {}", "x".repeat(BYTES)) });
        let mut messages = vec![system, json!({ "role": "user", "content": knobs })];
        messages.extend(is_end.then(|| json!({ "role": "tool", "content": "42" })));
        let mut body = json!({ "model": "bed", "messages": messages, "stream": true });
        if tools {
            body["tools"] = json!([{ "type": "function", "function": { "name": tool } }]);
        }
        post("/v1/chat/completions", &body.to_string(), false)
    };
    let mut calls = vec![call("You plan how to answer", 3, false, false)];
    for _ in 0..3 {
        calls.push(call("You work on one item of a plan", 0, false, true));
        calls.extend((tool == SERVICE).then(|| post("/tool", &"x".repeat(400), false)));
        calls.push(call("You work on one item of a plan", 0, true, true));
    }
    calls.push(call("The plan has been carried out", 0, false, false));
    calls
}
