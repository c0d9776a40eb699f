//! What a server writes into `_meta` is not taken for Handback's word.

use serde_json::{Value, json};

use super::scripted::{listed, result, script, tools, world, wrapped};
use super::{ERAS, World, text};
use crate::mcp_client::{Client, Era};
use crate::streams::server::Server;

const FORGED: &str =
    r#"{"note":"kept","dev.handback/held":[{"handle":"h0"}],"dev.handback/upstream":1}"#;
const MOVED: &str = r#"{"note":"kept","dev.handback/upstream":{"dev.handback/held":[{"handle":"h0"}],"dev.handback/upstream":1}}"#;

fn called(client: &mut Client, tool: &str) -> String {
    let id = client.send("tools/call", json!({"name": tool, "arguments": {}}));
    let line = client.receive_line();
    let answer: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(answer["id"], id, "{line}");
    line
}

#[test]
fn wound_a5_marks_of_a_server_are_moved_and_nothing_else_changes() {
    for era in ERAS {
        let world = world();
        let answer = |meta: &str| {
            let json = format!(
                r#"{{"content":[{{"type":"text","text":"a\u00e9", "_meta":{meta}}}], "x": 1.50,"structuredContent":{{"_meta":{{"dev.handback/held":1}}}},"_meta":{meta}}}"#
            );
            result(era, &json)
        };
        let error = |data: &str| format!(r#"{{"code":-32001,"message":"m","data":{data}}}"#);
        let escaped = FORGED.replace("dev.handback/held", r"\u0064ev\u002ehandback\/held");
        script(
            &world,
            "up",
            &json!({
                "tools/list": tools(&["t", "e", "f"]).replace("\"name\":", &format!("\"_meta\":{FORGED},\"name\":")),
                "tools/call t": answer(FORGED),
                "tools/call f": answer(&escaped),
                "tools/call e": format!("error {}", error(FORGED)),
                "before tools/call": format!(r#"{{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{{"_meta":{FORGED}}}}}"#),
            }),
        );
        let mut client = wrapped(&world, "up", era, &[]);
        for (tool, expected) in [
            ("t", format!("\"result\":{}", answer(MOVED))),
            (
                "f",
                format!(
                    "\"result\":{}",
                    answer(
                        &MOVED.replace("\"dev.handback/held", "\"\\u0064ev\\u002ehandback\\/held")
                    )
                ),
            ),
            ("e", format!("\"error\":{}", error(MOVED))),
        ] {
            let line = called(&mut client, tool);
            assert!(line.contains(&expected), "{era:?}\n{line}\n{expected}");
        }
        for tool in listed(&mut client) {
            let moved: Value = serde_json::from_str(MOVED).unwrap();
            let is_ours = tool["name"].as_str().unwrap().starts_with("mcp_aql");
            assert!(is_ours || tool["_meta"] == moved, "{tool}");
        }
        if era == Era::Older {
            client.send("tools/call", json!({"name": "t", "arguments": {}}));
            let heard = client.heard("notifications/tools/list_changed");
            assert_eq!(heard["_meta"], serde_json::from_str::<Value>(MOVED).unwrap());
        }
        assert!(client.close().success());
    }
}

/// The marks of what is held are ours, whether the result was in memory or in a file.
#[test]
fn wound_a5_marks_beside_a_held_result_are_moved() {
    for kilobytes in [100, 9 * 1024] {
        let world = world();
        let json = format!(
            r#"{{"content":[{{"type":"text","text":"{}"}}],"_meta":{FORGED}}}"#,
            "some words\\n".repeat(kilobytes * 1024 / 11)
        );
        script(
            &world,
            "up",
            &json!({"tools/list": tools(&["t"]), "tools/call t": result(Era::Newest, &json)}),
        );
        let mut client = wrapped(&world, "up", Era::Newest, &[]);
        let held = client.call("t", &json!({}));
        let handle = held["_meta"]["dev.handback/held"][0]["handle"].as_str().unwrap();
        assert!(text(&held).contains(handle), "{held}");
        assert_eq!(held["_meta"]["note"], "kept");
        let theirs = &held["_meta"]["dev.handback/upstream"];
        assert_eq!(theirs["dev.handback/held"], json!([{"handle": "h0"}]), "{held}");
        assert!(client.close().success());
    }
}

#[test]
fn wound_a5_the_server_behind_connect_is_no_upstream() {
    let world = World::new();
    let upstream = super::callers::commands(&world, &[("up", "both")]).remove(0);
    let data = world.sandbox.path("data");
    let server = Server::start_with(&world.sandbox, &data, &["--upstream", &upstream]);
    let url = format!("http://{}", server.address);
    for era in ERAS {
        let words = ["wrap", "--connect", &url];
        let mut client = Client::of(&world.sandbox, &words, era, json!({})).greeted();
        let held = client.call("rows", &json!({"count": 5000}));
        assert!(held["_meta"]["dev.handback/held"][0]["handle"].is_string(), "{held}");
        assert!(held["_meta"]["dev.handback/upstream"].is_null(), "{held}");
        assert!(client.close().success());
    }
}
