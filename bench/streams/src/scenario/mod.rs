//! What is measured of one server.

mod append;
mod catch_up;
mod fan_out;
mod resume;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use bench_kit::server::Running;

use crate::sample::Sample;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// How long a run measures.
    pub(crate) time: Duration,
    /// How long it runs before that.
    pub(crate) warm_up: Duration,
    /// Who reads a stream that fans out.
    pub(crate) readers: usize,
    /// Requests that fill a stream to be caught up with.
    pub(crate) catch_up_requests: u64,
}

impl Effort {
    /// A run that measures so long.
    pub(crate) fn of(time: Duration) -> Self {
        Self { time, warm_up: time / 5, readers: 100, catch_up_requests: 512 }
    }

    /// A run that only shows that everything works.
    pub(crate) fn smoke() -> Self {
        let time = Duration::from_millis(200);
        Self { time, warm_up: time / 5, readers: 10, catch_up_requests: 8 }
    }

    /// What nobody should need, a slow server included.
    fn limit(&self) -> Duration {
        Duration::from_secs(60) + self.time * 4
    }
}

/// One of the things that are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scenario {
    OneConnection,
    Connections,
    Streams,
    FanOut,
    Resume,
    CatchUp,
}

/// Connections, and streams, where there are many.
const MANY: u32 = 64;

impl Scenario {
    /// All of them, in the order of the report.
    pub(crate) const ALL: [Self; 6] = [
        Self::OneConnection,
        Self::Connections,
        Self::Streams,
        Self::FanOut,
        Self::Resume,
        Self::CatchUp,
    ];

    /// How it is named among the arguments.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::OneConnection => "one",
            Self::Connections => "connections",
            Self::Streams => "streams",
            Self::FanOut => "fan-out",
            Self::Resume => "resume",
            Self::CatchUp => "catch-up",
        }
    }

    /// Whether several servers are measured at the same time.
    pub(crate) fn is_shared(self) -> bool {
        matches!(self, Self::OneConnection | Self::Connections | Self::Streams)
    }

    /// Measures servers, and sees that they keep their word.
    pub(crate) async fn run(self, servers: &[Running], effort: &Effort) -> Vec<Result<Sample>> {
        let run = async {
            match self {
                Self::OneConnection => append::run(servers, effort, 1, 1).await,
                Self::Connections => append::run(servers, effort, 1, MANY).await,
                Self::Streams => append::run(servers, effort, MANY, 1).await,
                Self::FanOut | Self::Resume | Self::CatchUp => {
                    let mut samples = Vec::new();
                    for server in servers {
                        samples.push(self.run_alone(server, effort).await);
                    }
                    samples
                }
            }
        };
        let count = u32::try_from(servers.len()).unwrap_or(u32::MAX);
        let ended = tokio::time::timeout(effort.limit().saturating_mul(count), run).await;
        ended.unwrap_or_else(|_| servers.iter().map(|_| Err(anyhow!("it took too long"))).collect())
    }

    async fn run_alone(self, server: &Running, effort: &Effort) -> Result<Sample> {
        match self {
            Self::FanOut => fan_out::run(server, effort).await,
            Self::Resume => resume::run(server, effort).await,
            Self::CatchUp => catch_up::run(server, effort).await,
            Self::OneConnection | Self::Connections | Self::Streams => {
                bail!("appends are measured together")
            }
        }
    }
}

/// The server's processor time and the clock, at one moment.
#[derive(Clone, Copy, Debug)]
struct Meter {
    at: Instant,
    cpu: Duration,
}

impl Meter {
    fn read(server: &Running) -> Result<Self> {
        Ok(Self { at: Instant::now(), cpu: server.cpu()? })
    }

    /// Microseconds of the server's processors for each of so many things since `self`.
    fn cpu_us_per(self, later: Self, count: f64) -> f64 {
        (later.cpu.saturating_sub(self.cpu)).as_secs_f64() * 1e6 / count
    }

    /// Seconds since `self`.
    fn seconds(self, later: Self) -> f64 {
        later.at.duration_since(self.at).as_secs_f64()
    }
}

/// A name for a stream that the server does not have yet.
fn name(server: SocketAddr, what: &str, number: u32) -> String {
    format!("{what}-{}-{number}", server.port())
}
