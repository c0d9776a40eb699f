//! Results over the budget.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{ERAS, World, aql, text};
use crate::mcp_client::{Client, Era};

fn held(result: &Value) -> Value {
    result["_meta"]["dev.handback/held"][0].clone()
}

fn ids(items: &Value) -> Vec<u64> {
    items.as_array().unwrap().iter().map(|item| item["id"].as_u64().unwrap()).collect()
}

#[test]
fn what_fits_is_as_the_server_gave_it() {
    for era in ERAS {
        let world = World::new();
        let mut client = world.client(era);
        let id = client.send("tools/call", json!({"name": "append", "arguments": {"text": "a"}}));
        let line = client.receive_line();
        let result =
            r#"{"content":[{"type":"text","text":"appended"}],"x-unknown":{"b":1.50,"a":1e2}}"#;
        assert_eq!(line, format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#));
        assert!(client.close().success());
    }
}

#[test]
fn nothing_of_what_does_not_fit_is_lost() {
    for era in ERAS {
        let world = World::new();
        let mut client = world.client(era);
        let result = client.call("rows", &json!({"count": 5000}));
        let held = held(&result);
        let handle = held["handle"].as_str().unwrap();
        assert!(text(&result).contains(handle) && text(&result).contains("5000"), "{result}");
        assert_eq!((&held["total"], result["isError"].is_null()), (&json!(5000), true));
        let shown = ids(&result["structuredContent"]["rows"]);
        assert_eq!(shown, (0..held["shown"].as_u64().unwrap()).collect::<Vec<_>>());
        assert!(result.to_string().len() <= 40 << 10);
        let walked = walk(&mut client, handle);
        assert_eq!(walked, (0..5000).collect::<Vec<_>>(), "each once, in order");
        let params = json!({"filter": {"group": 3}});
        let counted =
            json!({"operation": "count_elements", "element_type": handle, "params": params});
        let counted = aql(&mut client, "mcp_aql_read", &counted);
        assert_eq!(counted["count"], (0..5000).filter(|n| n % 7 == 3).count());
        assert!(client.close().success());
    }
}

/// All items, page by page.
fn walk(client: &mut Client, handle: &str) -> Vec<u64> {
    let mut all = Vec::new();
    let mut after = Value::Null;
    loop {
        let params = json!({"first": 100, "after": after});
        let asked = json!({"operation": "list_elements", "element_type": handle, "params": params});
        let page = aql(client, "mcp_aql_read", &asked);
        all.extend(ids(&page["items"]));
        if page["pageInfo"]["hasNextPage"] != true {
            return all;
        }
        after = page["pageInfo"]["endCursor"].clone();
    }
}

#[test]
fn what_is_held_is_found_again_after_a_restart() {
    let world = World::new();
    let era = ERAS[0];
    let mut client = world.client(era);
    let result = client.call("rows", &json!({"count": 5000}));
    let handle = held(&result)["handle"].as_str().unwrap().to_owned();
    client.kill();
    let mut client = world.client(era);
    let found = json!({"operation": "list_collections", "params": {}});
    let found = aql(&mut client, "mcp_aql_read", &found).to_string();
    assert!(found.contains(&handle), "{found}");
    assert_eq!(walk(&mut client, &handle).len(), 5000);
}

#[test]
fn two_at_once_have_folders_of_their_own() {
    let world = World::new();
    let (mut one, mut other) = (world.client(ERAS[0]), world.client(ERAS[0]));
    let first = one.call("rows", &json!({"count": 5000}));
    let second = other.call("rows", &json!({"count": 5000}));
    let handle = held(&first)["handle"].as_str().unwrap().to_owned();
    assert_ne!(held(&second)["handle"], handle);
    let asked = json!({"operation": "list_elements", "element_type": handle, "params": {}});
    let refused = other.call("mcp_aql_read", &asked);
    assert!(text(&refused).contains("\"success\":false"), "{refused}");
    assert_eq!(walk(&mut one, &handle).len(), 5000);
}

#[test]
fn a_client_that_takes_everything_gets_it() {
    for era in ERAS {
        let world = World::new();
        let mut client = world.client_with(era, &["--budget", "unlimited"], json!({}));
        // More than is kept in memory while it arrives.
        let result = client.call("document", &json!({"bytes": 12_000_000}));
        let text = text(&result);
        assert!(text.len() >= 10_000_000, "{text:.200}");
        assert!(result["_meta"]["dev.handback/held"].is_null());
    }
}

/// Files of at least so many bytes below a folder, without the store's own journal.
fn large_files(folder: &Path, bytes: u64) -> usize {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let count = entries.map(|entry| match entry.metadata() {
        Ok(it) if it.is_dir() => large_files(&entry.path(), bytes),
        Ok(it) => {
            let is_journal = entry.path().extension().is_some_and(|it| it == "jnl");
            usize::from(it.len() >= bytes && !is_journal)
        }
        // It has just gone.
        Err(_) => 0,
    });
    count.sum()
}

#[test]
fn what_nobody_can_read_any_more_leaves_the_disk() {
    const BYTES: u32 = 40_000_000;
    let world = World::new();
    let folder = world.sandbox.path(".local/share/handback/wrap");
    let mut client = world.client(Era::Newest);
    let result = client.call("document", &json!({"bytes": BYTES}));
    assert!(held(&result)["handle"].is_string(), "{result}");
    let kept = || large_files(&folder, (BYTES / 2).into());
    assert_eq!(kept(), 1);
    assert!(client.close().success());
    assert_eq!(kept(), 1, "it outlives the process");
    let two_days_ms = 2 * 24 * 60 * 60 * 1000;
    let later = world.sandbox.set("HANDBACK_TEST_CLOCK_MS", two_days_ms.to_string());
    let world = World { sandbox: later, speaks: "both" };
    let _client = world.client(Era::Newest);
    let begun = Instant::now();
    while kept() > 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "it is still there");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn what_reads_the_held_keeps_its_name_beside_a_tool_of_a_server() {
    for era in ERAS {
        let world = World::speaking("both has:mcp_aql_read");
        let mut client = world.client_with(era, &["--name", "up"], json!({}));
        let names = super::scripted::names(&mut client);
        for (name, times) in [
            ("mcp_aql_read", 1),
            ("up__mcp_aql_read", 1),
            ("mcp_aql_create", 1),
            ("handback__mcp_aql_read", 0),
        ] {
            let found = names.iter().filter(|known| *known == name).count();
            assert_eq!(found, times, "{name}: {names:?}");
        }
        let theirs = client.call("up__mcp_aql_read", &json!({}));
        assert_eq!(text(&theirs), "learnt before", "that of the server");
        let result = client.call("rows", &json!({"count": 5000}));
        assert!(text(&result).contains("tool mcp_aql_read:"), "{}", text(&result));
        let handle = held(&result)["handle"].clone();
        let counted = json!({"operation": "count_elements", "element_type": handle, "params": {}});
        // By our own name, which is not shown, as well.
        for reader in ["mcp_aql_read", "handback__mcp_aql_read"] {
            assert_eq!(aql(&mut client, reader, &counted)["count"], 5000);
        }
        assert!(client.close().success());
    }
}
