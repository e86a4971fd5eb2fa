//! Files of exported threads that somebody changed.

use pes::domain::hex;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// An export whose lines were changed, with the sums of all lines made anew.
pub fn rewritten(export: &str, change: impl FnOnce(&mut Vec<Value>)) -> String {
    let read = |line: &str| {
        let mut object: Value = serde_json::from_str(line).unwrap();
        object.as_object_mut().unwrap().shift_remove("sum").expect("each line has a sum");
        object
    };
    let mut objects: Vec<Value> = export.lines().map(read).filter(|object| object.get("end").is_none()).collect();
    change(&mut objects);
    let (mut file, mut last) = (String::new(), String::new());
    let mut write = |object: &Value, file: &mut String| {
        let text = object.to_string();
        let begun = text.strip_suffix('}').unwrap();
        let sum = hex::of(&Sha256::digest(format!("{last}{begun}")));
        last = format!(r#","sum":"{}"}}"#, &sum[..32]);
        *file += &format!("{begun}{last}\n");
    };
    for object in &objects {
        write(object, &mut file);
    }
    let end = json!({ "end": { "lines": objects.len(), "sha256": hex::of(&Sha256::digest(&file)) } });
    write(&end, &mut file);
    file
}
