//! The part of HTTP/1.1 that the bed uses: heads, and bodies of a known length or in chunks. Pure.

/// How the end of a body is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    Length(usize),
    Chunked,
}

/// The members of a message head that are used here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Size of the head, including its empty line.
    pub size: usize,
    /// 0 for a request.
    pub status: u16,
    pub framing: Framing,
}

/// `None` until the head is complete.
pub fn head(bytes: &[u8]) -> Option<Head> {
    let size = memchr::memmem::find(bytes, b"\r\n\r\n")? + 4;
    let mut lines = bytes[..size].split(|byte| *byte == b'\n');
    let first = lines.next().unwrap_or_default();
    let status =
        first.strip_prefix(b"HTTP/1.1 ").map_or(0, |rest| number(rest.get(..3).unwrap_or_default(), 10) as u16);
    let mut framing = Framing::Length(0);
    for line in lines {
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let (name, value) = line.split_at(colon);
        let value = value.get(1..).unwrap_or_default().trim_ascii();
        if name.eq_ignore_ascii_case(b"content-length") {
            framing = Framing::Length(number(value, 10));
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") && value.eq_ignore_ascii_case(b"chunked") {
            framing = Framing::Chunked;
        }
    }
    Some(Head { size, status, framing })
}

/// The value of the leading digits; 0 without any.
fn number(bytes: &[u8], radix: u32) -> usize {
    let digits = bytes.iter().map_while(|byte| char::from(*byte).to_digit(radix));
    digits.fold(0, |sum, digit| sum.saturating_mul(radix as usize).saturating_add(digit as usize))
}

/// Parses a body incrementally, however it is split.
#[derive(Debug)]
pub enum Body {
    Left(usize),
    Chunks(Chunks),
}

impl Body {
    pub fn new(framing: Framing) -> Self {
        match framing {
            Framing::Length(length) => Self::Left(length),
            Framing::Chunked => Self::Chunks(Chunks::Size(Vec::new())),
        }
    }

    /// Passes on the content in these bytes. Returns how many of them belong to the body, once it has ended.
    pub fn feed(&mut self, bytes: &[u8], content: &mut impl FnMut(&[u8])) -> Option<usize> {
        match self {
            Self::Left(left) => {
                let taken = bytes.len().min(*left);
                content(&bytes[..taken]);
                *left -= taken;
                (*left == 0).then_some(taken)
            }
            Self::Chunks(chunks) => chunks.feed(bytes, content),
        }
    }
}

/// Parser state of a chunked body.
#[derive(Debug)]
pub enum Chunks {
    /// In the line with the next chunk's size.
    Size(Vec<u8>),
    /// This many bytes of the chunk are left.
    Data(usize),
    /// Between a chunk and the next size: this many bytes of the line end are left.
    Between(usize),
    /// After the last chunk, in a line with this many bytes so far.
    Trailer(usize),
}

impl Chunks {
    fn feed(&mut self, bytes: &[u8], content: &mut impl FnMut(&[u8])) -> Option<usize> {
        let mut at = 0;
        while at < bytes.len() {
            match self {
                Self::Size(line) => {
                    at += 1;
                    if bytes[at - 1] != b'\n' {
                        line.push(bytes[at - 1]);
                        continue;
                    }
                    *self = match number(line, 16) {
                        0 => Self::Trailer(0),
                        size => Self::Data(size),
                    };
                }
                Self::Data(left) => {
                    let taken = (bytes.len() - at).min(*left);
                    content(&bytes[at..at + taken]);
                    at += taken;
                    *left -= taken;
                    if *left == 0 {
                        *self = Self::Between(2);
                    }
                }
                Self::Between(left) => {
                    at += 1;
                    *left -= 1;
                    if *left == 0 {
                        *self = Self::Size(Vec::new());
                    }
                }
                Self::Trailer(length) => {
                    at += 1;
                    match (bytes[at - 1], *length) {
                        (b'\n', 0 | 1) => return Some(at),
                        (b'\n', _) => *length = 0,
                        _ => *length += 1,
                    }
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_tells_where_its_body_ends() {
        let said = b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\nabc";
        assert_eq!(head(said), Some(Head { size: 39, status: 200, framing: Framing::Length(12) }));
        let asked = b"POST /a HTTP/1.1\r\ntransfer-encoding:chunked\r\n\r\n";
        assert_eq!(head(asked), Some(Head { size: asked.len(), status: 0, framing: Framing::Chunked }));
        assert_eq!(head(&asked[..asked.len() - 1]), None);
    }

    #[test]
    fn a_chunked_body_is_the_same_however_it_is_split() {
        let bytes = b"5;x=y\r\nhello\r\n10\r\n, 16 bytes long.\r\n0\r\nt: v\r\n\r\nnext";
        for size in 1..bytes.len() {
            let (mut said, mut body, mut end, mut before) = (Vec::new(), Body::new(Framing::Chunked), None, 0);
            for piece in bytes.chunks(size) {
                end = body.feed(piece, &mut |part| said.extend_from_slice(part));
                if end.is_some() {
                    break;
                }
                before += piece.len();
            }
            assert_eq!(said, b"hello, 16 bytes long.", "in pieces of {size}");
            assert_eq!(end.map(|taken| before + taken), Some(bytes.len() - 4), "in pieces of {size}");
        }
    }

    #[test]
    fn a_body_of_known_length_ends_there() {
        let mut body = Body::new(Framing::Length(4));
        let mut said = Vec::new();
        assert_eq!(body.feed(b"ab", &mut |part| said.extend_from_slice(part)), None);
        assert_eq!(body.feed(b"cdef", &mut |part| said.extend_from_slice(part)), Some(2));
        assert_eq!(said, b"abcd");
    }
}
