//! Each type of the OpenAPI document has a schema of its own: of two with one name, the document contains only one.

use std::collections::BTreeMap;

use super::{Source, all_sources, keep};

/// The name of the schema of every type with the derive `ToSchema`, and where the type is declared.
fn schema_names(source: &Source) -> Vec<(String, String)> {
    let tokens = source.code();
    let derives = tokens.iter().enumerate().filter(|(_, token)| token.text == "ToSchema").filter(|(at, _)| {
        let list = tokens[..*at].iter().rposition(|token| token.text == "(");
        list.is_some_and(|list| list > 0 && tokens[list - 1].text == "derive")
    });
    let named = derives.filter_map(|(at, _)| {
        let after = &tokens[at..];
        let declared = after.iter().position(|token| matches!(token.text.as_str(), "struct" | "enum"))?;
        let chosen = after[..declared].windows(3).find(|three| three[0].text == "as" && three[1].text == "=");
        let name = chosen.map_or(&after[declared + 1], |three| &three[2]);
        Some((name.text.clone(), format!("{}:{}", source.path, after[declared].line)))
    });
    named.collect()
}

fn check_names(sources: &[&Source]) -> Vec<String> {
    let mut places = BTreeMap::<String, Vec<String>>::new();
    for (name, place) in sources.iter().flat_map(|source| schema_names(source)) {
        places.entry(name).or_default().push(place);
    }
    let shared = places.into_iter().filter(|(_, places)| places.len() > 1);
    let advice = "give one of them `#[schema(as = …)]`";
    shared.map(|(name, places)| format!("{}: the schema `{name}`; {advice}", places.join(", "))).collect()
}

#[test]
fn no_two_types_share_the_name_of_a_schema() {
    let all = all_sources("src");
    assert!(all.iter().flat_map(|source| schema_names(source)).count() > 100, "they are found");
    keep(check_names(&all));
}

#[test]
fn two_types_of_one_name_are_seen() {
    let rules = Source::new(
        "crates/engine/src/a.rs",
        "#[cfg_attr(feature = \"schema\", derive(utoipa::ToSchema))]\n#[serde(default)]\npub struct Terms {}",
    );
    let kept = |about: &str| {
        let text = format!("#[derive(Debug, utoipa::ToSchema)]\n{about}\npub(crate) struct Terms {{}}");
        Source::new("src/b.rs", &text)
    };
    let clash = "crates/engine/src/a.rs:3, src/b.rs:3: the schema `Terms`; give one of them `#[schema(as = …)]`";
    assert_eq!(check_names(&[&rules, &kept("")]), [clash]);
    assert!(check_names(&[&rules, &kept("#[schema(as = KeptTerms)]")]).is_empty());
}
