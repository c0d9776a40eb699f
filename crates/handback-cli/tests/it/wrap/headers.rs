//! Arguments that go in headers as well, at a server that checks them.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use super::{ERAS, text};
use crate::mcp_client::{Client, Era};
use crate::streams::server::Server;
use crate::support::Sandbox;

/// The server behind, which is ended when it is dropped.
struct Web {
    sandbox: Sandbox,
    process: Child,
    url: String,
}

impl Web {
    fn start() -> Self {
        let sandbox = Sandbox::new();
        sandbox.write("headers_web.py", include_str!("headers_web.py"));
        sandbox.write("record", "");
        let mut process = Command::new("/usr/bin/env")
            .args(["PATH=/usr/local/bin:/usr/bin:/bin", "python3"])
            .args([sandbox.path("headers_web.py"), sandbox.path("record")])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut port = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut port).unwrap();
        Self { sandbox, process, url: format!("http://127.0.0.1:{}/mcp", port.trim()) }
    }

    /// A client on standard streams before the gateway, and one before the server alone.
    fn clients(&self, era: Era) -> [Client; 2] {
        let upstream = format!("up={}", self.url);
        let behind = Client::silent(&self.sandbox, &["--upstream", &upstream], era, json!({}));
        let words = ["wrap", "--connect", &self.url];
        let direct = Client::of(&self.sandbox, &words, era, json!({}));
        [behind.greeted(), direct.greeted()]
    }

    /// A gateway over HTTP.
    fn gateway(&self) -> Server {
        let upstream = format!("up={}", self.url);
        Server::start_with(&self.sandbox, &self.sandbox.path("data"), &["--upstream", &upstream])
    }

    /// What it did, of this kind.
    fn effects(&self, kind: &str) -> Vec<String> {
        let record = fs::read_to_string(self.sandbox.path("record")).unwrap();
        record.lines().filter(|line| line.starts_with(kind)).map(str::to_owned).collect()
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A call of the newest revision over HTTP, with these headers: its status, and the message.
fn post(server: &Server, name: &str, said: &[(&str, &str)], mut params: Value) -> (u16, Value) {
    params["name"] = name.into();
    for (member, value) in [
        ("protocolVersion", json!("2026-07-28")),
        ("clientInfo", json!({"name": "test", "version": "1"})),
        ("clientCapabilities", json!({})),
    ] {
        params["_meta"][format!("io.modelcontextprotocol/{member}")] = value;
    }
    let mut headers = vec![
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", name),
    ];
    headers.extend(said);
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let answer = server.ask("POST /mcp", &headers, message.to_string().as_bytes());
    (answer.status, serde_json::from_slice(&answer.body).unwrap())
}

fn visit(arguments: Value) -> Value {
    json!({"arguments": arguments})
}

#[test]
fn clients_without_headers_have_them_made() {
    for era in ERAS {
        let web = Web::start();
        for mut client in web.clients(era) {
            let arguments = json!({
                "region": "Zürich ", "count": 7, "place": {"is_open": false}, "note": "x",
            });
            // Before anything is known of the tool, and after.
            for _ in 0..2 {
                assert_eq!(text(&client.call("visit", &arguments)), "visited");
            }
            assert_eq!(text(&client.call("visit", &json!({"region": null}))), "visited");
            // What was known of it is not so any more.
            assert_eq!(text(&client.call("rename", &json!({"to": "Zone"}))), "renamed");
            assert_eq!(text(&client.call("visit", &arguments)), "visited");
            assert_eq!(text(&client.call("rename", &json!({"to": "Region"}))), "renamed");
            assert!(client.close().success());
        }
        assert_eq!(web.effects("visit").len(), 8);
    }
}

#[test]
fn what_is_too_long_for_a_header_is_not_asked() {
    for era in ERAS {
        let web = Web::start();
        for mut client in web.clients(era) {
            let id = client.send(
                "tools/call",
                json!({"name": "visit", "arguments": {"region": "x".repeat(10_000)}}),
            );
            let told = client.receive();
            assert_eq!(told["id"], id, "{told}");
            assert!(told.to_string().contains("too long"), "{told}");
            // Others are as they were.
            assert_eq!(text(&client.call("visit", &json!({"region": "eu"}))), "visited");
        }
        assert_eq!(web.effects("visit").len(), 2);
    }
}

#[test]
fn what_a_client_says_in_headers_is_for_the_server_to_check() {
    let web = Web::start();
    let server = web.gateway();
    let region = |value| ("mcp-param-region", value);
    let arguments = json!({"region": "Zürich"});
    let encoded = "=?base64?WsO8cmljaA==?=";
    let wrong: [&[(&str, &str)]; 4] = [
        &[],
        &[region("Berlin")],
        &[region(encoded), region(encoded)],
        &[region("=?base64?WsO8cmljaA?=")],
    ];
    for said in wrong {
        let (status, told) = post(&server, "visit", said, visit(arguments.clone()));
        assert_eq!((status, &told["error"]["code"]), (400, &json!(-32020)), "{said:?}: {told}");
    }
    assert!(web.effects("visit").is_empty());
    let (status, told) = post(&server, "visit", &[region(encoded)], visit(arguments));
    assert_eq!((status, text(&told["result"])), (200, "visited"), "{told}");
    // No list was asked for: what clients say is enough.
    assert!(web.effects("list").is_empty());
}

#[test]
fn a_call_whose_headers_did_not_fit_was_not_made() {
    let web = Web::start();
    let server = web.gateway();
    let keyed = || {
        let mut params = visit(json!({"region": "eu"}));
        params["_meta"] = json!({"dev.handback/idempotency-key": "k"});
        params
    };
    let (_, told) = post(&server, "visit", &[], keyed());
    assert_eq!(told["error"]["code"], -32020, "{told}");
    for is_replay in [Value::Null, json!(true)] {
        let (_, told) = post(&server, "visit", &[("mcp-param-region", "eu")], keyed());
        assert_eq!(text(&told["result"]), "visited", "{told}");
        assert_eq!(told["result"]["_meta"]["dev.handback/replayed"], is_replay, "{told}");
    }
    assert_eq!(web.effects("visit").len(), 1);
}

/// The handle of a held list of cities.
fn held(result: &Value) -> &str {
    let handle = &result["_meta"]["dev.handback/held"][0]["handle"];
    handle.as_str().unwrap_or_else(|| panic!("{result}"))
}

#[test]
fn headers_say_what_references_stand_for() {
    let web = Web::start();
    let server = web.gateway();
    let (_, told) = post(&server, "cities", &[], visit(json!({})));
    let handle = held(&told["result"]);
    let reference = format!("$held:{handle}#/7/city");
    let number = json!({"$held": handle, "path": "/7/number"});
    let arguments = json!({"region": reference, "count": number});
    let wrong = post(&server, "visit", &[("mcp-param-region", "x")], visit(arguments.clone())).1;
    assert_eq!(wrong["error"]["code"], -32020, "{wrong}");
    let said = [("mcp-param-region", reference.as_str())];
    let (_, told) = post(&server, "visit", &said, visit(arguments));
    assert_eq!(text(&told["result"]), "visited", "{told}");
    let visited = r#"visit {"count": 7, "region": "Zürich"}"#;
    assert_eq!(web.effects("visit"), [visited]);
    let whole = format!("$held:{handle}");
    let said = [("mcp-param-region", whole.as_str())];
    let (_, long) = post(&server, "visit", &said, visit(json!({"region": whole})));
    assert!(text(&long["result"]).contains("longer than"), "{long}");
    drop(server);
    for era in ERAS {
        let [mut client, _] = web.clients(era);
        let handle = held(&client.call("cities", &json!({}))).to_owned();
        let number = json!({"$held": handle, "path": "/7/number"});
        let arguments = json!({"region": format!("$held:{handle}#/7/city"), "count": number});
        assert_eq!(text(&client.call("visit", &arguments)), "visited");
    }
    assert_eq!(web.effects("visit"), [visited; 3]);
}
