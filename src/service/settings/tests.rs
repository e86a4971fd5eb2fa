use std::collections::BTreeMap;

use super::substitute;

fn variables() -> BTreeMap<String, String> {
    BTreeMap::from([("who".to_owned(), "Ada {{who}}".to_owned())])
}

#[test]
fn names_become_their_values_and_all_else_stays() {
    let same = ["{{", "}}", "{{}}", "{{ }}", "{{a b}}", "{{who", "{who}", "{{who}", "{{who{{", "{{!who}}"];
    for text in same {
        assert_eq!(substitute(text, &variables()).as_deref(), Ok(text));
    }
    let become_ = [("{{who}}", "Ada {{who}}"), ("a {{ who }}!", "a Ada {{who}}!"), ("{{{who}}}", "{{{who}}}")];
    for (text, expected) in become_ {
        assert_eq!(substitute(text, &variables()).as_deref(), Ok(expected), "{text}");
    }
    assert_eq!(substitute("{{who}} {{x.y-z_1}}", &variables()), Err("x.y-z_1"));
}

/// A search to the end of the text for each of half a million braces would take minutes.
#[test]
fn a_text_full_of_braces_costs_no_more_than_another() {
    for end in ["", "}}"] {
        let braces = "{".repeat(1 << 20) + end;
        assert_eq!(substitute(&braces, &variables()).as_deref(), Ok(braces.as_str()));
    }
}
