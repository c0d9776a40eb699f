//! A server with the demo shop, and the command.

use std::process::Stdio;
use std::sync::OnceLock;

use serde_json::Value;

use crate::streams::server::Server;
use crate::support::{Ran, Sandbox};

pub(super) struct World {
    pub(super) sandbox: Sandbox,
    pub(super) server: Server,
}

/// Where the shop is in the data directory.
const SHOP: &str = "data/demo/shop-1.db";

/// The shop, made by a server: once for all tests of a process, as it is the same everywhere.
fn shop() -> &'static [u8] {
    static MADE: OnceLock<Vec<u8>> = OnceLock::new();
    MADE.get_or_init(|| {
        let sandbox = Sandbox::new();
        Server::start_with(&sandbox, &sandbox.path("data"), &["--demo"]).stop();
        std::fs::read(sandbox.path(SHOP)).unwrap()
    })
}

impl World {
    pub(super) fn new() -> Self {
        Self::on(Sandbox::new(), "")
    }

    /// In a folder where something is already, with more in the configuration.
    pub(super) fn on(sandbox: Sandbox, more: &str) -> Self {
        std::fs::create_dir_all(sandbox.path(SHOP).parent().unwrap()).unwrap();
        std::fs::write(sandbox.path(SHOP), shop()).unwrap();
        sandbox.write("handback.toml", &format!("unix_socket = \"h.sock\"\n{more}"));
        let config = sandbox.path("handback.toml");
        let more = ["--demo", "--config", config.to_str().unwrap()];
        let server = Server::start_with(&sandbox, &sandbox.path("data"), &more);
        Self { sandbox, server }
    }

    pub(super) fn http(&self) -> String {
        format!("http://{}", self.server.address)
    }

    pub(super) fn mcp(&self) -> String {
        format!("{}/mcp", self.http())
    }

    pub(super) fn socket(&self) -> String {
        format!("unix:{}", self.sandbox.path("h.sock").display())
    }

    /// All surfaces.
    pub(super) fn urls(&self) -> [String; 3] {
        [self.http(), self.mcp(), self.socket()]
    }

    pub(super) fn call(&self, url: &str, words: &[&str]) -> Ran {
        self.sandbox.run_words(&[&["call", "--url", url], words].concat())
    }

    /// The members of an answer.
    #[track_caller]
    pub(super) fn json(&self, url: &str, words: &[&str]) -> Value {
        let words = [words, &["--output", "json"]].concat();
        self.call(url, &words).expect_code(0).json()
    }

    /// Runs a line as a shell does.
    pub(super) fn shell(&self, line: &str) -> Ran {
        let mut command = std::process::Command::new("sh");
        command.args(["-c", line]).env_clear().current_dir(self.sandbox.path(""));
        Ran::of(command.stdin(Stdio::null()).output().unwrap())
    }
}

/// The ids of orders.
pub(super) fn ids(orders: &Value) -> Vec<u64> {
    orders.as_array().unwrap().iter().map(|order| order["id"].as_u64().unwrap()).collect()
}

/// What stands behind a word of a text, up to the next space or the end.
#[track_caller]
pub(super) fn after<'a>(text: &'a str, word: &str) -> &'a str {
    let (_, rest) = text.split_once(word).unwrap_or_else(|| panic!("no {word} in {text}"));
    rest.split_whitespace().next().unwrap()
}
