//! Sessions of older clients over HTTP: how many there are.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::shared::{SHARED, Served};

/// Sessions of one caller at most.
const OF_CALLER_MAX: usize = 100;

/// More than anything here takes on a busy machine.
const LONG: Duration = Duration::from_secs(60);

/// The status of what comes back, and the session that it began.
fn begin(served: &Served, token: &str) -> (u16, Option<String>) {
    let hello: Value = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }});
    let bearer = format!("Bearer {token}");
    let headers = [
        ("authorization", bearer.as_str()),
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
    ];
    let answer = served.server.ask("POST /mcp", &headers, hello.to_string().as_bytes());
    (answer.status, answer.headers.get("mcp-session-id").cloned())
}

fn end(served: &Served, token: &str, session: &str) {
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", bearer.as_str()), ("mcp-session-id", session)];
    assert_eq!(served.server.ask("DELETE /mcp", &headers, b"").status, 202);
}

#[test]
fn sessions_have_their_place_before_they_are_begun() {
    let served = Served::before("older gated", SHARED);
    served.world.sandbox.write("record.gate", "");
    let beyond = 5;
    let ids = thread::scope(|scope| {
        let (sender, begun) = mpsc::channel();
        for _ in 0..OF_CALLER_MAX + beyond {
            let (sender, served) = (sender.clone(), &served);
            scope.spawn(move || sender.send(begin(served, &served.alice)).unwrap());
        }
        let other = scope.spawn(|| begin(&served, &served.bob).0);
        // The upstream has greeted nobody yet.
        for _ in 0..beyond {
            assert_eq!(begun.recv_timeout(LONG).unwrap().0, 503);
        }
        std::fs::remove_file(served.world.sandbox.path("record.gate")).unwrap();
        assert_eq!(other.join().unwrap(), 200, "a place of another is nobody else's");
        let rest = (0..OF_CALLER_MAX).map(|_| begun.recv_timeout(LONG).unwrap().1);
        rest.collect::<Option<Vec<_>>>().expect("each of them begins a session")
    });
    assert_eq!(begin(&served, &served.alice).0, 503);
    end(&served, &served.alice, &ids[0]);
    assert_eq!(begin(&served, &served.alice).0, 200);
    assert_eq!(begin(&served, &served.alice).0, 503);
}
