//! Streams of the protocol: making one, appending to it, reading it.

use std::net::SocketAddr;

use anyhow::{Context as _, Result, ensure};
use bench_kit::http::{Connection, Head};

use crate::event::{self, Id, Ledger, Scanner};

/// What a stream's events are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Bytes without structure.
    Bytes,
    /// Text, which server-sent events carry as it is.
    Text,
    /// JSON strings, of which one request can carry many.
    Json,
}

impl Kind {
    fn content_type(self) -> &'static str {
        match self {
            Self::Bytes => "application/octet-stream",
            Self::Text => "text/plain",
            Self::Json => "application/json",
        }
    }

    /// The length of an event's text.
    pub(crate) fn event_len(self) -> usize {
        match self {
            Self::Bytes | Self::Text => event::EVENT_LEN,
            Self::Json => event::QUOTED_LEN,
        }
    }
}

/// A stream at one server.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    address: SocketAddr,
    path: String,
    kind: Kind,
}

impl Stream {
    /// Makes a stream, which must be new.
    pub(crate) async fn create(address: SocketAddr, name: &str, kind: Kind) -> Result<Self> {
        let path = format!("/v1/stream/bench/{name}");
        let headers = format!("Content-Type: {}\r\n", kind.content_type());
        let mut connection = Connection::open(address).await?;
        let head = connection.exchange("PUT", &path, &headers, b"").await?;
        ensure!(head.status == 201, "making a stream was answered with {}", head.status);
        Ok(Self { address, path, kind })
    }

    /// A producer with a connection of its own.
    pub(crate) async fn producer(&self, producer: u32) -> Result<Producer> {
        let connection = Connection::open(self.address).await?;
        Ok(Producer {
            connection,
            path: self.path.clone(),
            fixed: format!(
                "Content-Type: {}\r\nProducer-Id: p{producer}\r\nProducer-Epoch: 0\r\n",
                self.kind.content_type()
            ),
            kind: self.kind,
            producer,
            requests: 0,
            events: 0,
            headers: String::new(),
            body: Vec::new(),
        })
    }

    /// Reads on from an offset as events come.
    pub(crate) async fn tail(&self, offset: &str) -> Result<Tail> {
        let mut connection = Connection::open(self.address).await?;
        let path = format!("{}?offset={offset}&live=sse", self.path);
        connection.send("GET", &path, "Accept: text/event-stream\r\n", b"").await?;
        let head = connection.head().await?;
        ensure!(head.status == 200, "a live read was answered with {}", head.status);
        Ok(Tail { connection, head, scanner: Scanner::new(self.kind.event_len()) })
    }

    /// Reads everything there is, page by page, and says how many bytes that was.
    pub(crate) async fn catch_up(
        &self,
        connection: &mut Connection,
        mut sink: impl FnMut(&[u8]),
    ) -> Result<u64> {
        let (mut offset, mut total) = ("-1".to_owned(), 0);
        loop {
            let path = format!("{}?offset={offset}", self.path);
            connection.send("GET", &path, "", b"").await?;
            let mut head = connection.head().await?;
            ensure!(head.status == 200, "a read was answered with {}", head.status);
            let mut page: usize = 0;
            let counted = |piece: &[u8]| {
                page += piece.len();
                sink(piece);
            };
            connection.body(&mut head, counted).await?;
            total += u64::try_from(page)?;
            let next = next_offset(&head).context("a read gave no next offset")?;
            let is_last = head.header("stream-up-to-date");
            if is_last.is_some_and(|value| value.eq_ignore_ascii_case("true")) {
                return Ok(total);
            }
            ensure!(next != offset, "a read did not move on from {offset}");
            offset = next;
        }
    }

    /// A new connection to the stream's server.
    pub(crate) async fn connect(&self) -> Result<Connection> {
        Connection::open(self.address).await
    }

    /// Whether exactly these numbers of events of these producers are there, once, in order.
    pub(crate) async fn check(&self, acked: impl IntoIterator<Item = (u32, u64)>) -> Result<()> {
        let mut scanner = Scanner::new(self.kind.event_len());
        let (mut ledger, mut damage) = (Ledger::default(), Ok(()));
        let mut connection = self.connect().await?;
        self.catch_up(&mut connection, |piece| {
            let fed = scanner.feed(piece, |id| ledger.seen(id));
            if damage.is_ok() {
                damage = fed;
            }
        })
        .await?;
        damage?;
        ledger.check(acked).with_context(|| format!("{} is not what was acked", self.path))
    }
}

/// Where to read on after an answer.
pub(crate) fn next_offset(head: &Head) -> Option<String> {
    head.header("stream-next-offset").map(str::to_owned)
}

/// Someone who appends, with a number in each request.
#[derive(Debug)]
pub(crate) struct Producer {
    connection: Connection,
    path: String,
    fixed: String,
    kind: Kind,
    producer: u32,
    requests: u64,
    events: u64,
    headers: String,
    body: Vec<u8>,
}

impl Producer {
    /// Appends one event; it is new to the server.
    pub(crate) async fn append(&mut self) -> Result<Head> {
        self.append_many(1).await
    }

    /// Appends several events in one request, which must be JSON.
    pub(crate) async fn append_many(&mut self, count: u64) -> Result<Head> {
        self.fill(self.requests, self.events, count);
        let head = self.post().await?;
        ensure!(head.status == 200, "an append was answered with {}", head.status);
        self.requests += 1;
        self.events += count;
        Ok(head)
    }

    /// Sends the last append of one event again; the server must know it.
    pub(crate) async fn repeat(&mut self) -> Result<()> {
        let (Some(request), Some(event)) =
            (self.requests.checked_sub(1), self.events.checked_sub(1))
        else {
            return Ok(());
        };
        self.fill(request, event, 1);
        let head = self.post().await?;
        ensure!(head.status == 204, "a repeated append was answered with {}", head.status);
        Ok(())
    }

    /// Who it is, and how many of its events were acked.
    pub(crate) fn acked(&self) -> (u32, u64) {
        (self.producer, self.events)
    }

    async fn post(&mut self) -> Result<Head> {
        self.connection.exchange("POST", &self.path, &self.headers, &self.body).await
    }

    fn fill(&mut self, request: u64, event: u64, count: u64) {
        self.headers.clear();
        for part in [&self.fixed, "Producer-Seq: ", &request.to_string(), "\r\n"] {
            self.headers.push_str(part);
        }
        self.body.clear();
        let numbers = event..event + count;
        let ids = numbers.map(|number| Id { producer: self.producer, number });
        if self.kind != Kind::Json {
            ids.for_each(|id| event::write(&mut self.body, id, event::EVENT_LEN));
            return;
        }
        for (at, id) in ids.enumerate() {
            self.body.extend_from_slice(if at == 0 { b"[\"" } else { b",\"" });
            event::write(&mut self.body, id, event::QUOTED_LEN);
            self.body.push(b'"');
        }
        self.body.push(b']');
    }
}

/// A live read.
#[derive(Debug)]
pub(crate) struct Tail {
    connection: Connection,
    head: Head,
    scanner: Scanner,
}

impl Tail {
    /// Waits for something, which need not be an event, and calls `found` for each event in it.
    pub(crate) async fn next(&mut self, mut found: impl FnMut(Id)) -> Result<()> {
        let Self { connection, head, scanner } = self;
        let mut fed = Ok(());
        let more = connection.piece(head, |piece| {
            if fed.is_ok() {
                fed = scanner.feed(piece, &mut found);
            }
        });
        ensure!(more.await?, "a live read has ended");
        fed
    }
}
