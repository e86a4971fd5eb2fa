//! Decodes a collector's request by the field numbers of opentelemetry-proto. It shares no code with the encoder.

use std::collections::BTreeMap;

/// The part of a span that the tests check.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    pub trace: String,
    pub id: String,
    pub parent: String,
    pub name: String,
    pub kind: u64,
    pub start: u64,
    pub end: u64,
    pub attributes: BTreeMap<String, String>,
    pub links: Vec<String>,
    pub events: Vec<String>,
    /// The code of its status: 2 is an error.
    pub status: u64,
}

/// The server's resource attributes, and its spans.
pub fn read(bytes: &[u8]) -> (BTreeMap<String, String>, Vec<Span>) {
    let (mut resource, mut spans) = (BTreeMap::new(), Vec::new());
    for resource_spans in fields(bytes).iter().filter(|field| field.0 == 1) {
        for part in fields(resource_spans.1.bytes()) {
            match part.0 {
                1 => resource.extend(attributes(part.1.bytes(), 1)),
                2 => spans
                    .extend(fields(part.1.bytes()).iter().filter(|field| field.0 == 2).map(|span| one(span.1.bytes()))),
                _ => {}
            }
        }
    }
    (resource, spans)
}

fn one(bytes: &[u8]) -> Span {
    let all = fields(bytes);
    let text = |number| all.iter().find(|field| field.0 == number).map(|field| field.1.clone());
    let id = |number| text(number).map(|field| hex(field.bytes())).unwrap_or_default();
    let number = |wanted| text(wanted).map_or(0, |field| field.number());
    let many = |wanted: u64| all.iter().filter(move |field| field.0 == wanted).map(|field| field.1.bytes());
    let inner =
        |bytes: &[u8], wanted: u64| fields(bytes).iter().find(|field| field.0 == wanted).map(|field| field.1.clone());
    Span {
        trace: id(1),
        id: id(2),
        parent: id(4),
        name: String::from_utf8(text(5).expect("a name").bytes().to_vec()).expect("a text"),
        kind: number(6),
        start: number(7),
        end: number(8),
        attributes: attributes(bytes, 9),
        links: many(13).map(|link| hex(inner(link, 2).expect("a span").bytes())).collect(),
        events: many(11)
            .map(|event| String::from_utf8(inner(event, 2).expect("a name").bytes().to_vec()).expect("a text"))
            .collect(),
        status: many(15).next().and_then(|status| inner(status, 3)).map_or(0, |code| code.number()),
    }
}

fn attributes(bytes: &[u8], field: u64) -> BTreeMap<String, String> {
    let pairs = fields(bytes).into_iter().filter(|(number, _)| *number == field);
    pairs
        .map(|(_, pair)| {
            let (mut name, mut value) = (String::new(), String::new());
            for (number, part) in fields(pair.bytes()) {
                match number {
                    1 => name = String::from_utf8(part.bytes().to_vec()).expect("a text"),
                    _ => value = any(part.bytes()),
                }
            }
            (name, value)
        })
        .collect()
}

fn any(bytes: &[u8]) -> String {
    let Some((number, value)) = fields(bytes).into_iter().next() else { return String::new() };
    match number {
        1 => String::from_utf8(value.bytes().to_vec()).expect("a text"),
        4 => f64::from_bits(value.number()).to_string(),
        5 => fields(value.bytes()).iter().map(|one| any(one.1.bytes())).collect::<Vec<_>>().join(","),
        _ => value.number().cast_signed().to_string(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The value of a field, by its wire type.
#[derive(Clone, Debug)]
enum Field {
    Number(u64),
    Bytes(Vec<u8>),
}

impl Field {
    fn bytes(&self) -> &[u8] {
        match self {
            Field::Bytes(bytes) => bytes,
            Field::Number(number) => panic!("{number} is no message"),
        }
    }

    fn number(&self) -> u64 {
        match self {
            Field::Number(number) => *number,
            Field::Bytes(bytes) => panic!("{bytes:?} is no number"),
        }
    }
}

fn fields(mut bytes: &[u8]) -> Vec<(u64, Field)> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let value = match tag & 7 {
            0 => Field::Number(varint(&mut bytes)),
            1 => Field::Number(u64::from_le_bytes(take(&mut bytes, 8).try_into().expect("eight bytes"))),
            2 => {
                let length = usize::try_from(varint(&mut bytes)).expect("a length");
                Field::Bytes(take(&mut bytes, length).to_vec())
            }
            other => panic!("no wire type {other}"),
        };
        found.push((tag >> 3, value));
    }
    found
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let (mut number, mut shift) = (0, 0);
    loop {
        let byte = take(bytes, 1)[0];
        number |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            return number;
        }
    }
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> &'a [u8] {
    let (taken, rest) = bytes.split_at(length);
    *bytes = rest;
    taken
}
