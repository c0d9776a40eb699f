//! A server in a process of its own: this binary starts itself again.

use std::fs;
use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use handback_server::{KillPoint, Server, ServerConfig};
use handback_token::{KeyRing, Mode, UnixTime};
use tokio::sync::watch;

use super::tools::{self, Book, STOP, Stop};
use crate::{clock, config};

/// What outlives a server.
pub(crate) struct Site {
    folder: tempfile::TempDir,
    pub(crate) book: Book,
}

/// The file that says where a server kills itself.
const KILL_AT: &str = "kill-at";

/// What a server says to its operator.
const ERRORS: &str = "errors";

impl Site {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let now = UnixTime::from_secs(clock::now());
        let ring = KeyRing::generate(&mut rand::rng(), Mode::Sealed, now);
        fs::write(folder.path().join("ring"), ring.dangerous_to_text().as_bytes()).unwrap();
        let book = Book::open(folder.path());
        Self { folder, book }
    }

    pub(crate) fn start(&self) -> Process {
        self.start_to_die("")
    }

    /// A server that kills itself at a point.
    pub(crate) fn start_to_die(&self, point: &str) -> Process {
        fs::write(self.path(KILL_AT), point).unwrap();
        Process::start("killed::process::serves", self.folder.path())
    }

    /// From now on tools stop there.
    pub(crate) fn stop_at(&self, stop: Option<Stop>) {
        fs::write(self.path(STOP), stop.map_or("", Stop::as_str)).unwrap();
    }

    /// The folder of the data directory, the ring and the book.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// A server that is killed when it is dropped.
pub(crate) struct Process {
    child: Child,
    said: Lines<BufReader<ChildStdout>>,
    pub(crate) address: SocketAddr,
    pub(crate) socket: PathBuf,
}

impl Process {
    /// Starts this binary again with one test in it, which calls [`serve`] with what is in a folder.
    pub(crate) fn start(test: &str, folder: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .env(config::DIRECTORY, folder)
            .stdin(Stdio::null())
            .env("RUST_BACKTRACE", "0")
            .stdout(Stdio::piped())
            .stderr(fs::File::create(folder.join(ERRORS)).unwrap())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
        let address = heard(&mut said).unwrap_or_else(|| {
            panic!("no server: {}", fs::read_to_string(folder.join(ERRORS)).unwrap())
        });
        let address = address.parse().unwrap();
        Self { child, said, address, socket: folder.join("socket") }
    }

    /// Waits until a tool has stopped.
    pub(crate) fn stopped(&mut self, stop: Stop) {
        assert_eq!(heard(&mut self.said).as_deref(), Some(stop.as_str()));
    }

    /// How many files it has open.
    pub(crate) fn files(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }

    /// Processor time of all of its threads so far, to a hundredth of a second.
    pub(crate) fn cpu(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let (_, fields) = stat.rsplit_once(") ").unwrap();
        // The 14th and 15th field: in user and in system mode, in hundredths of a second.
        let ticks = fields.split(' ').skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap());
        Duration::from_millis(10 * ticks.sum::<u64>())
    }

    /// A line of what the system says of its memory, in kB.
    pub(crate) fn memory_kb(&self, name: &str) -> usize {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// As a crash: no signal that it could see.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Says something to whoever started this process.
pub(crate) fn say(what: &str) {
    // Not by a macro, whose output the harness may keep.
    let mut out = std::io::stdout().lock();
    out.write_all(format!("\nsaid {what}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

fn heard(said: &mut Lines<BufReader<ChildStdout>>) -> Option<String> {
    said.find_map(|line| Some(line.ok()?.strip_prefix("said ")?.to_owned()))
}

/// Does nothing unless a test started it in a process of its own.
#[test]
fn serves() {
    let Some(folder) = config::directory() else { return };
    let ring = KeyRing::parse(&fs::read_to_string(folder.join("ring")).unwrap()).unwrap();
    let mut config = ServerConfig::new(ring, folder.join("data"))
        .listen("127.0.0.1:0".parse().unwrap())
        .socket(folder.join("socket"))
        .tools(tools::registry(&folder));
    let point = fs::read_to_string(folder.join(KILL_AT)).unwrap();
    if !point.is_empty() {
        config = config.dangerous_kill_at(point.parse::<KillPoint>().unwrap());
    }
    serve(config);
}

/// Runs a server in a process that [`Process::start`] started.
pub(crate) fn serve(config: ServerConfig) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let server = Server::start(config).await.unwrap();
        say(&server.address().to_string());
        let (_stop, stopped) = watch::channel(false);
        server.run(stopped).await;
    });
}
