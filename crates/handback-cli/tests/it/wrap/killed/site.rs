//! A server with effects, and what it did.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::streams::server::Server;
use crate::support::Sandbox;

/// Far more than a busy machine takes for anything here.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);

/// How the server behind is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Streams,
    Http,
}

/// The server behind: how it is reached, and which eras it speaks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Behind(pub(super) Way, pub(super) &'static str);

pub(super) const BEHIND: [Behind; 6] = [
    Behind(Way::Streams, "both"),
    Behind(Way::Http, "both"),
    Behind(Way::Streams, "older"),
    Behind(Way::Http, "newest"),
    Behind(Way::Streams, "newest"),
    Behind(Way::Http, "older"),
];

/// Where calls wait in the server behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    Before,
    After,
}

impl Stop {
    const fn file(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::After => "after",
        }
    }
}

/// Results of a few megabytes are passed on whole, state is good for one use, and one tool takes
/// identical calls for tries of one.
const CONFIG: &str = "[gateway]
budget = \"64MiB\"
[[gateway.tools]]
tools = \"confirm\"
single_use = true
[[gateway.tools]]
tools = \"act_identical\"
retry = \"identical\"
";

/// What outlives a gateway.
pub(super) struct Site {
    sandbox: Sandbox,
    pub(super) behind: Behind,
    upstream: Option<Upstream>,
}

impl Site {
    pub(super) fn new(behind: Behind) -> Self {
        let sandbox = Sandbox::new();
        sandbox.write("upstream.py", include_str!("upstream.py"));
        sandbox.write("handback.toml", CONFIG);
        sandbox.write("record", "");
        let upstream = (behind.0 == Way::Http).then(|| Upstream::start(&sandbox, behind.1, 0));
        Self { sandbox, behind, upstream }
    }

    pub(super) fn start(&self) -> Server {
        self.start_at("")
    }

    /// A gateway that dies, or stands still, at a point.
    pub(super) fn start_at(&self, point: &str) -> Server {
        let path = |name: &str| self.sandbox.path(name).to_str().unwrap().to_owned();
        let upstream = match &self.upstream {
            Some(upstream) => format!("up=http://127.0.0.1:{}/mcp", upstream.port),
            None => format!(
                "up=/usr/bin/env PATH=/usr/local/bin:/usr/bin:/bin python3 {} {} {}",
                path("upstream.py"),
                path(""),
                self.behind.1
            ),
        };
        let config = path("handback.toml");
        // Its home is another one; the data directory, with the ring, is the same.
        let sandbox = Sandbox::new().set("HANDBACK_TEST_KILL_AT", point);
        let more = ["--config", config.as_str(), "--upstream", &upstream];
        Server::start_with(&sandbox, &self.sandbox.path("data"), &more)
    }

    /// From now on calls wait there.
    pub(super) fn hold(&self, stop: Stop) {
        self.sandbox.write(stop.file(), "");
    }

    /// Calls go on.
    pub(super) fn let_go(&self) {
        for stop in [Stop::Before, Stop::After] {
            let _ = fs::remove_file(self.sandbox.path(stop.file()));
        }
    }

    /// From now on calls fail in this way; well again with nothing.
    pub(super) fn fail(&self, how: &str) {
        self.sandbox.write("fault", how);
    }

    /// The lines of the record that begin with these words.
    pub(super) fn record(&self, words: &str) -> Vec<String> {
        let record = fs::read_to_string(self.sandbox.path("record")).unwrap();
        let is_it = |line: &&str| {
            line.strip_prefix(words).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        };
        record.lines().filter(is_it).map(str::to_owned).collect()
    }

    /// The numbers of the effects that calls with this id had.
    pub(super) fn effects(&self, id: &str) -> Vec<u64> {
        let lines = self.record(&format!("effect {id}"));
        lines.iter().map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect()
    }

    /// How often the server was asked for this.
    pub(super) fn starts(&self, id: &str) -> usize {
        self.record(&format!("enter {id}")).len()
    }

    /// Waits until the record has so many lines that begin with these words.
    #[track_caller]
    pub(super) fn until(&self, words: &str, count: usize) {
        eventually(&format!("{count} times {words}"), || self.record(words).len() >= count);
    }

    /// Waits until a call with this id has come to a stop.
    #[track_caller]
    pub(super) fn until_stopped(&self, stop: Stop, id: &str) {
        match stop {
            Stop::Before => self.until(&format!("enter {id}"), 1),
            Stop::After => self.until(&format!("effect {id}"), 1),
        }
    }

    /// Ends the server behind, as a crash does.
    pub(super) fn end_upstream(&mut self) {
        let upstream = self.upstream.as_mut().unwrap();
        upstream.process.kill().unwrap();
        upstream.process.wait().unwrap();
    }

    /// Starts the server behind again, at the same address.
    pub(super) fn begin_upstream(&mut self) {
        let port = self.upstream.as_ref().unwrap().port;
        self.upstream = Some(Upstream::start(&self.sandbox, self.behind.1, port));
    }
}

/// Waits until something is so.
#[track_caller]
pub(super) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < until, "never: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A server behind, over HTTP, that ends when it is dropped.
struct Upstream {
    process: Child,
    port: u16,
}

impl Upstream {
    fn start(sandbox: &Sandbox, speaks: &str, port: u16) -> Self {
        let mut command = Command::new("python3");
        command.arg(sandbox.path("upstream.py")).arg(sandbox.path("")).arg(speaks);
        let mut process = command
            .arg(port.to_string())
            .stdout(Stdio::piped())
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.trim().parse().unwrap_or_else(|_| panic!("no server at {port}: {line}"));
        Self { process, port }
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
