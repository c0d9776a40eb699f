//! Refusals of one kind are equal to the byte, whoever asks and whatever part of the gateway refuses.

use serde_json::{Value, json};

use super::callers::Callers;

fn knows_tasks() -> Value {
    json!({"extensions": {"io.modelcontextprotocol/tasks": {}}})
}

/// Handles and task ids that nobody has.
fn never() -> String {
    handback_token::Handle::generate(&mut rand::rng()).to_string()
}

#[track_caller]
fn all_equal(what: &str, bodies: &[String]) {
    let first = &bodies[0];
    let refused: Value = serde_json::from_str(first).unwrap();
    assert!(
        refused["error"].is_object() || refused["result"]["isError"] == true,
        "{what}: {first}"
    );
    for body in bodies {
        assert_eq!(body, first, "{what}");
    }
}

#[test]
fn wound_a8_tasks_that_are_not_there_are_refused_alike() {
    let rules = "[[gateway.tools]]\ntools = \"append\"\nlong = true\n";
    for upstreams in [&[("a", "both")][..], &[("a", "both"), ("b", "both tasks")]] {
        let callers = Callers::before(upstreams, rules);
        let (alice, bob) = (callers.alice.as_str(), callers.bob.as_str());
        let task = |who: &str, tool: &str, arguments: Value| {
            let params = json!({"name": tool, "arguments": arguments});
            let made = callers.ask_of(who, "tools/call", tool, params, knows_tasks());
            let id = &made["result"]["taskId"];
            id.as_str().unwrap_or_else(|| panic!("{made}")).to_owned()
        };
        let mut ids =
            vec![never(), "no".to_owned(), String::new(), "x".repeat(300), "é\n".to_owned()];
        // One of the gateway, and one of a server: each of them of another caller.
        let is_alone = upstreams.len() == 1;
        let append = if is_alone { "append" } else { "a__append" };
        ids.push(task(bob, append, json!({"text": "x"})));
        if !is_alone {
            let of_server = task(bob, "chore", json!({"bytes": 10}));
            // One digit of it is another one.
            let last = if of_server.ends_with('A') { 'B' } else { 'A' };
            let mut edited = of_server.clone();
            edited.pop();
            edited.push(last);
            ids.extend([of_server, edited]);
        }
        for method in ["tasks/get", "tasks/cancel", "tasks/update"] {
            // Without the header, the protocol has an error of its own.
            let named = ids.iter().filter(|id| !id.is_empty());
            let bodies: Vec<_> = named
                .map(|id| {
                    let mut params = json!({"taskId": id});
                    if method == "tasks/update" {
                        params["inputResponses"] = json!({});
                    }
                    let name = if id.is_ascii() { id.as_str() } else { "=?base64?w6kK?=" };
                    callers.body_of((alice, None), method, name, params, knows_tasks())
                })
                .collect();
            all_equal(method, &bodies);
        }
        if is_alone {
            // In a session the process of the server is this client's alone, and answers itself.
            continue;
        }
        let session = callers.begin(alice);
        for method in ["tasks/get", "tasks/cancel", "tasks/result"] {
            let bodies: Vec<_> = ids
                .iter()
                .map(|id| {
                    let params = json!({"taskId": id});
                    callers.body_of((alice, Some(&session)), method, "", params, json!({}))
                })
                .collect();
            all_equal(method, &bodies);
        }
    }
}

#[test]
fn wound_a8_names_handles_and_cursors_that_are_not_there_are_refused_alike() {
    let rules = "[[permissions.rules]]\ndeny = [\"look\", \"mcp_aql_create\"]\nsubjects = [\"alice\"]\n\
                 [[permissions.rules]]\nallow = [\"*\"]\n";
    let callers = Callers::before(&[("a", "both"), ("b", "both has:mine")], rules);
    let (alice, bob) = (callers.alice.as_str(), callers.bob.as_str());
    let session = callers.begin(alice);
    for session in [None, Some(session.as_str())] {
        let of = |method: &str, name: &str, params: Value| {
            callers.body_of((alice, session), method, name, params, json!({}))
        };
        // Unknown, denied, and denied of our own.
        let call = |name: &str| of("tools/call", name, json!({"name": name, "arguments": {}}));
        let names = [
            "never",
            "a__look",
            "b__look",
            "b__never",
            "mcp_aql_create",
            "handback__mcp_aql_create",
            "handback__never",
        ];
        all_equal("names", &names.map(call));
        let with_state = |name: &str| {
            of("tools/call", name, json!({"name": name, "arguments": {}, "requestState": 5}))
        };
        all_equal("names with a state that is none", &names.map(with_state));
        let held = callers.ask(bob, "a__document", json!({"arguments": {"bytes": 100_000}}));
        let foreign = held["result"]["_meta"]["dev.handback/held"][0]["handle"].as_str().unwrap();
        let read = |handle: &str| {
            let read = json!({"operation": "list_elements", "element_type": handle, "params": {}});
            of("tools/call", "mcp_aql_read", json!({"name": "mcp_aql_read", "arguments": read}))
        };
        let bodies = [read(&never()), read(foreign)];
        assert!(bodies[0].contains("invalid handle"), "{}", bodies[0]);
        assert_eq!(bodies[0], bodies[1]);
        let write = |handle: &str| {
            let arguments = json!({"text": format!("$held:{handle}")});
            of(
                "tools/call",
                "a__write_document",
                json!({"name": "a__write_document", "arguments": arguments}),
            )
        };
        all_equal("references", &[write(&never()), write(foreign)]);
        let page = callers.ask_of(bob, "tools/list", "", json!({}), json!({}));
        let foreign = page["result"]["nextCursor"].as_str().unwrap().to_owned();
        let list = |cursor: &str| of("tools/list", "", json!({"cursor": cursor}));
        all_equal("cursors", &[list("no"), list(""), list(&foreign), list(&"x".repeat(5000))]);
    }
    let list = |session: &str| {
        callers.body_of((alice, Some(session)), "tools/list", "", json!({}), json!({}))
    };
    let foreign = callers.begin(bob);
    assert_eq!(list("no"), list(&foreign));
    assert_eq!(list(&never()), list(&foreign));
}
