//! Bearer tokens from a file: made, used by a server, and removed.

use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use crate::streams::server::Server;
use crate::support::{Sandbox, read};

fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

fn add(sandbox: &Sandbox, subject: &str) -> String {
    let line = format!("identity add --subject {subject} --scope read --file identities");
    sandbox.json(&line)["token"].as_str().unwrap().to_owned()
}

/// A server that takes its configuration from a file.
fn serve(sandbox: &Sandbox) -> Server {
    sandbox.write(
        "handback.toml",
        "[identity]\nmode = \"static\"\n[identity.static]\nfile = \"identities\"\n",
    );
    let config = sandbox.path("handback.toml");
    let data = sandbox.path("data");
    Server::start_with(sandbox, &data, &["--config", config.to_str().unwrap()])
}

#[test]
fn a_token_is_shown_once_and_kept_as_a_digest() {
    let sandbox = Sandbox::new();
    let token = add(&sandbox, "alice");
    let file = sandbox.path("identities");
    let text = read(&file);
    assert!(!text.contains(&token));
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let shown = sandbox.ok("identity list --file identities");
    assert!(shown.contains("alice") && !shown.contains(&token), "{shown}");
    // The digest is what everyone can compute.
    let digest = shown.split(' ').next().unwrap();
    assert!(text.contains(&format!("sha256:{digest}")));
}

#[test]
fn without_a_file_the_one_in_the_data_directory_is_meant() {
    let sandbox = Sandbox::new();
    sandbox.ok("identity add --subject alice");
    assert!(sandbox.path(".local/share/handback/identities").exists());
    assert_eq!(sandbox.json("identity list")["identities"][0]["subject"], "alice");
    sandbox.ok("identity remove --subject alice");
    assert_eq!(sandbox.json("identity list")["identities"].as_array().unwrap().len(), 0);
    sandbox.run("identity remove --subject alice").expect_code(1);
}

#[test]
fn what_can_not_be_in_a_file_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.run("identity list").expect_code(1);
    sandbox.run_words(&["identity", "add", "--subject", "a b"]).expect_code(2);
    sandbox.run_words(&["identity", "add", "--subject", ""]).expect_code(2);
    sandbox.run_words(&["identity", "add", "--subject", "a", "--scope", "b c"]).expect_code(2);
    sandbox.write("other", "alice:password\n");
    let ran = sandbox.run("identity add --subject bob --file other").expect_code(1);
    assert!(!ran.all().contains("password"));
    assert_eq!(read(&sandbox.path("other")), "alice:password\n");
}

#[test]
fn many_can_be_added_at_once() {
    let sandbox = Sandbox::new();
    std::thread::scope(|scope| {
        for n in 0..8 {
            let sandbox = &sandbox;
            scope.spawn(move || add(sandbox, &format!("user{n}")));
        }
    });
    let listed = sandbox.json("identity list --file identities");
    assert_eq!(listed["identities"].as_array().unwrap().len(), 8);
}

#[test]
fn a_server_knows_its_callers_by_the_file() {
    let sandbox = Sandbox::with_ring();
    let alice = add(&sandbox, "alice");
    let server = serve(&sandbox);
    let ask = |line: &str, token: Option<&str>, body: &str| {
        let value = token.map(bearer);
        let mut headers = vec![("content-type", "text/plain")];
        headers.extend(value.iter().map(|value| ("authorization", value.as_str())));
        server.ask(line, &headers, body.as_bytes())
    };
    assert_eq!(ask("PUT /v1/stream/mine", None, "").status, 401);
    assert_eq!(ask("GET /healthz", None, "").status, 200);
    assert_eq!(ask("PUT /v1/stream/mine", Some(&alice), "").status, 201);
    assert_eq!(ask("POST /v1/stream/mine", Some(&alice), "secret").status, 204);

    let bob = add(&sandbox, "bob");
    let pid = i32::try_from(server.pid()).unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
    let start = Instant::now();
    let mut answer = ask("GET /v1/stream/mine", Some(&bob), "");
    while answer.status == 401 && start.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(20));
        answer = ask("GET /v1/stream/mine", Some(&bob), "");
    }
    assert_eq!(answer.status, 404, "bob is known, and alice's stream is not there for him");

    // What alice made is there for her after a restart, with another token.
    assert_eq!(server.stop(), 0);
    sandbox.ok("identity remove --subject alice --file identities");
    let again = add(&sandbox, "alice");
    let server = serve(&sandbox);
    let ask = |token: &str| {
        server.ask("GET /v1/stream/mine", &[("authorization", bearer(token).as_str())], b"")
    };
    assert_eq!(ask(&alice).status, 401);
    let read = ask(&again);
    assert_eq!((read.status, read.body.as_slice()), (200, b"secret".as_slice()));
}
