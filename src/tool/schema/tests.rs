use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;

fn refused(schema: &Value) -> Pointed {
    match Schema::compile(schema) {
        Err(no) => no,
        Ok(compiled) => panic!("{schema} is taken: {:?}", compiled.cost()),
    }
}

/// Each level refers to the next one twice.
fn doubling(levels: usize, level: impl Fn(&str) -> Value) -> Value {
    let mut defs = Map::new();
    for at in 0..levels {
        defs.insert(format!("l{at}"), level(&format!("#/$defs/l{}", at + 1)));
    }
    defs.insert(format!("l{levels}"), json!({ "type": "object" }));
    json!({ "$ref": "#/$defs/l0", "$defs": defs })
}

#[test]
fn a_schema_that_multiplies_is_refused() {
    for keyword in ["allOf", "anyOf", "oneOf"] {
        refused(&doubling(40, |next| json!({ keyword: [{ "$ref": next }, { "$ref": next }] })));
    }
    refused(&doubling(
        40,
        |next| json!({ "if": { "$ref": next }, "then": { "$ref": next }, "else": { "$ref": next } }),
    ));
    refused(&doubling(40, |next| json!({ "allOf": [{ "items": { "$ref": next } }, { "items": { "$ref": next } }] })));
    // Each reference goes one level deeper, twice.
    refused(&json!({ "allOf": [{ "items": { "$ref": "#" } }, { "items": { "$ref": "#" } }] }));
    refused(&json!({ "properties": { "a": { "$ref": "#" } }, "patternProperties": { "a": { "$ref": "#" } } }));
}

/// The first schema of each name is empty, the second refers to the next one twice.
fn named_twice(levels: usize) -> Value {
    let mut defs = Map::new();
    for at in 0..levels {
        let (name, next) = (format!("a{at}"), json!({ "$ref": format!("#a{}", at + 1) }));
        defs.insert(format!("x{at}"), json!({ "$anchor": name }));
        defs.insert(format!("y{at}"), json!({ "$anchor": name, "allOf": [next, next] }));
    }
    defs.insert("end".to_owned(), json!({ "$anchor": format!("a{levels}"), "required": ["z"] }));
    json!({ "$ref": "#a0", "$defs": defs })
}

#[test]
fn what_could_be_meant_otherwise_by_the_library_is_refused_with_its_place() {
    assert!(refused(&named_twice(35)).detail.contains("another schema"));
    let beside = json!({ "contentSchema": { "$anchor": "a" }, "properties": { "b": { "$anchor": "a" } } });
    assert!(refused(&beside).pointer.ends_with("/$anchor"));
    let twice = json!([{ "$ref": "#a" }, { "$ref": "#a" }]);
    let elsewhere = json!({ "$schema": "http://json-schema.org/draft-07/schema#", "$id": "#a",
        "items": { "allOf": twice }, "definitions": { "a": { "$anchor": "a" } } });
    assert_eq!(refused(&elsewhere).pointer, "/$id", "there this is the name of the whole");
    let fourth = |id: &str| {
        json!({ "$schema": "http://json-schema.org/draft-04/schema#", "id": id,
        "definitions": { "a": { "properties": { "id": { "type": "string" } } } } })
    };
    assert_eq!(refused(&fourth("#a")).pointer, "/id");
    let mut within = fourth("https://example.com/s");
    assert!(Schema::compile(&within).is_ok(), "a member may have that name");
    within["definitions"]["a"]["id"] = json!("other");
    assert_eq!(refused(&within).pointer, "/definitions/a/id");
    assert!(Schema::compile(&json!({ "items": { "id": "other" } })).is_ok(), "it says nothing in later drafts");
    for (keyword, value) in [("$dynamicAnchor", json!("a")), ("$recursiveAnchor", json!(true))] {
        assert_eq!(refused(&json!({ "items": { keyword: value } })).pointer, format!("/items/{keyword}"));
    }
    let draft = "https://json-schema.org/draft/2019-09/schema";
    let within = json!({ "items": { "$schema": draft }, "contains": { "$ref": "#/items" } });
    assert_eq!(refused(&within).pointer, "/items/$schema");
    assert_eq!(refused(&json!({ "items": { "$schema": "https://example.com/s" } })).pointer, "/items/$schema");
    assert!(Schema::compile(&json!({ "$schema": draft, "items": { "$schema": draft } })).is_ok());
    let escaped = json!({ "$ref": "#%61", "$defs": { "a": { "$anchor": "a" } } });
    assert_eq!(refused(&escaped).pointer, "/$ref", "names are not unescaped");
}

#[test]
fn what_grows_with_more_than_the_value_is_refused_with_its_place() {
    let of = |keyword: &str| refused(&json!({ "properties": { "a/b": { keyword: false } } })).pointer;
    for keyword in ["unevaluatedProperties", "unevaluatedItems"] {
        assert_eq!(of(keyword), format!("/properties/a~1b/{keyword}"));
    }
    assert_eq!(refused(&json!({ "items": { "$dynamicRef": "#x" } })).pointer, "/items/$dynamicRef");
    assert_eq!(refused(&json!({ "items": { "$recursiveRef": "#" } })).pointer, "/items/$recursiveRef");
    assert_eq!(refused(&json!({ "allOf": [{ "$ref": "https://example.com/s" }] })).pointer, "/allOf/0/$ref");
    assert_eq!(refused(&json!({ "allOf": [{ "$ref": "#/nowhere" }] })).pointer, "/allOf/0/$ref");
    assert_eq!(refused(&json!({ "items": { "$id": "other" } })).pointer, "/items/$id");
    assert_eq!(refused(&json!({ "anyOf": [{ "$ref": "#" }, true] })).pointer, "");
    let circle = json!({ "$ref": "#/$defs/a", "$defs": { "a": { "not": { "$ref": "#/$defs/b" } }, "b": { "$ref": "#/$defs/a" } } });
    assert!(refused(&circle).detail.contains("refers to itself"));
    assert!(refused(&(0..70).fold(json!({}), |inner, _| json!({ "items": inner }))).detail.contains("nests"));
    let many: Map<String, Value> = (0..MAX_SCHEMAS + 1).map(|at| (format!("p{at}"), json!({}))).collect();
    assert!(refused(&json!({ "properties": many })).detail.contains("more than"));
    let listed = |count: usize| json!({ "examples": vec![0; count] });
    assert!(refused(&listed(20_000)).detail.contains("more than 20000 values"));
    assert!(Schema::compile(&listed(19_998)).is_ok());
}

#[test]
fn an_expression_has_a_size() {
    for pattern in ["(a{1000}){1000}", r"[\u4e00-\u9fa5]{60000}", "(?=a)b", r"(a)\1"] {
        let no = refused(&json!({ "properties": { "p": { "pattern": pattern } } }));
        assert_eq!(no.pointer, "/properties/p/pattern", "{pattern}");
    }
    assert!(!refused(&json!({ "pattern": ".{9000}" })).detail.is_empty(), "it is too large when it is compiled");
    let applied = |times: usize| {
        let all = vec![json!({ "$ref": "#/$defs/p" }); times];
        json!({ "allOf": all, "$defs": { "p": { "pattern": "a{3000}" } } })
    };
    assert!(Schema::compile(&applied(6)).is_ok());
    assert!(refused(&applied(7)).detail.contains("multiply"), "each byte would be looked at in too many places");
    for pattern in [r"^\w{1,64}$", r"^[^@\s]+@[^@\s]+\.[a-z]{2,}$", r"^\d{4}-\d{2}-\d{2}$", "^.{1,255}$", r"^\/a\-b$"] {
        Schema::compile(&json!({ "type": "string", "pattern": pattern }))
            .unwrap_or_else(|no| panic!("{pattern}: {no:?}"));
    }
}

#[test]
fn what_people_write_is_taken() {
    let tree = json!({ "type": "object", "properties": { "name": { "type": "string" },
        "children": { "type": "array", "items": { "$ref": "#" }, "uniqueItems": true } }, "required": ["name"] });
    let tree = Schema::compile(&tree).unwrap();
    assert!(tree.mistakes(&json!({ "name": "a", "children": [{ "name": "b" }] })).is_empty());
    assert_eq!(tree.mistakes(&json!({ "name": "a", "children": [{}] }))[0].pointer, "/children/0");
    assert_eq!(tree.mistakes(&json!({ "name": "a", "children": [{ "name": "b" }, { "name": "b" }] })).len(), 1);
    let wide: Map<String, Value> =
        (0..500).map(|at| (format!("p{at}"), json!({ "type": ["string", "null"] }))).collect();
    let wide = json!({ "$schema": "http://json-schema.org/draft-07/schema#", "$id": "https://example.com/s",
        "definitions": { "a b": { "enum": (0..300).collect::<Vec<_>>() } },
        "properties": wide, "additionalProperties": { "$ref": "#/definitions/a%20b" } });
    let wide = Schema::compile(&wide).unwrap();
    assert!(wide.mistakes(&json!({ "p7": null, "other": 7 })).is_empty());
    assert_eq!(wide.mistakes(&json!({ "other": 300 })).len(), 1);
    let named = json!({ "properties": { "a": { "$ref": "#word" } }, "$defs": { "w": { "$anchor": "word", "type": "string" } } });
    assert_eq!(Schema::compile(&named).unwrap().mistakes(&json!({ "a": 1 })).len(), 1);
}

/// The output of zod-to-json-schema.
#[test]
fn a_part_may_name_its_draft_where_nothing_is_referred_to() {
    let seventh = "http://json-schema.org/draft-07/schema#";
    let part = |rest: Value| {
        let mut part = json!({ "$schema": seventh, "type": "string" });
        part.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        json!({ "type": "object", "properties": { "f": part } })
    };
    let taken = Schema::compile(&part(json!({}))).unwrap();
    assert!(taken.mistakes(&json!({ "f": "a" })).is_empty());
    assert_eq!(taken.mistakes(&json!({ "f": 1 }))[0].pointer, "/f");
    let mut refers = part(json!({}));
    refers["properties"]["g"] = json!({ "$ref": "#/properties/f" });
    assert_eq!(refused(&refers).pointer, "/properties/f/$schema");
    // Two spellings of the same draft.
    refers["$schema"] = json!("http://json-schema.org/draft-07/schema");
    assert!(Schema::compile(&refers).is_ok());
    assert_eq!(refused(&part(json!({ "$id": "f" }))).pointer, "/properties/f/$id");
}

#[test]
fn a_value_too_large_for_its_schema_is_a_mistake() {
    let choices: Vec<Value> = (0..500).map(|at| json!({ "const": at })).collect();
    let schema = Schema::compile(&json!({ "items": { "anyOf": choices } })).unwrap();
    let of = |length: usize| schema.mistakes(&vec![json!(499); length].into());
    assert!(of(1_000).is_empty());
    assert!(of(200_000)[0].detail.contains("too large"));
    let wrong = schema.mistakes(&vec![json!(-1); 1_000].into());
    assert!(wrong.len() == 1 && wrong[0].detail.contains("does not fit"), "{wrong:?}");
    // Each error of an alternative copies the value, and each error the path to it.
    let many: Vec<Value> = (0..500).map(|at| json!({ "const": at })).collect();
    let choices = Schema::compile(&json!({ "anyOf": many })).unwrap();
    assert_eq!(choices.mistakes(&json!("short"))[0].pointer, "");
    assert!(choices.mistakes(&json!("x".repeat(100_000)))[0].detail.contains("too large for its mistakes"));
    let inner = Schema::compile(&json!({ "additionalProperties": { "items": { "type": "string" } } })).unwrap();
    let named = |name: &str| json!({ name: vec![0; 200] });
    assert_eq!(inner.mistakes(&named("a")).len(), MAX_ERRORS);
    assert!(inner.mistakes(&named(&"x".repeat(100_000)))[0].detail.contains("too large for its mistakes"));
    let deep = |levels: usize| (0..levels).fold(json!([]), |inner, _| json!([inner]));
    let any = Schema::compile(&json!({})).unwrap();
    assert!(any.mistakes(&deep(63)).is_empty());
    assert!(any.mistakes(&deep(64))[0].detail.contains("nests deeper"));
}

fn any_schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({})),
        Just(json!(true)),
        Just(json!({ "$ref": "#" })),
        Just(json!({ "$ref": "#/$defs/a" })),
        Just(json!({ "$ref": "#/$defs/b" })),
        Just(json!({ "$ref": "#/items" })),
        Just(json!({ "$ref": "#w" })),
        Just(json!({ "$anchor": "w" })),
        Just(json!({ "$anchor": "w", "type": "string" })),
        Just(json!({ "id": "w" })),
        Just(json!({ "$id": "w" })),
        Just(json!({ "$schema": "http://json-schema.org/draft-07/schema#" })),
        Just(json!({ "type": "integer" })),
        Just(json!({ "pattern": "^a+$" })),
        Just(json!({ "uniqueItems": true })),
        Just(json!({ "enum": [1, "a", [1]] })),
        Just(json!({ "unevaluatedItems": false })),
        Just(json!(7)),
        Just(json!(null)),
    ];
    leaf.prop_recursive(6, 60, 4, |inner| {
        let list = prop::collection::vec(inner.clone(), 1..4);
        let words = prop::sample::select(vec![
            "items",
            "not",
            "if",
            "then",
            "else",
            "contains",
            "propertyNames",
            "additionalProperties",
        ]);
        let lists = prop::sample::select(vec!["allOf", "anyOf", "oneOf", "prefixItems", "items"]);
        let maps = prop::sample::select(vec!["properties", "patternProperties", "$defs", "dependentSchemas"]);
        prop_oneof![
            (words, inner.clone()).prop_map(|(word, schema)| json!({ word: schema })),
            (lists, list.clone()).prop_map(|(word, schemas)| json!({ word: schemas })),
            (maps, inner.clone(), inner.clone()).prop_map(|(word, a, b)| json!({ word: { "a": a, "b": b } })),
            (inner.clone(), inner).prop_map(|(a, b)| match (a, b) {
                (Value::Object(mut a), Value::Object(b)) => {
                    a.extend(b);
                    Value::Object(a)
                }
                (a, _) => a,
            }),
        ]
    })
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        (-3..3i64).prop_map(Value::from),
        "[ab]{0,3}".prop_map(Value::from)
    ];
    leaf.prop_recursive(5, 40, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec(("[ab]", inner), 0..3)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any schema is either rejected or accepted, and an accepted one gives the same results with the library's own
    /// `uniqueItems`.
    #[test]
    fn no_schema_breaks_or_holds_up(schema in any_schema(), a in any_schema(), b in any_schema(), value in any_value()) {
        let whole = match schema {
            Value::Object(mut members) => {
                members.insert("$defs".to_owned(), json!({ "a": a, "b": b }));
                Value::Object(members)
            }
            other => other,
        };
        if let Ok(compiled) = Schema::compile(&whole) {
            let expected = jsonschema::options().with_pattern_options(PatternOptions::regex()).build(&whole).unwrap();
            prop_assert_eq!(compiled.mistakes(&value).is_empty(), expected.is_valid(&value), "{} {}", whole, value);
        }
    }

    #[test]
    fn no_expression_breaks_the_estimate(pattern in ".{0,40}", nested in "[a(|)*+?{}0-9,\\[\\]\\\\]{0,30}") {
        for pattern in [pattern, nested] {
            let _ = Schema::compile(&json!({ "pattern": pattern }));
        }
    }
}
