//! What reading tools give to clients that take so much at once and no more.

use serde_json::{Value, json};

use super::{ERAS, World, text};
use crate::mcp_client::{Client, Era};

const BUDGET_BYTES: usize = 40 << 10;

/// Holds rows of about 13 kB in JSON each.
fn held(client: &mut Client) -> String {
    let result = client.call("wide", &json!({"count": 30, "bytes": 3_000}));
    let held = &result["_meta"]["dev.handback/held"][0];
    assert_eq!(held["total"], 30, "{result}");
    held["handle"].as_str().unwrap().to_owned()
}

/// What a question is answered with, and the bytes of the result as they came.
fn ask(client: &mut Client, operation: &str, handle: &str, params: &Value) -> (Value, usize) {
    let asked = json!({"operation": operation, "element_type": handle, "params": params});
    let result = client.call("mcp_aql_read", &asked);
    (serde_json::from_str(text(&result)).unwrap(), result.to_string().len())
}

/// Every row, and the size of the largest answer.
fn walk(client: &mut Client, handle: &str) -> (Vec<u64>, usize) {
    let (mut rows, mut largest) = (Vec::new(), 0);
    let mut params = json!({"first": 100});
    loop {
        let (answer, bytes) = ask(client, "list_elements", handle, &params);
        largest = largest.max(bytes);
        let items = answer["data"]["items"].as_array().unwrap_or_else(|| panic!("{answer}"));
        rows.extend(items.iter().map(|item| item["id"].as_u64().unwrap()));
        if answer["data"]["pageInfo"]["hasNextPage"] == false {
            return (rows, largest);
        }
        let hint = answer["warnings"][0]["details"]["hint"].as_str().unwrap();
        assert!(hint.contains("'after'"), "{answer}");
        params["after"] = answer["data"]["pageInfo"]["endCursor"].clone();
    }
}

#[test]
fn pages_of_a_held_result_are_within_the_budget_of_the_client() {
    for era in ERAS {
        let world = World::new();
        let mut client = world.client(era);
        let handle = held(&mut client);
        let (rows, largest) = walk(&mut client, &handle);
        assert_eq!(rows, (0..30).collect::<Vec<_>>(), "each once, in order");
        assert!(largest <= BUDGET_BYTES && largest > BUDGET_BYTES / 2, "{largest}");
        assert!(client.close().success());
    }
}

#[test]
fn a_value_that_is_over_the_budget_alone_is_read_in_pieces() {
    for era in ERAS {
        let world = World::new();
        let mut client = world.client(era);
        let result = client.call("wide", &json!({"count": 3, "bytes": 50_000}));
        let handle = result["_meta"]["dev.handback/held"][0]["handle"].as_str().unwrap();
        let (page, bytes) = ask(&mut client, "list_elements", handle, &json!({}));
        assert!(bytes <= BUDGET_BYTES, "{bytes}");
        for (number, item) in page["data"]["items"].as_array().unwrap().iter().enumerate() {
            let shown = &item["$excerpt"];
            assert_eq!(shown["pointer"], format!("/rows/{number}"), "{item}");
            let mut text = shown["text"].as_str().unwrap().to_owned();
            let mut asked = shown["read_on"].clone();
            loop {
                let result = client.call("mcp_aql_read", &asked);
                assert!(result.to_string().len() <= BUDGET_BYTES);
                let answer: Value = serde_json::from_str(super::text(&result)).unwrap();
                text.push_str(answer["data"]["text"].as_str().unwrap());
                let Some(next) = answer["data"].get("next") else { break };
                asked["params"]["from"] = next.clone();
            }
            let row: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(
                (&row["id"], row["body"].as_str().unwrap().chars().count()),
                (&json!(number), 50_000)
            );
        }
        let (whole, bytes) =
            ask(&mut client, "get_element", handle, &json!({"pointer": "/rows/1"}));
        assert!(bytes <= BUDGET_BYTES && bytes > BUDGET_BYTES / 2, "{bytes}");
        assert_eq!(whole["data"]["$excerpt"]["kind"], "object");
        assert!(client.close().success());
    }
}

#[test]
fn budgets_are_by_client_and_by_tool_and_may_be_none() {
    let world = World::new();
    let check = |settings: &str, flags: &[&str], expected: std::ops::Range<usize>| {
        world.sandbox.write("handback.toml", settings);
        let config = world.sandbox.path("handback.toml");
        let flags = [&["--config", config.to_str().unwrap()], flags].concat();
        for era in [Era::Older, Era::Newest] {
            let mut client = world.client_with(era, &flags, json!({}));
            let handle = held(&mut client);
            let (rows, largest) = walk(&mut client, &handle);
            assert_eq!(rows, (0..30).collect::<Vec<_>>());
            assert!(expected.contains(&largest), "{settings} {flags:?}: {largest}");
        }
    };
    check("", &["--budget", "100KiB"], (60 << 10)..(100 << 10) + 1);
    check("[gateway.clients]\ntest = \"80KiB\"\n", &[], (45 << 10)..(80 << 10) + 1);
    let tool = "[[gateway.tools]]\ntools = \"mcp_aql_*\"\nbudget = \"unlimited\"\n";
    check(tool, &[], 300_000..2_000_000);
    let other = "[gateway.clients]\nother = \"unlimited\"\n";
    check(other, &[], 1..BUDGET_BYTES + 1);
    // The flag is what holds where nothing is said of the tool or the client.
    let all = "[gateway]\nbudget = \"300KiB\"\n";
    check(all, &["--budget", "100KiB"], (60 << 10)..(100 << 10) + 1);
    let client = "[gateway.clients]\ntest = \"80KiB\"\n";
    check(client, &["--budget", "200KiB"], (45 << 10)..(80 << 10) + 1);
    check(&format!("{client}{tool}"), &["--budget", "60KiB"], 300_000..2_000_000);
}

#[test]
fn a_budget_is_for_upstreams_of_the_file_as_well() {
    let world = World::new();
    let path = |name: &str| world.sandbox.path(name).to_str().unwrap().to_owned();
    let (upstream, record, config) = (path("upstream.py"), path("record"), path("handback.toml"));
    let python = r#""/usr/bin/env", "PATH=/usr/local/bin:/usr/bin:/bin", "python3""#;
    let settings =
        format!("[upstreams.up]\ncommand = [{python}, {upstream:?}, {record:?}, \"both\"]\n");
    world.sandbox.write("handback.toml", &settings);
    let flags = ["--config", &config, "--budget", "100KiB"];
    let mut client = Client::start(&world.sandbox, &flags, Era::Newest, json!({}));
    let handle = held(&mut client);
    let (_, largest) = walk(&mut client, &handle);
    assert!(((60 << 10)..=(100 << 10)).contains(&largest), "{largest}");
    // Without any, it is for nothing.
    world.sandbox.write("handback.toml", "");
    let ran = world.sandbox.run("serve --config handback.toml --budget 20KiB").expect_code(2);
    assert!(ran.stderr.contains("hint: --upstream"), "{ran:?}");
}

#[test]
fn a_client_may_want_less_than_its_budget() {
    let world = World::new();
    let mut client = world.client(ERAS[1]);
    let handle = held(&mut client);
    let asked = json!({"operation": "list_elements", "element_type": handle, "params": {}});
    let with = |client: &mut Client, bytes: u64| {
        let params = json!({"name": "mcp_aql_read", "arguments": asked,
            "_meta": {"dev.handback/budget": bytes}});
        client.ask("tools/call", params).to_string().len()
    };
    assert!(with(&mut client, 20_000) <= 20_000);
    let most = with(&mut client, 10_000_000);
    assert!(most <= BUDGET_BYTES && most > 20_000, "{most}");
}
