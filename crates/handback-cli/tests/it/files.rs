//! Files of the configuration that cannot be read, and a socket that is taken.

use std::fs;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::streams::server::Server;
use crate::support::{Ran, Sandbox};

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A FIFO into which nobody writes.
fn block(path: &Path) {
    let _ = fs::remove_file(path);
    assert!(Command::new("mkfifo").arg("-m600").arg(path).status().unwrap().success());
    assert!(fs::metadata(path).unwrap().file_type().is_fifo());
}

/// Waits until a file has a text.
fn until_told(path: &Path, text: &str) {
    let start = Instant::now();
    while !fs::read_to_string(path).unwrap().contains(text) {
        assert!(start.elapsed() < PATIENCE, "{text}: {}", fs::read_to_string(path).unwrap());
        thread::sleep(Duration::from_millis(50));
    }
}

/// A server that knows alice by a file of tokens, and tells its operator in another file.
struct Identified {
    sandbox: Sandbox,
    server: Server,
    alice: String,
}

fn add(sandbox: &Sandbox, who: &str, file: &str) -> String {
    let line = format!("identity add --file {file} --subject {who}");
    format!("Bearer {}", sandbox.json(&line)["token"].as_str().unwrap())
}

impl Identified {
    fn new() -> Self {
        let sandbox = Sandbox::new();
        let alice = add(&sandbox, "alice", "identities");
        let data = sandbox.path("data");
        fs::create_dir_all(&data).unwrap();
        let file = sandbox.path("identities");
        let config = format!(
            "[identity]\nmode = \"static\"\n[identity.static]\nfile = \"{}\"\n",
            file.display()
        );
        fs::write(data.join("handback.toml"), config).unwrap();
        let server = Server::start_telling(&sandbox, &data, &sandbox.path("log"));
        Self { sandbox, server, alice }
    }

    fn hang_up(&self) {
        let pid = Pid::from_raw(i32::try_from(self.server.pid()).unwrap()).unwrap();
        kill_process(pid, Signal::HUP).unwrap();
    }

    fn status(&self, token: &str) -> u16 {
        self.server.ask("GET /v1/stream/none", &[("authorization", token)], b"").status
    }
}

#[test]
fn wound_a12_identities_that_block_stop_no_later_reload_and_no_end() {
    let world = Identified::new();
    let (file, log) = (world.sandbox.path("identities"), world.sandbox.path("log"));
    block(&file);
    world.hang_up();
    until_told(&log, "not read within 5 s");
    assert_eq!(world.status(&world.alice), 404, "the identities stay as they were");
    assert!(fs::read_to_string(&log).unwrap().contains("identities"), "it is said which file");
    // A good file in its place, and another signal.
    let bob = add(&world.sandbox, "bob", "others");
    fs::rename(world.sandbox.path("others"), &file).unwrap();
    world.hang_up();
    let start = Instant::now();
    while world.status(&bob) != 404 {
        assert!(start.elapsed() < PATIENCE, "bob is not known");
        thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(world.status(&world.alice), 401);
    // Blocked once more, it does not stop the end.
    block(&file);
    world.hang_up();
    let (sender, ended) = mpsc::channel();
    thread::spawn(move || sender.send(world.server.stop()));
    assert_eq!(ended.recv_timeout(PATIENCE), Ok(0));
}

#[test]
fn wound_a12_a_server_whose_identities_block_does_not_start() {
    let sandbox = Sandbox::new();
    block(&sandbox.path("identities"));
    let config = "[identity]\nmode = \"static\"\n[identity.static]\nfile = \"identities\"\n";
    sandbox.write("handback.toml", config);
    let line = "serve --config handback.toml --data data --no-demo --listen 127.0.0.1:0";
    let words: Vec<_> = line.split(' ').collect();
    let child = sandbox.command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.unwrap();
    let pid = Pid::from_child(&child);
    let (sender, ended) = mpsc::channel();
    thread::spawn(move || sender.send(child.wait_with_output().unwrap()));
    let output = ended.recv_timeout(PATIENCE).unwrap_or_else(|_| {
        kill_process(pid, Signal::KILL).unwrap();
        panic!("it waits for the file");
    });
    let ran = Ran::of(output).expect_code(1);
    assert!(ran.stderr.contains("identities"), "{ran:?}");
    assert!(ran.stderr.contains("not read within 5 s"), "{ran:?}");
}

#[test]
fn wound_a13_a_second_server_on_a_live_socket_makes_nothing() {
    let sandbox = Sandbox::new();
    sandbox.write("handback.toml", "unix_socket = \"h.sock\"\n");
    let config = sandbox.path("handback.toml");
    let more = ["--config", config.to_str().unwrap()];
    let first = Server::start_with(&sandbox, &sandbox.path("first"), &more);
    let listed = || -> Vec<_> {
        let mut names: Vec<_> = fs::read_dir(sandbox.path(""))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    let before = listed();
    // With the demo, which would be made before the server starts, and with a data directory of its own.
    for demo in ["--demo", "--no-demo"] {
        let line =
            format!("serve --config handback.toml --data second {demo} --listen 127.0.0.1:0");
        let ran = sandbox.run(&line).expect_code(1);
        assert!(ran.stderr.contains("another server listens on the UNIX socket"), "{ran:?}");
        assert!(ran.stderr.contains("h.sock"), "{ran:?}");
        assert_eq!(listed(), before);
    }
    // One that was killed left its socket, which is taken over.
    first.kill();
    assert!(sandbox.path("h.sock").exists());
    let second = Server::start_with(&sandbox, &sandbox.path("second"), &more);
    assert_eq!(second.stop(), 0);
    assert!(!sandbox.path("h.sock").exists());
}
