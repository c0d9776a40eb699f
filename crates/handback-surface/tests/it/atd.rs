use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io};

use handback_identity::{Caller, UnixPeers};
use handback_stream::atd::{ServerMessage, frame};
use handback_surface::atd::{Settings, listen, serve_connection};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::bench::{Bench, alice, bob};

/// A connection to a server in this process.
struct Client {
    stream: DuplexStream,
    server: JoinHandle<io::Result<()>>,
    _stop: watch::Sender<bool>,
}

impl Client {
    fn new(bench: &Bench, caller: Caller) -> Self {
        Self::with(bench, caller, Settings::default())
    }

    fn with(bench: &Bench, caller: Caller, settings: Settings) -> Self {
        let (stream, other) = tokio::io::duplex(1 << 16);
        let (stop, stops) = watch::channel(false);
        let pipeline = Arc::clone(&bench.pipeline);
        let server = tokio::spawn(async move {
            serve_connection(other, caller, pipeline, &settings, stops).await
        });
        Self { stream, server, _stop: stop }
    }

    async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// The text of the next answer; nothing at the end.
    async fn heard(&mut self) -> Option<String> {
        let length = self.stream.read_u32().await.ok()?;
        let mut text = vec![0; length as usize];
        self.stream.read_exact(&mut text).await.unwrap();
        Some(String::from_utf8(text).unwrap())
    }

    async fn text(&mut self, message: Value) -> String {
        self.send(&frame(&message).unwrap()).await;
        self.heard().await.unwrap()
    }

    async fn ask(&mut self, message: Value) -> Value {
        serde_json::from_str(&self.text(message).await).unwrap()
    }

    async fn run(&mut self, tool: &str, args: Value) -> Value {
        self.ask(json!({"type": "run_tool", "tool_id": tool, "args": args, "dry_run": false})).await
    }

    async fn go_on(&mut self, tool: &str, cursor: &str) -> Value {
        self.ask(json!({"type": "run_tool_continue", "tool_id": tool, "cursor": cursor})).await
    }

    async fn hello(&mut self, client: &str) -> Value {
        self.ask(json!({"type": "hello", "client_id": client, "requested_capabilities": ["a"]}))
            .await
    }
}

#[tokio::test]
async fn answers_are_as_the_protocol_has_them_to_the_byte() {
    let bench = Bench::new();
    let mut client = Client::new(&bench, alice());
    let mut check = async |message, expected: &str| {
        assert_eq!(client.text(message).await, expected);
    };
    check(json!({"type": "ping"}), r#"{"type":"pong"}"#).await;
    let hello = json!({"type": "hello", "client_id": "c", "requested_capabilities": ["x"]});
    let version = env!("CARGO_PKG_VERSION");
    let ack = format!(
        r#"{{"type":"hello_ack","granted_capabilities":["x"],"server_version":"handback {version}","supported_tiers":["hot","warm","cold"]}}"#
    );
    check(hello, &ack).await;
    check(
        json!({"type": "run_tool", "tool_id": "act", "args": {}, "dry_run": false}),
        r#"{"type":"tool_result","tool_id":"act","result":1,"success":true,"dry_run":false}"#,
    )
    .await;
    check(
        json!({"type": "run_tool", "tool_id": "act", "args": {"how": "fail"}, "dry_run": false}),
        r#"{"type":"tool_result","tool_id":"act","result":{"code":"TOOL_FAILED","data":{"number":2},"message":"it failed","retryable":false},"success":false,"dry_run":false}"#,
    )
    .await;
    // What the tool wrote is not written anew.
    check(
        json!({"type": "run_tool", "tool_id": "act", "args": {"how": "raw"}, "dry_run": false}),
        "{\"type\":\"tool_result\",\"tool_id\":\"act\",\"result\":{\"b\":1.0,\r\n \"a\":2},\"success\":true,\"dry_run\":false}",
    )
    .await;
    check(
        json!({"type": "tool_schema", "tool_id": "none"}),
        r#"{"type":"error","message":"tool not found: none","retryable":false}"#,
    )
    .await;
    check(
        json!({"type": "run_tool_continue", "tool_id": "numbers", "cursor": "x"}),
        r#"{"type":"error","message":"invalid cursor","code":1021,"retryable":false}"#,
    )
    .await;
}

#[tokio::test]
async fn a_walk_meets_every_item_once() {
    let bench = Bench::new();
    let mut client = Client::new(&bench, alice());
    client.hello("walker").await;
    // Arguments that do not fit a cursor are kept.
    for padding in ["", &"x".repeat(2000)] {
        let args = json!({"from": 5, "below": 15, "padding": padding});
        let mut page = client.run("numbers", args).await;
        let mut all = Vec::new();
        loop {
            all.extend(page["result"].as_array().unwrap().clone());
            let Some(cursor) = page["next_cursor"].as_str() else { break };
            assert!(cursor.len() <= 512);
            page = client.go_on("numbers", cursor).await;
        }
        assert_eq!(all, (5..15).map(Value::from).collect::<Vec<_>>());
        assert!(page.get("next_cursor").is_none());
    }
}

#[tokio::test]
async fn a_cursor_is_of_one_caller_one_client_and_one_tool() {
    let bench = Bench::new();
    let mut client = Client::new(&bench, alice());
    client.hello("one").await;
    let page = client.run("numbers", json!({"from": 0, "below": 9})).await;
    let cursor = page["next_cursor"].as_str().unwrap().to_owned();
    let mut edited = cursor.clone();
    edited.replace_range(8..9, if &cursor[8..9] == "A" { "B" } else { "A" });
    let invalid =
        json!({"type": "error", "message": "invalid cursor", "code": 1021, "retryable": false});

    assert_eq!(client.go_on("numbers", &edited).await, invalid);
    assert_eq!(bench.last_line(), ("refused".into(), "not_opened".into()));
    assert_eq!(client.go_on("more/numbers", &cursor).await, invalid);
    assert_eq!(client.go_on("act", &cursor).await, invalid);
    client.hello("two").await;
    assert_eq!(client.go_on("numbers", &cursor).await, invalid);
    let nobody = json!({"type": "hello"});
    client.ask(nobody).await;
    assert_eq!(client.go_on("numbers", &cursor).await, invalid);
    let mut other = Client::new(&bench, bob());
    other.hello("one").await;
    assert_eq!(other.go_on("numbers", &cursor).await, invalid);
    let mut anonymous = Client::new(&bench, Caller::unauthenticated());
    anonymous.hello("one").await;
    assert_eq!(anonymous.go_on("numbers", &cursor).await, invalid);

    // The victim goes on as if nothing had happened, also on another connection; then it is late.
    let mut client = Client::new(&bench, alice());
    client.hello("one").await;
    assert_eq!(client.go_on("numbers", &cursor).await["result"], json!([3, 4, 5]));
    bench.pass(Duration::from_secs(17 * 60));
    let expired = json!({
        "type": "error",
        "message": "expired cursor: make the call again from the start",
        "code": 1020,
        "retryable": false,
    });
    assert_eq!(client.go_on("numbers", &cursor).await, expired);
    assert_eq!(bench.last_line(), ("refused".into(), "expired".into()));
    assert_eq!(client.go_on("numbers", &edited).await, invalid);
}

#[tokio::test]
async fn lists_have_what_the_caller_may_use() {
    let bench = Bench::new();
    let mut client = Client::new(&bench, alice());
    let list = client.ask(json!({"type": "tool_list"})).await;
    let ids: Vec<_> = list["tools"].as_array().unwrap().iter().map(|tool| &tool["id"]).collect();
    assert_eq!(ids, ["act", "more/numbers", "numbers", "pay"]);
    let not_there = client.run("nothing", json!({})).await["message"].clone();
    assert_eq!(not_there, "tool not found: nothing");
    let secret = client.run("secret_numbers", json!({"from": 0, "below": 1})).await;
    assert_eq!(
        secret,
        json!({"type": "error", "message": "tool not found: secret_numbers", "retryable": false})
    );
    let schema = client.ask(json!({"type": "tool_schema", "tool_id": "pay"})).await;
    assert_eq!(schema["schema"]["required_capabilities"], json!(["money"]));
    assert_eq!(schema["schema"]["input_schema"]["required"], json!(["amount"]));
    let long = client.run(&"n".repeat(100_000), json!({})).await;
    assert_eq!(long["message"].as_str().unwrap().len(), "tool not found: ".len() + 128);
}

#[tokio::test]
async fn a_dry_run_checks_and_does_nothing() {
    let bench = Bench::new();
    let mut client = Client::new(&bench, alice());
    let mut dry = async |tool: &str, args: Value| {
        client
            .ask(json!({"type": "run_tool", "tool_id": tool, "args": args, "dry_run": true}))
            .await
    };
    let good = dry("act", json!({"how": "well"})).await;
    let preview = json!({"dry_run": true, "tool_id": "act", "args_preview": {"how": "well"}});
    assert_eq!((&good["result"], &good["dry_run"]), (&preview, &json!(true)));
    assert_eq!(bench.last_line(), ("checked".into(), Value::Null));
    let bad = dry("act", json!({"how": "strangely"})).await;
    assert!(bad["message"].as_str().unwrap().starts_with("invalid args for act: `/how`"), "{bad}");
    assert_eq!(dry("none", json!({})).await["message"], "tool not found: none");
    assert_eq!(bench.effects.count(), 0);
}

#[tokio::test]
async fn what_goes_wrong_has_an_answer_and_the_connection_goes_on() {
    let bench = Bench::new();
    let mut client = Client::new(&bench, alice());
    let bad = client.run("numbers", json!({"from": "x"})).await;
    assert!(bad["message"].as_str().unwrap().starts_with("invalid args for numbers: "), "{bad}");
    let mut check = async |how: &str, message: &str| {
        let answer = client.run("act", json!({"how": how})).await;
        assert_eq!((&answer["message"], &answer["code"]), (&json!(message), &json!(1999)), "{how}");
        assert_eq!(answer["retryable"], json!(false));
    };
    check("panic", "the tool failed").await;
    check("not_json", "the tool failed").await;
    check("hang", "the call took longer than it may").await;
    check("large", "the answer is longer than a frame may be").await;
    let asks = client.run("pay", json!({"amount": 1})).await;
    assert_eq!(asks["result"]["code"], "INPUT_REQUIRED");
    client.send(&[0, 0, 0, 2, b'{', b'!']).await;
    assert!(client.heard().await.unwrap().contains("not a message: "));
    let deep = (0..33).fold(json!(1), |inner, _| json!([inner]));
    assert_eq!(client.run("act", deep).await["message"], "not a message: it is too deep");
    let unknown = client.ask(json!({"type": "x".repeat(5000)})).await;
    assert!(unknown["message"].as_str().unwrap().len() < 300);
    let ucan = json!({"type": "hello", "client_id": "c", "ucan_tokens": ["x"]});
    assert_eq!(client.ask(ucan).await["code"], 1010);
    let ucan = json!({"type": "hello", "ucan_tokens": ["x"]});
    assert_eq!(client.ask(ucan).await["code"], 1013);
    let long = client.hello(&"c".repeat(100_000)).await;
    assert_eq!(long["message"], "a client id has at most 65536 bytes");
    assert_eq!(client.ask(json!({"type": "ping"})).await, json!({"type": "pong"}));
}

#[tokio::test]
async fn a_key_makes_a_retry_the_same_call() {
    let bench = Bench::new();
    let mut client = Client::new(&bench, alice());
    let message = json!({"type": "run_tool", "tool_id": "act", "args": {}, "idempotency_key": "k"});
    let first = client.ask(message.clone()).await;
    assert_eq!((&first["result"], first.get("replayed")), (&json!(1), None));
    let again = Client::new(&bench, alice()).ask(message).await;
    assert_eq!((&again["result"], &again["replayed"]), (&json!(1), &json!(true)));
    let other = json!({
        "type": "run_tool", "tool_id": "act", "args": {"how": "fail"}, "idempotency_key": "k",
    });
    assert_eq!(
        client.ask(other).await["message"],
        "this idempotency key was used for another call"
    );
    assert_eq!(bench.effects.count(), 1);
}

#[tokio::test]
async fn a_call_whose_connection_dies_runs_to_its_end() {
    let bench = Bench::new();
    let mut client = Client::new(&bench, alice());
    let message = json!({
        "type": "run_tool", "tool_id": "act", "args": {"how": "wait"}, "idempotency_key": "k",
    });
    client.send(&frame(&message).unwrap()).await;
    bench.effects.entered().await;
    drop(client.stream);
    bench.effects.go_on();
    let _ = client.server.await.unwrap();
    let answer = Client::new(&bench, alice()).ask(message).await;
    assert_eq!((&answer["result"], &answer["replayed"]), (&json!(1), &json!(true)));
}

#[tokio::test]
async fn too_many_calls_are_refused_and_may_be_tried_again() {
    let bench = Bench::new();
    let mut clients: Vec<_> = (0..4).map(|_| Client::new(&bench, alice())).collect();
    let message = json!({"type": "run_tool", "tool_id": "act", "args": {"how": "wait"}});
    for client in &mut clients {
        client.send(&frame(&message).unwrap()).await;
        bench.effects.entered().await;
    }
    let busy = Client::new(&bench, alice()).run("act", json!({})).await;
    assert_eq!((&busy["code"], &busy["retryable"]), (&json!(1002), &json!(true)));
    assert_eq!(Client::new(&bench, bob()).run("act", json!({})).await["success"], json!(true));
    for client in &mut clients {
        bench.effects.go_on();
        assert!(client.heard().await.is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn silence_ends_a_connection() {
    let second = Duration::from_secs(1);
    let check = async |first: &[u8], ends_after: Duration| {
        let bench = Bench::new();
        let mut client = Client::new(&bench, alice());
        client.send(first).await;
        let started = tokio::time::Instant::now();
        while client.heard().await.is_some() {}
        client.server.await.unwrap().unwrap();
        let took = started.elapsed();
        assert!(took >= ends_after && took < ends_after + second, "{first:?}: {took:?}");
    };
    let ping = frame(&json!({"type": "ping"})).unwrap();
    check(b"", 5 * second).await;
    check(&[0, 0, 0, 9, b'{'], 5 * second).await;
    check(&ping, 600 * second).await;
    // Less than the floor of speed is refused, before a frame has taken as long as it may.
    check(&[&ping, &[0, 0, 0, 9, b'{'][..]].concat(), 20 * second).await;
    // What is no message is no handshake.
    check(&[0, 0, 0, 1, b'x'], 5 * second).await;
}

#[tokio::test]
async fn a_frame_that_is_too_long_is_told_so_before_it_is_sent() {
    let bench = Bench::new();
    let mut client = Client::new(&bench, alice());
    client.send(&(10_485_761_u32).to_be_bytes()).await;
    let error: ServerMessage = serde_json::from_str(&client.heard().await.unwrap()).unwrap();
    let ServerMessage::Error { message, .. } = error else { panic!("{error:?}") };
    assert_eq!(message, "the frame is longer than it may be");
    assert!(client.heard().await.is_none());
    client.server.await.unwrap().unwrap();
}

/// A socket in a folder of its own.
struct Socket {
    _folder: TempDir,
    path: PathBuf,
}

impl Socket {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        Self { _folder: folder, path }
    }
}

fn files(path: &Path) -> usize {
    fs::read_dir(path.parent().unwrap()).unwrap().count()
}

#[tokio::test]
async fn a_socket_is_its_users_own_and_goes_with_its_server() {
    use std::os::unix::fs::PermissionsExt as _;
    let socket = Socket::new();
    let listener = listen(&socket.path).unwrap();
    let mode = fs::metadata(&socket.path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(files(&socket.path), 1);
    assert_eq!(listen(&socket.path).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    drop(listener);
    assert_eq!(files(&socket.path), 0);
}

#[tokio::test]
async fn a_socket_of_a_dead_server_is_replaced_and_nothing_else_is() {
    let socket = Socket::new();
    drop(std::os::unix::net::UnixListener::bind(&socket.path).unwrap());
    assert_eq!(files(&socket.path), 1);
    let first = listen(&socket.path).unwrap();
    // Somebody else's file is left alone.
    fs::remove_file(&socket.path).unwrap();
    let second = listen(&socket.path).unwrap();
    drop(first);
    assert!(socket.path.exists());
    drop(second);
    fs::write(&socket.path, "mine").unwrap();
    assert_eq!(listen(&socket.path).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(fs::read(&socket.path).unwrap(), b"mine");
}

#[tokio::test]
async fn a_listener_serves_as_many_as_it_may_and_stops_when_told() {
    let bench = Bench::new();
    let socket = Socket::new();
    let listener = listen(&socket.path).unwrap();
    let (stop, stops) = watch::channel(false);
    let second = Duration::from_secs(1);
    let settings = Settings::default().connections(2).deadlines(second, 600 * second, second);
    let peers = UnixPeers::new("test").unwrap();
    let pipeline = Arc::clone(&bench.pipeline);
    let server = tokio::spawn(listener.serve(peers, pipeline, settings, stops));
    let ping = frame(&json!({"type": "ping"})).unwrap();
    let connect = async || {
        let mut stream = UnixStream::connect(&socket.path).await.unwrap();
        stream.write_all(&ping).await.unwrap();
        stream
    };
    let hears = async |stream: &mut UnixStream, patience: Duration| {
        let heard = tokio::time::timeout(patience, stream.read_u32()).await;
        heard.is_ok_and(|heard| heard.is_ok())
    };
    let (mut one, mut two) = (connect().await, connect().await);
    assert!(hears(&mut one, 10 * second).await && hears(&mut two, 10 * second).await);
    let mut three = connect().await;
    assert!(!hears(&mut three, Duration::from_millis(100)).await);
    drop(one);
    assert!(hears(&mut three, 10 * second).await);
    stop.send(true).unwrap();
    tokio::time::timeout(10 * second, server).await.unwrap().unwrap();
    assert!(!socket.path.exists());
    drop(two);
}
