//! Servers whose schemas are made to be expensive.

use std::fs;

use serde_json::{Value, json};

use super::callers::Callers;
use super::{ERAS, World, text};
use crate::mcp_client::{Client, ERRORS};

/// Memory of the process. General validators take 9 GB for one of these schemas.
const PEAK_BYTES_MAX: u64 = 400 << 20;

/// CPU time of the process before a check, in hundredths of a second. It takes some 30; one compilation
/// of these schemas takes over 5,000.
const LISTING_CPU_MAX: u64 = 600;

fn names(client: &mut Client) -> Vec<String> {
    let (mut names, mut params) = (Vec::new(), json!({}));
    loop {
        let page = client.ask("tools/list", params);
        let tools = page["tools"].as_array().unwrap();
        names.extend(tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()));
        match &page["nextCursor"] {
            Value::Null => return names,
            cursor => params = json!({"cursor": cursor}),
        }
    }
}

fn peak_bytes(client: &Client) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", client.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() * 1024
}

/// User and system time of a process, in ticks.
fn cpu(client: &Client) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{}/stat", client.pid())).unwrap();
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    let mut ticks = fields.split_whitespace().skip(11).take(2).map(|field| field.parse::<u64>());
    ticks.by_ref().map(Result::unwrap).sum()
}

#[test]
fn wound_a1_expensive_schemas_are_listed_and_not_compiled() {
    for era in ERAS {
        let world = World::speaking("both costly");
        let mut client = world.client(era);
        let listed = names(&mut client);
        for tool in ["append", "ladder", "diamonds", "mcp_aql_read"] {
            assert!(listed.iter().any(|name| name == tool), "{listed:?}");
        }
        assert_eq!(text(&client.call("look", &json!({"text": "here"}))), "here");
        assert!(cpu(&client) < LISTING_CPU_MAX, "{} ticks", cpu(&client));
        assert!(peak_bytes(&client) < PEAK_BYTES_MAX, "{} bytes", peak_bytes(&client));
    }
}

#[test]
fn wound_a1_what_takes_too_many_steps_to_check_is_refused_or_held() {
    let world = World::speaking("both costly");
    let mut client = world.client(ERAS[1]);
    let held = client.call("document", &json!({"bytes": 300_000}));
    let handle = held["_meta"]["dev.handback/held"][0]["handle"].as_str().unwrap().to_owned();
    for tool in ["ladder", "diamonds"] {
        let refused = client.call(tool, &json!({"text": format!("$held:{handle}")}));
        assert_eq!(refused["isError"], true, "{refused}");
        assert!(text(&refused).contains("more steps than a check may take"), "{refused}");
        assert_eq!(refused["_meta"]["dev.handback/reason"], "bad_arguments", "{refused}");
        assert!(world.effects(tool).is_empty());
        // Arguments that name nothing are the server's to check.
        let small = client.call(tool, &json!({"count": 3}));
        assert_eq!(small["structuredContent"]["rows"], json!([0, 1, 2]), "{small}");
        // No cut is known to be valid.
        let large = client.call(tool, &json!({"count": 50_000}));
        let shown = (&large["isError"], &large["structuredContent"]);
        assert_eq!(shown, (&json!(true), &Value::Null), "{large}");
        let handle = large["_meta"]["dev.handback/held"][0]["handle"].as_str().unwrap();
        assert!(text(&large).contains(handle), "{large}");
        assert_eq!(world.effects(tool).len(), 2);
    }
    assert!(peak_bytes(&client) < PEAK_BYTES_MAX, "{} bytes", peak_bytes(&client));
    let log = fs::read_to_string(world.sandbox.path(ERRORS)).unwrap();
    let faults: Vec<_> =
        log.lines().filter(|line| line.contains("a schema cannot be used")).collect();
    assert_eq!(faults.len(), 4, "once for each tool and schema: {log}");
    for (tool, member) in [
        ("ladder", "inputSchema"),
        ("ladder", "outputSchema"),
        ("diamonds", "inputSchema"),
        ("diamonds", "outputSchema"),
    ] {
        let is_it = |line: &&&str| line.contains(tool) && line.contains(member);
        assert_eq!(faults.iter().filter(is_it).count(), 1, "{tool} {member}: {log}");
    }
}

#[test]
fn wound_a1_tools_of_other_servers_are_listed_and_called() {
    let callers = Callers::before(&[("aaa", "both costly"), ("good", "both has:own")], "");
    let tools = callers.tools(&callers.alice);
    for tool in ["ladder", "diamonds", "own", "good__append", "mcp_aql_read"] {
        assert!(tools.iter().any(|name| name == tool), "{tools:?}");
    }
    let called = callers.ask(&callers.alice, "own", json!({"arguments": {}}));
    assert_eq!(text(&called["result"]), "learnt before", "{called}");
}
