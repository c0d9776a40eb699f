use serde_json::{Value, json};

use crate::bench::{Bench, alice, bob, items};

#[tokio::test]
async fn every_exit_has_two_lines_and_none_has_a_secret() {
    let bench = Bench::new();
    let args = json!({"from": 987_654, "below": 987_999});
    let (_, next) = items(bench.call(alice(), "numbers", args.clone()).await.unwrap());
    let cursor = next.unwrap();
    bench.page(bob(), "numbers", args.clone(), &cursor).await.unwrap_err();
    bench.page(alice(), "numbers", args, &cursor).await.unwrap();
    bench.call(alice(), "nothing", json!({})).await.unwrap_err();
    let key = "my-secret-key";
    let request = handback_tool::Request::call(
        alice(),
        handback_tool::Surface::Http,
        "act",
        json!({"how": "fail"}),
    );
    bench.pipeline.call(request.key(key)).await.unwrap();
    let lines = bench.lines();
    let all = serde_json::to_string(&lines).unwrap();
    for secret in [cursor.as_str(), "987654", "987999", key] {
        assert!(!all.contains(secret), "{secret}");
    }
    let of = |event: &str| -> Vec<&Value> {
        lines.iter().filter(|line| line["event"] == event).collect()
    };
    let (starts, ends) = (of("start"), of("end"));
    assert_eq!((starts.len(), ends.len()), (5, 5));
    for (start, end) in starts.iter().zip(&ends) {
        assert_eq!(start["call"], end["call"]);
        assert!(end["duration_us"].is_u64());
    }
    let decisions: Vec<_> = ends.iter().map(|line| (&line["decision"], &line["reason"])).collect();
    assert_eq!(decisions[1], (&json!("refused"), &json!("not_opened")));
    assert_eq!(decisions[3], (&json!("refused"), &json!("not_found")));
    assert_eq!(decisions[4], (&json!("failed"), &Value::Null));
    // An operator joins who got a cursor with who presented it.
    assert_eq!(ends[0]["minted"], ends[1]["presented"]);
    assert_eq!(ends[0]["minted"], ends[2]["presented"]);
    assert_eq!((&ends[1]["subject"], &ends[2]["subject"]), (&json!("2"), &json!("1")));
}

#[tokio::test]
async fn a_call_that_is_dropped_has_its_second_line() {
    let bench = Bench::new();
    tokio::select! {
        _ = bench.call(alice(), "act", json!({"how": "hang"})) => panic!("it hangs"),
        () = bench.effects.entered() => {}
    }
    let lines = bench.lines();
    assert_eq!(lines.len(), 2);
    assert_eq!(
        (&lines[1]["decision"], &lines[1]["reason"]),
        (&json!("cancelled"), &json!("dropped"))
    );
}
