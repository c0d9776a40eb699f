//! A server of HTTP that does what a test says, to the byte.

use std::net::SocketAddr;
use std::sync::Arc;

use handback_gateway::upstream::{Place, Spec};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::world::spec;

/// A request, with the connection that it came over.
pub(crate) struct Exchange {
    pub(crate) method: String,
    head: String,
    pub(crate) message: Value,
    stream: TcpStream,
}

impl Exchange {
    /// A header of the request.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }

    /// The id of the message.
    pub(crate) fn id(&self) -> u64 {
        self.message["id"].as_u64().unwrap()
    }

    /// Writes bytes.
    pub(crate) async fn write(&mut self, bytes: impl AsRef<[u8]>) {
        // The other end may have gone, which the test sees there.
        let _ = self.stream.write_all(bytes.as_ref()).await;
    }

    /// Writes bytes, each in a packet of its own if there are few.
    pub(crate) async fn write_slowly(&mut self, bytes: impl AsRef<[u8]>) {
        for byte in bytes.as_ref().chunks(3) {
            self.write(byte).await;
            tokio::task::yield_now().await;
        }
    }

    /// Answers with all at once.
    pub(crate) async fn answer(mut self, status: u16, kind: &str, body: impl AsRef<[u8]>) {
        let length = body.as_ref().len();
        let head = format!(
            "HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\
             connection: close\r\n\r\n"
        );
        self.write(head).await;
        self.write(body).await;
    }

    /// Begins an answer of events, which ends with the connection.
    pub(crate) async fn events(&mut self) {
        self.write(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n",
        )
        .await;
    }

    /// Writes the same over and over, until the other end hangs up.
    pub(crate) async fn flood(mut self, bytes: &str) {
        let many = bytes.repeat(1 + 4096 / bytes.len());
        while self.stream.write_all(many.as_bytes()).await.is_ok() {
            tokio::task::yield_now().await;
        }
    }

    /// Waits until the other end hangs up.
    pub(crate) async fn hung_up(mut self) {
        let mut byte = [0];
        while !matches!(self.stream.read(&mut byte).await, Ok(0) | Err(_)) {}
    }
}

/// A server whose requests come to the test.
pub(crate) struct Web {
    pub(crate) address: SocketAddr,
    requests: mpsc::Receiver<Exchange>,
}

impl Web {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, requests) = mpsc::channel(16);
        let sender = Arc::new(sender);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                stream.set_nodelay(true).unwrap();
                let sender = Arc::clone(&sender);
                tokio::spawn(async move {
                    if let Some(exchange) = read(stream).await {
                        let _ = sender.send(exchange).await;
                    }
                });
            }
        });
        Self { address, requests }
    }

    pub(crate) fn spec(&self) -> Spec {
        let headers = vec![("x-key".to_owned(), "secret".to_owned())];
        spec(Place::Http { url: format!("http://{}/mcp?a=b", self.address), headers })
    }

    /// The next request.
    pub(crate) async fn next(&mut self) -> Exchange {
        tokio::time::timeout(crate::world::LONG, self.requests.recv()).await.unwrap().unwrap()
    }
}

async fn read(mut stream: TcpStream) -> Option<Exchange> {
    let mut bytes = Vec::new();
    loop {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
        if let Some(end) = end {
            let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
            let mut exchange = Exchange {
                method: head.split(' ').next().unwrap().to_owned(),
                head,
                message: Value::Null,
                stream,
            };
            let length: usize = exchange.header("content-length").map_or(0, |n| n.parse().unwrap());
            let mut body = bytes[end + 4..].to_vec();
            while body.len() < length {
                exchange.stream.read_buf(&mut body).await.ok()?;
            }
            if length > 0 {
                exchange.message = serde_json::from_slice(&body).unwrap();
            }
            return Some(exchange);
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}
