//! The scripted model's answers. Its knobs are words in the query, `bed(items=3 tool=calculator tokens=4)`, so one model
//! serves every workload; a plan passes them on to its items.

use memchr::memmem;
use serde_json::{Value, json};

/// The parameters of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Knobs {
    /// Number of items of a plan.
    pub items: usize,
    /// The tool that each item calls once; `None`: no tool call.
    pub tool: Option<String>,
    /// Length of a text answer.
    pub tokens: usize,
    /// Length of each item's text, which is sent at once; `None`: like a text answer.
    pub item_tokens: Option<usize>,
    /// Delay between tokens.
    pub delay_us: u64,
    /// Each token is written separately and contains its time: microseconds of the monotonic clock.
    pub is_timed: bool,
    /// Makes the ids of items differ between rounds.
    pub round: usize,
}

impl Default for Knobs {
    fn default() -> Self {
        Self { items: 0, tool: None, tokens: 4, item_tokens: None, delay_us: 0, is_timed: false, round: 0 }
    }
}

impl Knobs {
    /// The knobs as words of a query.
    pub fn words(&self) -> String {
        let tool = self.tool.as_deref().map(|tool| format!(" tool={tool}")).unwrap_or_default();
        let timed = if self.is_timed { " timed=1" } else { "" };
        let of_items = self.item_tokens.map(|tokens| format!(" item_tokens={tokens}")).unwrap_or_default();
        let Self { items, tokens, delay_us, round, .. } = self;
        format!("bed(items={items}{tool} tokens={tokens} delay={delay_us} round={round}{timed}{of_items})")
    }

    /// The same as items pass them on, as `step(…)`: the prompt of a later plan shows its items after the query.
    fn item_words(&self) -> String {
        let brief = self.item_tokens.map(|tokens| Self {
            tokens,
            item_tokens: None,
            delay_us: 0,
            is_timed: false,
            ..self.clone()
        });
        brief.as_ref().unwrap_or(self).words().replacen("bed(", "step(", 1)
    }

    /// Reads the last knobs in the request: earlier ones belong to the conversation so far.
    pub fn read(request: &[u8], stage: Stage) -> Self {
        let of_item = memmem::rfind(request, b"step(").filter(|_| !matches!(stage, Stage::Plan | Stage::Answer));
        let mut knobs = Self::default();
        let Some(at) = of_item.or_else(|| memmem::rfind(request, b"bed(")) else {
            return knobs;
        };
        let begins = request[at..].iter().position(|byte| *byte == b'(').map_or(at, |bracket| at + bracket + 1);
        let words = request[begins..].split(|byte| *byte == b')').next().unwrap_or_default();
        for word in String::from_utf8_lossy(words).split(' ') {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            let number = value.parse().unwrap_or(0);
            match name {
                "items" => knobs.items = number,
                "tool" => knobs.tool = Some(value.to_owned()),
                "tokens" => knobs.tokens = number,
                "item_tokens" => knobs.item_tokens = Some(number),
                "delay" => knobs.delay_us = number as u64,
                "round" => knobs.round = number,
                "timed" => knobs.is_timed = true,
                _ => {}
            }
        }
        knobs
    }
}

/// The kind of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Plan,
    /// An item with tools that has not called any yet.
    Call,
    /// Any other text.
    Text,
    /// The final answer of a plan.
    Answer,
}

impl Stage {
    /// Recognised by the server's prompts.
    pub fn of(request: &[u8]) -> Self {
        let has = |words: &[u8]| memmem::find(request, words).is_some();
        if has(b"You plan how to answer") || has(b"A plan exists;") {
            return Self::Plan;
        }
        if has(b"The plan has been carried out.") {
            return Self::Answer;
        }
        let is_item = has(b"You work on one item of a plan");
        if is_item && has(br#""tools":["#) && !has(br#""role":"tool""#) { Self::Call } else { Self::Text }
    }
}

/// The text of a plan whose items pass the knobs on.
pub fn plan(knobs: &Knobs) -> String {
    let item = |nth: usize| {
        let words = Knobs { items: 0, ..knobs.clone() }.item_words();
        let (kind, tools) = match &knobs.tool {
            Some(tool) => ("tool", vec![tool.as_str()]),
            None => ("reasoning", Vec::new()),
        };
        json!({ "id": format!("r{}i{nth}", knobs.round), "description": format!("Multiply, {words}"), "stepType": kind, "requiredTools": tools })
    };
    let items: Vec<Value> = (0..knobs.items).map(item).collect();
    json!({ "title": "Much", "intent": "Multiply", "plan": "One after the other", "todoList": items }).to_string()
}

/// The arguments of the tool call.
pub fn arguments(tool: &str) -> Value {
    match tool {
        "demo_send_email" => json!({ "to": "team@example.com", "subject": "Result", "body": "It is 42." }),
        _ => json!({ "expression": "6 * 7" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knobs_are_read_as_they_were_written() {
        let knobs = Knobs {
            items: 3,
            tool: Some("calculator".to_owned()),
            tokens: 9,
            item_tokens: Some(4),
            delay_us: 50,
            is_timed: true,
            round: 2,
        };
        let request = format!("bed(items=1 tokens=1 delay=0) and then {} and more", knobs.words());
        assert_eq!(Knobs::read(request.as_bytes(), Stage::Text), knobs);
        assert_eq!(Knobs::read(b"nothing", Stage::Text), Knobs::default());
        let shown = format!("{request} {}", Knobs::default().item_words());
        assert_eq!(Knobs::read(shown.as_bytes(), Stage::Plan), knobs);
        assert_eq!(Knobs::read(shown.as_bytes(), Stage::Answer), knobs);
        assert_eq!(Knobs::read(shown.as_bytes(), Stage::Call), Knobs::default());
        let of_item = Knobs::read(knobs.item_words().as_bytes(), Stage::Text);
        assert_eq!((of_item.tokens, of_item.delay_us, of_item.is_timed), (4, 0, false));
    }

    #[test]
    fn a_stage_is_known_by_its_prompt() {
        assert_eq!(Stage::of(b"You plan how to answer the user's request."), Stage::Plan);
        let item = r#"You work on one item of a plan. {"role":"user"} "tools":[{}]"#;
        assert_eq!(Stage::of(item.as_bytes()), Stage::Call);
        assert_eq!(Stage::of(format!("{item} {{\"role\":\"tool\"}}").as_bytes()), Stage::Text);
        assert_eq!(Stage::of(b"You work on one item of a plan."), Stage::Text);
        assert_eq!(Stage::of(br#"The plan has been carried out. "tools":["#), Stage::Answer);
    }
}
