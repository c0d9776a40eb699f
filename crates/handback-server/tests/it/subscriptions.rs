//! Subscriptions of streams: bounds, quotas, restarts, and the rules of the published suite.

use bytes::Bytes;
use handback_server::{Limits, ServerConfig};
use handback_store::{Change, KvBatch};
use handback_tool::Share;
use serde_json::{Value, json};

use crate::support::{Answer, Running, config, identified};

const JSON: (&str, &str) = ("content-type", "application/json");

fn subscription(id: &str) -> String {
    format!("/v1/stream/__ds/subscriptions/{id}")
}

fn pull(pattern: &str) -> Value {
    json!({"type": "pull-wake", "pattern": pattern, "wake_stream": "wakes"})
}

async fn put(server: &Running, id: &str, body: &Value, token: Option<&str>) -> Answer {
    let bearer = token.map(|token| format!("Bearer {token}"));
    let mut headers = vec![JSON];
    headers.extend(bearer.iter().map(|text| ("authorization", text.as_str())));
    let line = format!("PUT {}", subscription(id));
    server.ask_with(&line, &headers, &body.to_string()).await
}

async fn paths(server: &Running, id: &str) -> Vec<String> {
    let answer = server.ask(&format!("GET {}", subscription(id)), None, "").await;
    let body: Value = serde_json::from_str(&answer.body).unwrap();
    let streams = body["streams"].as_array().unwrap().iter();
    streams.map(|link| link["path"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn wound_a2_patterns_paths_and_descriptions_of_megabytes_are_refused() {
    let server = Running::start(config()).await;
    let stars = vec!["**"; 1_000_000].join("/");
    let long = "x".repeat(1025);
    let check = async |change: Value, message: &str| {
        let mut body = pull("jobs/*");
        body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let answer = put(&server, "s", &body, None).await;
        assert_eq!(answer.status, 400, "{message}");
        let body: Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!(body["error"]["message"], message);
    };
    check(json!({"pattern": stars}), "pattern has more than 1024 bytes").await;
    check(json!({"pattern": "a//b"}), "pattern has a segment that no path has").await;
    check(json!({"description": long}), "description has more than 1024 bytes").await;
    check(json!({"wake_stream": long}), "wake_stream is not the path of a stream").await;
    let bad_path = "streams has a text that is not the path of a stream";
    check(json!({"streams": [long]}), bad_path).await;
    let streams: Vec<_> = (0..10_001).map(|n| n.to_string()).collect();
    let too_many = "a subscription follows 10000 streams at most";
    check(json!({"streams": streams}), too_many).await;
    let same = vec!["a"; 10_001];
    check(json!({"streams": same}), too_many).await;

    assert_eq!(put(&server, "s", &pull("a/**/**/b"), None).await.status, 201);
    assert_eq!(put(&server, "s", &pull("a/**/b"), None).await.status, 200, "one form");
    let add = format!("POST {}/streams", subscription("s"));
    for streams in [vec![long.as_str()], same] {
        let body = json!({"streams": streams}).to_string();
        assert_eq!(server.ask_with(&add, &[JSON], &body).await.status, 400);
    }
    let take = format!("DELETE {}/streams/{long}", subscription("s"));
    assert_eq!(server.ask(&take, None, "").await.status, 400);
}

/// An older version took such a pattern, and matched it with every stream at every start.
#[tokio::test(flavor = "multi_thread")]
async fn wound_a2_a_stored_pattern_of_megabytes_is_not_used_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let ring = handback_token::KeyRing::generate(
        &mut rand::rng(),
        handback_token::Mode::Sealed,
        handback_token::UnixTime::from_secs(1),
    );
    let config = || {
        ServerConfig::new(ring.clone(), folder.path().join("data"))
            .listen("127.0.0.1:0".parse().unwrap())
    };
    let server = Running::start(config()).await;
    assert_eq!(server.ask("PUT /v1/stream/jobs/1", None, "x").await.status, 201);
    assert_eq!(put(&server, "good", &pull("jobs/*"), None).await.status, 201);
    let (key, row) = server.store.scan(b"sub/", None, 1, 1).unwrap().remove(0);
    let mut row: Value = serde_json::from_slice(&row).unwrap();
    row["id"] = json!("bad");
    row["config"]["pattern"] = json!(vec!["**"; 1_000_000].join("/") + "/z");
    let bad_key = Bytes::from([&key[..key.len() - 4], b"0000"].concat());
    let change = Change::Put { value: row.to_string().into(), until: None };
    let batch = KvBatch { conditions: Vec::new(), changes: vec![(bad_key, change)] };
    server.store.write(&batch, 1).unwrap();
    server.stop().await;

    let server = Running::start(config()).await;
    assert_eq!(server.ask("GET /healthz", None, "").await.status, 200);
    let bad = server.ask(&format!("GET {}", subscription("bad")), None, "").await;
    assert_eq!(bad.status, 404, "{bad:?}");
    assert_eq!(server.ask("PUT /v1/stream/jobs/2", None, "x").await.status, 201);
    let claim = format!("POST {}/claim", subscription("good"));
    let claimed = server.ask_with(&claim, &[JSON], r#"{"worker":"w"}"#).await;
    assert_eq!(claimed.status, 200, "{claimed:?}");
    assert_eq!(paths(&server, "good").await, ["jobs/1", "jobs/2"]);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wound_a2_one_caller_at_its_share_leaves_subscriptions_to_others() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits { subscriptions: 8, caller_share: Share::one_in(4), ..Limits::default() };
    let (config, tokens) = identified(config().limits(limits), folder.path(), &["ada", "bob"]);
    let server = Running::start(config).await;
    let (ada, bob) = (Some(tokens[0].as_str()), Some(tokens[1].as_str()));
    let mut statuses = Vec::new();
    for n in 0..20 {
        statuses.push(put(&server, &n.to_string(), &pull("**"), ada).await.status);
    }
    assert_eq!(statuses[..2], [201, 201]);
    assert!(statuses[2..].iter().all(|status| *status == 507), "{statuses:?}");
    let refused = put(&server, "more", &pull("**"), ada).await;
    let refused: Value = serde_json::from_str(&refused.body).unwrap();
    assert_eq!(refused["error"]["code"], "CALLER_SHARE");
    for n in 0..2 {
        assert_eq!(put(&server, &n.to_string(), &pull("**"), bob).await.status, 201);
    }
    let delete = format!("DELETE {}", subscription("0"));
    assert_eq!(server.ask(&delete, ada, "").await.status, 204);
    assert_eq!(put(&server, "again", &pull("**"), ada).await.status, 201);
    assert_eq!(put(&server, "more", &pull("**"), ada).await.status, 507);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_identities_the_one_caller_has_all_subscriptions() {
    let limits = Limits { subscriptions: 3, ..Limits::default() };
    let server = Running::start(config().limits(limits)).await;
    let mut statuses = Vec::new();
    for n in 0..4 {
        statuses.push(put(&server, &n.to_string(), &pull("**"), None).await.status);
    }
    assert_eq!(statuses, [201, 201, 201, 507]);
    let metrics = server.ask("GET /metrics", None, "").await.body;
    assert!(metrics.contains("\nhandback_subscriptions 3\n"), "{metrics}");
    let refused = "\nhandback_refusals_total{reason=\"caller_share\"} 1\n";
    assert!(metrics.contains(refused), "{metrics}");
    // Each has at least its fixed cost.
    let bytes = metrics.lines().find_map(|line| line.strip_prefix("handback_subscription_bytes "));
    assert!(bytes.unwrap().parse::<u64>().unwrap() > 3 * 4096, "{bytes:?}");
}

/// The published suite has the same steps.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_is_woken_claims_acks_and_releases() {
    let server = Running::start(config()).await;
    let ask = async |line: &str, body: &str| {
        let answer = server.ask_with(line, &[JSON], body).await;
        let body: Value = serde_json::from_str(&answer.body).unwrap_or_default();
        (answer.status, body)
    };
    // The stream of wakes comes after the first wake: that one is not lost.
    assert_eq!(put(&server, "s", &pull("events/*"), None).await.status, 201);
    assert_eq!(ask("PUT /v1/stream/events/1", r#"{"event":"created"}"#).await.0, 201);
    assert_eq!(ask("PUT /v1/stream/wakes", "[]").await.0, 201);
    let read = "GET /v1/stream/wakes?offset=-1&live=long-poll";
    let (_, wakes) = ask(read, "").await;
    assert_eq!((&wakes[0]["type"], &wakes[0]["stream"]), (&json!("wake"), &json!("events/1")));
    let url = subscription("s");
    let (status, claimed) = ask(&format!("POST {url}/claim"), r#"{"worker":"w1"}"#).await;
    assert_eq!(status, 200, "{claimed}");
    let (status, busy) = ask(&format!("POST {url}/claim"), r#"{"worker":"w2"}"#).await;
    assert_eq!((status, &busy["error"]["current_holder"]), (409, &json!("w1")));
    let streams = claimed["streams"].as_array().unwrap();
    let ack = |claimed: &Value, acks: Value| {
        json!({
            "wake_id": claimed["wake_id"], "generation": claimed["generation"],
            "acks": acks, "done": true,
        })
        .to_string()
    };
    let bearer = |claimed: &Value| format!("Bearer {}", claimed["token"].as_str().unwrap());
    let offset = &streams[0]["tail_offset"];
    let body = ack(&claimed, json!([{"stream": "events/1", "offset": offset}]));
    let token = bearer(&claimed);
    let headers = [JSON, ("authorization", token.as_str())];
    let answer = server.ask_with(&format!("POST {url}/ack"), &headers, &body).await;
    assert_eq!((answer.status, answer.body.as_str()), (200, r#"{"next_wake":false,"ok":true}"#));
    let answer = server.ask_with(&format!("POST {url}/ack"), &headers, &body).await;
    assert_eq!(answer.status, 409, "fenced");

    // A claim sees a stream that was created just before.
    assert_eq!(ask("PUT /v1/stream/events/2", r#"{"event":"created"}"#).await.0, 201);
    let (status, claimed) = ask(&format!("POST {url}/claim"), r#"{"worker":"w1"}"#).await;
    assert_eq!(status, 200, "{claimed}");
    let token = bearer(&claimed);
    let headers = [JSON, ("authorization", token.as_str())];
    let body = ack(&claimed, json!([]));
    let answer = server.ask_with(&format!("POST {url}/release"), &headers, &body).await;
    assert_eq!(answer.status, 204, "{answer:?}");
    let (status, claimed) = ask(&format!("POST {url}/claim"), r#"{"worker":"w2"}"#).await;
    assert_eq!(status, 200, "what was released is to be done: {claimed}");

    // Streams by name, which need not be there.
    let add = json!({"streams": ["manual/a", "/manual/b"]}).to_string();
    assert_eq!(ask(&format!("POST {url}/streams"), &add).await.0, 204);
    assert_eq!(ask(&format!("DELETE {url}/streams/manual%2Fb"), "").await.0, 204);
    assert_eq!(ask(&format!("DELETE {url}/streams/events%2F1"), "").await.0, 204);
    assert_eq!(paths(&server, "s").await, ["events/1", "events/2", "manual/a"]);
    assert_eq!(ask(&format!("DELETE {url}"), "").await.0, 204);
    assert_eq!(ask(&format!("GET {url}"), "").await.0, 404);
}
