//! Callers with bearer tokens from a file.

use std::fs;
use std::time::Duration;

use handback_identity::roster::{Entry, FIRST_LINE, NewToken};
use handback_server::IdentityMode;

use crate::support::{Running, config};

const CREATE: &str = "PUT /v1/stream/mine";

fn token(name: &str) -> (NewToken, String) {
    let token = NewToken::generate(&mut rand::rng());
    let entry = Entry::new(&token, name, &["read"], None).unwrap();
    (token, format!("{entry}\n"))
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_of_the_file_are_let_in_until_they_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("identities");
    let (alice, alice_line) = token("alice");
    let (bob, bob_line) = token("bob");
    fs::write(&file, format!("{FIRST_LINE}\n{alice_line}")).unwrap();
    let mode = IdentityMode::Static { file: file.clone() };
    let server = Running::start(config().identity(mode)).await;
    let (alice, bob) = (alice.dangerous_text(), bob.dangerous_text());

    assert_eq!(server.ask(CREATE, Some(alice), "").await.status, 201);
    let missing = server.ask(CREATE, None, "").await;
    let unknown = server.ask(CREATE, Some(bob), "").await;
    assert_eq!((missing.status, unknown.status), (401, 401));
    assert_eq!(missing.body, unknown.body);
    assert_eq!(missing.headers["www-authenticate"], "Bearer realm=\"handback\"");

    // It is noticed when the file changes.
    fs::write(&file, format!("{FIRST_LINE}\n{alice_line}{bob_line}")).unwrap();
    let mut status = 0;
    for _ in 0..60 {
        status = server.ask("GET /v1/stream/mine", Some(bob), "").await.status;
        if status != 401 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(status, 404, "bob is known, and has no stream of that name");

    // Half a file changes nothing.
    fs::write(&file, format!("{FIRST_LINE}\nsha256:")).unwrap();
    server.reload.now();
    assert_eq!(server.ask("GET /v1/stream/mine", Some(alice), "").await.status, 200);

    // And at once when that is wanted.
    fs::write(&file, format!("{FIRST_LINE}\n{bob_line}")).unwrap();
    server.reload.now();
    assert_eq!(server.ask("GET /v1/stream/mine", Some(alice), "").await.status, 401);
    assert_eq!(server.ask(CREATE, Some(bob), "").await.status, 201);

    // Another token of the same subject finds what the first one made.
    let (second, line) = token("alice");
    fs::write(&file, format!("{FIRST_LINE}\n{line}")).unwrap();
    server.reload.now();
    let read = server.ask("GET /v1/stream/mine", Some(second.dangerous_text()), "").await;
    assert_eq!(read.status, 200);
}

#[tokio::test]
async fn a_file_that_is_no_good_keeps_a_server_from_starting() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("identities");
    let mode = || IdentityMode::Static { file: file.clone() };
    assert!(Running::try_start(config().identity(mode())).await.is_err());
    fs::write(&file, "alice:password\n").unwrap();
    let error = Running::try_start(config().identity(mode())).await.err().unwrap();
    assert!(!format!("{error:?}").contains("password"));
}

/// The token of a wake and the credential of the worker do not want the same header.
#[tokio::test(flavor = "multi_thread")]
async fn workers_show_the_token_of_a_wake_beside_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("identities");
    let (alice, line) = token("alice");
    fs::write(&file, format!("{FIRST_LINE}\n{line}")).unwrap();
    let server = Running::start(config().identity(IdentityMode::Static { file })).await;
    let bearer = format!("Bearer {}", alice.dangerous_text());
    let ask = async |line: &str, wake: Option<&str>, body: &str| {
        let mut headers = vec![("authorization", bearer.as_str())];
        headers.extend(wake.map(|wake| ("stream-wake-token", wake)));
        let kind = if body.starts_with('{') { "application/json" } else { "text/plain" };
        headers.push(("content-type", kind));
        server.ask_with(line, &headers, body).await
    };
    assert_eq!(ask("PUT /v1/stream/jobs", None, "").await.status, 201);
    assert_eq!(ask("PUT /v1/stream/wakes", None, "").await.status, 201);
    let subscription = "/v1/stream/__ds/subscriptions/s";
    let wanted = r#"{"type":"pull-wake","streams":["jobs"],"wake_stream":"wakes"}"#;
    assert_eq!(ask(&format!("PUT {subscription}"), None, wanted).await.status, 201);
    assert_eq!(ask("POST /v1/stream/jobs", None, "work").await.status, 204);
    let claimed = ask(&format!("POST {subscription}/claim"), None, r#"{"worker":"w"}"#).await;
    assert_eq!(claimed.status, 200, "{claimed:?}");
    let claimed: serde_json::Value = serde_json::from_str(&claimed.body).unwrap();
    let released = serde_json::json!({
        "wake_id": claimed["wake_id"], "generation": claimed["generation"],
    })
    .to_string();
    let release = format!("POST {subscription}/release");
    assert_eq!(ask(&release, None, &released).await.status, 401);
    assert_eq!(ask(&release, Some("wrong"), &released).await.status, 401);
    let answer = ask(&release, claimed["token"].as_str(), &released).await;
    assert!(matches!(answer.status, 200 | 204), "{answer:?}");
}
