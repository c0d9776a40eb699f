//! How fast and how much one caller may call, on every surface.

use std::time::Duration;

use handback_identity::roster::{Entry, FIRST_LINE, NewToken};
use handback_server::{IdentityMode, Limits};
use handback_tool::{CallContext, Definition, Outcome, Rate, Registry, Tool, ToolClass, ToolError};
use serde_json::{Value, json};

use crate::support::{Answer, Running, config};

/// Says at once that it is there, or after a while.
struct Echo;

impl Tool for Echo {
    type Args = Value;

    fn definition(&self) -> Definition {
        Definition::tool("echo", "Is there.").class(ToolClass::ReadOnly)
    }

    async fn call(&self, args: Value, ctx: &CallContext) -> Result<Outcome, ToolError> {
        if args["waits"] == true {
            tokio::select! {
                () = ctx.cancelled() => {}
                () = tokio::time::sleep(Duration::from_secs(20)) => {}
            }
        }
        Ok(Outcome::text("here"))
    }
}

struct Stage {
    server: Running,
    tokens: Vec<String>,
    folder: tempfile::TempDir,
}

impl Stage {
    async fn new(limits: Limits) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut file = format!("{FIRST_LINE}\n");
        let mut tokens = Vec::new();
        for name in ["alice", "bob"] {
            let token = NewToken::generate(&mut rand::rng());
            file.push_str(&format!("{}\n", Entry::new(&token, name, &["use"], None).unwrap()));
            tokens.push(token.dangerous_text().to_owned());
        }
        let identities = folder.path().join("identities");
        std::fs::write(&identities, file).unwrap();
        let mut registry = Registry::new();
        registry.add(Echo).unwrap();
        let config = config()
            .identity(IdentityMode::Static { file: identities })
            .tools(registry)
            .audit(folder.path().join("audit.jsonl"))
            .limits(limits);
        Self { server: Running::start(config).await, tokens, folder }
    }

    async fn post(&self, who: usize, path: &str, body: &str) -> Answer {
        let bearer = format!("Bearer {}", self.tokens[who]);
        let headers = [
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", "tools/call"),
            ("mcp-name", "echo"),
        ];
        self.server.ask_with(&format!("POST {path}"), &headers, body).await
    }

    async fn call(&self, who: usize) -> Answer {
        self.post(who, "/v1/tools/echo/run", "{}").await
    }

    fn reasons(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.folder.path().join("audit.jsonl")).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter_map(|line| line["reason"].as_str().map(str::to_owned)).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_calls_too_fast_is_told_when_to_come_again_and_holds_up_nobody() {
    let call_rate = Rate { per_second: 1, burst: 3 };
    let stage = Stage::new(Limits { call_rate, ..Limits::default() }).await;
    let mut refused = Vec::new();
    for _ in 0..20 {
        let answer = stage.call(0).await;
        if answer.status != 200 {
            refused.push(answer);
        }
    }
    assert!(refused.len() >= 10, "{}", refused.len());
    for answer in &refused {
        assert_eq!((answer.status, answer.headers["retry-after"].as_str()), (429, "1"));
        assert_eq!(answer.body, refused[0].body);
        assert!(answer.body.contains("\"too_fast\""), "{answer:?}");
    }
    assert_eq!(stage.reasons(), vec!["too_fast"; refused.len()]);
    assert_eq!(stage.call(1).await.status, 200, "another caller has a bucket of its own");
    // The buckets are of callers, not of surfaces.
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({"name": "echo", "arguments": {}, "_meta": meta});
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let (mut told, message) = (false, message.to_string());
    for _ in 0..20 {
        told |= stage.post(0, "/mcp", &message).await.body.contains("\"too_fast\"");
    }
    assert!(told, "the surface makes no difference");
}

#[tokio::test(flavor = "multi_thread")]
async fn configured_limits_hold_for_tools_over_http() {
    let limits = Limits { body_bytes: 2_048, calls_per_caller: 2, ..Limits::default() };
    let stage = Stage::new(limits).await;
    let body = |len: usize| {
        let text = "x".repeat(len);
        json!({"arguments": {"text": text}}).to_string()
    };
    assert_eq!(stage.post(0, "/v1/tools/echo/run", &body(1_900)).await.status, 200);
    assert_eq!(stage.post(0, "/v1/tools/echo/run", &body(2_100)).await.status, 413);
    let waits = json!({"arguments": {"waits": true}}).to_string();
    let busy = async {
        loop {
            let answer = stage.call(0).await;
            if answer.status != 200 {
                return answer;
            }
        }
    };
    // One of them may find the places taken by the other and the call above.
    let waiting = async || loop {
        let answer = stage.post(0, "/v1/tools/echo/run", &waits).await;
        assert_eq!(answer.status, 429, "it waits");
    };
    let answer = tokio::select! {
        answer = busy => answer,
        () = waiting() => panic!("it waits"),
        () = waiting() => panic!("it waits"),
    };
    assert_eq!((answer.status, answer.headers["retry-after"].as_str()), (429, "1"));
    assert!(answer.body.contains("\"busy\""), "{answer:?}");
    assert_eq!(stage.call(1).await.status, 200, "another caller has places of its own");
}
