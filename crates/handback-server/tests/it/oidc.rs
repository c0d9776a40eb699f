//! Callers with access tokens of a real issuer.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::clock::now;
use crate::issuer::{Issuer, Mood};
use crate::support::{Answer, Running, config};

const CREATE: &str = "PUT /v1/stream/mine";

async fn started(issuer: &Issuer, min_interval_s: u64) -> Running {
    Running::start(config().identity(issuer.mode(min_interval_s))).await
}

/// Asks until something else than 503 is answered.
async fn once_available(server: &Running, token: &str) -> Answer {
    let start = Instant::now();
    loop {
        let answer = server.ask(CREATE, Some(token), "").await;
        if answer.status != 503 || start.elapsed() > Duration::from_secs(15) {
            return answer;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_good_token_is_let_in_and_all_others_read_the_same_refusal() {
    let issuer = Issuer::start().await;
    let server = started(&issuer, 1).await;
    assert_eq!(server.ask(CREATE, Some(&issuer.token("alice")), "").await.status, 201);

    let missing = server.ask(CREATE, None, "").await;
    assert_eq!(missing.status, 401);
    let leads =
        "resource_metadata=\"https://tools.example/.well-known/oauth-protected-resource/mcp\"";
    assert_eq!(missing.headers["www-authenticate"], format!("Bearer realm=\"handback\", {leads}"));

    let claims_with = |name: &str, value: Value| {
        let mut claims = issuer.claims("alice");
        claims[name] = value;
        issuer.sign(&claims, None)
    };
    let good = issuer.token("alice");
    let (head, _) = good.rsplit_once('.').unwrap();
    let mut bad = vec![
        ("another audience", claims_with("aud", json!("https://other.example"))),
        ("another issuer", claims_with("iss", json!("https://id.example"))),
        ("expired", claims_with("exp", json!(now() - 120))),
        ("not yet", claims_with("nbf", json!(now() + 120))),
        ("no subject", claims_with("sub", json!(""))),
        ("an unknown key", issuer.sign(&issuer.claims("alice"), Some("other"))),
        ("no signature", format!("{head}.")),
        ("not a token", "abc".to_owned()),
        ("of a roster", "hbt_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA".to_owned()),
    ];
    let mut forged = good.clone();
    let last = forged.pop().unwrap();
    forged.insert(forged.len() - 4, if last == 'A' { 'B' } else { 'A' });
    bad.push(("a bad signature", forged));
    for (what, token) in bad {
        let answer = server.ask(CREATE, Some(&token), "").await;
        assert_eq!((answer.status, &answer.body), (401, &missing.body), "{what}");
        let challenge = &answer.headers["www-authenticate"];
        assert_eq!(
            challenge,
            &format!("Bearer realm=\"handback\", error=\"invalid_token\", {leads}"),
            "{what}"
        );
    }
    // Neither another scheme nor a second credential makes an anonymous caller.
    let bearer = format!("Bearer {good}");
    for headers in [
        vec![("authorization", "Basic YTpi")],
        vec![("authorization", bearer.as_str()), ("authorization", bearer.as_str())],
    ] {
        let answer = server.ask_with(CREATE, &headers, "").await;
        assert_eq!((answer.status, &answer.body), (401, &missing.body));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_metadata_of_the_resource_is_public() {
    let issuer = Issuer::start().await;
    let server = started(&issuer, 1).await;
    for path in ["", "/mcp"] {
        let line = format!("GET /.well-known/oauth-protected-resource{path}");
        let answer = server.ask(&line, None, "").await;
        assert_eq!(answer.status, 200);
        let metadata: Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!(metadata["resource"], "https://tools.example/mcp");
        assert_eq!(metadata["authorization_servers"], json!([issuer.url]));
        assert_eq!(metadata["scopes_supported"], json!(["read"]));
    }
    let other = server.ask("GET /.well-known/oauth-protected-resource/x", None, "").await;
    assert_eq!(other.status, 404);
    assert_eq!(server.ask("GET /healthz", None, "").await.status, 200);
    assert_eq!(server.ask("GET /v1/stream/__ds/jwks.json", None, "").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_live_in_their_callers_namespace() {
    let issuer = Issuer::start().await;
    let server = started(&issuer, 1).await;
    let (alice, bob) = (issuer.token("alice"), issuer.token("bob"));
    assert_eq!(server.ask(CREATE, Some(&alice), "").await.status, 201);
    assert_eq!(server.ask("POST /v1/stream/mine", Some(&alice), "secret").await.status, 204);
    for line in ["GET /v1/stream/mine", "POST /v1/stream/mine", "DELETE /v1/stream/mine"] {
        let theirs = server.ask(line, Some(&bob), "x").await;
        let nowhere = server.ask(&line.replace("mine", "none"), Some(&bob), "x").await;
        assert_eq!((theirs.status, &theirs.body), (404, &nowhere.body), "{line}");
    }
    // The same name is another stream for somebody else.
    assert_eq!(server.ask(CREATE, Some(&bob), "").await.status, 201);
    let read = server.ask("GET /v1/stream/mine", Some(&alice), "").await;
    assert!(read.body.contains("secret"), "{read:?}");
    // A refreshed token is the same person.
    let read = server.ask("GET /v1/stream/mine", Some(&issuer.token("alice")), "").await;
    assert!(read.body.contains("secret"), "{read:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rotated_keys_are_found_and_invented_ones_are_not_asked_for_often() {
    let issuer = Issuer::start().await;
    let server = started(&issuer, 2).await;
    let old = issuer.token("alice");
    assert_eq!(once_available(&server, &old).await.status, 201);
    issuer.rotate("second");
    tokio::time::sleep(Duration::from_millis(2_100)).await;
    let new = issuer.token("alice");
    assert_eq!(server.ask("GET /v1/stream/mine", Some(&new), "").await.status, 200);
    assert_eq!(server.ask("GET /v1/stream/mine", Some(&old), "").await.status, 401);
    let before = issuer.fetches();
    let start = Instant::now();
    for n in 0..200 {
        let invented = issuer.sign(&issuer.claims("alice"), Some(&format!("invented{n}")));
        assert_eq!(server.ask(CREATE, Some(&invented), "").await.status, 401);
    }
    let most = usize::try_from(start.elapsed().as_secs() / 2 + 1).unwrap();
    assert!(issuer.fetches() - before <= most, "{}", issuer.fetches() - before);
    assert_eq!(server.ask("GET /v1/stream/mine", Some(&new), "").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_issuer_that_is_down_locks_nobody_out_whose_key_is_known() {
    let mut issuer = Issuer::start().await;
    let server = started(&issuer, 1).await;
    let token = issuer.token("alice");
    assert_eq!(once_available(&server, &token).await.status, 201);
    issuer.go_down().await;
    assert_eq!(server.ask("GET /v1/stream/mine", Some(&token), "").await.status, 200);
    issuer.rotate("second");
    let unknown = issuer.token("alice");
    assert_eq!(server.ask("GET /v1/stream/mine", Some(&unknown), "").await.status, 401);
    issuer.come_back().await;
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    assert_eq!(server.ask("GET /v1/stream/mine", Some(&unknown), "").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_keys_nobody_is_identified_and_nobody_is_anonymous() {
    let mut issuer = Issuer::start().await;
    issuer.go_down().await;
    let server = started(&issuer, 1).await;
    let token = issuer.token("alice");
    let answer = server.ask(CREATE, Some(&token), "").await;
    assert_eq!((answer.status, answer.headers["retry-after"].as_str()), (503, "5"));
    assert_eq!(server.ask(CREATE, None, "").await.status, 401);
    issuer.come_back().await;
    assert_eq!(once_available(&server, &token).await.status, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_issuer_should_not_say_is_not_believed() {
    for mood in [
        Mood::Garbage,
        Mood::Huge,
        Mood::Redirecting,
        Mood::OtherIssuer,
        Mood::NoKeys,
        Mood::Symmetric,
    ] {
        let issuer = Issuer::start().await;
        issuer.is_now(mood);
        let server = started(&issuer, 1).await;
        let token = issuer.token("alice");
        assert_eq!(server.ask(CREATE, Some(&token), "").await.status, 503, "{mood:?}");
        issuer.is_now(Mood::Well);
        assert_eq!(once_available(&server, &token).await.status, 201, "{mood:?}");
        // Nor does it take the place of what was believed.
        issuer.is_now(mood);
        tokio::time::sleep(Duration::from_millis(1_100)).await;
        let unknown = issuer.sign(&issuer.claims("alice"), Some("other"));
        assert_eq!(server.ask(CREATE, Some(&unknown), "").await.status, 401, "{mood:?}");
        assert_eq!(server.ask(CREATE, Some(&token), "").await.status, 200, "{mood:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_issuer_that_does_not_answer_is_not_waited_for() {
    let issuer = Issuer::start().await;
    issuer.is_now(Mood::Slow);
    let server = started(&issuer, 1).await;
    let start = Instant::now();
    assert_eq!(server.ask(CREATE, Some(&issuer.token("alice")), "").await.status, 503);
    assert!(start.elapsed() < Duration::from_secs(12), "{:?}", start.elapsed());
    // Whoever has nothing to be checked does not wait.
    let start = Instant::now();
    assert_eq!(server.ask(CREATE, None, "").await.status, 401);
    assert!(start.elapsed() < Duration::from_secs(1));
}
