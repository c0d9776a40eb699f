//! A client at the standard streams of the binary.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::Sandbox;

/// Far more than a busy machine takes for an answer, or to make the demo.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);

/// The file in the sandbox that has what the last server wrote to stderr.
pub(crate) const ERRORS: &str = "errors.txt";

/// A revision of the protocol, as the two kinds of them differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    /// With a handshake: 2025-11-25.
    Older,
    /// Every request says it all: 2026-07-28.
    Newest,
}

pub(crate) struct Client {
    child: Child,
    /// `None` once it was closed.
    input: Option<ChildStdin>,
    messages: Receiver<String>,
    era: Era,
    capabilities: Value,
    requests: u64,
    patience: Duration,
}

impl Client {
    /// Starts the server and greets it, if the era does so.
    pub(crate) fn start(sandbox: &Sandbox, flags: &[&str], era: Era, capabilities: Value) -> Self {
        Self::silent(sandbox, flags, era, capabilities).greeted()
    }

    /// Greets the server, if the era does so.
    pub(crate) fn greeted(self) -> Self {
        let mut client = self;
        if client.era == Era::Older {
            let hello = json!({
                "protocolVersion": "2025-11-25",
                "clientInfo": {"name": "test", "version": "1"},
                "capabilities": client.capabilities,
            });
            let welcome = client.ask("initialize", hello);
            assert_eq!(welcome["protocolVersion"], "2025-11-25");
            client.write(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        }
        client
    }

    /// Starts the server and says nothing.
    pub(crate) fn silent(sandbox: &Sandbox, flags: &[&str], era: Era, capabilities: Value) -> Self {
        Self::of(sandbox, &[&["serve", "--stdio"], flags].concat(), era, capabilities)
    }

    /// Runs a command line, and says nothing.
    pub(crate) fn of(sandbox: &Sandbox, words: &[&str], era: Era, capabilities: Value) -> Self {
        Self::at(sandbox, sandbox.command(words), era, capabilities)
    }

    /// Runs a command, and says nothing.
    pub(crate) fn at(
        sandbox: &Sandbox,
        mut command: Command,
        era: Era,
        capabilities: Value,
    ) -> Self {
        let errors = File::create(sandbox.path(ERRORS)).unwrap();
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, messages) = channel();
        // Ends with the child, or with the test.
        thread::spawn(move || {
            for line in output.lines() {
                if sender.send(line.unwrap()).is_err() {
                    return;
                }
            }
        });
        let input = child.stdin.take();
        let patience = ANSWER_TIMEOUT;
        Self { child, input, messages, era, capabilities, requests: 0, patience }
    }

    /// One that waits longer for answers.
    pub(crate) fn patient(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// The process of the server.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks and gives the result.
    #[track_caller]
    pub(crate) fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        let answer = self.receive();
        assert_eq!(answer["id"], id, "{answer}");
        assert!(answer["error"].is_null(), "{answer}");
        answer["result"].clone()
    }

    /// Calls a tool and gives its result.
    #[track_caller]
    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        self.ask("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// Asks, and gives the result of this question, whatever else is answered before.
    #[track_caller]
    pub(crate) fn ask_with_meta(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        loop {
            let answer = self.receive();
            if answer["id"] == id {
                assert!(answer["error"].is_null(), "{answer}");
                return answer["result"].clone();
            }
        }
    }

    /// Asks; what comes is for [`Self::receive`].
    pub(crate) fn send(&mut self, method: &str, mut params: Value) -> u64 {
        self.requests += 1;
        if self.era == Era::Newest {
            for (name, value) in [
                ("protocolVersion", json!("2026-07-28")),
                ("clientInfo", json!({"name": "test", "version": "1"})),
                ("clientCapabilities", self.capabilities.clone()),
            ] {
                params["_meta"][format!("io.modelcontextprotocol/{name}")] = value;
            }
        }
        let id = self.requests;
        self.write(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// The next message that is no notification.
    #[track_caller]
    pub(crate) fn receive(&self) -> Value {
        serde_json::from_str(&self.receive_line()).unwrap()
    }

    /// The same, as it was written.
    #[track_caller]
    pub(crate) fn receive_line(&self) -> String {
        loop {
            let line = self.messages.recv_timeout(self.patience).unwrap();
            let message: Value = serde_json::from_str(&line).unwrap();
            if message.get("id").is_some() {
                return line;
            }
        }
    }

    /// The next message, whatever it is.
    #[track_caller]
    pub(crate) fn message(&self) -> Value {
        let line = self.messages.recv_timeout(self.patience).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// What the next notification of this method says, whatever comes before.
    #[track_caller]
    pub(crate) fn heard(&self, method: &str) -> Value {
        loop {
            let line = self.messages.recv_timeout(self.patience).unwrap();
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["method"] == method {
                return message["params"].clone();
            }
        }
    }

    pub(crate) fn write(&mut self, message: &Value) {
        self.write_line(&message.to_string());
    }

    /// Writes a message to the byte.
    pub(crate) fn write_line(&mut self, message: &str) {
        let input = self.input.as_mut().unwrap();
        writeln!(input, "{message}").unwrap();
        input.flush().unwrap();
    }

    /// Kills it, as a power cut does.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits until it has ended by itself.
    pub(crate) fn ended(mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    /// Leaves, and waits for the server to do so.
    pub(crate) fn close(mut self) -> ExitStatus {
        drop(self.input.take());
        self.child.wait().unwrap()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
