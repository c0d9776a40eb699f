//! A caller that works, alone and beside a caller that is at all of its limits.
//!
//! Turns alternate within a round. Before a turn beside the other caller, that one takes all that it may
//! have: WebSockets, event streams, sessions, streams and stored bytes. During the turn it asks for one
//! more of each, and for a tool that is not there, at a fixed rate from a thread of its own. Each of these
//! has to be refused, and each call of the working caller has to be answered.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use bench_kit::http::Connection;
use bench_kit::server::Running;
use bench_kit::spread::{Spread, percentiles};
use tokio::sync::oneshot;
use tokio::time::MissedTickBehavior;

use crate::caller::{Caller, Endpoint, Era};
use crate::features::Site;
use crate::upstream;

/// The most that the slowest hundredth of calls may take beside the other caller, of what it takes alone.
pub(crate) const RATIO_MAX: f64 = 2.0;

/// How often the caller at its limits asks for one more of everything.
const PRESS_EVERY: Duration = Duration::from_millis(5);

/// The share of one caller of sockets, event streams, streams and sessions: an eighth of the settings.
const SHARE: usize = 16;

const SETTINGS: &str = "\
[identity]
mode = \"static\"
[identity.static]
file = \"identities\"
[limits]
websockets = 128
event_streams = 128
sessions = 128
streams = 128
stream_mib = 8
calls_per_second = 1000000
calls_burst = 10000000
";

const HELLO: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}"#;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    rounds: usize,
    /// Calls in a turn.
    calls: usize,
}

impl Effort {
    pub(crate) fn full() -> Self {
        Self { rounds: 15, calls: 3_000 }
    }

    /// Only whether it works.
    pub(crate) fn smoke() -> Self {
        Self { rounds: 1, calls: 20 }
    }
}

/// The slowest hundredth of calls, in milliseconds.
#[derive(Debug)]
pub(crate) struct Beside {
    pub(crate) alone: Spread,
    pub(crate) beside: Spread,
    /// Of one over the other within a round.
    pub(crate) ratio: Spread,
    pub(crate) refusals: u64,
    pub(crate) rounds: usize,
    /// The load average of the machine before.
    pub(crate) load: String,
}

/// Measures the working caller in both kinds of turns.
pub(crate) async fn measure(site: Site<'_>, effort: &Effort) -> Result<Beside> {
    let load = bench_kit::report::load();
    let program = site.programs.handback.as_deref().context("Handback is not there")?;
    let server = start(program, site)?;
    let said = || format!("Handback said:\n{}", server.log());
    let measured = turns(program, &server, site.scratch, effort).await.with_context(said)?;
    let Measured { alone, beside, refusals } = measured;
    let ratios = alone.iter().zip(&beside).map(|(alone, beside)| beside / alone).collect();
    let spread = |numbers| Spread::of(numbers).context("there was no round");
    let ratio = spread(ratios)?;
    let (alone, beside) = (spread(alone)?, spread(beside)?);
    Ok(Beside { alone, beside, ratio, refusals, rounds: effort.rounds, load })
}

#[derive(Default)]
struct Measured {
    alone: Vec<f64>,
    beside: Vec<f64>,
    refusals: u64,
}

async fn turns(
    program: &Path,
    server: &Running,
    scratch: &Path,
    effort: &Effort,
) -> Result<Measured> {
    let identities = identities(scratch);
    let [bob, ada] = ["bob", "ada"].map(|name| token(program, &identities, name));
    let (bob, ada) = (bob?, ada?);
    // The server reads the file again within two seconds.
    let address = server.address();
    until_known(address, &ada).await?;
    let endpoint = Endpoint { address, path: "/mcp", prefix: "" };
    let mut bob = Caller::open_as(endpoint, Era::Modern, 1, &bob).await?;
    let mut measured = Measured::default();
    p99(&mut bob, effort.calls).await?;
    for round in 0..effort.rounds {
        for is_beside in [round % 2 == 0, round % 2 != 0] {
            if !is_beside {
                measured.alone.push(p99(&mut bob, effort.calls).await?);
                continue;
            }
            let greedy = Greedy::start(address, &ada).await?;
            let took = p99(&mut bob, effort.calls).await;
            measured.refusals += greedy.stop()?;
            measured.beside.push(took?);
        }
    }
    Ok(measured)
}

async fn p99(caller: &mut Caller, calls: usize) -> Result<f64> {
    let mut took = Vec::with_capacity(calls);
    for _ in 0..calls {
        took.push(caller.echo().await?);
    }
    Ok(percentiles(took).1)
}

/// Starts Handback before the upstream, with identities and small limits.
fn start(program: &Path, site: Site<'_>) -> Result<Running> {
    fs::create_dir_all(site.scratch)?;
    let identities = identities(site.scratch);
    // A server does not start without a file that says who there is.
    let _ = fs::remove_file(&identities);
    token(program, &identities, "nobody")?;
    let settings = SETTINGS.replace("identities", &identities.display().to_string());
    let url = format!("up=http://{}{}", site.upstream, upstream::PATH);
    Running::start(site.scratch, "shares", |address, data| {
        let config = data.join("handback.toml");
        fs::write(&config, settings)?;
        let (address, data) = (address.to_string(), data.display().to_string());
        let config = config.display().to_string();
        let words = ["serve", "--no-demo", "--listen", &address, "--data", &data, "--config"];
        let words = words.into_iter().chain([config.as_str(), "--upstream", &url]);
        let program = program.display().to_string();
        Ok(std::iter::once(program).chain(words.map(str::to_owned)).collect())
    })
}

fn identities(scratch: &Path) -> std::path::PathBuf {
    let path = scratch.join(format!("identities-{}", std::process::id()));
    std::path::absolute(&path).unwrap_or(path)
}

/// Adds somebody to the file of identities; gives the header that says who calls.
fn token(program: &Path, identities: &Path, name: &str) -> Result<String> {
    let mut command = Command::new(program);
    command.args(["identity", "add", "--subject", name, "--file"]).arg(identities);
    let output = command.output().context("failed to run `handback identity add`")?;
    ensure!(output.status.success(), "`handback identity add` failed: {output:?}");
    let text = String::from_utf8(output.stdout)?;
    Ok(format!("Authorization: Bearer {}\r\n", text.trim()))
}

/// Waits until the server has read the file of identities again.
async fn until_known(address: SocketAddr, authorization: &str) -> Result<()> {
    for _ in 0..200 {
        let mut connection = Connection::open(address).await?;
        let head = connection.exchange("GET", "/v1/stream/none", authorization, b"").await?;
        if head.status != 401 {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    bail!("the server does not know its callers")
}

/// The caller at its limits, in a thread of its own.
struct Greedy {
    is_over: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<Result<u64>>,
}

impl Greedy {
    /// Returns once the caller has all that it may have.
    async fn start(address: SocketAddr, authorization: &str) -> Result<Self> {
        let is_over = Arc::new(AtomicBool::new(false));
        let (is_full, full) = oneshot::channel();
        let (over, authorization) = (Arc::clone(&is_over), authorization.to_owned());
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(press(address, &authorization, is_full, &over))
        });
        // If it was dropped, the thread says why.
        let _ = full.await;
        Ok(Self { is_over, thread })
    }

    /// Ends it; gives the number of requests that were refused.
    fn stop(self) -> Result<u64> {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().ok().context("the caller at its limits panicked")?
    }
}

async fn press(
    address: SocketAddr,
    authorization: &str,
    is_full: oneshot::Sender<()>,
    is_over: &AtomicBool,
) -> Result<u64> {
    let asks = Ask::ALL;
    let mut held = Held { connections: Vec::new(), sessions: Vec::new() };
    let mut connection = Connection::open(address).await?;
    held.fill(address, &mut connection, authorization).await?;
    let _ = is_full.send(());
    let mut refusals = 0;
    let mut ticks = tokio::time::interval(PRESS_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !is_over.load(Ordering::Relaxed) {
        ticks.tick().await;
        for ask in asks {
            let status = ask.send(&mut connection, authorization).await?;
            ensure!(status == ask.refused(), "{ask:?} was answered with {status}");
            refusals += 1;
        }
    }
    held.release(&mut connection, authorization).await?;
    Ok(refusals)
}

/// One more of something.
#[derive(Clone, Copy, Debug)]
enum Ask {
    Stream,
    Bytes,
    Events,
    Socket,
    Session,
    Tool,
}

const SOCKET: &str = "Upgrade: websocket\r\nConnection: upgrade\r\nSec-WebSocket-Version: 13\r\n\
                      Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

const JSON: &str = "Content-Type: application/json\r\n";

const MCP: &str =
    "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n";

/// Bytes of an append to a stream that is full.
const PIECE_BYTES: usize = 4 << 10;

const EVENTS: &str = "/v1/stream/0?live=sse&offset=now";

impl Ask {
    const ALL: [Self; 6] =
        [Self::Stream, Self::Bytes, Self::Events, Self::Socket, Self::Session, Self::Tool];

    /// The status of its refusal.
    fn refused(self) -> u16 {
        match self {
            Self::Stream | Self::Bytes => 507,
            Self::Events | Self::Socket | Self::Session => 429,
            Self::Tool => 404,
        }
    }

    async fn send(self, connection: &mut Connection, authorization: &str) -> Result<u16> {
        let piece = [b'x'; PIECE_BYTES];
        let plain = "Content-Type: text/plain\r\n";
        let (method, path, headers, body): (_, _, _, &[u8]) = match self {
            Self::Stream => ("PUT", "/v1/stream/more", plain, b""),
            Self::Bytes => ("POST", "/v1/stream/0", plain, &piece),
            Self::Events => ("GET", EVENTS, "", b""),
            Self::Socket => ("GET", "/v1/duplex?handler=echo", SOCKET, b""),
            Self::Session => ("POST", "/mcp", MCP, HELLO.as_bytes()),
            Self::Tool => ("POST", "/v1/tools/none/run", JSON, b"{}"),
        };
        let headers = format!("{authorization}{headers}");
        Ok(connection.exchange(method, path, &headers, body).await?.status)
    }
}

/// All that one caller may have.
struct Held {
    connections: Vec<Connection>,
    sessions: Vec<String>,
}

impl Held {
    async fn fill(
        &mut self,
        address: SocketAddr,
        connection: &mut Connection,
        authorization: &str,
    ) -> Result<()> {
        let plain = format!("{authorization}Content-Type: text/plain\r\n");
        for number in 0..SHARE {
            let path = format!("/v1/stream/{number}");
            let status = connection.exchange("PUT", &path, &plain, b"").await?.status;
            ensure!(status == 201, "a stream was answered with {status}");
        }
        for bytes in [64 << 10, PIECE_BYTES] {
            let piece = vec![b'x'; bytes];
            let path = "/v1/stream/0";
            while connection.exchange("POST", path, &plain, &piece).await?.status != 507 {}
        }
        for _ in 0..SHARE {
            for (path, headers, expected) in
                [(EVENTS, "", 200), ("/v1/duplex?handler=echo", SOCKET, 101)]
            {
                let headers = format!("{authorization}{headers}");
                self.connections.push(opened(address, path, &headers, expected).await?);
            }
            let headers = format!("{authorization}{MCP}");
            let head = connection.exchange("POST", "/mcp", &headers, HELLO.as_bytes()).await?;
            let session = head.header("mcp-session-id").context("no session was begun")?;
            self.sessions.push(session.to_owned());
        }
        Ok(())
    }

    /// Gives all of it back, so that the next turn is alone.
    async fn release(self, connection: &mut Connection, authorization: &str) -> Result<()> {
        drop(self.connections);
        for session in self.sessions {
            let headers = format!("{authorization}Mcp-Session-Id: {session}\r\n");
            connection.exchange("DELETE", "/mcp", &headers, b"").await?;
        }
        for number in 0..SHARE {
            let path = format!("/v1/stream/{number}");
            connection.exchange("DELETE", &path, authorization, b"").await?;
        }
        Ok(())
    }
}

/// A connection that is answered with this status, as soon as what an earlier turn gave back is free.
async fn opened(
    address: SocketAddr,
    path: &str,
    headers: &str,
    expected: u16,
) -> Result<Connection> {
    let mut status = 0;
    for _ in 0..500 {
        let mut connection = Connection::open(address).await?;
        connection.send("GET", path, headers, b"").await?;
        status = connection.head().await?.status;
        if status == expected {
            return Ok(connection);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    bail!("{path} was answered with {status}")
}
