//! The audit of refused calls: its rate, the length of its lines, and its files.

use handback_server::Limits;

use super::stage::{ADA, BOB, PATIENCE, Stage, quarters};

/// Refused calls of a caller that asks for tools that are not there.
const REFUSED: usize = 200;

#[tokio::test(flavor = "multi_thread")]
async fn wound_a7_refused_calls_of_one_caller_fill_no_audit_and_bury_nobody() {
    // Two a second for one caller, and twenty at once.
    let stage = Stage::new(Limits { audit_refusals: 8, ..quarters() }).await;
    let mut refused = 0;
    for _ in 0..REFUSED {
        assert_eq!(stage.call(ADA, "none").await.status, 404);
        refused += 1;
    }
    let written = stage.audit().iter().filter(|line| line["event"] == "end").count();
    assert!((20..REFUSED / 2).contains(&written), "{written} of {REFUSED}");
    // Calls that are made have their lines, and so has another caller that is refused.
    assert_eq!(stage.call(ADA, "echo").await.status, 200);
    assert_eq!(stage.call(BOB, "none").await.status, 404);
    let lines = stage.audit();
    let of = |subject: &str, name: &str, event: &str| {
        let is_it = |line: &&serde_json::Value| {
            line["subject"] == subject && line["name"] == name && line["event"] == event
        };
        lines.iter().filter(is_it).count()
    };
    for (subject, name) in [("ada", "echo"), ("bob", "none")] {
        assert_eq!((of(subject, name, "start"), of(subject, name, "end")), (1, 1));
    }
    // None is lost: what has no lines is counted.
    let counted = tokio::time::timeout(PATIENCE, async {
        loop {
            let lines = stage.audit();
            let left_out: u64 = lines.iter().filter_map(|line| line["left_out"].as_u64()).sum();
            let is_end = |line: &&serde_json::Value| {
                line["event"] == "end" && line["subject"] == "ada" && line["decision"] == "refused"
            };
            let written = lines.iter().filter(is_end).count();
            let left_out = usize::try_from(left_out).unwrap();
            if left_out + written == refused {
                return left_out;
            }
            // With the next token, the count of those before is written.
            assert_eq!(stage.call(ADA, "none").await.status, 404);
            refused += 1;
        }
    });
    assert!(counted.await.unwrap() >= 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn wound_a7_lines_and_files_of_the_audit_are_bounded() {
    let limits = Limits { audit_file_bytes: 16 << 10, audit_files: 2, ..quarters() };
    let stage = Stage::new(limits).await;
    let name = "\u{1}é".repeat(1_500);
    let message = serde_json::json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": name, "arguments": {}},
    });
    let session = stage.begin(ADA).await.headers["mcp-session-id"].clone();
    for _ in 0..100 {
        assert_eq!(stage.mcp(ADA, Some(&session), &message).await.status, 200);
    }
    let lines = stage.audit();
    let longest = lines.iter().map(|line| line.to_string().len()).max().unwrap();
    assert!(longest < 2_000, "{longest}");
    let mut files = Vec::new();
    for entry in std::fs::read_dir(stage.folder.path()).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if name.starts_with("audit") {
            assert!(entry.metadata().unwrap().len() <= 16 << 10, "{name}");
            files.push(name);
        }
    }
    files.sort();
    assert_eq!(files, ["audit.jsonl", "audit.jsonl.1", "audit.jsonl.2"]);
}
