//! Computes the cost of checking values against a schema before the schema is used. See the documentation of the parent
//! module.

use std::collections::HashMap;

use jsonschema::Draft;
use serde_json::{Map, Value};

use super::node::Node;
use super::{Size, text};
use crate::domain::depth::MOST_DEPTH;
use crate::domain::fault::Pointed;
use crate::domain::pointer;

/// Maximum number of subschemas, including those that are referenced.
pub const MAX_SCHEMAS: usize = 2_000;
/// Maximum number of JSON values in a schema, including lists of `enum` and `required`, and examples.
const MOST_VALUES: usize = 20_000;
/// Maximum number of steps for one value, or one byte of text.
const MAX_STEPS: u64 = 20_000;
/// How many values are compared with a constant in one step.
const VALUES_COMPARED_PER_STEP: u64 = 8;
/// Steps of a keyword that examines the whole value and not only its direct members.
const WHOLE_VALUE_STEPS: u64 = 8;

/// Cost per value that is checked (members count as values of their own), and per byte of its texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Until it is known whether a value is valid.
    pub steps: u64,
    /// Steps for each byte of text: regular expressions.
    pub text: u64,
    /// Until all errors are known: alternatives are tried again at each level.
    pub report_steps: u64,
    /// The number of subschemas, for callers that bound several schemas together.
    pub schemas: usize,
}

struct SchemaWalk<'s> {
    root: &'s Value,
    nodes: Vec<Node>,
    /// Node numbers by JSON Pointer.
    numbers: HashMap<String, usize>,
    /// Each name at most once: with duplicates, the target of a reference would depend on the order of traversal.
    anchors: HashMap<String, usize>,
    draft: Draft,
    /// The keyword that sets a schema's base URI.
    id: &'static str,
    /// The first place where a subschema has another draft, and the first reference. They are not accepted together.
    other_draft: Option<String>,
    reference: Option<String>,
    todo: Vec<(String, &'s Value)>,
    expressions: u64,
}

/// The cost, or the place in the schema that is rejected and why.
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
        numbers: HashMap::new(),
        anchors: HashMap::new(),
        draft,
        id: draft.id_keyword(),
        other_draft: None,
        reference: None,
        todo: Vec::new(),
        expressions: 0,
    };
    walk.node_at(String::new(), schema)?;
    while let Some((pointer, schema)) = walk.todo.pop() {
        walk.visit(&pointer, schema)?;
    }
    walk.resolve_anchors()?;
    if let (Some(place), Some(reference)) = (&walk.other_draft, &walk.reference) {
        let why =
            format!("a schema within a schema cannot be of another draft where there are references: {reference}");
        return Err(refused(place, why));
    }
    let order = walk.order()?;
    let cost = walk.root_cost(&order);
    if cost.steps.max(cost.text) > MAX_STEPS {
        let why = "applies too many schemas to one value: references or alternatives multiply".to_owned();
        return Err(refused("", why));
    }
    Ok(cost)
}

fn refused(pointer: &str, detail: String) -> Pointed {
    Pointed { pointer: pointer.to_owned(), detail }
}

/// The number of JSON values in `value`, itself included.
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

fn below(pointer: &str, name: &str) -> String {
    format!("{pointer}/{}", pointer::token(name))
}

impl<'s> SchemaWalk<'s> {
    /// The number of the node at a pointer; creates it and queues it for the walk if it is new.
    fn node_at(&mut self, pointer: String, schema: &'s Value) -> Result<usize, Pointed> {
        if let Some(number) = self.numbers.get(&pointer) {
            return Ok(*number);
        }
        if self.nodes.len() == MAX_SCHEMAS {
            return Err(refused(&pointer, format!("is one of more than {MAX_SCHEMAS} schemas within one")));
        }
        let number = self.nodes.len();
        self.nodes.push(Node::default());
        self.numbers.insert(pointer.clone(), number);
        self.todo.push((pointer, schema));
        Ok(number)
    }

    fn visit(&mut self, pointer: &str, schema: &'s Value) -> Result<(), Pointed> {
        let number = self.numbers[pointer];
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
            self.nodes[number].copied += Size::of(value).copy_steps();
        }
        match keyword {
            "unevaluatedProperties" | "unevaluatedItems" | "$dynamicRef" | "$recursiveRef" => {
                Err(refused(&place, format!("`{keyword}` is not taken: its cost grows with more than the value")))
            }
            "$dynamicAnchor" | "$recursiveAnchor" => Err(refused(
                &place,
                format!("`{keyword}` is not taken: what refers to it would depend on the way there"),
            )),
            "$id" | "id" if keyword == "$id" || keyword == self.id => check_id(pointer, &place, value),
            "$schema" if !pointer.is_empty() => self.check_subschema_draft(place, value),
            "$ref" => self.reference(number, &place, value),
            "$anchor" => match value.as_str().and_then(|name| self.anchors.insert(name.to_owned(), number)) {
                Some(_) => Err(refused(&place, "is the name of another schema, too".to_owned())),
                None => Ok(()),
            },
            "allOf" | "if" | "then" | "else" | "dependentSchemas" | "dependencies" => {
                let found = self.subschemas(&place, value)?;
                self.nodes[number].in_place.extend(found);
                Ok(())
            }
            "anyOf" | "oneOf" | "not" => {
                let found = self.subschemas(&place, value)?;
                self.nodes[number].has_alternatives = true;
                self.nodes[number].in_place.extend(found);
                Ok(())
            }
            "properties" => {
                let found = self.subschemas(&place, value)?;
                self.nodes[number].own.steps += found.len() as u64;
                self.nodes[number].members.extend(found);
                Ok(())
            }
            "items" | "prefixItems" | "additionalItems" | "additionalProperties" => {
                let found = self.subschemas(&place, value)?;
                self.nodes[number].members.extend(found);
                Ok(())
            }
            "contains" | "propertyNames" => {
                let found = self.subschemas(&place, value)?;
                self.nodes[number].all_members.extend(found);
                Ok(())
            }
            "patternProperties" => {
                for name in value.as_object().into_iter().flat_map(Map::keys) {
                    // One pass for the keyword itself, one to find what remains for `additionalProperties`.
                    self.nodes[number].name_patterns += 2 * self.expression(&below(&place, name), name)?;
                }
                let found = self.subschemas(&place, value)?;
                self.nodes[number].all_members.extend(found);
                Ok(())
            }
            // These are applied to nothing here, but references may lead to them.
            "$defs" | "definitions" | "contentSchema" => self.subschemas(&place, value).map(drop),
            "pattern" => {
                if let Some(pattern) = value.as_str() {
                    self.nodes[number].own.text += self.expression(&place, pattern)?;
                }
                Ok(())
            }
            "enum" | "const" | "required" | "dependentRequired" | "type" => {
                self.nodes[number].own.steps += values(value) as u64 / VALUES_COMPARED_PER_STEP;
                Ok(())
            }
            "uniqueItems" => {
                self.nodes[number].whole_value += WHOLE_VALUE_STEPS;
                Ok(())
            }
            // Reads a text once, in a certain format or as JSON.
            "format" | "contentEncoding" | "contentMediaType" => {
                self.nodes[number].own.text += 1;
                Ok(())
            }
            // Numbers, lengths and counts are compared once; annotations are ignored.
            _ => Ok(()),
        }
    }

    /// The subschemas of a keyword: one, a list, or one per member. Other kinds of values are no schemas.
    fn subschemas(&mut self, place: &str, value: &'s Value) -> Result<Vec<usize>, Pointed> {
        let holds_many =
            ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"];
        let is_map = place.rsplit('/').next().is_some_and(|keyword| holds_many.contains(&keyword));
        match value {
            Value::Object(members) if is_map => {
                let mut found = Vec::with_capacity(members.len());
                for (name, schema) in members.iter().filter(|(_, schema)| schema.is_object() || schema.is_boolean()) {
                    found.push(self.node_at(below(place, name), schema)?);
                }
                Ok(found)
            }
            Value::Object(_) | Value::Bool(_) => Ok(vec![self.node_at(place.to_owned(), value)?]),
            Value::Array(items) => items
                .iter()
                .enumerate()
                .map(|(at, schema)| self.node_at(below(place, &at.to_string()), schema))
                .collect(),
            Value::Null | Value::Number(_) | Value::String(_) => Ok(Vec::new()),
        }
    }

    fn reference(&mut self, number: usize, place: &str, value: &'s Value) -> Result<(), Pointed> {
        let Some(reference) = value.as_str() else {
            return Ok(());
        };
        self.reference.get_or_insert_with(|| place.to_owned());
        let elsewhere = || refused(place, "a reference must stay within the schema: begin it with `#`".to_owned());
        let fragment = reference.strip_prefix('#').ok_or_else(elsewhere)?;
        // Anchor names are taken literally; only pointers are percent-decoded.
        if !fragment.is_empty() && !fragment.starts_with('/') {
            self.nodes[number].anchors.push((place.to_owned(), fragment.to_owned()));
            return Ok(());
        }
        let fragment = text::unescaped(fragment);
        let root = self.root;
        let target = root.pointer(&fragment).ok_or_else(|| dangling_reference(place))?;
        let target = self.node_at(fragment, target)?;
        self.nodes[number].in_place.push(target);
        Ok(())
    }

    /// Generators repeat `$schema` in subschemas. A keyword costs the same in all drafts, but a reference may mean
    /// something else.
    fn check_subschema_draft(&mut self, place: String, value: &Value) -> Result<(), Pointed> {
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

    fn resolve_anchors(&mut self) -> Result<(), Pointed> {
        for node in &mut self.nodes {
            for (place, name) in std::mem::take(&mut node.anchors) {
                let target = self.anchors.get(&name).ok_or_else(|| dangling_reference(&place))?;
                node.in_place.push(*target);
            }
        }
        Ok(())
    }

    fn expression(&mut self, place: &str, pattern: &str) -> Result<u64, Pointed> {
        let size = text::size(pattern).map_err(|why| refused(place, why))?;
        self.expressions = self.expressions.saturating_add(size.ranges);
        if self.expressions > text::MAX_RANGES {
            return Err(refused(place, "is a regular expression too large, by itself or with the others".to_owned()));
        }
        Ok(size.positions)
    }

    /// A topological order in which every schema follows those that it applies in place; rejects a schema that applies
    /// itself to the same value.
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
                match self.nodes[node].in_place.get(next) {
                    Some(&applied) if marks[applied] == Mark::Open => return Err(self.self_reference(applied)),
                    Some(&applied) => path.extend([(node, next + 1), (applied, 0)]),
                    None => {
                        marks[node] = Mark::Done;
                        order.push(node);
                    }
                }
            }
        }
        Ok(order)
    }

    fn self_reference(&self, node: usize) -> Pointed {
        let pointer = self.numbers.iter().find(|(_, number)| **number == node).map_or("", |(pointer, _)| pointer);
        refused(pointer, "refers to itself without going deeper into the value".to_owned())
    }

    /// The root's cost for values of the maximum depth.
    fn root_cost(&self, order: &[usize]) -> Cost {
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

/// Only the root may have a URI, and not one that older drafts take for an anchor: references would have other targets.
fn check_id(pointer: &str, place: &str, value: &Value) -> Result<(), Pointed> {
    match value.as_str() {
        Some(_) if !pointer.is_empty() => {
            Err(refused(place, "a schema within a schema cannot have an address of its own".to_owned()))
        }
        Some(id) if id.starts_with('#') => Err(refused(place, "is no address but a name: use `$anchor`".to_owned())),
        Some(_) | None => Ok(()),
    }
}

fn dangling_reference(place: &str) -> Pointed {
    refused(place, "refers to nothing within the schema".to_owned())
}
