//! Snapshots of what people read. To accept a change: `INSTA_UPDATE=always cargo test -p
//! handback-cli`, and read the difference.

use crate::support::{ATD_KEY, Sandbox, age, id_in, keys_in};

#[track_caller]
fn check_help(name: &str, line: &str) {
    let ran = Sandbox::new().run(line).expect_code(0);
    assert_eq!(ran.stderr, "");
    let lines: Vec<&str> = ran.stdout.lines().map(str::trim_end).collect();
    assert!(lines.iter().all(|line| line.chars().count() <= 100), "{}", ran.stdout);
    insta::assert_snapshot!(name, lines.join("\n"));
}

#[test]
fn every_command_explains_itself() {
    check_help("help", "--help");
    check_help("help_short", "-h");
    check_help("help_keys", "keys --help");
    check_help("help_keys_generate", "keys generate --help");
    check_help("help_keys_list", "keys list --help");
    check_help("help_keys_rotate", "keys rotate --help");
    check_help("help_keys_retire", "keys retire --help");
    check_help("help_keys_export", "keys export --help");
    check_help("help_token", "token --help");
    check_help("help_token_inspect", "token inspect --help");
    check_help("help_token_open", "token open --help");
    check_help("help_token_seal", "token seal --help");
    check_help("help_stream", "stream --help");
    check_help("help_stream_create", "stream create --help");
    check_help("help_stream_append", "stream append --help");
    check_help("help_stream_tail", "stream tail --help");
    check_help("help_stream_send", "stream send --help");
    check_help("help_stream_resume", "stream resume --help");
    check_help("help_stream_verify", "stream verify --help");
    check_help("help_store", "store --help");
    check_help("help_store_check", "store check --help");
    check_help("help_identity", "identity --help");
    check_help("help_identity_add", "identity add --help");
    check_help("help_identity_list", "identity list --help");
    check_help("help_identity_remove", "identity remove --help");
    check_help("help_config", "config --help");
    check_help("help_config_default", "config default --help");
    check_help("help_config_check", "config check --help");
    check_help("help_serve", "serve --help");
    check_help("help_wrap", "wrap --help");
    check_help("help_call", "call --help");
    check_help("help_query", "query --help");
    check_help("help_collections", "collections --help");
}

#[test]
fn help_and_version_have_more_than_one_name() {
    let sandbox = Sandbox::new();
    assert_eq!(sandbox.ok("help"), sandbox.ok("--help"));
    assert_eq!(sandbox.ok("help token open"), sandbox.ok("token open --help"));
    assert_eq!(sandbox.ok("--version"), format!("handback {}", env!("CARGO_PKG_VERSION")));
}

/// What differs from run to run is replaced: the folder, the ring's id and keys, fingerprints and
/// times.
#[track_caller]
fn check_run(name: &str, sandbox: &Sandbox, line: &str) {
    let ran = sandbox.run(line);
    let mut shown = ran.shown();
    if sandbox.key_file().exists() {
        shown = shown.replace(&id_in(&sandbox.key_file()), "[ring]");
        for key in keys_in(&sandbox.key_file()) {
            shown = shown.replace(&key, "[key]");
        }
    }
    let folder = sandbox.path("").display().to_string();
    let shown = shown.replace(folder.trim_end_matches('/'), "[folder]");
    insta::assert_snapshot!(name, redact(&shown));
}

fn redact(text: &str) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | ':');
    let mut out = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len()).max(first.len_utf8());
        let (word, after) = rest.split_at(end);
        out.push_str(redact_word(word));
        rest = after;
    }
    out
}

fn redact_word(word: &str) -> &str {
    let is_hex = word.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    match word.len() {
        20 if word.starts_with("20") && word.ends_with('Z') => "[time]",
        10 if word.bytes().all(|byte| byte.is_ascii_digit()) => "[seconds]",
        16 if is_hex => "[fingerprint]",
        32 if is_hex => "[id]",
        _ => word,
    }
}

#[test]
fn answers_read_well() {
    let sandbox = Sandbox::new();
    check_run("run_generate", &sandbox, "keys generate");
    check_run("run_rotate", &sandbox, "keys rotate");
    check_run("run_add", &sandbox, "keys rotate --step add");
    check_run("run_retire", &sandbox, "keys retire 0 --now-compromised");
    check_run("run_list", &sandbox, "keys list");
    check_run("run_list_reveal", &sandbox, "keys list --reveal 1");
    check_run("run_list_json", &sandbox, "keys list --reveal 1 --output json");
    check_run("run_drop", &sandbox, "keys retire 0 --drop");
    check_run("run_epoch", &sandbox, "keys rotate --epoch per-start");
    let token = sandbox.ok("token seal --purpose resume --operation duplex --payload-text hello");
    let open = format!("token open {token} --purpose resume");
    check_run("run_open", &sandbox, &format!("{open} --operation duplex"));
    check_run("run_open_refused", &sandbox, &open);
}

#[test]
fn errors_read_well() {
    let sandbox = Sandbox::new();
    check_run("error_no_ring", &sandbox, "keys list");
    sandbox.ok("keys generate");
    check_run("error_exists", &sandbox, "keys generate");
    check_run("error_export", &sandbox, "keys export");
    check_run("error_promote_nothing", &sandbox, "keys rotate --step promote");
    age(&sandbox.key_file(), 100);
    sandbox.ok("keys rotate");
    check_run("error_too_soon", &sandbox, "keys retire 0");
    check_run("error_too_soon_json", &sandbox, "keys retire 0 --output json");
    check_run("error_not_retired", &sandbox, "keys retire 0 --drop");
    check_run("error_usage", &sandbox, "keys retire 16");
    check_run("error_usage_json", &sandbox, "keys retire 16 --output json");
    check_run("error_malformed", &sandbox, "token inspect EAAA");
    sandbox.ok("keys generate --keys mine.json");
    check_run("error_shared_epoch", &sandbox, "keys rotate --epoch per-start --keys mine.json");
    check_run("error_no_file", &sandbox, "keys list --keys missing.json");
    let sandbox = sandbox.set("ATD_CURSOR_SIGNING_KEY", ATD_KEY);
    check_run("error_atd_in_use", &sandbox, "keys rotate");
    let sandbox = sandbox.set("ATD_CURSOR_SIGNING_KEY", "c2hvcnQ");
    check_run("error_atd_short", &sandbox, "keys list");
    let sandbox = sandbox.set("HANDBACK_KEYS", "{}");
    check_run("error_keys_malformed", &sandbox, "keys list");
}
