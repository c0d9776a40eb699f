//! The program as it is run, with nothing but the upstream.

#![expect(clippy::unwrap_used, reason = "these are tests")]

use std::process::{Command, Output};

fn run(args: &[&str]) -> (Output, String, String) {
    let scratch = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_bench-gateway"))
        .args(["--smoke", "--callers", "1,3", "--scratch"])
        .arg(scratch.path())
        .args(args)
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    (output, stdout, stderr)
}

#[test]
fn measures_direct_calls_in_both_eras() {
    let (output, stdout, stderr) = run(&["--only", "direct"]);
    assert!(output.status.success(), "{stderr}");
    for level in ["1 caller, 2025-11-25", "3 callers, 2025-11-25", "3 callers, 2026-07-28"] {
        assert!(stdout.contains(&format!("### {level}\n")), "{stdout}");
    }
    assert!(!stdout.contains("failed"), "{stdout}");
}

#[test]
fn a_handback_that_does_not_serve_is_a_failure() {
    let (output, stdout, stderr) = run(&["--handback", "/bin/false", "--no-features"]);
    assert!(!output.status.success());
    assert!(stderr.contains("Handback does not serve: it did not start"), "{stderr}");
    assert!(stdout.contains("Handback: failed: it did not start"), "{stdout}");
}
