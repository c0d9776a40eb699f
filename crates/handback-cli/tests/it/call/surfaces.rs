//! The same call gives the same, whichever way it goes.

use serde_json::{Value, json};

use super::world::{World, ids};

#[test]
fn tools_are_listed_described_and_called_alike_on_every_surface() {
    let world = World::new();
    let mut pages = Vec::new();
    for url in world.urls() {
        let listed = world.call(&url, &["--list"]).expect_code(0).stdout;
        let names: Vec<_> = listed.lines().filter_map(|line| line.split(' ').next()).collect();
        let aql = ["mcp_aql_create", "mcp_aql_read"];
        let expected = [aql.as_slice(), &["shop_orders", "shop_refund", "shop_report"]].concat();
        assert_eq!(names, expected, "{url}");
        let members = world.json(&url, &["--list"]);
        assert_eq!(members["tools"].as_array().unwrap().len(), expected.len());
        let told = world.call(&url, &["--describe", "shop_orders"]).expect_code(0).json();
        let schema = told.get("inputSchema").or_else(|| told.get("input_schema")).unwrap();
        assert!(schema["properties"]["customer"].is_object(), "{told}");

        let first = world.json(&url, &["shop_orders", r#"{"customer":7,"page_size":5}"#]);
        let cursor = first["next_cursor"].as_str().unwrap();
        let words = ["shop_orders", r#"{"customer":7,"page_size":5}"#, "--cursor", cursor];
        let second = world.json(&url, &words);
        assert_eq!(ids(&first["result"]).len(), 5);
        assert!(ids(&second["result"])[0] < ids(&first["result"])[4]);
        let query = json!({"operation": "count_elements", "element_type": "orders"});
        let count = world.json(&url, &["mcp_aql_read", &query.to_string()]);
        assert_eq!(count["result"]["data"]["count"], 100_000, "{url}");
        pages.push((first["result"].clone(), second["result"].clone()));
    }
    assert_eq!(pages[0], pages[1]);
    assert_eq!(pages[0], pages[2]);
}

#[test]
fn arguments_come_from_the_command_line_a_file_or_stdin() {
    let world = World::new();
    let (url, text) = (world.http(), r#"{"customer": 7}"#);
    let expected = world.call(&url, &["shop_orders", text]).expect_code(0).stdout;
    assert_eq!(ids(&serde_json::from_str::<Value>(&expected).unwrap()).len(), 20);
    world.sandbox.write("arguments", text);
    assert_eq!(world.call(&url, &["shop_orders", "@arguments"]).expect_code(0).stdout, expected);
    let line = format!("call --url {url} shop_orders -");
    let piped = world.sandbox.run_with_stdin(&line, text.as_bytes());
    assert_eq!(piped.expect_code(0).stdout, expected);
    for wrong in ["[]", "{", "7"] {
        world.call(&url, &["shop_orders", wrong]).expect_code(2);
    }
    world.call(&url, &["shop_orders", "@missing"]).expect_code(1);
}

#[test]
fn what_is_not_there_or_not_right_says_so() {
    let world = World::new();
    for url in world.urls() {
        let ran = world.call(&url, &["shop_nothing"]).expect_code(1);
        assert!(ran.stderr.contains("not found") || ran.stderr.contains("no such"), "{ran:?}");
        let ran = world.call(&url, &["shop_orders", r#"{"custom":7}"#]).expect_code(1);
        assert!(ran.stderr.contains("custom"), "{ran:?}");
        // A tool that fails is not the same as a call that is refused.
        let ran = world.call(&url, &["shop_orders", r#"{"customer":0}"#]).expect_code(1);
        assert!(ran.stderr.contains("the tool failed"), "{ran:?}");
        assert!(ran.stderr.contains("there is no such customer"), "{ran:?}");
        // Nor is a cursor that is refused.
        let words = ["shop_orders", "{}", "--cursor", "abcdefgh"];
        let ran = world.call(&url, &words).expect_code(3);
        assert!(ran.stdout.contains("refused: invalid"), "{ran:?}");
    }
    let gone = world.call("http://127.0.0.1:1", &["shop_orders"]).expect_code(1);
    assert!(gone.stderr.contains("handback serve"), "{gone:?}");
    let gone = world.call("unix:nothing.sock", &["--list"]).expect_code(1);
    assert!(gone.stderr.contains("handback serve"), "{gone:?}");
    world.call("ftp://127.0.0.1", &["--list"]).expect_code(2);
}

#[test]
fn a_long_call_tells_how_far_it_is() {
    let world = World::new();
    for url in [world.http(), world.mcp()] {
        let words = ["shop_report", r#"{"pause_ms":1}"#, "--progress"];
        let ran = world.call(&url, &words).expect_code(0);
        assert!(ran.json()["total_cents"].as_u64().unwrap() > 0);
        assert_eq!(ran.stderr.matches("progress: ").count(), 10, "{ran:?}");
        assert!(ran.stderr.contains("progress: 10/10 "), "{ran:?}");
        // Nobody is told who did not ask.
        let quiet = world.call(&url, &["shop_report", r#"{"pause_ms":1}"#]).expect_code(0);
        assert_eq!(quiet.stderr, "");
    }
}
