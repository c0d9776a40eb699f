//! A server process, and a client that says exactly what it is told to.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::support::Sandbox;

fn arguments<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let mut arguments = vec!["serve", "--output", "json"];
    if !more.contains(&"--listen") {
        arguments.extend(["--listen", "127.0.0.1:0"]);
    }
    arguments.extend(["--long-poll-ms", "300"]);
    arguments.extend(more);
    // The shop takes a moment to be made, and few tests look at it.
    if !more.contains(&"--demo") {
        arguments.push("--no-demo");
    }
    arguments
}

/// A server that is killed when it is dropped.
pub(crate) struct Server {
    process: Child,
    pub(crate) address: SocketAddr,
}

impl Server {
    /// Starts a server on a data directory, and waits until it listens.
    pub(crate) fn start(sandbox: &Sandbox, data: &Path) -> Self {
        Self::start_with(sandbox, data, &[])
    }

    pub(crate) fn start_with(sandbox: &Sandbox, data: &Path, more: &[&str]) -> Self {
        Self::launch(sandbox, &[&["--data", data.to_str().unwrap()], more].concat())
    }

    /// Where one was before.
    pub(crate) fn start_at(
        sandbox: &Sandbox,
        data: &Path,
        address: SocketAddr,
        more: &[&str],
    ) -> Self {
        let address = address.to_string();
        let flags = [&["--data", data.to_str().unwrap(), "--listen", &address], more].concat();
        Self::launch(sandbox, &flags)
    }

    /// The same with more variables in its environment.
    pub(crate) fn start_under(
        sandbox: &Sandbox,
        data: &Path,
        more: &[&str],
        variables: &[(&str, &str)],
    ) -> Self {
        let more = [&["--data", data.to_str().unwrap()], more].concat();
        let mut command = sandbox.command(&arguments(&more));
        command.envs(variables.iter().copied());
        Self::wait_for(command, Stdio::inherit()).unwrap()
    }

    /// A server that forgets everything.
    pub(crate) fn start_in_memory(sandbox: &Sandbox) -> Self {
        Self::launch(sandbox, &["--memory"])
    }

    fn launch(sandbox: &Sandbox, more: &[&str]) -> Self {
        Self::try_launch(sandbox, more, Stdio::inherit()).unwrap()
    }

    /// A server; or what it said when it did not start.
    pub(crate) fn try_start(sandbox: &Sandbox, data: &Path) -> Result<Self, String> {
        Self::try_launch(sandbox, &["--data", data.to_str().unwrap()], Stdio::piped())
    }

    /// A server that tells its operator in a file.
    pub(crate) fn start_telling(sandbox: &Sandbox, data: &Path, file: &Path) -> Self {
        let errors = std::fs::File::create(file).unwrap().into();
        Self::try_launch(sandbox, &["--data", data.to_str().unwrap()], errors).unwrap()
    }

    /// A server that may have so many files open.
    pub(crate) fn start_with_files(sandbox: &Sandbox, data: &Path, files: u32) -> Self {
        let served = sandbox.command(&arguments(&["--data", data.to_str().unwrap()]));
        let mut limited = Command::new("sh");
        limited.args(["-c", "ulimit -n $0; exec \"$@\"", &files.to_string()]);
        limited.arg(served.get_program()).args(served.get_args());
        let environment = served.get_envs().filter_map(|(name, value)| Some((name, value?)));
        limited.env_clear().envs(environment).stdin(Stdio::null());
        Self::wait_for(limited, Stdio::inherit()).unwrap()
    }

    fn try_launch(sandbox: &Sandbox, more: &[&str], errors: Stdio) -> Result<Self, String> {
        Self::wait_for(sandbox.command(&arguments(more)), errors)
    }

    fn wait_for(mut command: Command, errors: Stdio) -> Result<Self, String> {
        let mut process = command.stdout(Stdio::piped()).stderr(errors).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        if line.is_empty() {
            let ended = process.wait_with_output().unwrap();
            return Err(format!("{} {}", ended.status, String::from_utf8_lossy(&ended.stderr)));
        }
        let told: Value = serde_json::from_str(&line).unwrap();
        let address = told["address"].as_str().unwrap().parse().unwrap();
        Ok(Self { process, address })
    }

    /// As a crash: no signal that it could see.
    pub(crate) fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// As an operator does.
    pub(crate) fn stop(mut self) -> i32 {
        let pid = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.process.wait().unwrap().code().unwrap()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    }

    /// Sends a request, and reads its answer.
    pub(crate) fn ask(&self, line: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let mut stream = self.connect();
        stream.write_all(&request(self.address, line, headers, body)).unwrap();
        read(&mut stream)
    }

    pub(crate) fn create(&self, path: &str) {
        let line = format!("PUT /v1/stream/{path}");
        let answer = self.ask(&line, &[("content-type", "text/plain")], b"");
        assert!(matches!(answer.status, 200 | 201), "{answer:?}");
    }

    /// Appends as a producer.
    pub(crate) fn produce(&self, path: &str, epoch: u64, seq: u64, body: &str) -> Answer {
        let (epoch, seq) = (epoch.to_string(), seq.to_string());
        let headers = producer(&epoch, &seq);
        self.ask(&format!("POST /v1/stream/{path}"), &headers, body.as_bytes())
    }

    pub(crate) fn read(&self, path: &str) -> String {
        let answer = self.ask(&format!("GET /v1/stream/{path}"), &[], b"");
        assert_eq!(answer.status, 200);
        String::from_utf8(answer.body).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub(crate) fn producer<'a>(epoch: &'a str, seq: &'a str) -> [(&'static str, &'a str); 4] {
    [
        ("content-type", "text/plain"),
        ("producer-id", "p"),
        ("producer-epoch", epoch),
        ("producer-seq", seq),
    ]
}

/// The bytes of a request.
pub(crate) fn request(
    address: SocketAddr,
    line: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Vec<u8> {
    let mut text = format!("{line} HTTP/1.1\r\nconnection: close\r\n");
    if !headers.iter().any(|(name, _)| *name == "host") {
        text.push_str(&format!("host: {address}\r\n"));
    }
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    if !body.is_empty() {
        text.push_str(&format!("content-length: {}\r\n", body.len()));
    }
    [text.as_bytes(), b"\r\n", body].concat()
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: Vec<u8>,
}

/// Reads an answer to its end, which closes the connection. One that never came has status 0.
pub(crate) fn read(stream: &mut TcpStream) -> Answer {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
    let Some(end) = end else {
        return Answer { status: 0, headers: HashMap::new(), body: bytes };
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let headers: HashMap<_, _> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let mut body = bytes[end + 4..].to_vec();
    if headers.get("transfer-encoding").is_some_and(|coding| coding == "chunked") {
        body = unchunked(&body);
    }
    Answer { status, headers, body }
}

fn unchunked(mut rest: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(end) = rest.windows(2).position(|two| two == b"\r\n") {
        let length = usize::from_str_radix(std::str::from_utf8(&rest[..end]).unwrap(), 16).unwrap();
        body.extend_from_slice(&rest[end + 2..][..length]);
        rest = &rest[end + 4 + length..];
    }
    body
}
