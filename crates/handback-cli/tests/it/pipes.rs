//! What goes where: stdout, stderr, and pipes that nobody reads.

use serde_json::Value;

use crate::support::Sandbox;

fn run_unread(sandbox: &Sandbox, line: &str) -> std::process::Output {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let words: Vec<&str> = line.split_whitespace().collect();
    sandbox.command(&words).stdout(writer).output().unwrap()
}

#[test]
fn a_broken_pipe_is_success() {
    let sandbox = Sandbox::with_ring();
    for line in [
        "keys list",
        "keys list --output json",
        "keys rotate",
        "keys export --reveal-all-keys",
        "keys generate --keys more.json",
        "token seal --purpose cursor",
        "--help",
        "--version",
        "token open --help",
    ] {
        let output = run_unread(&sandbox, line);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{line}: {stderr}");
        assert!(!stderr.contains("error"), "{line}: {stderr}");
    }
    assert_eq!(run_unread(&sandbox, "token inspect EAAA").status.code(), Some(3));
}

#[test]
fn a_full_disk_is_not() {
    let sandbox = Sandbox::with_ring();
    let Ok(full) = std::fs::OpenOptions::new().write(true).open("/dev/full") else { return };
    let output = sandbox.command(&["keys", "list"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("error: cannot write the answer to stdout\n  caused by: "), "{stderr}");
}

#[test]
fn in_json_everything_is_json() {
    let sandbox = Sandbox::new();
    sandbox.json("keys generate");
    for line in ["keys list", "keys rotate", "keys rotate --step add", "token seal --purpose state"]
    {
        let ran = sandbox.run(&format!("{line} --output json")).expect_code(0);
        assert_eq!(ran.stderr, "", "{line}");
        assert_eq!(ran.stdout.matches('\n').count(), 1);
        ran.json();
    }
    for (line, code) in [
        ("keys generate", 1),
        ("keys retire 0", 1),
        ("keys export", 2),
        ("keys list --reveal 77", 2),
        ("keys nonsense", 2),
        ("", 2),
    ] {
        let ran = sandbox.run(&format!("--output json {line}")).expect_code(code);
        assert_eq!(ran.stdout, "", "{line}");
        let error: Value = serde_json::from_str(&ran.stderr).unwrap();
        assert!(error["error"].as_str().is_some_and(|text| !text.is_empty()), "{line}");
        assert!(error["hint"].as_str().is_some_and(|text| !text.is_empty()), "{line}");
        assert!(error["causes"].is_array());
    }
}

#[test]
fn nothing_is_coloured_where_nobody_looks() {
    let sandbox = Sandbox::with_ring();
    for line in ["keys list", "keys rotate", "keys retire 9", "nonsense", "--help"] {
        assert!(!sandbox.run(line).all().contains('\u{1b}'), "{line}");
    }
    let forced = Sandbox::with_ring().set("CLICOLOR_FORCE", "1");
    assert!(forced.run("keys retire 9").stderr.starts_with("\u{1b}[1;31merror:"));
    let refused = forced.set("NO_COLOR", "1");
    assert!(refused.run("keys retire 9").stderr.starts_with("error: "));
}
