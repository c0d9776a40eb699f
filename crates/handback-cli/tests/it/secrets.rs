//! No key is printed unless it was asked for by name.

use crate::support::{ATD_KEY, Sandbox, keys_in, read};

const LINES: [&str; 17] = [
    "keys list",
    "keys rotate",
    "keys rotate --step add",
    "keys rotate --step promote",
    "keys rotate --step promote --slot 2",
    "keys retire 0",
    "keys retire 0 --now-compromised",
    "keys retire 0 --drop",
    "keys retire 9",
    "keys generate",
    "keys generate --keys another.json",
    "keys export",
    "keys rotate --epoch per-start",
    "token seal --purpose cursor --operation call --payload-text x",
    "token open EAAA --purpose cursor --operation call",
    "token inspect EAAA",
    "nonsense",
];

#[track_caller]
fn check(sandbox: &Sandbox, secrets: impl Fn() -> Vec<String>) {
    let mut seen = secrets();
    for line in LINES {
        for format in ["text", "json"] {
            let ran = sandbox.run(&format!("{line} --output {format}"));
            seen.extend(secrets());
            let all = ran.all();
            let leaked = seen.iter().any(|secret| all.contains(&secret[..16]));
            assert!(!leaked, "{line} {format}: {all}");
        }
    }
}

#[test]
fn of_a_key_file() {
    let sandbox = Sandbox::with_ring();
    let secrets = || keys_in(&sandbox.key_file());
    check(&sandbox, secrets);
    assert!(secrets().len() > 2);
}

#[test]
fn of_the_environment() {
    let origin = Sandbox::with_ring();
    let keys = keys_in(&origin.key_file());
    let sandbox = Sandbox::new().set("HANDBACK_KEYS", read(&origin.key_file()));
    check(&sandbox, || keys.clone());
    let atd = Sandbox::new().set("ATD_CURSOR_SIGNING_KEY", ATD_KEY);
    let derived = atd.json("keys list --reveal 0")["slots"][0]["key"].as_str().unwrap().to_owned();
    assert_ne!(derived[..16], ATD_KEY[..16]);
    check(&atd, || vec![ATD_KEY.to_owned(), derived.clone()]);
}
