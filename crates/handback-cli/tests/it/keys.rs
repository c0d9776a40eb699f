//! Making, showing and guarding key files.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::Value;

use crate::support::{ATD_KEY, Sandbox, keys_in, read};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_key_file_is_for_its_owner_only() {
    let sandbox = Sandbox::with_ring();
    assert_eq!(mode(&sandbox.key_file()), 0o600);
    assert_eq!(mode(sandbox.key_file().parent().unwrap()), 0o700);
    sandbox.ok("keys rotate");
    assert_eq!(mode(&sandbox.key_file()), 0o600);
    fs::set_permissions(sandbox.key_file(), fs::Permissions::from_mode(0o644)).unwrap();
    let lines = ["keys list", "keys rotate", "keys retire 0", "keys export --reveal-all-keys"];
    for line in lines.into_iter().chain(["token seal --purpose cursor --operation call"]) {
        let ran = sandbox.run(line).expect_code(1);
        assert!(ran.stderr.contains("has mode 0644"), "{ran:?}");
        assert!(ran.stderr.contains("\n\nhint: `chmod 600 "), "{ran:?}");
        assert_eq!(ran.stdout, "");
    }
}

#[test]
fn an_existing_key_file_is_never_overwritten() {
    let sandbox = Sandbox::with_ring();
    let before = read(&sandbox.key_file());
    let ran = sandbox.run("keys generate").expect_code(1);
    assert!(ran.stderr.contains("exists already and is not overwritten"), "{ran:?}");
    sandbox.write("other", "not a ring");
    sandbox.run("keys generate --keys other").expect_code(1);
    assert_eq!(read(&sandbox.key_file()), before);
    assert_eq!(read(&sandbox.path("other")), "not a ring");
}

#[test]
fn a_named_key_file_wants_a_folder_that_exists() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run("keys generate --keys missing/keys.json").expect_code(1);
    assert!(ran.stderr.contains("hint: "), "{ran:?}");
    assert!(!sandbox.path("missing").exists());
}

#[test]
fn the_data_directory_is_found_by_its_variables() {
    let sandbox = Sandbox::new();
    let (xdg, data) = (sandbox.path("xdg"), sandbox.path("data"));
    let sandbox = sandbox.set("XDG_DATA_HOME", xdg);
    sandbox.ok("keys generate");
    assert!(sandbox.path("xdg/handback/keys.json").exists());
    let sandbox = sandbox.set("HANDBACK_DATA", data);
    sandbox.ok("keys generate");
    assert!(sandbox.path("data/keys.json").exists());
    assert!(!sandbox.key_file().exists());
    let sandbox = sandbox.set("HANDBACK_DATA", "");
    sandbox.run("keys list").expect_code(1);
}

#[test]
fn nothing_but_generate_makes_a_ring() {
    let sandbox = Sandbox::new();
    for line in [
        "keys list",
        "keys rotate",
        "keys rotate --epoch per-start",
        "keys retire 0",
        "keys export --reveal-all-keys",
        "token seal --purpose cursor --operation call",
        "token open x --purpose cursor --operation call",
    ] {
        let ran = sandbox.run(line).expect_code(1);
        assert!(ran.stderr.contains("hint: `handback keys generate` makes one"), "{ran:?}");
    }
    assert!(!sandbox.path(".local").exists());
}

#[test]
fn list_shows_the_slots_and_where_the_ring_came_from() {
    let sandbox = Sandbox::with_ring();
    sandbox.ok("keys rotate --mode signed");
    let ran = sandbox.run("keys list").expect_code(0);
    let from = format!("ring from: {} (in the data directory)\n", sandbox.key_file().display());
    assert_eq!(ran.stderr, from);
    let list = sandbox.json("keys list");
    let shown: Vec<[&Value; 4]> = list["slots"]
        .as_array()
        .unwrap()
        .iter()
        .map(|slot| [&slot["slot"], &slot["state"], &slot["mode"], &slot["does"]])
        .collect();
    let expected = [
        [&Value::from(0), &"accepting".into(), &"sealed".into(), &"opens".into()],
        [&Value::from(1), &"active".into(), &"signed".into(), &"seals and opens".into()],
    ];
    assert_eq!(shown, expected);
    assert_eq!((&list["generation"], &list["active"]), (&3.into(), &1.into()));
    assert!(ran.stdout.contains(list["fingerprint"].as_str().unwrap()));
    for slot in list["slots"].as_array().unwrap() {
        let since = slot["since"].as_str().unwrap();
        assert!(since.len() == 20 && since.ends_with('Z') && ran.stdout.contains(since));
    }
}

#[test]
fn a_ring_of_a_secret_does_not_say_since_when() {
    let sandbox = Sandbox::new().set("ATD_CURSOR_SIGNING_KEY", ATD_KEY);
    let ran = sandbox.run("keys list").expect_code(0);
    assert_eq!(ran.stderr, "ring from: ATD_CURSOR_SIGNING_KEY\n");
    assert!(!ran.stdout.contains("1970"), "{ran:?}");
    assert_eq!(sandbox.json("keys list")["slots"][0]["since"], Value::Null);
}

#[test]
fn reveal_prints_the_key_that_was_asked_for_and_no_other() {
    let sandbox = Sandbox::with_ring();
    sandbox.ok("keys rotate");
    let keys = keys_in(&sandbox.key_file());
    let text = sandbox.ok("keys list --reveal 1");
    assert!(text.contains(&keys[1]) && !text.contains(&keys[0]));
    let list = sandbox.json("keys list --reveal 0");
    assert_eq!(list["slots"][0]["key"], keys[0].as_str());
    assert_eq!(list["slots"][1].get("key"), None);
    sandbox.run("keys list --reveal 2").expect_code(1);
    sandbox.run("keys list --reveal 16").expect_code(2);
}

#[test]
fn export_wants_to_be_asked_by_name() {
    let sandbox = Sandbox::with_ring();
    let ran = sandbox.run("keys export").expect_code(2);
    assert_eq!(ran.stdout, "");
    assert!(ran.stderr.contains("hint: --reveal-all-keys"), "{ran:?}");
    let json = sandbox.json("keys export --reveal-all-keys");
    assert_eq!(json["handback_keys"], read(&sandbox.key_file()).trim_end());
}

#[test]
fn generate_says_if_its_ring_is_not_the_one_in_use() {
    let sandbox = Sandbox::new().set("ATD_CURSOR_SIGNING_KEY", ATD_KEY);
    let ran = sandbox.run("keys generate").expect_code(0);
    assert!(ran.stderr.contains("ATD_CURSOR_SIGNING_KEY is set"), "{ran:?}");
    assert_eq!(sandbox.run("keys generate --keys mine.json").expect_code(0).stderr, "");
}
