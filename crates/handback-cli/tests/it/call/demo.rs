//! A newcomer's path: the server with nothing configured, and the commands that it prints.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

use serde_json::Value;

use crate::support::{Ran, Sandbox};

/// A server that is killed when it is dropped, and what it said.
struct Started {
    process: Child,
    said: String,
}

impl Started {
    /// With nothing but a free port.
    fn new(sandbox: &Sandbox, more: &[&str]) -> Self {
        let words = [&["serve", "--listen", "127.0.0.1:0"], more].concat();
        let mut process = sandbox.command(&words).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        let mut lines = BufReader::new(process.stdout.take().unwrap());
        while !said.contains("Interrupt it") {
            assert_ne!(lines.read_line(&mut said).unwrap(), 0, "{said}");
        }
        Self { process, said }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn shell(line: &str) -> Ran {
    let mut command = std::process::Command::new("sh");
    Ran::of(command.args(["-c", line]).env_clear().stdin(Stdio::null()).output().unwrap())
}

#[test]
fn with_nothing_configured_the_three_printed_commands_work() {
    let sandbox = Sandbox::new();
    let server = Started::new(&sandbox, &[]);
    let said = &server.said;
    let commands: Vec<&str> =
        said.lines().map(str::trim).filter(|line| line.contains(" call ")).collect();
    let [orders, query, refund] = commands[..] else { panic!("{said}") };
    for command in &commands {
        assert!(command.starts_with(env!("CARGO_BIN_EXE_handback")), "{command}");
    }

    let orders = shell(orders).expect_code(0);
    let first: Value = serde_json::from_str(orders.stdout.lines().next().unwrap()).unwrap();
    assert!(orders.stdout.lines().count() > 20, "more than a page: {orders:?}");
    assert!(first["total_cents"].is_u64(), "{first}");

    let found = shell(query).expect_code(0).json();
    let items = found["data"]["items"].as_array().unwrap();
    assert_eq!(items.len(), 3, "{found}");
    assert!(items.iter().all(|item| item["status"] == "paid"), "{found}");

    let asked = shell(refund).expect_code(0).stdout;
    assert!(asked.contains("Refund order 17"), "{asked}");
    // And the command that it prints in turn.
    let (_, answer) = asked.split_once("To answer:\n").unwrap();
    let refunded = shell(answer.trim()).expect_code(0).json();
    assert_eq!(refunded["order"], 17, "{refunded}");

    // The configuration that is there to be pasted is JSON, and leads here.
    let start = said.find("{\n").unwrap();
    let end = said[start..].find("\n\n").unwrap() + start;
    let client: Value = serde_json::from_str(&said[start..end]).unwrap();
    let url = client["mcpServers"]["handback"]["url"].as_str().unwrap();
    assert!(
        sandbox.run(&format!("call --list --url {url}")).expect_code(0).stdout.contains("shop")
    );
}

#[test]
fn the_demo_is_left_out_where_it_is_not_wanted() {
    let sandbox = Sandbox::new();
    let folder = sandbox.path(".local/share/handback/demo");
    let quiet = |more: &[&str]| {
        let server = Started::new(&sandbox, more);
        assert!(!server.said.contains("shop"), "{}", server.said);
        assert!(!folder.exists());
    };
    quiet(&["--no-demo"]);
    quiet(&["--memory"]);
    sandbox.write("off.toml", "demo = false\n");
    quiet(&["--config", "off.toml"]);
    sandbox.write("people.csv", "name\nAda\n");
    sandbox.write("own.toml", "[collections]\npeople = \"csv:people.csv\"\n");
    quiet(&["--config", "own.toml"]);
    sandbox.run("serve --demo --no-demo").expect_code(2);
    sandbox.run("serve --demo --memory").expect_code(2);
}
