//! `tool_server`, over HTTP and MCP.

use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(30);

struct Site {
    address: String,
    folder: TempDir,
    _process: Child,
}

impl Site {
    async fn start() -> Self {
        Self::start_in(tempfile::tempdir().unwrap()).await
    }

    /// Starts the example; it is killed when this is dropped.
    async fn start_in(folder: TempDir) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_tool_server"))
            .arg("127.0.0.1:0")
            .current_dir(folder.path())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut told = BufReader::new(process.stdout.take().unwrap());
        tokio::time::timeout(PATIENCE, told.read_line(&mut line)).await.unwrap().unwrap();
        let address = line.trim().strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap();
        Self { address: address.to_owned(), folder, _process: process }
    }

    /// Ends it as a crash would, and starts it again on what it left.
    async fn restart(self) -> Self {
        let Self { folder, _process: mut process, .. } = self;
        process.kill().await.unwrap();
        Self::start_in(folder).await
    }

    /// The status and the body.
    async fn post(&self, path: &str, headers: &str, body: &Value) -> (u16, String) {
        let (address, body) = (&self.address, body.to_string());
        let mut stream = TcpStream::connect(address).await.unwrap();
        let text = format!(
            "POST {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
             content-type: application/json\r\n{headers}content-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut answer = String::new();
        tokio::time::timeout(PATIENCE, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    async fn run(&self, path: &str, body: &Value) -> (u16, Value) {
        let (status, body) = self.post(&format!("/v1/tools/{path}"), "", body).await;
        (status, serde_json::from_str(&body).unwrap())
    }

    /// A call over MCP, 2026-07-28.
    async fn mcp(&self, mut params: Value) -> Value {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
        });
        let headers = format!(
            "accept: application/json, text/event-stream\r\nmcp-protocol-version: 2026-07-28\r\n\
             mcp-method: tools/call\r\nmcp-name: {}\r\n",
            params["name"].as_str().unwrap()
        );
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let (_, body) = self.post("/mcp", &headers, &message).await;
        let data = body.lines().filter_map(|line| line.strip_prefix("data: ")).next_back();
        serde_json::from_str(data.unwrap_or(&body)).unwrap()
    }
}

/// The first 100 squares.
fn squares() -> Vec<u64> {
    (1..=100).map(|n| n * n).collect()
}

/// The same cursor with its middle character changed.
fn edited(token: &str) -> String {
    let middle = token.len() / 2;
    let other = if token[middle..].starts_with('A') { "B" } else { "A" };
    format!("{}{other}{}", &token[..middle], &token[middle + 1..])
}

fn pay(copies: u32, state: &Value, is_fine: bool) -> Value {
    let answer = json!({"action": "accept", "content": {"confirm": is_fine}});
    json!({
        "arguments": {"copies": copies}, "requestState": state, "inputResponses": {"pay": answer},
    })
}

#[test]
fn is_written_in_under_sixty_lines() {
    let lines = include_str!("../../tool_server.rs").lines().count();
    assert!(lines < 60, "{lines}");
}

#[tokio::test]
async fn pages_over_http_also_after_a_crash() {
    let mut site = Site::start().await;
    let (status, mut page) = site.run("squares/run", &json!({})).await;
    assert_eq!(status, 200);
    let mut seen: Vec<u64> = Vec::new();
    loop {
        seen.extend(page["result"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()));
        let Some(cursor) = page["nextCursor"].as_str().map(str::to_owned) else { break };
        if seen.len() == 50 {
            site = site.restart().await;
        }
        let (status, body) =
            site.run("squares/continue", &json!({"cursor": edited(&cursor)})).await;
        assert_eq!((status, &body["error"]["code"]), (400, &json!("invalid")));
        let (status, body) = site.run("print/continue", &json!({"cursor": cursor})).await;
        assert_eq!((status, &body["error"]["code"]), (400, &json!("invalid")), "of another tool");
        page = site.run("squares/continue", &json!({"cursor": cursor})).await.1;
    }
    assert_eq!(seen, squares());
}

#[tokio::test]
async fn pages_over_mcp() {
    let site = Site::start().await;
    let mut seen: Vec<u64> = Vec::new();
    let mut arguments = json!({});
    loop {
        let params = json!({"name": "squares", "arguments": arguments});
        let result = site.mcp(params).await["result"].clone();
        let items = &result["structuredContent"]["items"];
        seen.extend(items.as_array().unwrap().iter().map(|n| n.as_u64().unwrap()));
        let cursor = &result["_meta"]["dev.handback/nextCursor"];
        let Some(cursor) = cursor.as_str() else { break };
        let foreign = json!({"name": "squares", "arguments": {"__cursor": edited(cursor)}});
        assert_eq!(site.mcp(foreign).await["result"]["isError"], true);
        arguments = json!({"__cursor": cursor});
    }
    assert_eq!(seen, squares());
}

#[tokio::test]
async fn asks_back_acts_once_and_streams() {
    let site = Site::start().await;
    let (_, asked) = site.run("print/run", &json!({"arguments": {"copies": 3}})).await;
    assert_eq!(asked["inputRequests"]["pay"]["message"], "3 copies for 15 cents?");
    let state = &asked["requestState"];
    let other = site.run("print/run", &pay(4, state, true)).await;
    assert_eq!((other.0, &other.1["error"]["code"]), (400, &json!("invalid")), "other arguments");
    let foreign = pay(3, &json!(edited(state.as_str().unwrap())), true);
    assert_eq!(site.run("print/run", &foreign).await.0, 400);

    let accept = "accept: text/event-stream\r\n";
    let (status, told) = site.post("/v1/tools/print/run", accept, &pay(3, state, true)).await;
    assert_eq!(status, 200);
    let names = told.lines().filter_map(|line| line.strip_prefix("event: "));
    let expected = ["progress", "part", "progress", "part", "progress", "part", "result"];
    assert_eq!(names.collect::<Vec<_>>(), expected, "{told}");
    let result = told.lines().filter_map(|line| line.strip_prefix("data: ")).next_back().unwrap();
    assert!(result.contains(r#"{"cents":15,"printed":3}"#), "{result}");

    let (_, again) = site.run("print/run", &pay(3, state, true)).await;
    assert_eq!((&again["result"]["printed"], &again["replayed"]), (&json!(3), &json!(true)));
    let (status, other) = site.run("print/run", &pay(3, state, false)).await;
    assert_eq!((status, &other["error"]["code"]), (400, &json!("invalid")), "a second answer");
}
