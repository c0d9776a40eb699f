//! Processes that share a ring open each other's tokens; others do not.

use std::fs;

use crate::support::{ATD_KEY, Sandbox, read};

const FLAGS: &str =
    "--purpose cursor --operation call --name orders.search --issuer idp --subject a";

fn seal(sandbox: &Sandbox, flags: &str) -> String {
    sandbox.ok(&format!("token seal {FLAGS} --payload-text row {flags}"))
}

#[track_caller]
fn check_both_ways(one: &Sandbox, other: &Sandbox, expected: &str) {
    assert_eq!(other.reason(&seal(one, ""), FLAGS), expected);
    assert_eq!(one.reason(&seal(other, ""), FLAGS), expected);
}

#[test]
fn with_the_same_key_file() {
    let first = Sandbox::new();
    let second = Sandbox::new();
    let shared = first.path("shared.json");
    let keys = format!("--keys {}", shared.display());
    first.ok(&format!("keys generate {keys}"));
    let (one, two) = (seal(&first, &keys), seal(&second, &keys));
    assert_eq!(second.reason(&one, &format!("{FLAGS} {keys}")), "opened");
    assert_eq!(first.reason(&two, &format!("{FLAGS} {keys}")), "opened");
}

#[test]
fn with_the_same_keys_variable() {
    let origin = Sandbox::with_ring();
    let text = origin.ok("keys export --reveal-all-keys");
    assert_eq!(text, read(&origin.key_file()).trim_end());
    let replica = || Sandbox::new().set("HANDBACK_KEYS", &text);
    check_both_ways(&replica(), &replica(), "opened");
    check_both_ways(&replica(), &origin, "opened");
}

#[test]
fn with_the_same_atd_key() {
    let replica = || Sandbox::new().set("ATD_CURSOR_SIGNING_KEY", ATD_KEY);
    check_both_ways(&replica(), &replica(), "opened");
    let spelled_otherwise = ATD_KEY.replace('+', "-").replace('/', "_").replace('=', "");
    let other = Sandbox::new().set("ATD_CURSOR_SIGNING_KEY", spelled_otherwise);
    check_both_ways(&replica(), &other, "opened");
}

#[test]
fn an_atd_ring_can_become_a_key_file_without_losing_a_token() {
    let atd = Sandbox::new().set("ATD_CURSOR_SIGNING_KEY", ATD_KEY);
    let before = seal(&atd, "");
    let file = Sandbox::new();
    file.ok("keys generate --keys mine.json");
    file.write("mine.json", &atd.ok("keys export --reveal-all-keys"));
    file.ok("keys rotate --keys mine.json");
    assert_eq!(file.reason(&before, &format!("{FLAGS} --keys mine.json")), "opened");
}

#[test]
fn a_signed_atd_ring_is_asked_for_by_its_mode() {
    let replica = Sandbox::new().set("ATD_CURSOR_SIGNING_KEY", ATD_KEY);
    let token = seal(&replica, "--atd-mode signed");
    assert_eq!(replica.reason(&token, &format!("{FLAGS} --atd-mode signed")), "opened");
    assert_eq!(replica.reason(&token, FLAGS), "malformed");
}

#[test]
fn not_with_rings_of_their_own() {
    check_both_ways(&Sandbox::with_ring(), &Sandbox::with_ring(), "not_opened");
    let atd = Sandbox::new().set("ATD_CURSOR_SIGNING_KEY", ATD_KEY);
    check_both_ways(&Sandbox::with_ring(), &atd, "not_opened");
}

#[test]
fn a_restart_keeps_the_tokens() {
    let sandbox = Sandbox::with_ring();
    let token = seal(&sandbox, "");
    let again = Sandbox::new();
    fs::create_dir_all(again.key_file().parent().unwrap()).unwrap();
    fs::rename(sandbox.key_file(), again.key_file()).unwrap();
    assert_eq!(again.reason(&token, FLAGS), "opened");
}

#[test]
fn the_flag_beats_the_variables_and_they_beat_the_data_directory() {
    let origin = Sandbox::with_ring();
    let text = origin.ok("keys export --reveal-all-keys");
    let sandbox = Sandbox::with_ring();
    sandbox.ok("keys generate --keys mine.json");
    let ring = |sandbox: &Sandbox, flags: &str| {
        let list = sandbox.json(&format!("keys list {flags}"));
        (list["origin"]["kind"].as_str().unwrap().to_owned(), list["ring"].clone())
    };
    let (kind, own) = ring(&sandbox, "");
    assert_eq!(kind, "data_directory");
    let sandbox = sandbox.set("ATD_CURSOR_SIGNING_KEY", ATD_KEY);
    let (kind, atd) = ring(&sandbox, "");
    assert_eq!(kind, "atd_cursor_signing_key");
    let sandbox = sandbox.set("HANDBACK_KEYS", &text);
    let (kind, variable) = ring(&sandbox, "");
    assert_eq!(kind, "handback_keys");
    let (kind, flag) = ring(&sandbox, "--keys mine.json");
    assert_eq!(kind, "key_file");
    let rings = [own, atd, variable.clone(), flag];
    for (i, one) in rings.iter().enumerate() {
        assert!(rings.iter().skip(i + 1).all(|other| one != other));
    }
    assert_eq!(variable, origin.json("keys list")["ring"]);
}
