//! Rust source as tokens, without comments, strings and characters, so that the rules see only names in code.

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// A word, a number, `::`, `=>`, or a single character.
    pub text: String,
    /// From 1.
    pub line: usize,
}

pub fn tokens(source: &str) -> Vec<Token> {
    let mut reader = Reader { left: source, line: 1, found: Vec::new() };
    while !reader.left.is_empty() {
        reader.step();
    }
    reader.found
}

struct Reader<'s> {
    left: &'s str,
    line: usize,
    found: Vec<Token>,
}

impl Reader<'_> {
    fn step(&mut self) {
        let left = self.left;
        let first = left.chars().next().expect("asked only while something is left");
        if left.starts_with("//") {
            self.skip(left.find('\n').unwrap_or(left.len()));
        } else if left.starts_with("/*") {
            self.skip(left.find("*/").map_or(left.len(), |end| end + 2));
        } else if let Some(length) = raw_text(left) {
            self.skip(length);
        } else if first == '"' {
            self.skip(quoted(left));
        } else if first == '\'' {
            self.skip(character(left).unwrap_or(1));
        } else if first.is_alphanumeric() || first == '_' {
            self.word(left.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(left.len()));
        } else if left.starts_with("::") || left.starts_with("=>") {
            self.word(2);
        } else if first.is_whitespace() {
            self.skip(first.len_utf8());
        } else {
            self.word(first.len_utf8());
        }
    }

    fn word(&mut self, length: usize) {
        self.found.push(Token { text: self.left[..length].to_owned(), line: self.line });
        self.skip(length);
    }

    fn skip(&mut self, length: usize) {
        self.line += self.left[..length].matches('\n').count();
        self.left = &self.left[length..];
    }
}

/// The length of `r"…"`, `r#"…"#`, `br"…"`, if one starts here.
fn raw_text(left: &str) -> Option<usize> {
    let rest = left.strip_prefix('b').unwrap_or(left).strip_prefix('r')?;
    let marks = rest.len() - rest.trim_start_matches('#').len();
    let body = rest[marks..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(marks));
    let at = body.find(&end)?;
    Some(left.len() - body.len() + at + end.len())
}

fn quoted(left: &str) -> usize {
    let mut is_escaped = false;
    for (at, c) in left.char_indices().skip(1) {
        match c {
            '"' if !is_escaped => return at + 1,
            '\\' => is_escaped = !is_escaped,
            _ => is_escaped = false,
        }
    }
    left.len()
}

/// The length of a character literal; a lifetime is not one.
fn character(left: &str) -> Option<usize> {
    let mut inner = left.char_indices().skip(1);
    let (_, first) = inner.next()?;
    if first != '\\' {
        let (at, second) = inner.next()?;
        return (second == '\'').then_some(at + 1);
    }
    inner.next()?;
    inner.find(|(_, c)| *c == '\'').map(|(at, _)| at + 1)
}

#[test]
fn names_in_comments_and_texts_are_not_seen() {
    let source = "a /* b */ \"c\\\"d\" r#\"e\"f\"# 'g' '\\'' h<'i> // j\nk::l";
    let texts: Vec<String> = tokens(source).into_iter().map(|token| token.text).collect();
    assert_eq!(texts, ["a", "h", "<", "i", ">", "k", "::", "l"]);
    assert_eq!(tokens(source).last().unwrap().line, 2);
}
