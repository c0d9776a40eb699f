//! Programs of upstreams that sessions start.

use std::path::Path;

use handback_gateway::upstream::{Place, StartLimits, StderrUse};
use handback_server::{Limits, Upstream};
use serde_json::{Value, json};

use super::stage::{ADA, BOB, Stage, quarters};
use crate::support::{Answer, Running, config, identified};

/// A server of the older era, that writes down when it begins and when it ends.
const PROGRAM: &str = r#"
echo begun >> "$0"
while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/^{"jsonrpc":"2.0","id":\([0-9]*\),.*/\1/p')
  case "$line" in
    *'"method":"initialize"'*)
      printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}}\n' "$id" ;;
    *'"method":"tools/list"'*)
      printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"look","inputSchema":{"type":"object"}}]}}\n' "$id" ;;
    *'"method":"tools/call"'*)
      printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}\n' "$id" ;;
    *) [ -n "$id" ] && printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"none"}}\n' "$id" ;;
  esac
done
echo ended >> "$0"
"#;

fn upstream(folder: &Path) -> Upstream {
    let log = folder.join("programs").to_str().unwrap().to_owned();
    let args = vec!["-c".to_owned(), PROGRAM.to_owned(), log];
    let place = Place::Command { program: "sh".to_owned(), args, env: Vec::new() };
    let (start, stderr) = (StartLimits::default(), StderrUse::default());
    Upstream { name: "sh".to_owned(), place, is_shared: false, start, stderr }
}

/// The programs that were begun, and those that have ended.
fn programs(stage: &Stage) -> (usize, usize) {
    let text = std::fs::read_to_string(stage.folder.path().join("programs")).unwrap_or_default();
    let count = |word| text.lines().filter(|line| *line == word).count();
    (count("begun"), count("ended"))
}

fn session(answer: &Answer) -> String {
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(answer.body.contains("\"result\""), "{answer:?}");
    answer.headers["mcp-session-id"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn wound_a7_a_caller_at_its_share_of_programs_starts_no_more() {
    let limits = Limits { programs: 8, ..quarters() };
    let stage = Stage::with(limits, |config, folder| config.upstream(upstream(folder))).await;
    let mut adas = Vec::new();
    for _ in 0..2 {
        adas.push(session(&stage.begin(ADA).await));
    }
    let (begun, _) = programs(&stage);
    for _ in 0..5 {
        let refused = stage.begin(ADA).await;
        assert!(!refused.headers.contains_key("mcp-session-id"), "{refused:?}");
        let body: Value = serde_json::from_str(&refused.body).unwrap();
        let message = "the caller's share of programs of upstreams is used up";
        assert_eq!(body["error"]["message"], message, "{refused:?}");
        assert_eq!(body["error"]["data"]["reason"], "caller_share");
    }
    assert_eq!(programs(&stage).0, begun, "nothing was started");
    for _ in 0..2 {
        session(&stage.begin(BOB).await);
    }
    assert_eq!(programs(&stage).0, begun + 2);
    stage.check_audit("programs of upstreams");
    // A program counts until it has ended.
    assert!(stage.end(ADA, &adas[0]).await.status < 300);
    stage.until(async || stage.begin(ADA).await.headers.contains_key("mcp-session-id")).await;
    assert!(programs(&stage).1 >= 1, "the first one has ended");
}

#[tokio::test(flavor = "multi_thread")]
async fn wound_a7_upstreams_that_no_session_may_have_together_are_refused_at_the_start() {
    for (programs, is_shared, is_refused) in
        [(12, false, false), (11, false, true), (11, true, false)]
    {
        let folder = tempfile::tempdir().unwrap();
        let config = config().limits(Limits { programs, ..quarters() });
        let (config, _) = identified(config, folder.path(), &["ada"]);
        let config = ["a", "b", "c"].into_iter().fold(config, |config, name| {
            let is_shared = is_shared && name == "c";
            config.upstream(Upstream {
                name: name.to_owned(),
                is_shared,
                ..upstream(folder.path())
            })
        });
        match Running::try_start(config).await {
            Ok(_) => assert!(!is_refused, "{programs}, {is_shared}"),
            Err(error) => {
                assert!(is_refused, "{error}");
                let told = error.to_string();
                let wanted =
                    ["3 upstreams", "may have 2 ", "limits.programs", "limits.caller_share"];
                assert!(wanted.iter().all(|wanted| told.contains(wanted)), "{told}");
            }
        }
    }
    // Without identities there is one caller, and it may have all.
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits { programs: 3, ..quarters() };
    let config = ["a", "b", "c"].into_iter().fold(config().limits(limits), |config, name| {
        config.upstream(Upstream { name: name.to_owned(), ..upstream(folder.path()) })
    });
    assert!(Running::try_start(config).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn wound_a7_a_caller_at_its_share_of_sessions_of_a_gateway_starts_no_programs() {
    let limits = Limits { sessions: 8, ..quarters() };
    let stage = Stage::with(limits, |config, folder| config.upstream(upstream(folder))).await;
    for _ in 0..2 {
        session(&stage.begin(ADA).await);
    }
    let (begun, _) = programs(&stage);
    for _ in 0..5 {
        let refused = stage.begin(ADA).await;
        assert_eq!(refused.status, 429, "{refused:?}");
        assert_eq!(refused.body, "the caller's share of sessions is used up");
    }
    assert_eq!(programs(&stage).0, begun);
    session(&stage.begin(BOB).await);
    stage.check_audit("sessions");
}

/// Calls the tool of the program as a client of the newer era, which has a program of its own.
async fn look(stage: &Stage, who: usize) {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({"name": "look", "arguments": {}, "_meta": meta});
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let headers = [
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "look"),
    ];
    let answer = stage.ask_with(who, "POST /mcp", &headers, &message.to_string()).await;
    assert!(answer.body.contains("\"content\""), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn wound_a7_idle_programs_of_newer_clients_make_room_for_others() {
    let limits = Limits { programs: 1, ..quarters() };
    let stage = Stage::with(limits, |config, folder| config.upstream(upstream(folder))).await;
    // The first program, which was started to find its era, counts for nobody. The second is all that
    // there may be.
    for who in [ADA, BOB] {
        look(&stage, who).await;
    }
    assert_eq!(programs(&stage), (2, 0));
    stage.until(async || stage.begin(ADA).await.headers.contains_key("mcp-session-id")).await;
    assert!(programs(&stage).1 >= 1, "what was idle has ended");
}
