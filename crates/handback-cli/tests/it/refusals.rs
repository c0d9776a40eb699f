//! Rings that are refused: malformed variables and files never lead to another ring.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;

use crate::support::{ATD_KEY, Sandbox, keys_in, read};

const LINES: [&str; 6] = [
    "keys list",
    "keys rotate",
    "keys retire 0 --now-compromised",
    "keys export --reveal-all-keys",
    "token seal --purpose cursor --operation call",
    "token open EAAA --purpose cursor --operation call",
];

/// No command works with this value, none falls back to the ring in the data directory, and none
/// shows the value.
#[track_caller]
fn check(variable: &str, value: &OsStr, others: &[(&str, &str)]) {
    let mut sandbox = Sandbox::with_ring().set(variable, value);
    for (name, value) in others {
        sandbox = sandbox.set(name, value);
    }
    let before = read(&sandbox.key_file());
    for line in LINES {
        let ran = sandbox.run(line).expect_code(1);
        assert_eq!(ran.stdout, "", "{line}");
        assert!(ran.stderr.starts_with("error: ") && ran.stderr.contains(variable), "{ran:?}");
        assert!(ran.stderr.contains("\n\nhint: "), "{ran:?}");
        let shown = value.to_string_lossy();
        assert!(shown.len() < 8 || !ran.stderr.contains(shown.as_ref()), "{ran:?}");
    }
    assert_eq!(read(&sandbox.key_file()), before);
}

#[test]
fn a_malformed_atd_key_refuses_to_start() {
    let wrong: [&[u8]; 9] = [
        b"",
        b" ",
        b"c2hvcnQ",
        b"not base64 at all!",
        b"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
        b"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
        b"mTG6gHkzYI2l3wL0Qn5vXr8uJ1cE7sPaBdFoKtWyZ",
        b"mTG6gHkzYI2l3wL0Qn5vXr8uJ1cE7sPaBdFoKtWyZxBBBBBB",
        b"mTG6gHkzYI2l\xff3wL0Qn5vXr8uJ1cE7sPaBdFoKtWyZxA",
    ];
    for value in wrong {
        check("ATD_CURSOR_SIGNING_KEY", OsStr::from_bytes(value), &[]);
    }
}

#[test]
fn a_malformed_keys_variable_refuses_to_start() {
    let origin = Sandbox::with_ring();
    let text = read(&origin.key_file());
    let key = &keys_in(&origin.key_file())[0];
    let mut bytes = text.clone().into_bytes();
    bytes.push(0xff);
    let wrong = [
        OsString::new(),
        " ".into(),
        "{}".into(),
        "null".into(),
        text.replace(key, &key[..42]).into(),
        text.replace(key, &key[..20]).into(),
        text.replace(key, &format!("{}!", &key[..42])).into(),
        text.replace(key, &"A".repeat(43)).into(),
        text.replace(key, "").into(),
        text.replace("active", "retired").into(),
        text.replace("handback-keys/1", "handback-keys/2").into(),
        text.replace("\"generation\"", "\"extra\":1,\"generation\"").into(),
        text.trim_end()[..text.len() - 3].into(),
        format!("{text}{text}").into(),
        OsStr::from_bytes(&bytes).to_owned(),
    ];
    for value in wrong {
        check("HANDBACK_KEYS", &value, &[]);
        let sandbox = Sandbox::with_ring().set("HANDBACK_KEYS", &value);
        for line in LINES {
            let all = sandbox.run(line).all();
            assert!(!all.contains(&key[..20]), "{all}");
        }
    }
}

#[test]
fn a_variable_is_checked_even_if_another_source_overrides_it() {
    let origin = Sandbox::with_ring();
    let text = read(&origin.key_file());
    let short = OsStr::new("c2hvcnQ");
    check("ATD_CURSOR_SIGNING_KEY", short, &[("HANDBACK_KEYS", &text)]);
    check("HANDBACK_KEYS", OsStr::new("{}"), &[("ATD_CURSOR_SIGNING_KEY", ATD_KEY)]);
    let sandbox = Sandbox::with_ring().set("ATD_CURSOR_SIGNING_KEY", short);
    let line = format!("keys list --keys {}", sandbox.key_file().display());
    sandbox.run(&line).expect_code(1);
}

#[test]
fn a_malformed_key_file_refuses_to_start() {
    let sandbox = Sandbox::with_ring();
    let text = read(&sandbox.key_file());
    let key = &keys_in(&sandbox.key_file())[0];
    let wrong = [
        String::new(),
        "{}".to_owned(),
        text.replace(key, &key[..42]),
        text.replace(key, &"A".repeat(43)),
        text.clone() + &" ".repeat(10 << 20),
    ];
    for content in wrong {
        fs::write(sandbox.key_file(), content).unwrap();
        for line in LINES {
            let ran = sandbox.run(line).expect_code(1);
            assert!(ran.stderr.contains("does not hold a key ring"), "{ran:?}");
            assert!(!ran.all().contains(&key[..20]), "{ran:?}");
        }
    }
}
