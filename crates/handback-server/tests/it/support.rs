//! A server in this process, and a client that says exactly what it is told to.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use handback_identity::roster::{Entry, FIRST_LINE, NewToken};
use handback_server::{IdentityMode, Reload, Server, ServerConfig, StartError};
use handback_store::Kv;
use handback_token::{KeyRing, Mode, UnixTime};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;

/// A server that stops when it is dropped.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) reload: Reload,
    /// The values beside the streams.
    pub(crate) store: Arc<dyn Kv>,
    stopped: tokio::task::JoinHandle<()>,
    _stop: watch::Sender<bool>,
}

/// A server in memory, on a free port.
pub(crate) fn config() -> ServerConfig {
    let ring = KeyRing::generate(&mut rand::rng(), Mode::Sealed, UnixTime::from_secs(1));
    ServerConfig::in_memory(ring).listen("127.0.0.1:0".parse().unwrap())
}

/// A server that identifies callers by a token each, in memory or as configured, with its tokens.
pub(crate) fn identified(
    config: ServerConfig,
    folder: &std::path::Path,
    names: &[&str],
) -> (ServerConfig, Vec<String>) {
    let mut text = format!("{FIRST_LINE}\n");
    let tokens = names.iter().map(|name| {
        let token = NewToken::generate(&mut rand::rng());
        let entry = Entry::new(&token, name, &["read"], None).unwrap();
        text.push_str(&format!("{entry}\n"));
        token.dangerous_text().to_owned()
    });
    let tokens = tokens.collect();
    let file = folder.join("identities");
    std::fs::write(&file, text).unwrap();
    (config.identity(IdentityMode::Static { file }), tokens)
}

impl Running {
    pub(crate) async fn start(config: ServerConfig) -> Self {
        Self::try_start(config).await.unwrap()
    }

    pub(crate) async fn try_start(config: ServerConfig) -> Result<Self, StartError> {
        let server = Server::start(config).await?;
        let (address, reload) = (server.address(), server.reload());
        let store = server.dangerous_store();
        let (stop, stops) = watch::channel(false);
        let stopped = tokio::spawn(server.run(stops));
        Ok(Self { address, reload, store, stopped, _stop: stop })
    }

    /// Stops, and lets go of the data directory.
    pub(crate) async fn stop(self) {
        let Self { store, stopped, _stop: stop, reload, .. } = self;
        stop.send_replace(true);
        stopped.await.unwrap();
        drop(reload);
        // Tasks that use the store end after the server.
        while Arc::strong_count(&store) > 1 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends a request with a bearer token, or without one.
    pub(crate) async fn ask(&self, line: &str, token: Option<&str>, body: &str) -> Answer {
        let token = token.map(|token| format!("Bearer {token}"));
        let headers: Vec<_> = token.iter().map(|text| ("authorization", text.as_str())).collect();
        self.ask_with(line, &headers, body).await
    }

    pub(crate) async fn ask_with(
        &self,
        line: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let host = self.address.to_string();
        ask_over(self.connect().await, &host, line, headers, body).await
    }
}

/// Sends a request over a connection, and reads its answer to the end.
pub(crate) async fn ask_over<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: S,
    host: &str,
    line: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Answer {
    let mut text = format!("{line} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    if !headers.iter().any(|(name, _)| *name == "content-type") {
        text.push_str("content-type: text/plain\r\n");
    }
    if !headers.iter().any(|(name, _)| *name == "transfer-encoding") {
        text.push_str(&format!("content-length: {}\r\n", body.len()));
    }
    text.push_str("\r\n");
    text.push_str(body);
    // A server that has heard enough answers and leaves.
    let _ = stream.write_all(text.as_bytes()).await;
    let mut bytes = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut bytes));
    let _ = read.await.unwrap();
    Answer::parse(&bytes)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: String,
}

impl Answer {
    /// One that never came has status 0.
    fn parse(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            return Self { status: 0, headers: HashMap::new(), body: text };
        };
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        Self { status, headers, body: body.to_owned() }
    }
}
