//! Callers that say who they are.

use std::fs;

use super::world::{World, after};
use crate::support::Sandbox;

const STATIC: &str = "[identity]\nmode = \"static\"\n[identity.static]\nfile = \"identities\"\n";

/// A file with a new token of somebody.
fn token_file(sandbox: &Sandbox, subject: &str) -> String {
    let line = format!("identity add --subject {subject} --file identities");
    let token = sandbox.json(&line)["token"].as_str().unwrap().to_owned();
    sandbox.write(subject, &format!("{token}\n"));
    sandbox.path(subject).to_str().unwrap().to_owned()
}

/// A server that knows two callers, and where their tokens are.
fn world() -> (World, String, String) {
    let sandbox = Sandbox::new();
    let (alice, bob) = (token_file(&sandbox, "alice"), token_file(&sandbox, "bob"));
    (World::on(sandbox, STATIC), alice, bob)
}

#[test]
fn a_token_is_shown_to_the_server_and_a_walk_is_its_callers() {
    let (world, alice, bob) = world();
    for url in [world.http(), world.mcp()] {
        let nobody = world.call(&url, &["--list"]).expect_code(1);
        assert!(nobody.stderr.contains("--token-file"), "{nobody:?}");
        let words = ["shop_orders", r#"{"customer":7}"#, "--token-file"];
        let page = world.call(&url, &[&words[..], &[&alice]].concat()).expect_code(0);
        let cursor = after(&page.stderr, "--cursor=");
        let on = |who: &str| world.call(&url, &[&words[..], &[who, "--cursor", cursor]].concat());
        on(&alice).expect_code(0);
        assert!(on(&bob).expect_code(3).stdout.contains("refused: invalid"));
    }
    // From the environment too; a text that is no token is not shown to anybody.
    let token = fs::read_to_string(&alice).unwrap();
    let listed = |token: &str| {
        let url = world.http();
        let mut command = world.sandbox.command(&["call", "--list", "--url", &url]);
        command.env("HANDBACK_TOKEN", token).output().unwrap().status.code()
    };
    assert_eq!(listed(token.trim()), Some(0));
    assert_eq!(listed("not it"), Some(1));
    // On the socket the system says who it is.
    world.call(&world.socket(), &["--list"]).expect_code(0);
}

#[test]
fn streams_and_duplexes_are_their_callers() {
    let (world, alice, bob) = world();
    world.sandbox.write("lines", "one\ntwo\n");
    let run = |line: &str| world.sandbox.run(&format!("stream {line} --url {}", world.http()));
    let refused = run("create logs").expect_code(1);
    assert!(refused.stderr.contains("--token-file"), "{refused:?}");
    let by = |who: &str, line: &str| run(&format!("{line} --token-file {who}"));
    by(&alice, "create logs --content-type text/plain").expect_code(0);
    by(&alice, "append logs lines").expect_code(0);
    assert_eq!(by(&alice, "tail logs").expect_code(0).stdout, "one\ntwo\n");
    by(&alice, "append logs lines --close").expect_code(0);
    let followed = by(&alice, "tail logs --follow").expect_code(0);
    assert_eq!(followed.stdout, "one\ntwo\none\ntwo\n");
    by(&alice, "verify logs").expect_code(0);
    // Another's stream is not there.
    by(&bob, "tail logs").expect_code(1);

    let refused = run("send --handler echo lines").expect_code(1);
    assert!(refused.stderr.contains("--token-file"), "{refused:?}");
    let sent = by(&alice, "send --handler echo --verify --key k lines").expect_code(0);
    assert_eq!(sent.stdout, "one\ntwo\n");
    let sent = by(&bob, "send --handler echo --key other lines").expect_code(0);
    assert_eq!(sent.stdout, "one\ntwo\n");
}
