//! Rotation loses no token, and what is retired stays retired.

use crate::support::{ATD_KEY, Ran, Sandbox, age, read};

const FLAGS: &str = "--purpose resume --operation duplex --name room";
/// A day, and a minute of skew at either end.
const DAY_S: u64 = 24 * 3600 + 120;

fn seal(sandbox: &Sandbox) -> String {
    sandbox.ok(&format!("token seal {FLAGS}"))
}

#[test]
fn a_token_goes_through_every_state_of_its_key() {
    let sandbox = Sandbox::with_ring();
    let token = seal(&sandbox);
    let check = |expected: &str| assert_eq!(sandbox.reason(&token, FLAGS), expected);
    check("opened");
    sandbox.ok("keys rotate");
    check("opened");
    let ran = sandbox.run("keys retire 0").expect_code(1);
    assert!(ran.stderr.contains("hint: retire slot 0 after 20"), "{ran:?}");
    check("opened");
    sandbox.ok("keys retire 0 --now-compromised");
    check("retired_key");
    let ran = sandbox.run(&format!("token open {token} {FLAGS} --output json"));
    assert_eq!(ran.json()["outside"], "expired");
    sandbox.ok("keys retire 0 --drop");
    check("unknown_slot");
}

#[test]
fn replicas_rotate_in_two_steps() {
    let one = Sandbox::with_ring();
    let replica = || Sandbox::new().set("HANDBACK_KEYS", read(&one.key_file()));
    let old = replica();
    let added = one.json("keys rotate --step add");
    assert_eq!((&added["action"], &added["slot"]), (&"added".into(), &1.into()));
    let with_new_key = replica();
    assert_eq!(old.reason(&seal(&with_new_key), FLAGS), "opened");
    let promoted = one.json("keys rotate --step promote --slot 1");
    assert_eq!((&promoted["action"], &promoted["slot"]), (&"promoted".into(), &1.into()));
    let promoted = replica();
    assert_eq!(with_new_key.reason(&seal(&promoted), FLAGS), "opened");
    assert_eq!(promoted.reason(&seal(&with_new_key), FLAGS), "opened");
    assert_eq!(old.reason(&seal(&promoted), FLAGS), "unknown_slot");
}

#[test]
fn the_key_to_promote_is_found_or_asked_for() {
    let sandbox = Sandbox::with_ring();
    let ran = sandbox.run("keys rotate --step promote").expect_code(1);
    assert!(ran.stderr.contains("hint: add one first"), "{ran:?}");
    age(&sandbox.key_file(), 100);
    sandbox.ok("keys rotate --step add");
    assert_eq!(sandbox.json("keys rotate --step promote")["slot"], 1);
    let ran = sandbox.run("keys rotate --step promote").expect_code(1);
    assert!(ran.stderr.contains("hint: name its slot: --slot 0"), "{ran:?}");
}

#[test]
fn what_is_next_is_said() {
    let sandbox = Sandbox::with_ring();
    let ran = sandbox.run("keys rotate").expect_code(0);
    assert!(ran.stderr.starts_with("next: after 20"), "{ran:?}");
    assert!(ran.stderr.ends_with("retire the old key: `handback keys retire 0`\n"), "{ran:?}");
    let ran = sandbox.run("keys rotate --step add").expect_code(0);
    assert!(ran.stderr.ends_with("`handback keys rotate --step promote --slot 2`\n"), "{ran:?}");
    sandbox.ok("keys generate --keys mine.json");
    let next = sandbox.json("keys rotate --keys mine.json")["next"].clone();
    assert_eq!(next["command"], "handback keys retire 0 --keys mine.json");
    assert!(next["after"].as_str().unwrap().ends_with('Z'));
}

#[test]
fn after_a_day_a_key_is_retired_without_force() {
    let sandbox = Sandbox::with_ring();
    sandbox.ok("keys rotate");
    age(&sandbox.key_file(), DAY_S - 60);
    sandbox.run("keys retire 0").expect_code(1);
    age(&sandbox.key_file(), 60);
    sandbox.ok("keys retire 0");
}

#[test]
fn a_new_key_has_the_mode_of_the_active_one_or_the_one_asked_for() {
    let sandbox = Sandbox::new();
    sandbox.ok("keys generate --mode signed");
    sandbox.ok("keys rotate");
    sandbox.ok("keys rotate --mode sealed");
    sandbox.ok("keys rotate --step add");
    let list = sandbox.json("keys list");
    let modes: Vec<_> = list["slots"].as_array().unwrap().iter().map(|s| &s["mode"]).collect();
    assert_eq!(modes, ["signed", "signed", "sealed", "sealed"]);
}

#[test]
fn what_a_slot_cannot_do_is_refused() {
    let sandbox = Sandbox::with_ring();
    let check = |line: &str, code: i32, says: &str| {
        let Ran { stderr, .. } = sandbox.run(line).expect_code(code);
        assert!(stderr.contains(says), "{line}: {stderr}");
        assert!(stderr.contains("hint: ") || code == 2, "{line}: {stderr}");
    };
    let before = read(&sandbox.key_file());
    check("keys retire 0", 1, "key slot 0 is not accepting");
    check("keys retire 0 --now-compromised", 1, "key slot 0 is not accepting");
    check("keys retire 5", 1, "key slot 5 is empty");
    check("keys retire 0 --drop", 1, "key slot 0 is not retired");
    check("keys retire 16", 2, "0 to 15");
    check("keys retire 0 --drop --now-compromised", 2, "cannot be used with");
    check("keys rotate --step promote --slot 0", 1, "key slot 0 is not accepting");
    check("keys rotate --slot 0", 2, "--slot names the key to promote");
    check("keys rotate --step promote --mode signed", 2, "a key has its mode");
    check("keys rotate --epoch per-start --step add", 2, "cannot be used with");
    assert_eq!(read(&sandbox.key_file()), before);
    for _ in 1..16 {
        sandbox.ok("keys rotate --step add");
    }
    check("keys rotate", 1, "all 16 key slots are taken");
}

#[test]
fn a_slot_that_wraps_something_is_not_dropped() {
    let sandbox = Sandbox::with_ring();
    sandbox.ok("keys rotate");
    sandbox.ok("keys retire 0 --now-compromised");
    let wrapped = sandbox.key_file().with_file_name("wrapped");
    std::fs::create_dir(&wrapped).unwrap();
    // Wrapped keys begin with 0x40 and the slot; only that is looked at here.
    let text = format!("Q{}", "A".repeat(70));
    std::fs::write(wrapped.join("store.key"), text).unwrap();
    let ran = sandbox.run("keys retire 0 --drop").expect_code(1);
    assert!(ran.stderr.contains("key slot 0 still wraps a stored key"), "{ran:?}");
    std::fs::write(wrapped.join("store.key"), "damaged").unwrap();
    let ran = sandbox.run("keys retire 0 --drop").expect_code(1);
    assert!(ran.stderr.contains("does not hold a wrapped key"), "{ran:?}");
    std::fs::remove_file(wrapped.join("store.key")).unwrap();
    sandbox.ok("keys retire 0 --drop");
}

#[test]
fn an_epoch_of_its_own_expires_everything_before() {
    let sandbox = Sandbox::with_ring();
    let first = seal(&sandbox);
    sandbox.ok("keys rotate");
    let second = seal(&sandbox);
    let epoch = sandbox.json("keys rotate --epoch per-start");
    assert_eq!((&epoch["action"], &epoch["slot"]), (&"epoch".into(), &2.into()));
    for token in [first, second] {
        assert_eq!(sandbox.reason(&token, FLAGS), "retired_key");
        let ran = sandbox.run(&format!("token open {token} {FLAGS}")).expect_code(3);
        assert!(ran.stdout.contains("Its sender is told: expired\n"), "{ran:?}");
    }
    assert_eq!(sandbox.reason(&seal(&sandbox), FLAGS), "opened");
    for _ in 0..20 {
        sandbox.ok("keys rotate --epoch per-start");
    }
}

#[test]
fn an_epoch_of_its_own_is_refused_for_a_ring_that_may_be_shared() {
    let sandbox = Sandbox::with_ring();
    let text = read(&sandbox.key_file());
    let check = |sandbox: &Sandbox, flags: &str| {
        let line = format!("keys rotate --epoch per-start {flags}");
        let ran = sandbox.run(&line).expect_code(1);
        assert!(ran.stderr.contains("that this process does not share"), "{ran:?}");
        assert!(ran.stderr.contains("hint: replicas would expire each other's"), "{ran:?}");
    };
    check(&sandbox, &format!("--keys {}", sandbox.key_file().display()));
    let sandbox = sandbox.set("ATD_CURSOR_SIGNING_KEY", ATD_KEY);
    check(&sandbox, "");
    let sandbox = sandbox.set("HANDBACK_KEYS", &text);
    check(&sandbox, "");
    assert_eq!(read(&sandbox.key_file()), text);
}

#[test]
fn a_file_is_not_changed_while_the_environment_holds_the_ring() {
    let sandbox = Sandbox::with_ring();
    let text = read(&sandbox.key_file());
    let check = |sandbox: &Sandbox, variable: &str| {
        for line in ["keys rotate", "keys rotate --step add", "keys retire 0 --now-compromised"] {
            let ran = sandbox.run(line).expect_code(1);
            assert!(ran.stderr.contains(&format!("{variable} holds the ring in use")), "{ran:?}");
            assert!(ran.stderr.contains("hint: "), "{ran:?}");
        }
    };
    let sandbox = sandbox.set("ATD_CURSOR_SIGNING_KEY", ATD_KEY);
    check(&sandbox, "ATD_CURSOR_SIGNING_KEY");
    let sandbox = sandbox.set("HANDBACK_KEYS", &text);
    check(&sandbox, "HANDBACK_KEYS");
    assert_eq!(read(&sandbox.key_file()), text);
    sandbox.ok(&format!("keys rotate --keys {}", sandbox.key_file().display()));
}
