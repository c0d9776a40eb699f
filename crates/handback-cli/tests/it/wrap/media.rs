//! Images, audio and blobs, which have a budget of their own.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{ERAS, aql, text};
use crate::mcp_client::{Client, Era};
use crate::support::Sandbox;

/// Bytes that are counted, as base64.
fn data(size: usize) -> String {
    let bytes: Vec<u8> = (0..=255).cycle().take(size).collect();
    STANDARD.encode(bytes)
}

fn image(size: usize) -> Value {
    json!({"type": "image", "data": data(size), "mimeType": "image/png"})
}

/// A client of a server that gives media.
fn client(era: Era, speaks: &str, flags: &[&str]) -> (Sandbox, Client) {
    client_with(era, speaks, flags, json!({}))
}

fn client_with(era: Era, speaks: &str, flags: &[&str], can: Value) -> (Sandbox, Client) {
    let sandbox = Sandbox::new();
    let client = Client::at(&sandbox, command(&sandbox, speaks, flags), era, can).greeted();
    (sandbox, client)
}

fn command(sandbox: &Sandbox, speaks: &str, flags: &[&str]) -> std::process::Command {
    sandbox.write("media.py", include_str!("media.py"));
    let script = sandbox.path("media.py");
    let server = ["--", "python3", script.to_str().unwrap(), speaks];
    sandbox.command(&[&["wrap"], flags, &server].concat())
}

/// The handle in a link to something that is held.
#[track_caller]
fn handle_of(link: &Value) -> &str {
    assert_eq!(link["type"], "resource_link", "{link}");
    link["uri"].as_str().unwrap().strip_prefix("handback://held/").unwrap()
}

fn get(handle: &str, id: u64) -> Value {
    let params = json!({"id": id});
    json!({"operation": "get_element", "element_type": handle, "params": params})
}

#[test]
fn wound_b1_a_screenshot_arrives_as_an_image_to_the_byte() {
    for era in ERAS {
        for speaks in ["older", "newest"] {
            let (_sandbox, mut client) = client(era, speaks, &[]);
            for size in [200_000, 1_000_000] {
                let result = client.call("shots", &json!({"lines": 3, "sizes": [size]}));
                let content = result["content"].as_array().unwrap();
                assert_eq!(content.len(), 2, "{era:?}, {speaks}");
                assert!(content[0]["text"].as_str().unwrap().starts_with("line 0 of"));
                assert_eq!(content[1], image(size));
                assert!(result["_meta"]["dev.handback/held"].is_null());
            }
            let result = client.call("sound", &json!({"bytes": 500_000}));
            assert_eq!(result["content"][0]["data"], data(500_000));
            let result = client.call("blob", &json!({"bytes": 500_000}));
            assert_eq!(result["content"][0]["resource"]["blob"], data(500_000));
        }
    }
}

#[test]
fn wound_b1_images_stay_where_the_text_beside_them_is_held() {
    for era in ERAS {
        let (_sandbox, mut client) = client(era, "both", &[]);
        let result = client.call("shots", &json!({"lines": 20_000, "sizes": [300_000, 400_000]}));
        let content = result["content"].as_array().unwrap();
        assert_eq!(content[2..], [image(300_000), image(400_000)], "{era:?}");
        let notice = text(&result);
        assert!(notice.contains("search_elements") && !notice.contains("image"), "{notice}");
        let held = result["_meta"]["dev.handback/held"].as_array().unwrap();
        assert_eq!((held.len(), &held[0]["path"]), (1, &json!("/content/0/text")));
        assert!(serde_json::to_vec(&result).unwrap().len() < (40 << 10) + 4 * 700_000 / 3 + 1_000);
    }
}

#[test]
fn wound_b1_media_over_its_budget_is_a_link_and_comes_back_as_a_block() {
    for era in ERAS {
        let (_sandbox, mut client) = client(era, "both", &["--media-budget", "500KiB"]);
        let result = client.call("shots", &json!({"lines": 1, "sizes": [300_000, 600_000]}));
        let content = result["content"].as_array().unwrap();
        assert_eq!(content[2], image(300_000));
        let handle = handle_of(&content[3]);
        let notice = text(&result);
        assert!(notice.contains("get_element") && !notice.contains("search"), "{notice}");
        // The block itself, for the model to see.
        let shown = client.call("mcp_aql_read", &get(handle, 0));
        let blocks = shown["content"].as_array().unwrap();
        assert_eq!((blocks.len(), &blocks[1]), (2, &image(600_000)));
        let told: Value = serde_json::from_str(text(&shown)).unwrap();
        assert_eq!((&told["success"], &told["data"]["type"]), (&json!(true), &json!("image")));
        // The tool for new values gives none.
        let refused = client.call("mcp_aql_create", &get(handle, 0));
        let told: Value = serde_json::from_str(text(&refused)).unwrap();
        assert_eq!(
            (refused["content"].as_array().unwrap().len(), &told["success"]),
            (1, &json!(false))
        );
        // No other operation gives base64 as a text.
        for request in [
            json!({"operation": "list_elements", "element_type": handle}),
            json!({"operation": "get_element", "element_type": handle, "params": {"pointer": "/data"}}),
            json!({"operation": "search_elements", "element_type": handle, "params": {"query": "png"}}),
        ] {
            let shown = client.call("mcp_aql_read", &request).to_string();
            assert!(shown.len() < 4_000 && !shown.contains("AAECAwQF"), "{shown}");
        }
        // As a resource, and in the list of what is held.
        let uri = json!({"uri": content[3]["uri"]});
        let read = client.ask("resources/read", uri);
        assert_eq!(read["contents"][0]["blob"], data(600_000), "{era:?}");
        assert_eq!(read["contents"][0]["mimeType"], "image/png");
        let listed = client.call("mcp_aql_read", &json!({"operation": "list_collections"}));
        assert!(text(&listed).contains("image/png"), "{listed}");
    }
}

#[test]
fn wound_a4_a_held_image_of_another_handback_is_read_there() {
    for era in ERAS {
        let sandbox = Sandbox::new();
        sandbox.write("media.py", include_str!("media.py"));
        let script = sandbox.path("media.py");
        let mut words = vec!["wrap", "--name", "out", "--", env!("CARGO_BIN_EXE_handback"), "wrap"];
        words.extend(["--media-budget", "500KiB", "--"]);
        words.extend(["/usr/bin/env", "PATH=/usr/local/bin:/usr/bin:/bin", "python3"]);
        words.extend([script.to_str().unwrap(), "both"]);
        let mut client = Client::of(&sandbox, &words, era, json!({})).greeted();
        client.ask("tools/list", json!({}));
        let result = client.call("shots", &json!({"sizes": [600_000]}));
        let content = result["content"].as_array().unwrap();
        let link = content.iter().find(|block| block["type"] == "resource_link").unwrap();
        let read = client.ask("resources/read", json!({"uri": link["uri"]}));
        assert_eq!(read["contents"][0]["blob"], data(600_000), "{era:?}");
        assert!(client.close().success());
    }
}

#[test]
fn wound_b1_many_images_are_shown_while_there_is_room_and_read_one_by_one() {
    let (_sandbox, mut client) = client(Era::Newest, "both", &["--media-budget", "300KiB"]);
    let sizes = vec![20_000; 100];
    let result = client.call("shots", &json!({"lines": 5, "sizes": sizes}));
    let content = result["content"].as_array().unwrap();
    let shown = content.iter().filter(|block| **block == image(20_000)).count();
    assert_eq!(shown, (300 << 10) / (data(20_000).len() + 2));
    let held = &result["_meta"]["dev.handback/held"][0];
    assert_eq!((&held["path"], &held["total"]), (&json!("/content"), &json!(101)));
    let handle = held["handle"].as_str().unwrap();
    let block = client.call("mcp_aql_read", &get(handle, 77));
    assert_eq!(block["content"][1], image(20_000));
    let data = aql(&mut client, "mcp_aql_read", &get(handle, 0));
    assert!(data.to_string().contains("line 4 of the page"), "{data}");
    let page = client.call(
        "mcp_aql_read",
        &json!({
            "operation": "list_elements", "element_type": handle, "params": {"limit": 50},
        }),
    );
    assert!(!page.to_string().contains("AAECAwQF"), "base64 in a page");
}

#[test]
fn wound_b1_media_budgets_are_those_of_tools_clients_and_all() {
    let sandbox = Sandbox::new();
    let is_shown = |settings: &str, flags: &[&str], size: usize| {
        sandbox.write("handback.toml", settings);
        let config = sandbox.path("handback.toml");
        let flags = [&["--config", config.to_str().unwrap()], flags].concat();
        let command = command(&sandbox, "both", &flags);
        let mut client = Client::at(&sandbox, command, Era::Newest, json!({})).greeted();
        let result = client.call("shots", &json!({"sizes": [size]}));
        result["content"][0]["type"] == "image"
    };
    let all = "[gateway]\nmedia_budget = \"100KiB\"\n";
    let client = "[gateway.client_media_budgets]\ntest = \"200KiB\"\n";
    let tool = "[[gateway.tools]]\ntools = \"shots\"\nmedia_budget = \"50KiB\"\n";
    assert!(is_shown("", &[], 6_000_000) && !is_shown("", &[], 7_000_000));
    assert!(is_shown(all, &[], 70_000) && !is_shown(all, &[], 80_000));
    assert!(is_shown(all, &["--media-budget", "1MiB"], 700_000));
    let both = format!("{all}{client}");
    assert!(is_shown(&both, &[], 150_000) && !is_shown(&both, &[], 160_000));
    let three = format!("{both}{tool}");
    assert!(is_shown(&three, &[], 30_000) && !is_shown(&three, &[], 40_000));
    // Who takes everything takes images as well, unless something is said of them.
    assert!(is_shown("", &["--budget", "unlimited"], 7_000_000));
    assert!(!is_shown(all, &["--budget", "unlimited"], 80_000));
}

#[test]
fn wound_b1_a_client_before_links_gets_a_text_in_their_place() {
    let sandbox = Sandbox::new();
    let command = command(&sandbox, "older", &["--media-budget", "100KiB"]);
    let mut client = Client::at(&sandbox, command, Era::Older, json!({}));
    let hello = json!({
        "protocolVersion": "2025-03-26",
        "clientInfo": {"name": "old", "version": "1"},
        "capabilities": {},
    });
    client.ask("initialize", hello);
    let result = client.call("shots", &json!({"sizes": [200_000]}));
    let content = result["content"].as_array().unwrap();
    let text = content[1]["text"].as_str().unwrap();
    assert!(text.starts_with("[image, image/png, "), "{text}");
    let handle = result["_meta"]["dev.handback/held"][0]["handle"].as_str().unwrap().to_owned();
    let shown = client.call("mcp_aql_read", &get(&handle, 0));
    assert_eq!(shown["content"][1], image(200_000));
}

#[test]
fn wound_b1_a_replay_has_the_same_images_and_links() {
    let (_sandbox, mut client) = client(Era::Newest, "both", &["--media-budget", "300KiB"]);
    let call = json!({
        "name": "shots",
        "arguments": {"lines": 1, "sizes": [100_000, 400_000]},
        "_meta": {"dev.handback/idempotency-key": "k"},
    });
    let first = client.ask("tools/call", call.clone());
    let again = client.ask("tools/call", call);
    assert_eq!(first["content"], again["content"]);
    assert_eq!(again["_meta"]["dev.handback/replayed"], true);
    assert_eq!(first["content"][2], image(100_000));
    let shown = client.call("mcp_aql_read", &get(handle_of(&first["content"][3]), 0));
    assert_eq!(shown["content"][1], image(400_000));
}

#[test]
fn wound_b1_the_result_of_a_task_has_its_images() {
    let sandbox = Sandbox::new();
    sandbox.write("handback.toml", "[[gateway.tools]]\ntools = \"shots\"\nlong = true\n");
    let config = sandbox.path("handback.toml");
    let can = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let flags = ["--config", config.to_str().unwrap()];
    let command = command(&sandbox, "newest", &flags);
    let mut client = Client::at(&sandbox, command, Era::Newest, can);
    let made = client.call("shots", &json!({"lines": 20_000, "sizes": [900_000]}));
    let task = made["taskId"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned();
    let result = super::tasks::result_of(&mut client, &task);
    assert_eq!(result["content"][2], image(900_000));
    assert!(text(&result).starts_with("CUT to fit"));
}

#[test]
fn wound_b4_log_messages_of_a_newer_program_reach_who_asked_for_them() {
    let (_sandbox, mut client) = client(Era::Newest, "newest", &[]);
    let levels = ["debug", "warning", "error"];
    for (wanted, expected) in [
        (None, &[][..]),
        (Some("debug"), &["debug", "warning", "error"]),
        (Some("warning"), &["warning", "error"]),
        (Some("emergency"), &[]),
    ] {
        let mut params = json!({"name": "log", "arguments": {"levels": levels}});
        if let Some(level) = wanted {
            params["_meta"]["io.modelcontextprotocol/logLevel"] = level.into();
        }
        let id = client.send("tools/call", params);
        let mut heard = Vec::new();
        let answer = loop {
            let message = client.message();
            match message["method"].as_str() {
                Some("notifications/message") => heard.push(message["params"]["data"].clone()),
                Some(other) => panic!("{other}"),
                None => break message,
            }
        };
        assert_eq!((&answer["id"], text(&answer["result"])), (&json!(id), "logged"));
        assert_eq!(heard, expected, "{wanted:?}");
    }
}

#[test]
fn wound_b4_log_messages_of_a_newer_program_reach_an_older_client_that_set_a_level() {
    let (_sandbox, mut client) = client(Era::Older, "newest", &[]);
    client.ask("logging/setLevel", json!({"level": "warning"}));
    client.send("tools/call", json!({"name": "log", "arguments": {"levels": ["info", "error"]}}));
    let heard = client.message();
    assert_eq!(heard["params"]["data"], "error", "{heard}");
    assert_eq!(text(&client.message()["result"]), "logged");
}

#[test]
fn wound_b4_a_cancelled_request_gets_nothing_more() {
    for era in ERAS {
        for speaks in ["older", "newest"] {
            let (_sandbox, mut client) = client(era, speaks, &[]);
            if era == Era::Older {
                client.ask("logging/setLevel", json!({"level": "debug"}));
            }
            // What is said later is beside the next request of a session that wants all messages.
            let late = (era == Era::Newest).then_some("too late");
            let arguments = json!({"levels": ["info"], "delay_ms": 1_000, "late": late});
            let mut params = json!({"name": "log", "arguments": arguments});
            params["_meta"]["io.modelcontextprotocol/logLevel"] = "debug".into();
            let id = client.send("tools/call", params);
            let is_heard = speaks == "newest";
            if is_heard {
                assert_eq!(client.message()["params"]["data"], "info");
            }
            client.write(&json!({
                "jsonrpc": "2.0",
                "method": "notifications/cancelled",
                "params": {"requestId": id},
            }));
            // The server takes one call at a time: what it said of the first one is before this answer.
            let second = client.send(
                "tools/call",
                json!({
                    "name": "log", "arguments": {"levels": []},
                }),
            );
            loop {
                let message = client.message();
                assert_ne!(message["id"], json!(id), "{era:?}, {speaks}: {message}");
                if message["id"] == json!(second) {
                    break;
                }
                // An older program says of no call what it logs.
                assert_eq!(speaks, "older", "{era:?}: {message}");
            }
        }
    }
}

#[test]
fn wound_b4_what_a_server_does_not_have_is_no_method() {
    for era in ERAS {
        for speaks in ["older", "newest"] {
            let (sandbox, mut one) = client(era, speaks, &[]);
            let script = sandbox.path("media.py");
            let server = |name: &str| format!("{name}=python3 {} {speaks}", script.display());
            let (a, b) = (server("a"), server("b"));
            let flags = ["--no-demo", "--upstream", a.as_str(), "--upstream", b.as_str()];
            let mut several = Client::start(&sandbox, &flags, era, json!({}));
            for client in [&mut one, &mut several] {
                let mut code = |method: &str, params: Value| {
                    client.send(method, params);
                    client.receive()["error"]["code"].clone()
                };
                assert_eq!(code("prompts/list", json!({})), -32601, "{era:?}, {speaks}");
                let about = json!({"type": "ref/prompt", "name": "x"});
                let argument = json!({"name": "y", "value": ""});
                let params = json!({"ref": about, "argument": argument});
                assert_eq!(code("completion/complete", params), -32601, "{era:?}, {speaks}");
                // What is held becomes a resource.
                assert_eq!(client.ask("resources/list", json!({}))["resources"], json!([]));
            }
        }
    }
}
