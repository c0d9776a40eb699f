//! A lean client of HTTP/1.1: it shares two cores with the server, so it must cost little.
//!
//! One request at a time on a connection that stays open; of an answer it reads the status, the few
//! headers that matter, and the body piece by piece.

use std::net::SocketAddr;

use anyhow::{Context as _, Result, bail, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// No server here has more to say.
const HEAD_MAX: usize = 64 * 1024;

/// What one read takes at most.
const READ_LEN: usize = 256 * 1024;

/// A connection that is kept open.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    host: String,
    output: Vec<u8>,
    /// What was read and not used yet.
    input: Vec<u8>,
}

/// What the first lines of an answer say.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Head {
    /// The status.
    pub status: u16,
    lines: String,
    framing: Framing,
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    /// If nobody listens.
    pub async fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await.context("failed to connect")?;
        stream.set_nodelay(true)?;
        let (output, input) = (Vec::with_capacity(1024), Vec::with_capacity(4096));
        Ok(Self { stream, host: address.to_string(), output, input })
    }

    /// Sends a request. `headers` are whole lines, each with its end.
    ///
    /// # Errors
    /// If the connection is gone.
    pub async fn send(
        &mut self,
        method: &str,
        path: &str,
        headers: &str,
        body: &[u8],
    ) -> Result<()> {
        self.output.clear();
        for part in [method, " ", path, " HTTP/1.1\r\nHost: ", &self.host, "\r\n", headers] {
            self.output.extend_from_slice(part.as_bytes());
        }
        if method != "GET" {
            let length = format!("Content-Length: {}\r\n", body.len());
            self.output.extend_from_slice(length.as_bytes());
        }
        self.output.extend_from_slice(b"\r\n");
        self.output.extend_from_slice(body);
        self.stream.write_all(&self.output).await.context("failed to send")
    }

    /// Reads the first lines of an answer.
    ///
    /// # Errors
    /// If the answer is none of HTTP/1.1, or does not come.
    pub async fn head(&mut self) -> Result<Head> {
        loop {
            if let Some(end) = end_of_head(&self.input) {
                let head = Head::parse(self.input.get(..end).unwrap_or_default())?;
                self.input.drain(..end);
                return Ok(head);
            }
            ensure!(self.input.len() < HEAD_MAX, "the answer has no end of its headers");
            ensure!(self.read().await? > 0, "the server closed the connection");
        }
    }

    /// Gives the next pieces of the body to `sink`; false after the last one.
    ///
    /// # Errors
    /// If the body breaks off or is not framed as it says.
    pub async fn piece(&mut self, head: &mut Head, sink: impl FnMut(&[u8])) -> Result<bool> {
        if head.framing == Framing::Done {
            return Ok(false);
        }
        if self.input.is_empty() && self.read().await? == 0 {
            ensure!(head.framing == Framing::UntilClose, "the server broke off");
            head.framing = Framing::Done;
            return Ok(false);
        }
        let used = head.framing.feed(&self.input, sink)?;
        self.input.drain(..used);
        Ok(head.framing != Framing::Done)
    }

    /// Gives all of the body to `sink`.
    ///
    /// # Errors
    /// As of a piece of it; if something follows it.
    pub async fn body(&mut self, head: &mut Head, mut sink: impl FnMut(&[u8])) -> Result<()> {
        while self.piece(head, &mut sink).await? {}
        ensure!(self.input.is_empty(), "bytes follow the answer");
        Ok(())
    }

    /// Sends a request and reads an answer whose body does not matter.
    ///
    /// # Errors
    /// If any of it fails.
    pub async fn exchange(
        &mut self,
        method: &str,
        path: &str,
        headers: &str,
        body: &[u8],
    ) -> Result<Head> {
        self.send(method, path, headers, body).await?;
        let mut head = self.head().await?;
        self.body(&mut head, |_| ()).await?;
        Ok(head)
    }

    async fn read(&mut self) -> Result<usize> {
        if self.input.capacity() - self.input.len() < 1024 {
            self.input.reserve(READ_LEN);
        }
        self.stream.read_buf(&mut self.input).await.context("failed to read")
    }
}

impl Head {
    fn parse(bytes: &[u8]) -> Result<Self> {
        let text = std::str::from_utf8(bytes).context("the headers are not UTF-8")?;
        let mut lines = text.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1));
        let status: u16 = status.and_then(|s| s.parse().ok()).context("there is no status")?;
        let mut framing = Framing::UntilClose;
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            if name.eq_ignore_ascii_case("content-length") {
                let length = value.trim().parse().context("a length is no number")?;
                framing = Framing::Length(length);
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                framing = Framing::Chunked(Chunk::Size(0));
            }
        }
        if status == 204 || status == 304 || framing == Framing::Length(0) {
            framing = Framing::Done;
        }
        Ok(Self { status, lines: text.to_owned(), framing })
    }

    /// The value of a header; the first one if there are several.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.lines.split("\r\n").filter_map(|line| line.split_once(':'));
        let (_, value) = lines.find(|(found, _)| found.eq_ignore_ascii_case(name))?;
        Some(value.trim())
    }
}

/// Where a body ends, and how far it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    Length(u64),
    Chunked(Chunk),
    UntilClose,
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chunk {
    /// In the digits of a size.
    Size(u64),
    /// In what may follow a size, up to the end of its line.
    Extension(u64),
    /// So many bytes are left.
    Data(u64),
    /// In the end of the line that follows the data.
    DataEnd,
    /// Behind the last chunk, with so many bytes of this line.
    Trailer(u64),
}

impl Framing {
    /// Passes the body's part of the bytes on, and says how many bytes were used.
    fn feed(&mut self, bytes: &[u8], mut sink: impl FnMut(&[u8])) -> Result<usize> {
        let mut rest = bytes;
        while !rest.is_empty() && *self != Self::Done {
            match self {
                Self::Done => {}
                Self::UntilClose => {
                    sink(rest);
                    rest = &[];
                }
                Self::Length(left) | Self::Chunked(Chunk::Data(left)) => {
                    let take = usize::try_from(*left).unwrap_or(usize::MAX).min(rest.len());
                    let (data, after) = rest.split_at(take);
                    sink(data);
                    rest = after;
                    *left -= u64::try_from(take)?;
                    if *left == 0 {
                        *self = match self {
                            Self::Chunked(_) => Self::Chunked(Chunk::DataEnd),
                            _ => Self::Done,
                        };
                    }
                }
                Self::Chunked(chunk) => {
                    let Some((&byte, after)) = rest.split_first() else { break };
                    rest = after;
                    *self = chunk.step(byte)?.map_or(Self::Done, Self::Chunked);
                }
            }
        }
        Ok(bytes.len() - rest.len())
    }
}

impl Chunk {
    /// One byte of what is around the data; `None` at the end of the body.
    fn step(self, byte: u8) -> Result<Option<Self>> {
        let next = match (self, byte) {
            (Self::Size(size) | Self::Extension(size), b'\n') => match size {
                0 => Self::Trailer(0),
                size => Self::Data(size),
            },
            (Self::Size(size), b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                let digit = char::from(byte).to_digit(16).unwrap_or_default();
                Self::Size(size.checked_mul(16).context("a chunk is too large")? + u64::from(digit))
            }
            (Self::Size(size) | Self::Extension(size), _) => Self::Extension(size),
            (Self::DataEnd, b'\r') => Self::DataEnd,
            (Self::DataEnd, b'\n') => Self::Size(0),
            (Self::DataEnd, _) => bail!("a chunk is longer than its size"),
            (Self::Trailer(0), b'\n') => return Ok(None),
            (Self::Trailer(_), b'\n') => Self::Trailer(0),
            (Self::Trailer(len), b'\r') => Self::Trailer(len),
            (Self::Trailer(len), _) => Self::Trailer(len + 1),
            (Self::Data(left), _) => Self::Data(left),
        };
        Ok(Some(next))
    }
}

fn end_of_head(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str) -> Head {
        Head::parse(text.as_bytes()).unwrap()
    }

    /// Feeds an answer's body in two pieces, for every place to cut it.
    fn check(first: &str, body: &str, expected: &str, is_done: bool) {
        for at in 0..=body.len() {
            let mut framing = head(first).framing;
            let mut read = Vec::new();
            for piece in [&body[..at], &body[at..]] {
                let used = framing.feed(piece.as_bytes(), |data| read.extend_from_slice(data));
                assert_eq!(used.unwrap(), piece.len());
            }
            assert_eq!(String::from_utf8(read).unwrap(), expected);
            assert_eq!(framing == Framing::Done, is_done);
        }
    }

    #[test]
    fn reads_the_headers_that_matter() {
        let text = "HTTP/1.1 200 OK\r\nstream-next-offset: 0_12\r\nStream-Up-To-Date: true\r\n\
                    content-length: 7\r\n\r\n";
        let head = head(text);
        assert_eq!((head.status, head.framing), (200, Framing::Length(7)));
        let found =
            ["Stream-Next-Offset", "stream-up-to-date", "etag"].map(|name| head.header(name));
        assert_eq!(found, [Some("0_12"), Some("true"), None]);
    }

    #[test]
    fn some_answers_have_no_body() {
        assert_eq!(head("HTTP/1.1 204 No Content\r\n\r\n").framing, Framing::Done);
        assert_eq!(head("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").framing, Framing::Done);
    }

    #[test]
    fn reads_a_body_of_known_length() {
        check("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "hello", "hello", true);
        check("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", "hello", "hello", false);
    }

    #[test]
    fn reads_chunks() {
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        check(chunked, "5\r\nhello\r\nA;x=1\r\n, wide wor\r\n", "hello, wide wor", false);
        check(chunked, "2\r\nld\r\n0\r\n\r\n", "ld", true);
        check(chunked, "0\r\nEtag: 1\r\n\r\n", "", true);
    }

    #[test]
    fn reads_a_body_up_to_the_end_of_the_connection() {
        check("HTTP/1.1 200 OK\r\n\r\n", "hello", "hello", false);
    }

    #[test]
    fn leaves_what_follows_a_body() {
        let mut framing = Framing::Length(2);
        assert_eq!(framing.feed(b"abc", |_| ()).unwrap(), 2);
    }

    #[test]
    fn refuses_chunks_that_do_not_fit_their_size() {
        let mut framing = Framing::Chunked(Chunk::Size(0));
        assert!(framing.feed(b"1\r\nab\r\n", |_| ()).is_err());
        let mut framing = Framing::Chunked(Chunk::Size(0));
        assert!(framing.feed(b"fffffffffffffffffffff\r\n", |_| ()).is_err());
    }
}
