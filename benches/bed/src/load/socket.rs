//! A WebSocket reader: receives frames and answers pings.

use std::net::SocketAddr;

use bytes::{Buf, Bytes, BytesMut};
use memchr::memmem;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::Outcome;

pub struct Socket {
    stream: TcpStream,
    read: BytesMut,
}

/// A message as the server sends it: unfragmented and unmasked.
#[derive(Debug, PartialEq, Eq)]
pub struct Frame {
    pub opcode: u8,
    pub payload: Bytes,
}

const TEXT: u8 = 1;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

impl Socket {
    pub async fn open(to: SocketAddr, path: &str) -> Outcome<Self> {
        let upgrade = "connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n";
        let key = "sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n";
        let ask = format!("GET {path} HTTP/1.1\r\nhost: {to}\r\n{upgrade}{key}\r\n");
        Self::asked(to, ask.as_bytes(), b"HTTP/1.1 101").await
    }

    /// The same without an upgrade: frames follow the answer's head.
    pub async fn listen(to: SocketAddr, ask: &[u8]) -> Outcome<Self> {
        Self::asked(to, ask, b"HTTP/1.1 200").await
    }

    async fn asked(to: SocketAddr, ask: &[u8], expected: &[u8]) -> Outcome<Self> {
        let mut stream = TcpStream::connect(to).await?;
        stream.set_nodelay(true)?;
        stream.write_all(ask).await?;
        let mut read = BytesMut::with_capacity(4 << 10);
        let end = loop {
            if let Some(end) = memmem::find(&read, b"\r\n\r\n") {
                break end + 4;
            }
            if stream.read_buf(&mut read).await? == 0 {
                return Err("hung up before any frame".into());
            }
        };
        let head = read.split_to(end);
        if !head.starts_with(expected) {
            return Err(format!("no frames: {}", String::from_utf8_lossy(&head)).into());
        }
        Ok(Self { stream, read })
    }

    /// The next text. Fails at the end.
    pub async fn next(&mut self) -> Outcome<Bytes> {
        loop {
            while let Some(frame) = frame(&mut self.read) {
                match frame.opcode {
                    TEXT => return Ok(frame.payload),
                    CLOSE => return Err(format!("closed: {:?}", frame.payload).into()),
                    PING => self.send(PONG, &frame.payload).await?,
                    _ => {}
                }
            }
            if self.stream.read_buf(&mut self.read).await? == 0 {
                return Err("the socket ended".into());
            }
        }
    }

    /// Masked with zeros: a client must mask, but may choose the mask.
    async fn send(&mut self, opcode: u8, payload: &[u8]) -> Outcome<()> {
        let mut out = vec![0x80 | opcode];
        match u16::try_from(payload.len())? {
            short @ 0..=125 => out.push(0x80 | short as u8),
            long => {
                out.push(0x80 | 126);
                out.extend_from_slice(&long.to_be_bytes());
            }
        }
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(payload);
        Ok(self.stream.write_all(&out).await?)
    }
}

/// Removes the first complete message; `None` if there is none yet.
fn frame(read: &mut BytesMut) -> Option<Frame> {
    let opcode = read.first()? & 0x0f;
    let (head, length) = match *read.get(1)? & 0x7f {
        126 => (4, u16::from_be_bytes(read.get(2..4)?.try_into().expect("two bytes")) as usize),
        127 => (10, u64::from_be_bytes(read.get(2..10)?.try_into().expect("eight bytes")) as usize),
        short => (2, short as usize),
    };
    if read.len() < head + length {
        return None;
    }
    read.advance(head);
    Some(Frame { opcode, payload: read.split_to(length).freeze() })
}

/// The number of tokens in a token frame, and when the model wrote the last one; `None` for any other frame.
pub fn tokens(frame: &[u8]) -> Option<(usize, u64)> {
    if !frame.starts_with(br#"{"event":"token""#) {
        return None;
    }
    const BEFORE: &[u8] = br#""type":"TOKEN","data":""#;
    let text = &frame[memmem::find(frame, BEFORE)? + BEFORE.len()..];
    let text = &text[..memchr::memchr(b'"', text)?];
    // A timed token is 15 digits and a space.
    let last = text.len().checked_sub(16).and_then(|at| text.get(at..at + 15));
    let said = last.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
    Some((memchr::memchr_iter(b' ', text).count(), said.unwrap_or(0)))
}

/// The `seq` of an observation; `None` for any other frame.
pub fn seq(frame: &[u8]) -> Option<u64> {
    let rest = frame.strip_prefix(br#"{"event":"observation","data":{"seq":"#)?;
    let end = rest.iter().position(|byte| !byte.is_ascii_digit())?;
    std::str::from_utf8(&rest[..end]).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_taken_off_whole_whatever_comes_at_once() {
        let mut bytes = vec![0x81, 3, b'a', b'b', b'c', 0x89, 0, 0x81, 126, 1, 0];
        bytes.extend([b'x'; 256]);
        let mut read = BytesMut::new();
        let mut found = Vec::new();
        for byte in bytes {
            read.extend_from_slice(&[byte]);
            found.extend(frame(&mut read));
        }
        assert!(read.is_empty());
        let lengths: Vec<(u8, usize)> = found.iter().map(|frame| (frame.opcode, frame.payload.len())).collect();
        assert_eq!(lengths, [(TEXT, 3), (PING, 0), (TEXT, 256)]);
    }

    #[test]
    fn tokens_are_counted_however_they_are_put_together() {
        let one = br#"{"event":"token","data":{"type":"TOKEN","data":"000000000000007 ","stepDescription":"a b"}}"#;
        assert_eq!(tokens(one), Some((1, 7)));
        let two = br#"{"event":"token","data":{"type":"TOKEN","data":"000000000000007 000000000000009 "}}"#;
        assert_eq!(tokens(two), Some((2, 9)));
        assert_eq!(tokens(br#"{"event":"run","data":{}}"#), None);
    }

    #[test]
    fn an_observation_tells_its_number() {
        assert_eq!(seq(br#"{"event":"observation","data":{"seq":42,"id":"obs_1"}}"#), Some(42));
        assert_eq!(seq(br#"{"event":"caught_up","data":{"seq":42}}"#), None);
    }
}
