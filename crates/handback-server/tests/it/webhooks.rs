//! Webhooks: where they go, and where they never go.

use std::net::SocketAddr;
use std::time::Duration;

use handback_server::{ServerConfig, WebhookOptions};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::support::{Answer, Running, ask_over, config, identified};
use crate::tls::Authority;

/// Many times as long as anything here takes.
const DEADLINE: Duration = Duration::from_secs(30);

const DONE: &str = "HTTP/1.1 200 OK\r\ncontent-length: 13\r\n\r\n{\"done\":true}";

/// Takes webhooks, and gives each the same response.
struct Receiver {
    address: SocketAddr,
    requests: mpsc::UnboundedReceiver<String>,
}

impl Receiver {
    async fn new(response: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, requests) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(receive(stream, sender.clone(), response.clone()));
            }
        });
        Self { address, requests }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    async fn next(&mut self) -> String {
        tokio::time::timeout(DEADLINE, self.requests.recv()).await.unwrap().unwrap()
    }
}

/// One request, to the end of its body.
async fn receive<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: S,
    requests: mpsc::UnboundedSender<String>,
    response: String,
) {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.unwrap().parse().unwrap() {
                let _ = requests.send(text);
                let _ = stream.write_all(response.as_bytes()).await;
                return;
            }
        }
        if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
            return;
        }
    }
}

fn options(targets: &[&str]) -> WebhookOptions {
    let targets = targets.iter().map(|text| text.parse().unwrap()).collect();
    WebhookOptions { targets, ..WebhookOptions::default() }
}

async fn subscribe(server: &Running, url: &str, token: Option<&str>) -> Answer {
    let body = json!({"type": "webhook", "pattern": "jobs/*", "webhook": {"url": url}});
    let bearer = token.map(|token| format!("Bearer {token}"));
    let mut headers = vec![("content-type", "application/json")];
    headers.extend(bearer.iter().map(|text| ("authorization", text.as_str())));
    server.ask_with("PUT /v1/stream/__ds/subscriptions/s", &headers, &body.to_string()).await
}

async fn status(server: &Running, token: Option<&str>) -> Value {
    let shown = server.ask("GET /v1/stream/__ds/subscriptions/s", token, "").await;
    serde_json::from_str::<Value>(&shown.body).unwrap()["status"].clone()
}

async fn until_failed(server: &Running, token: Option<&str>) {
    let failed = async {
        while status(server, token).await != "failed" {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(DEADLINE, failed).await.unwrap();
}

#[track_caller]
fn check_refused(answer: &Answer) {
    assert_eq!(answer.status, 400, "{answer:?}");
    let body: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(body["error"]["code"], "WEBHOOK_URL_REJECTED");
    assert_eq!(body["error"]["message"], "this URL may not be delivered to");
}

#[tokio::test(flavor = "multi_thread")]
async fn wound_a3_an_identified_caller_has_no_webhooks_that_nobody_configured() {
    let folder = tempfile::tempdir().unwrap();
    let mut receiver = Receiver::new(DONE.to_owned()).await;
    let (config, tokens) = identified(config(), folder.path(), &["ada"]);
    let server = Running::start(config).await;
    let ada = Some(tokens[0].as_str());
    check_refused(&subscribe(&server, &receiver.url("/admin"), ada).await);
    let port = receiver.address.port();
    for host in ["localhost", "127.1", "[::ffff:127.0.0.1]", "2130706433"] {
        check_refused(&subscribe(&server, &format!("http://{host}:{port}/admin"), ada).await);
    }
    assert_eq!(server.ask("PUT /v1/stream/jobs/1", ada, "x").await.status, 201);
    assert!(receiver.requests.try_recv().is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn wound_a3_an_identified_caller_reaches_only_configured_targets() {
    let folder = tempfile::tempdir().unwrap();
    let mut receiver = Receiver::new(DONE.to_owned()).await;
    let (config, tokens) = identified(config(), folder.path(), &["ada"]);
    let target = receiver.url("/hooks/**");
    let server = Running::start(config.webhooks(options(&[&target]))).await;
    let ada = Some(tokens[0].as_str());
    let port = receiver.address.port();
    for url in [
        receiver.url("/admin"),
        receiver.url("/hooks/../admin"),
        receiver.url("/hooks/%2e%2e/admin"),
        receiver.url("/hooks/a#b"),
        format!("http://localhost:{port}/hooks/a"),
        format!("http://127.0.0.1:{port}@127.0.0.2/hooks/a"),
        format!("http://user@127.0.0.1:{port}/hooks/a"),
        format!("http://127.0.0.2:{port}/hooks/a"),
    ] {
        check_refused(&subscribe(&server, &url, ada).await);
    }
    let url = receiver.url("/hooks/a?b=c");
    assert_eq!(subscribe(&server, &url, ada).await.status, 201);
    assert_eq!(server.ask("PUT /v1/stream/jobs/1", ada, "x").await.status, 201);
    let request = receiver.next().await;
    assert!(request.starts_with("POST /hooks/a?b=c HTTP/1.1\r\n"), "{request}");
    assert!(request.contains(&format!("host: {}\r\n", receiver.address)), "{request}");
    assert!(request.contains("webhook-signature: t="), "{request}");
}

#[tokio::test(flavor = "multi_thread")]
async fn wound_a3_an_own_listener_is_never_a_target() {
    let server = Running::start(config()).await;
    let port = server.address.port();
    for url in [
        format!("http://127.0.0.1:{port}/v1/stream/x"),
        format!("http://localhost:{port}/v1/stream/x"),
        format!("http://[::ffff:127.0.0.1]:{port}/v1/stream/x"),
        format!("http://[::ffff:7f00:1]:{port}/"),
        "http://127.0.0.1:0/".to_owned(),
        "http://127.0.0.1:9/#x".to_owned(),
    ] {
        check_refused(&subscribe(&server, &url, None).await);
    }
}

/// Also if the configuration names it, and however the listener is bound.
#[tokio::test(flavor = "multi_thread")]
async fn wound_a3_a_listener_on_all_addresses_is_never_a_target() {
    for wildcard in ["0.0.0.0", "[::]"] {
        if std::net::TcpListener::bind(format!("{wildcard}:0")).is_err() {
            // A machine without IPv6.
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        let port = free_port();
        let targets = ["127.0.0.1", "127.9.8.7", "localhost", "[::1]", "[::ffff:127.0.0.1]"]
            .map(|host| format!("http://{host}:{port}"));
        let allowed: Vec<_> = targets.iter().map(String::as_str).collect();
        let config = config()
            .listen(format!("{wildcard}:{port}").parse().unwrap())
            .host("tools.example")
            .webhooks(options(&allowed));
        let (config, tokens) = identified(config, folder.path(), &["ada"]);
        let _server = Running::start(config).await;
        let bearer = format!("Bearer {}", tokens[0]);
        let headers = [("content-type", "application/json"), ("authorization", bearer.as_str())];
        for target in &targets {
            let url = format!("{target}/v1/stream/x");
            let body = json!({"type": "webhook", "streams": ["x"], "webhook": {"url": url}});
            let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
            let line = "PUT /v1/stream/__ds/subscriptions/s";
            let body = body.to_string();
            check_refused(&ask_over(stream, "tools.example", line, &headers, &body).await);
        }
    }
}

/// A port that was free a moment ago.
fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

#[tokio::test(flavor = "multi_thread")]
async fn wound_a3_redirects_are_not_followed() {
    let mut second = Receiver::new(DONE.to_owned()).await;
    let moved = second.url("/admin");
    let response = format!("HTTP/1.1 307 Moved\r\nlocation: {moved}\r\ncontent-length: 0\r\n\r\n");
    let mut first = Receiver::new(response).await;
    let server = Running::start(config()).await;
    assert_eq!(subscribe(&server, &first.url("/in"), None).await.status, 201);
    assert_eq!(server.ask("PUT /v1/stream/jobs/1", None, "x").await.status, 201);
    first.next().await;
    until_failed(&server, None).await;
    assert!(second.requests.try_recv().is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_targets_of_one_caller_leave_deliveries_to_others() {
    let folder = tempfile::tempdir().unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let slow = format!("http://{}/in", silent.local_addr().unwrap());
    let mut receiver = Receiver::new(DONE.to_owned()).await;
    let target = receiver.url("/in");
    let (config, tokens) = identified(config(), folder.path(), &["ada", "bob"]);
    let server = Running::start(config.webhooks(options(&[&slow, &target]))).await;
    let (ada, bob) = (Some(tokens[0].as_str()), Some(tokens[1].as_str()));
    let bearer = format!("Bearer {}", tokens[0]);
    let headers = [("content-type", "application/json"), ("authorization", bearer.as_str())];
    let body = json!({"type": "webhook", "pattern": "jobs/*", "webhook": {"url": slow}});
    for n in 0..20 {
        let line = format!("PUT /v1/stream/__ds/subscriptions/{n}");
        assert_eq!(server.ask_with(&line, &headers, &body.to_string()).await.status, 201);
    }
    assert_eq!(server.ask("PUT /v1/stream/jobs/1", ada, "x").await.status, 201);
    let mut held = Vec::new();
    for _ in 0..16 {
        held.push(tokio::time::timeout(DEADLINE, silent.accept()).await.unwrap().unwrap());
    }
    let more = tokio::time::timeout(Duration::from_millis(500), silent.accept()).await;
    assert!(more.is_err(), "a caller has 16 deliveries in flight");
    assert_eq!(subscribe(&server, &target, bob).await.status, 201);
    assert_eq!(server.ask("PUT /v1/stream/jobs/1", bob, "x").await.status, 201);
    receiver.next().await;
    // The next ones take their turns as others end.
    drop(held);
    for _ in 0..4 {
        tokio::time::timeout(DEADLINE, silent.accept()).await.unwrap().unwrap();
    }
}

/// The target was allowed when the subscription was made.
#[tokio::test(flavor = "multi_thread")]
async fn wound_a3_a_target_is_checked_again_at_each_delivery() {
    let folder = tempfile::tempdir().unwrap();
    let mut receiver = Receiver::new(DONE.to_owned()).await;
    let target = receiver.url("/in");
    let started = ServerConfig::open(folder.path().join("data")).unwrap();
    let (started, tokens) = identified(started, folder.path(), &["ada"]);
    let ada = Some(tokens[0].as_str());
    let listen: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let server = Running::start(started.listen(listen).webhooks(options(&[&target]))).await;
    assert_eq!(subscribe(&server, &target, ada).await.status, 201);
    server.stop().await;

    let mode = handback_server::IdentityMode::Static { file: folder.path().join("identities") };
    let config = ServerConfig::open(folder.path().join("data")).unwrap().identity(mode);
    let server = Running::start(config.listen(listen)).await;
    assert_eq!(status(&server, ada).await, "active");
    assert_eq!(server.ask("PUT /v1/stream/jobs/1", ada, "x").await.status, 201);
    until_failed(&server, ada).await;
    assert!(receiver.requests.try_recv().is_err());
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_is_delivered_and_calls_back() {
    let mut receiver = Receiver::new("HTTP/1.1 204 OK\r\n\r\n".to_owned()).await;
    let server = Running::start(config()).await;
    assert_eq!(subscribe(&server, &receiver.url("/in"), None).await.status, 201);
    assert_eq!(server.ask("PUT /v1/stream/jobs/1", None, "x").await.status, 201);
    let request = receiver.next().await;
    let wake: Value = serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(wake["streams"][0]["path"], "jobs/1");
    let ack = json!({
        "wake_id": wake["wake_id"], "generation": wake["generation"], "done": true,
        "acks": [{"stream": "jobs/1", "offset": wake["streams"][0]["tail_offset"]}],
    });
    let bearer = format!("Bearer {}", wake["callback_token"].as_str().unwrap());
    let headers = [("content-type", "application/json"), ("authorization", bearer.as_str())];
    let line = "POST /v1/stream/__ds/subscriptions/s/callback";
    let answer = server.ask_with(line, &headers, &ack.to_string()).await;
    assert_eq!((answer.status, answer.body.as_str()), (200, r#"{"next_wake":false,"ok":true}"#));
    // What comes later is another wake.
    assert_eq!(server.ask("POST /v1/stream/jobs/1", None, "y").await.status, 204);
    let request = receiver.next().await;
    let next: Value = serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(next["generation"].as_u64(), wake["generation"].as_u64().map(|n| n + 1));
}

/// A receiver that answers `done` has its snapshot acknowledged.
#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_over_tls_goes_to_who_has_the_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let ca_file = folder.path().join("authorities.pem");
    std::fs::write(&ca_file, authority.pem()).unwrap();
    let acceptor = authority.acceptor(folder.path());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, mut requests) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            if let Ok(stream) = acceptor.accept(stream).await {
                receive(stream, sender.clone(), DONE.to_owned()).await;
            }
        }
    });
    let (config, tokens) = identified(config(), folder.path(), &["ada"]);
    let ada = Some(tokens[0].as_str());
    let target = format!("https://localhost:{port}/in");
    let options = WebhookOptions { ca_file: Some(ca_file), ..options(&[&target]) };
    let server = Running::start(config.webhooks(options)).await;
    check_refused(&subscribe(&server, &target.replace("https", "http"), ada).await);
    assert_eq!(subscribe(&server, &target, ada).await.status, 201);
    assert_eq!(server.ask("PUT /v1/stream/jobs/1", ada, "x").await.status, 201);
    let request = tokio::time::timeout(DEADLINE, requests.recv()).await.unwrap().unwrap();
    assert!(request.contains(&format!("host: localhost:{port}\r\n")), "{request}");
    let acked = async {
        loop {
            let shown = server.ask("GET /v1/stream/__ds/subscriptions/s", ada, "").await;
            let shown: Value = serde_json::from_str(&shown.body).unwrap();
            if shown["streams"][0]["acked_offset"].as_str().unwrap().ends_with('1') {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(DEADLINE, acked).await.unwrap();
}
