//! Removes `<mainContent>` and `<uiMetadata>` tags from a reply while it streams. Any other `<` is text.

const METADATA_END: &str = "</uimetadata>";
const TAGS: [(&str, Tag); 4] = [
    ("<maincontent>", Tag::Main),
    ("</maincontent>", Tag::Main),
    ("<uimetadata>", Tag::Metadata),
    (METADATA_END, Tag::MetadataEnd),
];

#[derive(Clone, Copy, PartialEq)]
enum Tag {
    Main,
    Metadata,
    MetadataEnd,
}

/// How a text relates to the tags.
enum Match {
    None,
    Begins,
    Whole(Tag),
}

/// Given the pieces of a reply, cut anywhere, it returns the same text in total as for the whole reply. That text never
/// contains a tag, not even one that the removal of another tag would have created.
#[derive(Debug, Default)]
pub struct TagFilter {
    /// Text that may turn out to be a tag, or tags inside each other; they begin at `starts`.
    held: String,
    starts: Vec<usize>,
    /// The content of `<uiMetadata>`, while that is open.
    open: Option<String>,
    metadata: Vec<String>,
}

impl TagFilter {
    /// Adds a piece; returns the text that may be shown now.
    pub fn push(&mut self, piece: &str) -> String {
        let mut shown = String::with_capacity(piece.len());
        let mut rest = piece;
        loop {
            if self.open.is_none() && self.starts.is_empty() {
                let plain = rest.find('<').unwrap_or(rest.len());
                shown.push_str(&rest[..plain]);
                rest = &rest[plain..];
            }
            let Some(next) = rest.chars().next() else { return shown };
            rest = &rest[next.len_utf8()..];
            if self.open.is_some() {
                self.take_metadata(next);
            } else {
                self.take(next, &mut shown);
            }
        }
    }

    fn take_metadata(&mut self, next: char) {
        let Some(body) = &mut self.open else { return };
        body.push(next);
        let end = body.len().saturating_sub(METADATA_END.len());
        if next == '>' && body.as_bytes()[end..].eq_ignore_ascii_case(METADATA_END.as_bytes()) {
            body.truncate(end);
            self.metadata.extend(self.open.take());
        }
    }

    fn take(&mut self, next: char, shown: &mut String) {
        if next == '<' {
            self.starts.push(self.held.len());
            self.held.push(next);
            return;
        }
        self.held.push(next);
        let Some(&start) = self.starts.last() else { return };
        match matches(&self.held[start..]) {
            Match::Begins => {}
            Match::Whole(tag) => {
                self.held.truncate(start);
                self.starts.pop();
                if tag == Tag::Metadata {
                    self.open = Some(String::new());
                }
            }
            Match::None => {
                shown.push_str(&self.held);
                self.held.clear();
                self.starts.clear();
            }
        }
    }

    /// Ends the reply: returns the rest of the text, and the contents of `<uiMetadata>`. An element that was never
    /// closed is metadata if it is a JSON object, else text after a stray tag.
    pub fn finish(mut self) -> (String, Vec<String>) {
        let mut shown = std::mem::take(&mut self.held);
        if let Some(body) = self.open.take() {
            if body.trim_start().starts_with(['{', '`']) {
                self.metadata.push(body);
            } else {
                let mut rest = TagFilter { held: shown, starts: self.starts, ..TagFilter::default() };
                shown = rest.push_text(&body);
            }
        }
        (shown, self.metadata)
    }

    /// Like `push`, but `<uiMetadata>` is not opened: the reply has no end tag for it.
    fn push_text(&mut self, text: &str) -> String {
        let mut shown = String::new();
        for next in text.chars() {
            self.take(next, &mut shown);
            self.open = None;
            if self.starts.is_empty() {
                shown.push_str(&std::mem::take(&mut self.held));
            }
        }
        shown.push_str(&self.held);
        shown
    }
}

fn matches(text: &str) -> Match {
    for (tag, means) in TAGS {
        if tag.len() == text.len() && tag.eq_ignore_ascii_case(text) {
            return Match::Whole(means);
        }
        if tag.get(..text.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(text)) {
            return Match::Begins;
        }
    }
    Match::None
}

/// The text to show of a whole reply, and the contents of `<uiMetadata>`.
pub fn split(text: &str) -> (String, Vec<String>) {
    let mut filter = TagFilter::default();
    let mut shown = filter.push(text);
    let (rest, metadata) = filter.finish();
    shown.push_str(&rest);
    (shown, metadata)
}
