//! Tools that ask back.

use serde_json::json;

use super::world::World;

/// The command that is printed to answer with.
#[track_caller]
fn printed(stdout: &str) -> &str {
    let (_, command) = stdout.split_once("To answer:\n").unwrap_or_else(|| panic!("{stdout}"));
    command.trim()
}

#[test]
fn what_is_asked_is_printed_with_the_command_that_answers_it() {
    let world = World::new();
    for (url, order) in [(world.http(), 17), (world.mcp(), 18)] {
        let arguments = json!({"order": order}).to_string();
        let asked = world.call(&url, &["shop_refund", &arguments]).expect_code(0).stdout;
        assert!(asked.contains(&format!("refund: Refund order {order}")), "{asked}");
        assert!(
            asked.contains("confirm (boolean)") && asked.contains("reason (string)"),
            "{asked}"
        );
        let command = printed(&asked).replace('…', "it broke");
        let refunded = world.shell(&command).expect_code(0).json();
        assert_eq!(refunded["order"], order, "{refunded}");
        // It is the same answer, so it is the same refund.
        let again = world.shell(&command).expect_code(0);
        assert_eq!(again.json(), refunded);
        assert!(again.stderr.contains("replayed"), "{again:?}");
        // Another answer to a question that was answered.
        let other = world.shell(&command.replace("it broke", "it is late")).expect_code(3);
        assert!(other.stdout.contains("refused: invalid"), "{other:?}");
    }
}

#[test]
fn a_question_can_be_declined() {
    let world = World::new();
    for url in [world.http(), world.mcp()] {
        let asked = world.json(&url, &["shop_refund", r#"{"order":21}"#]);
        assert_eq!(asked["questions"][0]["name"], "refund");
        assert!(asked["questions"][0]["schema"]["properties"]["confirm"].is_object());
        let state = asked["state"].as_str().unwrap();
        let words = ["shop_refund", r#"{"order":21}"#, "--state", state, "--decline", "refund"];
        assert_eq!(world.json(&url, &words)["result"]["refunded"], false);
        // Answers that do not fit the form are refused, and answers belong to a state.
        let asked = world.json(&url, &["shop_refund", r#"{"order":21}"#]);
        let state = asked["state"].as_str().unwrap();
        let bad = ["shop_refund", r#"{"order":21}"#, "--state", state, "--answer", "refund={}"];
        world.call(&url, &bad).expect_code(1);
        world
            .call(&url, &["shop_refund", r#"{"order":21}"#, "--answer", "refund={}"])
            .expect_code(2);
    }
}

#[test]
fn a_person_is_asked_line_by_line() {
    let world = World::new();
    for (url, order) in [(world.http(), 33), (world.mcp(), 34)] {
        let line = format!("call --url {url} shop_refund {{\"order\":{order}}} --interactive");
        let ran = world.sandbox.run_with_stdin(&line, b"perhaps\nyes\nit broke\n").expect_code(0);
        assert_eq!(ran.json()["order"], order);
        assert!(ran.stderr.contains("Refund order"), "{ran:?}");
        let ran = world.sandbox.run_with_stdin(&line, b"").expect_code(1);
        assert!(ran.stderr.contains("refunded already"), "{ran:?}");
    }
    // Nobody answers: it is printed.
    let line = format!("call --url {} shop_refund {{\"order\":35}} --interactive", world.http());
    let ran = world.sandbox.run_with_stdin(&line, b"").expect_code(0);
    assert!(printed(&ran.stdout).contains("--state"), "{ran:?}");
}

#[test]
fn the_socket_has_no_questions() {
    let world = World::new();
    let ran = world.call(&world.socket(), &["shop_refund", r#"{"order":17}"#]).expect_code(1);
    assert!(ran.stderr.contains("use another surface"), "{ran:?}");
}
