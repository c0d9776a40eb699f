//! A token opens for the call that it was made for, and for no other.

use crate::support::Sandbox;

const FIELDS: [(&str, &str); 9] = [
    ("--audience", "orders"),
    ("--operation", "call"),
    ("--name", "orders.search"),
    ("--issuer", "https://id.example"),
    ("--subject", "alice"),
    ("--tenant", "north"),
    ("--upstream", "warehouse"),
    ("--client", "desk"),
    ("--args-fingerprint", "0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f"),
];

fn flags(purpose: &str, change: impl Fn(&str, &'static str) -> Option<String>) -> String {
    FIELDS.iter().fold(format!("--purpose {purpose}"), |line, &(flag, value)| {
        match change(flag, value) {
            Some(value) => format!("{line} {flag}={value}"),
            None => line,
        }
    })
}

fn same(_flag: &str, value: &'static str) -> Option<String> {
    Some(value.to_owned())
}

#[test]
fn every_field_is_bound() {
    let sandbox = Sandbox::with_ring();
    for purpose in ["cursor", "state", "resume"] {
        let token = sandbox.ok(&format!("token seal {}", flags(purpose, same)));
        let check = |flags: &str, expected: &str| {
            assert_eq!(sandbox.reason(&token, flags), expected, "{flags}");
        };
        check(&flags(purpose, same), "opened");
        for (changed, value) in FIELDS {
            let other = match changed {
                "--operation" => "query".to_owned(),
                "--args-fingerprint" => value.replace('f', "e"),
                _ => format!("{value}x"),
            };
            let differs =
                |flag: &str, value: &str| Some(if flag == changed { &other } else { value }.into());
            check(&flags(purpose, differs), "not_opened");
            if !matches!(changed, "--issuer" | "--subject") {
                let absent =
                    |flag: &str, value: &'static str| (flag != changed).then(|| value.to_owned());
                check(&flags(purpose, absent), "not_opened");
            }
            if !matches!(changed, "--operation" | "--args-fingerprint" | "--audience") {
                let empty =
                    |flag: &str, value: &str| Some(if flag == changed { "" } else { value }.into());
                check(&flags(purpose, empty), "not_opened");
            }
        }
        let unauthenticated = |flag: &str, value: &'static str| {
            (!matches!(flag, "--issuer" | "--subject")).then(|| value.to_owned())
        };
        check(&flags(purpose, unauthenticated), "not_opened");
        for other in ["cursor", "state", "resume"] {
            let expected = if other == purpose { "opened" } else { "not_opened" };
            check(&flags(other, same), expected);
        }
    }
}

#[test]
fn a_bare_context_is_one_of_its_own() {
    let sandbox = Sandbox::with_ring();
    let token = sandbox.ok("token seal --purpose state --issuer i --subject s");
    assert_eq!(sandbox.reason(&token, "--purpose state --issuer i --subject s"), "opened");
    assert_eq!(sandbox.reason(&token, "--purpose state"), "not_opened");
    let called = "--purpose state --issuer i --subject s --operation call";
    assert_eq!(sandbox.reason(&token, called), "not_opened");
}

#[test]
fn an_identity_is_whole_or_absent() {
    let sandbox = Sandbox::with_ring();
    sandbox.run("token seal --purpose cursor --operation call --issuer i").expect_code(2);
    sandbox.run("token seal --purpose cursor --operation call --subject s").expect_code(2);
}

#[test]
fn the_default_audience_is_the_ring() {
    let sandbox = Sandbox::with_ring();
    let ring = sandbox.json("keys list")["ring"].as_str().unwrap().to_owned();
    let flags = "--purpose cursor --operation call";
    let token = sandbox.ok(&format!("token seal {flags}"));
    assert_eq!(sandbox.reason(&token, &format!("{flags} --audience={ring}")), "opened");
    let ran = sandbox.run(&format!("token seal {flags} --audience=")).expect_code(1);
    assert!(ran.stderr.contains("an audience has 1 to 65536 bytes, not 0"), "{ran:?}");
}

/// Whether a token made with the one arguments opens with the other ones.
#[track_caller]
fn check_arguments(one: &str, other: &str, how: &str, expected: &str) {
    let sandbox = Sandbox::with_ring();
    let flags = "--purpose cursor --operation call --name t";
    sandbox.write("one.json", one);
    sandbox.write("other.json", other);
    let token = sandbox.ok(&format!("token seal {flags} --args one.json {how}"));
    assert_eq!(sandbox.reason(&token, &format!("{flags} --args one.json {how}")), "opened");
    let other_flags = format!("{flags} --args other.json {how}");
    assert_eq!(sandbox.reason(&token, &other_flags), expected, "{one} {other}");
    assert_eq!(sandbox.reason(&token, flags), "not_opened");
}

#[test]
fn arguments_are_bound_by_their_value() {
    for how in ["", "--args-as text"] {
        check_arguments(r#"{"a":1,"b":"x"}"#, r#" {"b": "\u0078", "a": 1.0} "#, how, "opened");
        check_arguments(r#"{"a":1000}"#, r#"{"a":1e3}"#, how, "opened");
        check_arguments(r#"{"a":1}"#, r#"{"a":2}"#, how, "not_opened");
        check_arguments(r#"{"a":1}"#, r#"{"a":"1"}"#, how, "not_opened");
        check_arguments(r#"{"a":1}"#, r#"{"a":1,"b":null}"#, how, "not_opened");
        let (odd, even) = (r#"{"a":9007199254740993}"#, r#"{"a":9007199254740992}"#);
        check_arguments(odd, even, how, "not_opened");
        let without = format!("{how} --args-exclude cursor --args-exclude page");
        let longer = r#"{"a":1,"cursor":"x","page":2}"#;
        check_arguments(r#"{"a":1}"#, longer, &without, "opened");
        check_arguments(r#"{"a":1}"#, longer, how, "not_opened");
    }
}

#[test]
fn arguments_that_nobody_can_read_are_refused() {
    let sandbox = Sandbox::with_ring();
    let flags = "--purpose cursor --operation call --args args.json";
    let check = |content: &str, how: &str| {
        sandbox.write("args.json", content);
        let ran = sandbox.run(&format!("token seal {flags} {how}")).expect_code(1);
        assert!(ran.stderr.contains("args.json"), "{ran:?}");
    };
    sandbox.run(&format!("token seal {flags}")).expect_code(1);
    for how in ["", "--args-as text"] {
        check("", how);
        check("{", how);
        check("{} {}", how);
        check(&format!("\"{}\"", "a".repeat(1 << 20)), how);
    }
    check(r#"{"a":1,"a":2}"#, "--args-as text");
    sandbox.run("token seal --purpose cursor --args-as text").expect_code(2);
    sandbox.run("token seal --purpose cursor --args-exclude a").expect_code(2);
    let fingerprint = "0f".repeat(32);
    sandbox.run(&format!("token seal {flags} --args-fingerprint {fingerprint}")).expect_code(2);
    sandbox.run("token seal --purpose cursor --args-fingerprint 0f").expect_code(2);
}
