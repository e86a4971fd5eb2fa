//! What checking a value against a schema can cost, worked out before the schema is used. See the module's head.

use std::collections::HashMap;

use jsonschema::Draft;
use serde_json::{Map, Value};

use super::node::Node;
use super::{Size, text};
use crate::domain::depth::MOST_DEPTH;
use crate::domain::fault::Pointed;

/// Schemas within a schema, with what they refer to.
pub const MOST_SCHEMAS: usize = 2_000;
/// Values of any kind within a schema: lists of `enum` and `required`, examples.
const MOST_VALUES: usize = 20_000;
/// Steps that one value, or one byte of text, may take.
const MOST_STEPS: u64 = 20_000;
/// Values that are compared with a constant in the time of one step.
const COMPARED: u64 = 8;
/// Steps that a keyword takes which looks at a whole value and not only at its members.
const WHOLE: u64 = 8;

/// Per value that is checked (its members count as values of their own), and per byte of its texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Until it is known whether a value fits.
    pub steps: u64,
    /// The same for each byte of text: regular expressions.
    pub text: u64,
    /// Until it is known what is wrong with it: choices are tried once more at each level.
    pub telling: u64,
    /// Schemas within it, for those who bound many together.
    pub schemas: usize,
}

struct SchemaWalk<'s> {
    root: &'s Value,
    nodes: Vec<Node>,
    /// By their pointers.
    known: HashMap<String, usize>,
    /// Each name once: which of two would be meant is up to the order in which they are looked at.
    anchors: HashMap<String, usize>,
    draft: Draft,
    /// The keyword that gives a schema an address.
    id: &'static str,
    /// Where a schema within is of another draft, and where one refers to another.
    other_draft: Option<String>,
    reference: Option<String>,
    todo: Vec<(String, &'s Value)>,
    expressions: u64,
}

/// The cost, or where the schema is refused and why.
pub(super) fn of(schema: &Value) -> Result<Cost, Pointed> {
    if crate::domain::depth::exceeds(schema, MOST_DEPTH) {
        return Err(refused("", format!("nests deeper than {MOST_DEPTH}")));
    }
    if values(schema) > MOST_VALUES {
        return Err(refused("", format!("has more than {MOST_VALUES} values")));
    }
    let draft = Draft::default().detect(schema);
    let mut walk = SchemaWalk {
        root: schema,
        nodes: Vec::new(),
        known: HashMap::new(),
        anchors: HashMap::new(),
        draft,
        id: draft.id_keyword(),
        other_draft: None,
        reference: None,
        todo: Vec::new(),
        expressions: 0,
    };
    walk.at(String::new(), schema)?;
    while let Some((pointer, schema)) = walk.todo.pop() {
        walk.look(&pointer, schema)?;
    }
    walk.join_anchors()?;
    if let (Some(place), Some(reference)) = (&walk.other_draft, &walk.reference) {
        let why =
            format!("a schema within a schema cannot be of another draft where there are references: {reference}");
        return Err(refused(place, why));
    }
    let order = walk.order()?;
    let cost = walk.deepest(&order);
    if cost.steps.max(cost.text) > MOST_STEPS {
        let why = "applies too many schemas to one value: references or alternatives multiply".to_owned();
        return Err(refused("", why));
    }
    Ok(cost)
}

fn refused(pointer: &str, detail: String) -> Pointed {
    Pointed { pointer: pointer.to_owned(), detail }
}

/// Values in `value`, itself included.
pub fn values(value: &Value) -> usize {
    let mut todo = vec![value];
    let mut count = 0;
    while let Some(value) = todo.pop() {
        count += 1;
        match value {
            Value::Array(items) => todo.extend(items),
            Value::Object(members) => todo.extend(members.values()),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    count
}

fn below(pointer: &str, token: &str) -> String {
    format!("{pointer}/{}", token.replace('~', "~0").replace('/', "~1"))
}

impl<'s> SchemaWalk<'s> {
    /// The number of the schema at a pointer.
    fn at(&mut self, pointer: String, schema: &'s Value) -> Result<usize, Pointed> {
        if let Some(known) = self.known.get(&pointer) {
            return Ok(*known);
        }
        if self.nodes.len() == MOST_SCHEMAS {
            return Err(refused(&pointer, format!("is one of more than {MOST_SCHEMAS} schemas within one")));
        }
        let number = self.nodes.len();
        self.nodes.push(Node::default());
        self.known.insert(pointer.clone(), number);
        self.todo.push((pointer, schema));
        Ok(number)
    }

    fn look(&mut self, pointer: &str, schema: &'s Value) -> Result<(), Pointed> {
        let number = self.known[pointer];
        self.nodes[number].own.steps = 1;
        let Value::Object(keywords) = schema else {
            return Ok(());
        };
        for (keyword, value) in keywords {
            self.keyword(number, pointer, keyword, value)?;
        }
        Ok(())
    }

    fn keyword(&mut self, number: usize, pointer: &str, keyword: &str, value: &'s Value) -> Result<(), Pointed> {
        let place = below(pointer, keyword);
        self.nodes[number].own.steps += 1;
        if matches!(keyword, "not" | "pattern" | "required" | "dependentRequired" | "dependencies") {
            self.nodes[number].repeated += Size::of(value).repeated();
        }
        match keyword {
            "unevaluatedProperties" | "unevaluatedItems" | "$dynamicRef" | "$recursiveRef" => {
                Err(refused(&place, format!("`{keyword}` is not taken: its cost grows with more than the value")))
            }
            "$dynamicAnchor" | "$recursiveAnchor" => Err(refused(
                &place,
                format!("`{keyword}` is not taken: what refers to it would depend on the way there"),
            )),
            "$id" | "id" if keyword == "$id" || keyword == self.id => identify(pointer, &place, value),
            "$schema" if !pointer.is_empty() => self.draft_within(place, value),
            "$ref" => self.refer(number, &place, value),
            "$anchor" => match value.as_str().and_then(|name| self.anchors.insert(name.to_owned(), number)) {
                Some(_) => Err(refused(&place, "is the name of another schema, too".to_owned())),
                None => Ok(()),
            },
            "allOf" | "if" | "then" | "else" | "dependentSchemas" | "dependencies" => {
                let found = self.within(&place, value)?;
                self.nodes[number].beside.extend(found);
                Ok(())
            }
            "anyOf" | "oneOf" | "not" => {
                let found = self.within(&place, value)?;
                self.nodes[number].chooses = true;
                self.nodes[number].beside.extend(found);
                Ok(())
            }
            "properties" => {
                let found = self.within(&place, value)?;
                self.nodes[number].own.steps += found.len() as u64;
                self.nodes[number].members.extend(found);
                Ok(())
            }
            "items" | "prefixItems" | "additionalItems" | "additionalProperties" => {
                let found = self.within(&place, value)?;
                self.nodes[number].members.extend(found);
                Ok(())
            }
            "contains" | "propertyNames" => {
                let found = self.within(&place, value)?;
                self.nodes[number].each.extend(found);
                Ok(())
            }
            "patternProperties" => {
                for name in value.as_object().into_iter().flat_map(Map::keys) {
                    // Once for itself, once to find what is left for `additionalProperties`.
                    self.nodes[number].names += 2 * self.expression(&below(&place, name), name)?;
                }
                let found = self.within(&place, value)?;
                self.nodes[number].each.extend(found);
                Ok(())
            }
            // They apply to nothing here, and may hold names.
            "$defs" | "definitions" | "contentSchema" => self.within(&place, value).map(drop),
            "pattern" => {
                if let Some(pattern) = value.as_str() {
                    self.nodes[number].own.text += self.expression(&place, pattern)?;
                }
                Ok(())
            }
            "enum" | "const" | "required" | "dependentRequired" | "type" => {
                self.nodes[number].own.steps += values(value) as u64 / COMPARED;
                Ok(())
            }
            "uniqueItems" => {
                self.nodes[number].whole += WHOLE;
                Ok(())
            }
            // Reading a text once, by a form of its own or as JSON.
            "format" | "contentEncoding" | "contentMediaType" => {
                self.nodes[number].own.text += 1;
                Ok(())
            }
            // Numbers, lengths and counts are compared once; words for people are not looked at.
            _ => Ok(()),
        }
    }

    /// The schemas that a keyword holds: one, a list, or a member each. Other values there are no schemas.
    fn within(&mut self, place: &str, value: &'s Value) -> Result<Vec<usize>, Pointed> {
        let holds_many =
            ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"];
        let is_map = place.rsplit('/').next().is_some_and(|keyword| holds_many.contains(&keyword));
        match value {
            Value::Object(members) if is_map => {
                let mut found = Vec::with_capacity(members.len());
                for (name, schema) in members.iter().filter(|(_, schema)| schema.is_object() || schema.is_boolean()) {
                    found.push(self.at(below(place, name), schema)?);
                }
                Ok(found)
            }
            Value::Object(_) | Value::Bool(_) => Ok(vec![self.at(place.to_owned(), value)?]),
            Value::Array(items) => {
                items.iter().enumerate().map(|(at, schema)| self.at(below(place, &at.to_string()), schema)).collect()
            }
            Value::Null | Value::Number(_) | Value::String(_) => Ok(Vec::new()),
        }
    }

    fn refer(&mut self, number: usize, place: &str, value: &'s Value) -> Result<(), Pointed> {
        let Some(reference) = value.as_str() else {
            return Ok(());
        };
        self.reference.get_or_insert_with(|| place.to_owned());
        let elsewhere = || refused(place, "a reference must stay within the schema: begin it with `#`".to_owned());
        let fragment = reference.strip_prefix('#').ok_or_else(elsewhere)?;
        // Names are meant as they stand; only pointers are unescaped.
        if !fragment.is_empty() && !fragment.starts_with('/') {
            self.nodes[number].anchors.push((place.to_owned(), fragment.to_owned()));
            return Ok(());
        }
        let fragment = text::unescaped(fragment);
        let root = self.root;
        let target = root.pointer(&fragment).ok_or_else(|| nothing_there(place))?;
        let target = self.at(fragment, target)?;
        self.nodes[number].beside.push(target);
        Ok(())
    }

    /// Generators write one into each part. What a keyword costs is the same in all drafts; what a reference means is not.
    fn draft_within(&mut self, place: String, value: &Value) -> Result<(), Pointed> {
        let Some(named) = value.as_str().filter(|_| Some(value) != self.root.get("$schema")) else {
            return Ok(());
        };
        let draft = Draft::from_schema_uri(named);
        if draft == Draft::Unknown {
            return Err(refused(&place, "is no draft that is known here".to_owned()));
        }
        if draft != self.draft {
            self.other_draft.get_or_insert(place);
        }
        Ok(())
    }

    fn join_anchors(&mut self) -> Result<(), Pointed> {
        for node in &mut self.nodes {
            for (place, name) in std::mem::take(&mut node.anchors) {
                let target = self.anchors.get(&name).ok_or_else(|| nothing_there(&place))?;
                node.beside.push(*target);
            }
        }
        Ok(())
    }

    fn expression(&mut self, place: &str, pattern: &str) -> Result<u64, Pointed> {
        let size = text::size(pattern).map_err(|why| refused(place, why))?;
        self.expressions = self.expressions.saturating_add(size.ranges);
        if self.expressions > text::MOST_RANGES {
            return Err(refused(place, "is a regular expression too large, by itself or with the others".to_owned()));
        }
        Ok(size.positions)
    }

    /// Such that every schema stands behind those that are applied beside it; refuses one that is applied beside itself.
    fn order(&self) -> Result<Vec<usize>, Pointed> {
        #[derive(Clone, Copy, PartialEq)]
        enum Mark {
            New,
            Open,
            Done,
        }
        let mut marks = vec![Mark::New; self.nodes.len()];
        let mut order = Vec::with_capacity(self.nodes.len());
        for start in 0..self.nodes.len() {
            let mut path = vec![(start, 0)];
            while let Some((node, next)) = path.pop() {
                if next == 0 && marks[node] == Mark::Done {
                    continue;
                }
                marks[node] = Mark::Open;
                match self.nodes[node].beside.get(next) {
                    Some(&beside) if marks[beside] == Mark::Open => return Err(self.circle(beside)),
                    Some(&beside) => path.extend([(node, next + 1), (beside, 0)]),
                    None => {
                        marks[node] = Mark::Done;
                        order.push(node);
                    }
                }
            }
        }
        Ok(order)
    }

    fn circle(&self, node: usize) -> Pointed {
        let pointer = self.known.iter().find(|(_, number)| **number == node).map_or("", |(pointer, _)| pointer);
        refused(pointer, "refers to itself without going deeper into the value".to_owned())
    }

    /// The root's cost for the deepest value that is taken.
    fn deepest(&self, order: &[usize]) -> Cost {
        let mut last = vec![Cost::default(); self.nodes.len()];
        for _ in 0..=MOST_DEPTH {
            let mut costs = last.clone();
            for &node in order {
                costs[node] = self.nodes[node].cost(&costs, &last);
            }
            if costs == last {
                break;
            }
            last = costs;
        }
        Cost { schemas: self.nodes.len(), ..last[0] }
    }
}

/// Only the whole has an address, and none that older drafts take for the name of a schema: references would lead elsewhere.
fn identify(pointer: &str, place: &str, value: &Value) -> Result<(), Pointed> {
    match value.as_str() {
        Some(_) if !pointer.is_empty() => {
            Err(refused(place, "a schema within a schema cannot have an address of its own".to_owned()))
        }
        Some(id) if id.starts_with('#') => Err(refused(place, "is no address but a name: use `$anchor`".to_owned())),
        Some(_) | None => Ok(()),
    }
}

fn nothing_there(place: &str) -> Pointed {
    refused(place, "refers to nothing within the schema".to_owned())
}
