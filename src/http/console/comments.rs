//! What of the page's files is not sent: comments on lines of their own. Their lines stay, empty, so that an error names the
//! line of the source. `build.rs` embeds the files without them, and tests measure what is left.

/// The file as it is sent. Vendored files, and others than scripts and styles, are sent whole.
pub(crate) fn without_comments(path: &str, source: Vec<u8>) -> Vec<u8> {
    let is_script = path.ends_with(".js");
    if path.starts_with("vendor/") || !(is_script || path.ends_with(".css")) {
        return source;
    }
    let text = String::from_utf8(source).expect("a source of the page is UTF-8");
    let mut sent = String::with_capacity(text.len());
    let mut is_inside = false;
    for line in text.split_inclusive('\n') {
        let words = line.trim();
        let end = words.find("*/").map(|at| at + 2);
        let is_alone = end.is_none_or(|end| end == words.len());
        assert!(is_alone || !is_inside, "{path}: nothing may follow a comment of several lines: {words}");
        let is_block = is_inside || (words.starts_with("/*") && is_alone);
        is_inside = is_block && end.is_none();
        let is_comment = is_block || (is_script && words.starts_with("//"));
        sent.push_str(if is_comment { "\n" } else { line });
    }
    sent.into_bytes()
}

#[cfg(test)]
#[test]
fn comments_on_lines_of_their_own_are_left_out() {
    let sent = |path: &str, text: &str| String::from_utf8(without_comments(path, text.into())).unwrap();
    let text = "// a\nb; // c\n  /** d */\n/** e */ f\n/*\n g\n */\nh";
    assert_eq!(sent("views/a.js", text), "\nb; // c\n\n/** e */ f\n\n\n\nh");
    assert_eq!(sent("a.css", "/* a */\nb { c: d }\n// e\n"), "\nb { c: d }\n// e\n");
    assert_eq!([sent("vendor/a.js", text), sent("a.html", text)], [text, text]);
}
