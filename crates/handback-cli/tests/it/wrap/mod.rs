//! `handback wrap`: a real server behind it, with a record of what it did, and real clients.

mod bounds;
mod budgets;
mod callers;
mod causes;
mod connect;
mod environment;
mod eras;
mod follows;
mod headers;
mod held;
mod hops;
mod killed;
mod large;
mod leaving;
mod marks;
mod media;
mod metrics;
mod names;
mod news;
mod own;
mod parked;
mod references;
mod refused_alike;
mod retries;
mod schemas;
mod scripted;
mod sessions;
mod several;
mod shared;
mod starts;
mod tasks;
mod wrongs;

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use crate::mcp_client::{Client, Era};
use crate::support::Sandbox;

const ERAS: [Era; 2] = [Era::Older, Era::Newest];

/// A server of its own, and what wraps it.
struct World {
    sandbox: Sandbox,
    /// Which eras the server speaks.
    speaks: &'static str,
}

impl World {
    fn new() -> Self {
        let sandbox = Sandbox::new();
        sandbox.write("upstream.py", include_str!("upstream.py"));
        sandbox.write("record", "");
        Self { sandbox, speaks: "both" }
    }

    fn with(sandbox: Sandbox) -> Self {
        sandbox.write("upstream.py", include_str!("upstream.py"));
        sandbox.write("record", "");
        Self { sandbox, speaks: "both" }
    }

    /// One whose server speaks these eras.
    fn speaking(speaks: &'static str) -> Self {
        Self { speaks, ..Self::new() }
    }

    /// A client of what wraps the server.
    fn client(&self, era: Era) -> Client {
        self.client_with(era, &[], json!({"elicitation": {}}))
    }

    fn client_with(&self, era: Era, flags: &[&str], capabilities: Value) -> Client {
        let command = self.command(flags);
        Client::at(&self.sandbox, command, era, capabilities).greeted()
    }

    /// The command that wraps the server.
    fn command(&self, flags: &[&str]) -> Command {
        let (upstream, record) = (self.sandbox.path("upstream.py"), self.sandbox.path("record"));
        let (upstream, record) = (upstream.to_str().unwrap(), record.to_str().unwrap());
        let command = ["--", "/usr/bin/env", "PATH=/usr/local/bin:/usr/bin:/bin", "python3"];
        let words = [&["wrap"], flags, &command, &[upstream, record, self.speaks]].concat();
        self.sandbox.command(&words)
    }

    /// What the server did, of this kind.
    fn effects(&self, kind: &str) -> Vec<String> {
        let record = fs::read_to_string(self.sandbox.path("record")).unwrap();
        record.lines().filter(|line| line.starts_with(kind)).map(str::to_owned).collect()
    }

    /// Waits until the server has done something of this kind.
    fn until_effect(&self, kind: &str) {
        let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while self.effects(kind).is_empty() {
            assert!(std::time::Instant::now() < until, "there was no {kind}");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

/// The first text of a result.
#[track_caller]
fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text in {result}"))
}

/// What MCP-AQL answers.
#[track_caller]
fn aql(client: &mut Client, tool: &str, arguments: &Value) -> Value {
    let result = client.call(tool, arguments);
    let answer: Value = serde_json::from_str(text(&result)).unwrap();
    assert_eq!(answer["success"], true, "{answer}");
    answer["data"].clone()
}
