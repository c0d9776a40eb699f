//! What `token inspect`, `open` and `seal` say.

use handback_token::Handle;
use serde_json::{Value, json};

use crate::support::Sandbox;

const NOW: &str = "--at 1800000000";
const FLAGS: &str = "--purpose cursor --operation call --issuer i --subject s";

#[test]
fn a_sealed_token_shows_its_slot_and_salt_only() {
    let sandbox = Sandbox::with_ring();
    let token = sandbox.ok(&format!("token seal {FLAGS} {NOW} --payload-text secret"));
    let shown = Sandbox::new().json(&format!("token inspect {token}"));
    let fingerprint = shown["fingerprint"].clone();
    assert_eq!(
        shown,
        json!({
            "kind": "token", "fingerprint": fingerprint, "mode": "sealed", "slot": 0, "salt": "00",
            "body_bytes": 6, "expires_at": null, "body_hex": null, "body_text": null,
            "verified": false,
        })
    );
    assert!(!sandbox.ok(&format!("token inspect {token}")).contains("secret"));
}

#[test]
fn a_signed_token_shows_everything_and_none_of_it_is_verified() {
    let sandbox = Sandbox::new();
    sandbox.ok("keys generate --mode signed");
    let token = sandbox.ok(&format!("token seal {FLAGS} {NOW} --payload-text open"));
    let ran = Sandbox::new().run(&format!("token inspect {token}")).expect_code(0);
    assert!(ran.stdout.contains("expires      2027-01-15T08:15:00Z\n"), "{ran:?}");
    assert!(ran.stdout.contains("body text    \"open\"\n"), "{ran:?}");
    assert!(ran.stdout.contains("verified     no"), "{ran:?}");
    let escape = sandbox.ok(&format!("token seal {FLAGS} --payload-hex 1b5b324a"));
    let ran = sandbox.run(&format!("token inspect {escape}")).expect_code(0);
    assert!(ran.stdout.contains("1b5b324a") && !ran.stdout.contains('\u{1b}'), "{ran:?}");
    assert_eq!(sandbox.json(&format!("token inspect {escape}"))["body_text"], Value::Null);
}

#[test]
fn a_handle_is_told_from_a_mistyped_one() {
    let sandbox = Sandbox::new();
    let handle = Handle::from_bytes(*b"0123456789abcdef").to_string();
    let shown = sandbox.json(&format!("token inspect {handle}"));
    assert_eq!((&shown["kind"], &shown["checksum"]), (&"handle".into(), &"correct".into()));
    let last = if handle.ends_with('0') { "1" } else { "0" };
    let mistyped = format!("{}{last}", &handle[..29]);
    let ran = sandbox.run(&format!("token inspect {mistyped}")).expect_code(3);
    assert!(ran.stdout.starts_with("refused: mistyped\n"), "{ran:?}");
    assert!(ran.stdout.contains("Its sender is told: mistyped\n"), "{ran:?}");
    let malformed = format!("h{}", "z".repeat(29));
    let ran = sandbox.run(&format!("token inspect {malformed}")).expect_code(3);
    assert!(ran.stdout.starts_with("refused: malformed\n"), "{ran:?}");
}

#[test]
fn what_is_not_a_token_is_refused_with_its_reason() {
    let sandbox = Sandbox::with_ring();
    let good = sandbox.ok(&format!("token seal {FLAGS}"));
    let long = "A".repeat(16_385);
    let cases = [
        ("", "malformed"),
        ("EAAA", "malformed"),
        ("not/base64", "malformed"),
        (&format!("{good}="), "malformed"),
        (&good[..good.len() - 20], "malformed"),
        ("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "malformed"),
        ("é", "malformed"),
        (&long, "too_long"),
    ];
    for (text, reason) in cases {
        for words in [
            vec!["token", "inspect", text, "--output", "json"],
            vec!["token", "open", text, "--purpose", "cursor", "--output", "json"],
        ] {
            let answer = sandbox.run_words(&words).expect_code(3).json();
            assert_eq!(
                (&answer["reason"], &answer["outside"]),
                (&reason.into(), &"invalid".into())
            );
        }
    }
}

#[test]
fn a_token_is_read_from_stdin() {
    let sandbox = Sandbox::with_ring();
    let token = sandbox.ok(&format!("token seal {FLAGS}"));
    for end in ["", "\n", "\r\n"] {
        let stdin = format!("{token}{end}");
        sandbox.run_with_stdin("token inspect -", stdin.as_bytes()).expect_code(0);
        let line = format!("token open - {FLAGS}");
        sandbox.run_with_stdin(&line, stdin.as_bytes()).expect_code(0);
    }
    let stdin = format!(" {token}\n");
    sandbox.run_with_stdin("token inspect -", stdin.as_bytes()).expect_code(3);
    sandbox.run_with_stdin("token inspect -", b"\xff\xfe").expect_code(3);
}

#[test]
fn an_endless_stdin_is_refused_at_its_bound() {
    let sandbox = Sandbox::with_ring();
    let endless = vec![b'A'; 10_000_000];
    for line in ["token inspect -".to_owned(), format!("token open - {FLAGS}")] {
        let ran = sandbox.run_with_stdin(&line, &endless).expect_code(3);
        assert!(ran.stdout.starts_with("refused: too_long\n"), "{ran:?}");
        assert!(ran.all().len() < 1000);
    }
}

#[test]
fn what_is_inside_is_shown() {
    let sandbox = Sandbox::with_ring();
    let seal = |purpose: &str, payload: &str| {
        let words = ["token", "seal", "--purpose", purpose, "--payload-text", payload];
        sandbox
            .run_words(
                &[&words[..], &["--at", "2027-01-15T08:00:00Z", "--output", "json"]].concat(),
            )
            .expect_code(0)
            .json()
    };
    let open = |sealed: &Value, purpose: &str| {
        let token = sealed["token"].as_str().unwrap();
        sandbox.json(&format!("token open {token} --purpose {purpose} {NOW}"))
    };
    let sealed = seal("cursor", "after row 20");
    let opened = open(&sealed, "cursor");
    assert_eq!(opened["payload_text"], "after row 20");
    assert_eq!(opened["payload_hex"], "616674657220726f77203230");
    assert_eq!(opened["expires_at"], "2027-01-15T08:15:00Z");
    assert_eq!(opened["head"], Value::Null);
    for member in ["fingerprint", "expires_at", "slot", "ring", "audience", "purpose"] {
        assert_eq!(sealed[member], opened[member], "{member}");
    }
    let opened = open(&seal("state", "x"), "state");
    assert_eq!(opened["expires_at"], "2027-01-15T08:05:00Z");
    assert_eq!(opened["head"]["born_at"], "2027-01-15T08:00:00Z");
    assert_eq!(opened["head"]["generation"], Value::Null);
    let opened = open(&seal("resume", "\u{7}"), "resume");
    assert_eq!(opened["head"]["id"].as_str().unwrap().len(), 32);
    assert_eq!(opened["head"]["generation"], 0);
    assert_eq!((&opened["payload_hex"], &opened["payload_text"]), (&"07".into(), &Value::Null));
}

#[test]
fn time_decides() {
    let sandbox = Sandbox::with_ring();
    for (purpose, ttl_s, max_life_s) in
        [("cursor", 900, 86_400), ("state", 300, 3600), ("resume", 900, 7200)]
    {
        let token = sandbox.ok(&format!("token seal --purpose {purpose} {NOW}"));
        let check = |offset: i64, expected: &str| {
            let flags = format!("--purpose {purpose} --at {}", 1_800_000_000 + offset);
            assert_eq!(sandbox.reason(&token, &flags), expected, "{purpose} {offset}");
        };
        check(0, "opened");
        check(ttl_s + 59, "opened");
        check(ttl_s + 60, "expired");
        check(-60, "opened");
        let earliest = if purpose == "cursor" { ttl_s - max_life_s - 60 } else { -60 };
        check(earliest, "opened");
        check(earliest - 1, "too_far");
    }
}

#[test]
fn what_does_not_fit_is_not_sealed() {
    let sandbox = Sandbox::with_ring();
    let check = |line: &str, code: i32, says: &str| {
        let ran = sandbox.run(line).expect_code(code);
        assert!(ran.stderr.contains(says) && ran.stdout.is_empty(), "{ran:?}");
    };
    let large = "00".repeat(400);
    let seal = "token seal --purpose cursor";
    check(&format!("{seal} --payload-hex {large}"), 1, "a payload of 400 bytes does not fit");
    check(&format!("{seal} --at 4294967296"), 1, "the clock is outside");
    check(&format!("{seal} --name {}", "n".repeat(65_537)), 1, "context field 4");
    check(&format!("{seal} --payload-hex 0"), 2, "two hexadecimal digits");
    check(&format!("{seal} --payload-hex 00 --payload-text x"), 2, "cannot be used with");
    check(&format!("{seal} --at yesterday"), 2, "neither RFC 3339");
    check(&format!("{seal} --operation dance"), 2, "invalid value");
    check("token seal", 2, "--purpose");
    check("token seal --purpose wrap-data", 2, "invalid value");
}
