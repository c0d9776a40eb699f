//! Who gets a connection at all.

use std::io::Write as _;
use std::time::{Duration, Instant};

use handback_stream::duplex::{Code, Format, ServerFrame};
use tokio_tungstenite::tungstenite::Message;

use super::client::{Client, hello};
use crate::streams::server::{Answer, Server, read, request};
use crate::support::Sandbox;

const UPGRADE: [(&str, &str); 4] = [
    ("connection", "upgrade"),
    ("upgrade", "websocket"),
    ("sec-websocket-version", "13"),
    ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
];

fn server(sandbox: &Sandbox) -> Server {
    Server::start(sandbox, &sandbox.path("data"))
}

#[test]
fn foreign_origins_and_hosts_are_turned_away() {
    let sandbox = Sandbox::new();
    let server = server(&sandbox);
    let status = |headers: &[(&str, &str)]| {
        Client::connect(&server, "echo", Format::Json, headers)
            .map_or_else(|status| status, |_| 101)
    };
    let own = format!("http://{}", server.address);
    assert_eq!(status(&[("origin", &own)]), 101);
    for origin in ["https://evil.example", "null", "http://127.0.0.1:1", "file://"] {
        assert_eq!(status(&[("origin", origin)]), 403, "{origin}");
    }
    // A name that was made to lead here is another server's.
    for host in ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "10.0.0.1"] {
        assert_eq!(status(&[("host", host)]), 421, "{host}");
        let both = [("host", host), ("origin", &format!("http://{host}"))];
        assert_eq!(status(&both), 421, "{host}");
    }
}

#[test]
fn what_asks_for_no_duplex_is_told_so_before_the_upgrade() {
    let sandbox = Sandbox::new();
    let server = server(&sandbox);
    let ask = |line: &str, headers: &[(&str, &str)]| -> Answer {
        let mut stream = server.connect();
        // The helper would ask for the connection to be closed.
        let bytes = request(server.address, line, headers, b"");
        let text = String::from_utf8(bytes).unwrap().replacen("connection: close\r\n", "", 1);
        stream.write_all(text.as_bytes()).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        read(&mut stream)
    };
    let path = "GET /v1/duplex?handler=echo";
    let code = |answer: &Answer| String::from_utf8_lossy(&answer.body).into_owned();
    assert_eq!(ask(path, &UPGRADE).status, 101);
    for without in UPGRADE {
        let rest: Vec<_> = UPGRADE.into_iter().filter(|header| *header != without).collect();
        let answer = ask(path, &rest);
        assert_eq!(answer.status, 400, "{without:?}");
        assert!(code(&answer).contains("\"MALFORMED\""));
    }
    assert_eq!(ask("POST /v1/duplex?handler=echo", &UPGRADE).status, 405);
    for handler in ["nothing", "", "ECHO", "echo%2F..", "..", "echo/../relay", "%65cho"] {
        let answer = ask(&format!("GET /v1/duplex?handler={handler}"), &UPGRADE);
        assert_eq!(answer.status, 404, "{handler}");
        assert!(code(&answer).contains("\"UNKNOWN_HANDLER\""), "{handler}");
    }
    assert_eq!(ask("GET /v1/duplex?handler=echo&handler=relay", &UPGRADE).status, 400);
    let with = |more: &[(&'static str, &'static str)]| ask(path, &[&UPGRADE, more].concat()).status;
    assert_eq!(with(&[("sec-websocket-protocol", "chat, other")]), 400);
    let known = "chat, handback.duplex.v1.protobuf, handback.duplex.v1.json";
    let answer = ask(path, &[&UPGRADE[..], &[("sec-websocket-protocol", known)]].concat());
    assert_eq!(answer.headers["sec-websocket-protocol"], "handback.duplex.v1.protobuf");
    for key in ["", "..", ".", "a/b", "a%2Fb", "a b", "\u{e9}"] {
        assert_eq!(with(&[("x-idempotency-key", Box::leak(key.into()))]), 400, "{key}");
    }
    let twice = [("x-idempotency-key", "a"), ("x-idempotency-key", "b")];
    assert_eq!(with(&twice), 400);
    assert_eq!(with(&[("x-idempotency-event-id", "x")]), 400);
}

#[test]
fn many_that_come_and_go_leave_nothing() {
    let sandbox = Sandbox::new();
    let server = server(&sandbox);
    let descriptors = || std::fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap().count();
    let before = descriptors();
    for round in 0..100 {
        let mut client = Client::connect(&server, "echo", Format::Json, &[]).unwrap();
        match round % 5 {
            0 => client.cut(),
            1 => {
                let _ = client.socket.close(None);
            }
            2 => client.socket.get_mut().write_all(b"\x81").unwrap(),
            3 => client.socket.get_mut().write_all(b"\x81\x05hello").unwrap(),
            _ => {
                let hello = handback_stream::duplex::ClientFrame::Hello(hello("k"));
                client.say(&hello);
                assert!(matches!(client.frame(), ServerFrame::Welcome(_)));
                client.cut();
            }
        }
    }
    let deadline = Instant::now() + super::client::PATIENCE;
    while descriptors() > before + 2 {
        assert!(Instant::now() < deadline, "{} and {before}", descriptors());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn hello_comes_first_and_soon() {
    let sandbox = Sandbox::new();
    let server = server(&sandbox);
    for frame in [r#"{"type":"close"}"#, r#"{"type":"chunk","seqno":0,"data":"x"}"#, "x"] {
        let mut client = Client::connect(&server, "echo", Format::Json, &[]).unwrap();
        client.socket.send(Message::text(frame)).unwrap();
        let rest = client.rest();
        assert_eq!((rest.errors, rest.close), (vec![Code::Malformed], Some(4400)), "{frame}");
    }
    // Neither silence nor pings keep a place for longer than ten seconds.
    let start = Instant::now();
    let mut silent = Client::connect(&server, "echo", Format::Json, &[]).unwrap();
    let mut pinging = Client::connect(&server, "echo", Format::Json, &[]).unwrap();
    let pings = std::thread::spawn(move || {
        pinging.socket.get_ref().set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        loop {
            let _ = pinging.socket.send(Message::Ping("x".into()));
            match pinging.socket.read() {
                Ok(Message::Text(text)) => return Some(text.to_string()),
                Ok(_) => std::thread::sleep(Duration::from_millis(200)),
                Err(tokio_tungstenite::tungstenite::Error::Io(error))
                    if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => return None,
            }
            if start.elapsed() > Duration::from_secs(14) {
                return None;
            }
        }
    });
    assert_eq!(silent.rest().errors, [Code::Malformed]);
    assert!(start.elapsed() > Duration::from_secs(9), "{:?}", start.elapsed());
    let told = pings.join().unwrap().expect("pings hold a place for ever");
    assert!(told.contains("MALFORMED"), "{told}");
}
