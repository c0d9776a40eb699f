//! Names: ours stay ours, names that cannot be shown are left out, and a refused name says which to use.

use serde_json::{Value, json};

use super::callers::Callers;
use super::scripted::{command, listed, names, result, script, served, tools, world, wrapped};
use super::{ERAS, World, aql, text};
use crate::mcp_client::{Client, ERRORS, Era};

const EXTENSION: &str = "dev.handback/held-results";

fn count(names: &[String], name: &str) -> usize {
    names.iter().filter(|known| *known == name).count()
}

fn handle(result: &Value) -> &str {
    let handle = &result["_meta"]["dev.handback/held"][0]["handle"];
    handle.as_str().unwrap_or_else(|| panic!("{result}"))
}

#[test]
fn wound_a4_the_reading_tool_stays_ours_in_the_middle_of_a_walk() {
    for era in ERAS {
        let world = World::new();
        let mut client = world.client_with(era, &["--name", "up"], json!({}));
        let rows = client.call("rows", &json!({"count": 5000}));
        let page = |client: &mut Client, after: &Value| {
            let params = json!({"first": 2, "after": after});
            let page = json!({"operation": "list_elements", "element_type": handle(&rows), "params": params});
            aql(client, "mcp_aql_read", &page)
        };
        let mut after = Value::Null;
        for round in 0..3 {
            let read = page(&mut client, &after);
            let items = read["items"].as_array().unwrap();
            let ids: Vec<_> = items.iter().map(|item| item["id"].as_u64().unwrap()).collect();
            assert_eq!(ids, [2 * round, 2 * round + 1], "{read}");
            after = read["pageInfo"]["endCursor"].clone();
            if round == 0 {
                client.call("learn", &json!({"name": "mcp_aql_read"}));
            }
            if round == 1 {
                let names = names(&mut client);
                assert_eq!(count(&names, "mcp_aql_read"), 1, "{names:?}");
                assert_eq!(count(&names, "up__mcp_aql_read"), 1, "{names:?}");
                let theirs = client.call("up__mcp_aql_read", &json!({}));
                assert_eq!(text(&theirs), "learnt before");
            }
        }
        assert!(client.close().success());
    }
}

#[test]
fn wound_a4_a_keyed_call_is_found_under_the_name_that_is_ours_now() {
    let key = json!({"dev.handback/idempotency-key": "k"});
    let world = World::new();
    let mut client = world.client_with(Era::Newest, &["--name", "up"], json!({}));
    client.call("learn", &json!({"name": "mcp_aql_create"}));
    let call = |client: &mut Client, name: &str| {
        client.ask("tools/call", json!({"name": name, "arguments": {}, "_meta": key}))
    };
    let first = call(&mut client, "up__mcp_aql_create");
    assert_eq!(text(&first), "learnt before");
    // Recorded at the server, it is answered from there, whatever the name means.
    for name in ["mcp_aql_create", "up__mcp_aql_create"] {
        let again = call(&mut client, name);
        assert_eq!(text(&again), "learnt before", "{name}");
        assert_eq!(again["_meta"]["dev.handback/replayed"], true, "{name}: {again}");
    }
    assert!(client.close().success());
}

#[test]
fn wound_a4_before_another_handback_nothing_is_added_and_nothing_is_held() {
    for era in ERAS {
        let world = World::new();
        let path = |name: &str| world.sandbox.path(name).to_str().unwrap().to_owned();
        let (script, record) = (path("upstream.py"), path("record"));
        let mut words = vec!["wrap", "--name", "out", "--", env!("CARGO_BIN_EXE_handback"), "wrap"];
        words.extend(["--name", "in", "--", "/usr/bin/env", "PATH=/usr/local/bin:/usr/bin:/bin"]);
        words.extend(["python3", &script, &record, "both"]);
        let mut client = Client::of(&world.sandbox, &words, era, json!({})).greeted();
        let names = names(&mut client);
        for name in ["mcp_aql_read", "mcp_aql_create", "rows"] {
            assert_eq!(count(&names, name), 1, "{names:?}");
        }
        assert!(names.iter().all(|name| !name.contains("__")), "{names:?}");
        let rows = client.call("rows", &json!({"count": 5000}));
        // The inner one is an upstream: what it marks is not our word.
        assert!(rows["_meta"]["dev.handback/held"].is_null(), "{rows}");
        let held = &rows["_meta"]["dev.handback/upstream"]["dev.handback/held"][0]["handle"];
        assert!(text(&rows).contains(held.as_str().unwrap()), "{rows}");
        let counted = json!({"operation": "count_elements", "element_type": held, "params": {}});
        assert_eq!(aql(&mut client, "mcp_aql_read", &counted)["count"], 5000);
        assert!(client.close().success());
    }
}

#[test]
fn wound_a4_who_only_says_to_be_a_handback_gains_little() {
    for era in ERAS {
        let world = world();
        let body = |kilobytes: usize| {
            let text = "some words\\n".repeat(kilobytes * 1024 / 11);
            result(era, &format!(r#"{{"content":[{{"type":"text","text":"{text}"}}]}}"#))
        };
        let kind = if era == Era::Older { "experimental" } else { "extensions" };
        let hello = json!({"capabilities": {"tools": {}, kind: {EXTENSION: {}}}}).to_string();
        script(
            &world,
            "up",
            &json!({
                "initialize": hello,
                "server/discover": hello,
                "tools/list": tools(&["mcp_aql_read", "some", "much"]),
                "tools/call mcp_aql_read": result(era, r#"{"content":[{"type":"text","text":"theirs"}]}"#),
                "tools/call some": body(200),
                "tools/call much": body(300),
            }),
        );
        let mut client = wrapped(&world, "up", era, &[]);
        assert_eq!(names(&mut client), ["mcp_aql_read", "some", "much"]);
        assert!(text(&client.call("some", &json!({}))).len() > 190 * 1024);
        let much = client.call("much", &json!({}));
        let handle = handle(&much);
        // What is held here is read here, by the name that the notice says.
        assert!(text(&much).contains("mcp_aql_read"), "{much}");
        let counted = json!({"operation": "count_elements", "element_type": handle, "params": {}});
        let lines = aql(&mut client, "mcp_aql_read", &counted)["count"].as_u64().unwrap();
        assert!(lines > 20_000, "{lines}");
        // Wherever the handle stands in the request.
        let inside = json!({"operation": "count_elements", "params": {"element_type": handle}});
        assert_eq!(aql(&mut client, "mcp_aql_read", &inside)["count"], lines);
        let batch = client.call("mcp_aql_read", &json!({"operations": [inside, counted]}));
        assert!(text(&batch).matches(&lines.to_string()).count() >= 2, "{batch}");
        assert_eq!(text(&client.call("mcp_aql_read", &json!({}))), "theirs");
        assert!(client.close().success());
    }
}

#[test]
fn wound_a4_a_list_that_can_be_read_in_two_ways_takes_no_name_of_ours() {
    let names_of = |page: &Value| page["result"]["tools"].to_string();
    for era in ERAS {
        let world = world();
        // One reader takes the first name, another one the last.
        let twice = r#"[{"name":"x","name":"mcp_aql_read","inputSchema":{"type":"object"}},{"#;
        script(&world, "up", &json!({"tools/list": tools(&["t"]).replacen("[{", twice, 1)}));
        let mut client = wrapped(&world, "up", era, &[]);
        for _ in 0..2 {
            let names = names(&mut client);
            assert_eq!((count(&names, "mcp_aql_read"), count(&names, "t")), (1, 1), "{names:?}");
            assert_eq!(count(&names, "x"), 0, "{names:?}");
        }
        // The same of a whole page, of one without items, and of one that is no list.
        for page in [
            tools(&["mcp_aql_read"]).replacen('{', "{\"x\":1,\"x\":2,", 1),
            tools(&["mcp_aql_read"]).replacen("\"tools\":", "\"tools\":[],\"tools\":", 1),
            "{}".to_owned(),
            r#"{"tools":{"name":"mcp_aql_read"}}"#.to_owned(),
        ] {
            script(&world, "up", &json!({"tools/list": page}));
            client.send("tools/list", json!({}));
            let refused = client.receive();
            assert!(refused["error"].is_object(), "{page}: {refused}");
            assert!(!names_of(&refused).contains("mcp_aql_read"), "{refused}");
        }
        assert!(client.close().success());
        let log = std::fs::read_to_string(world.sandbox.path(ERRORS)).unwrap();
        let warnings = log.lines().filter(|line| line.contains("it has no name, or two")).count();
        assert_eq!(warnings, 1, "{log}");
    }
}

/// With a server beside that is none, our tools are there.
#[test]
fn wound_a4_with_another_server_beside_a_handback_our_tools_are_there() {
    let world = world();
    let hello = json!({"capabilities": {"tools": {}, "extensions": {EXTENSION: {}}}}).to_string();
    let theirs = r#"{"content":[{"type":"text","text":"theirs"}],"resultType":"complete"}"#;
    script(
        &world,
        "in",
        &json!({
            "server/discover": hello,
            "tools/list": tools(&["mcp_aql_read"]),
            "tools/call mcp_aql_read": theirs,
        }),
    );
    script(&world, "other", &json!({"tools/list": tools(&["t"])}));
    let mut client = served(&world, &["in", "other"], Era::Newest, &[]);
    let names = names(&mut client);
    for name in ["mcp_aql_read", "in__mcp_aql_read", "t"] {
        assert_eq!(count(&names, name), 1, "{names:?}");
    }
    assert_eq!(text(&client.call("in__mcp_aql_read", &json!({}))), "theirs");
    let introspect = json!({"operation": "introspect", "params": {"query": "operations"}});
    assert!(text(&client.call("mcp_aql_read", &introspect)).contains("success"));
    assert!(client.close().success());
}

#[test]
fn wound_a8_names_that_cannot_be_shown_are_left_out_with_one_warning() {
    let long = "x".repeat(129);
    let most = "y".repeat(128);
    let bad = ["", "a\nb", "\u{1b}[2J", "e\u{202e}dart", &long];
    let good = ["get weather", "ü", most.as_str(), "plain"];
    for era in ERAS {
        let world = world();
        let mut answers = json!({"tools/list": tools(&[&bad[..], &good[..]].concat())});
        for name in bad.iter().chain(&good) {
            let told = r#"{"content":[{"type":"text","text":"called"}]}"#;
            answers[format!("tools/call {name}")] = result(era, told).into();
        }
        script(&world, "up", &answers);
        let mut client = wrapped(&world, "up", era, &[]);
        for _ in 0..2 {
            let names = names(&mut client);
            assert_eq!(names[..4], good, "{names:?}");
            assert!(names[4..].iter().all(|name| name.starts_with("mcp_aql")), "{names:?}");
        }
        let refused = |client: &mut Client, name: &str| {
            client.send("tools/call", json!({"name": name, "arguments": {}}));
            client.receive()["error"].clone()
        };
        for name in bad {
            assert_eq!(refused(&mut client, name)["code"], -32602, "{name:?}");
        }
        for name in &bad[1..] {
            let name = format!("up__{name}");
            assert_eq!(refused(&mut client, &name)["code"], -32602, "{name:?}");
        }
        assert!(world.effects("call").is_empty(), "{:?}", world.effects("call"));
        for name in good {
            assert_eq!(text(&client.call(name, &json!({}))), "called", "{name}");
        }
        assert!(client.close().success());
        let log = std::fs::read_to_string(world.sandbox.path(ERRORS)).unwrap();
        let warnings = log.lines().filter(|line| line.contains("left out")).count();
        assert_eq!(warnings, bad.len(), "{log}");
        assert!(!log.contains("e\u{202e}"), "{log}");
    }
}

#[test]
fn wound_a8_strict_names_are_those_of_the_protocol() {
    let world = world();
    let all = ["get weather", "ü", "a.b-c_D9", "a/b"];
    script(&world, "loose", &json!({"tools/list": tools(&all)}));
    let command: Vec<_> = command(&world, "loose").iter().map(|word| format!("{word:?}")).collect();
    for (setting, expected) in [("lenient", &all[..]), ("strict", &["a.b-c_D9"])] {
        let config = format!(
            "[upstreams.loose]\ncommand = [{}]\nnames = \"{setting}\"\n",
            command.join(",")
        );
        world.sandbox.write("handback.toml", &config);
        let config = world.sandbox.path("handback.toml");
        let flags = ["--no-demo", "--config", config.to_str().unwrap()];
        let mut client = Client::start(&world.sandbox, &flags, Era::Newest, json!({}));
        let names = names(&mut client);
        let theirs: Vec<_> = names.iter().filter(|name| !name.starts_with("mcp_aql")).collect();
        assert_eq!(theirs, expected, "{setting}");
        assert!(client.close().success());
    }
}

#[test]
fn wound_a8_a_name_with_its_server_keeps_to_the_length() {
    let world = world();
    let (one, two) = (format!("{}1", "x".repeat(125)), format!("{}2", "x".repeat(125)));
    for name in ["first", "second"] {
        let called = |tool: &str| {
            let told = format!("{name} {}", tool.chars().last().unwrap());
            result(Era::Newest, &json!({"content": [{"type": "text", "text": told}]}).to_string())
        };
        script(
            &world,
            name,
            &json!({
                "tools/list": tools(&[&one, &two]),
                format!("tools/call {one}"): called(&one),
                format!("tools/call {two}"): called(&two),
            }),
        );
    }
    let mut seen = Vec::new();
    for _ in 0..2 {
        let mut client = served(&world, &["first", "second"], Era::Newest, &[]);
        let names = names(&mut client);
        let theirs: Vec<_> =
            names.into_iter().filter(|name| !name.starts_with("mcp_aql")).collect();
        let mut told: Vec<_> = theirs
            .iter()
            .map(|name| {
                assert!(name.len() <= 128 && name.contains("__xxx"), "{name}");
                text(&client.call(name, &json!({}))).to_owned()
            })
            .collect();
        told.sort();
        assert_eq!(told, ["first 1", "first 2", "second 1", "second 2"]);
        // The whole name is known as well.
        assert_eq!(text(&client.call(&format!("second__{two}"), &json!({}))), "second 2");
        seen.push(theirs);
        assert!(client.close().success());
    }
    assert_eq!(seen[0], seen[1], "they are the same at every start");
}

#[test]
fn wound_a8_control_characters_in_descriptions_are_replaced() {
    for era in ERAS {
        let world = world();
        let list = r#"{"tools":[{"name":"t","title":"a\u001b[2Jb","description":"x\r\ny\u0085\tz", "annotations":{"title":"\b"},"inputSchema":{"type":"object","properties":{"p":{"description":"q\u009b1mr", "default":1.50}}}}]}"#;
        let hello = json!({"instructions": "be\u{1b}[8mgood\n"}).to_string();
        let answers = json!({
            "tools/list": result(era, list).replace("\"complete\"", "\"complete\",\"ttlMs\":0,\"cacheScope\":\"public\""),
            "initialize": hello,
            "server/discover": hello,
        });
        script(&world, "up", &answers);
        let mut client = wrapped(&world, "up", era, &[]);
        let hello = match era {
            Era::Newest => client.ask("server/discover", json!({})),
            Era::Older => Value::Null,
        };
        client.send("tools/list", json!({}));
        let line = client.receive_line();
        let expected = list
            .replace(r"\u001b", "\u{fffd}")
            .replace(r"\u0085", "\u{fffd}")
            .replace(r#""\b""#, "\"\u{fffd}\"")
            .replace(r"\u009b", "\u{fffd}");
        let expected = expected.strip_suffix("]}").unwrap().strip_prefix("{\"tools\":[").unwrap();
        assert!(line.contains(expected), "{line}\n{expected}");
        if era == Era::Newest {
            assert_eq!(hello["instructions"], "be\u{fffd}[8mgood\n", "{hello}");
        }
        assert_eq!(listed(&mut client)[0]["description"], "x\r\ny\u{fffd}\tz");
        assert!(client.close().success());
    }
}

#[test]
fn wound_b6_the_refusal_of_a_name_that_two_have_says_which_to_use() {
    let rules = "[[permissions.rules]]\ndeny = [\"b__append\", \"a__look\", \"b__look\"]\nsubjects = [\"bob\"]\n\
                 [[permissions.rules]]\nallow = [\"*\"]\n";
    let callers = Callers::before(&[("a", "both"), ("b", "both")], rules);
    let (alice, bob) = (callers.alice.as_str(), callers.bob.as_str());
    // Before the lists are known, the first server that has a name is called.
    assert!(callers.tools(alice).iter().any(|name| name == "b__append"));
    let call = |who: &str, name: &str| {
        let refused = callers.ask(who, name, json!({"arguments": {}}));
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
        refused["error"].clone()
    };
    let told = call(alice, "append");
    assert_eq!(told["data"]["names"], json!(["a__append", "b__append"]), "{told}");
    let message = told["message"].as_str().unwrap();
    assert_eq!(message, "several servers have `append`: use `a__append` or `b__append`");
    // Each caller is told of what it may use.
    assert_eq!(call(bob, "append")["data"]["names"], json!(["a__append"]));
    assert_eq!(call(bob, "look"), call(bob, "never"));
    assert!(call(alice, "never")["data"]["names"].is_null());
    let session = callers.begin(alice);
    callers.ask_in(alice, &session, "tools/list", json!({}));
    let params = json!({"name": "append", "arguments": {}});
    let told = callers.ask_in(alice, &session, "tools/call", params);
    assert_eq!(told["error"]["data"]["names"], json!(["a__append", "b__append"]), "{told}");
    // Prompts and their completions as well.
    let prompt = callers.ask_of(alice, "prompts/get", "greet", json!({"name": "greet"}), json!({}));
    assert_eq!(prompt["error"]["data"]["names"], json!(["a__greet", "b__greet"]), "{prompt}");
    let reference = json!({"type": "ref/prompt", "name": "greet"});
    let params = json!({"ref": reference, "argument": {"name": "who", "value": "w"}});
    let completed = callers.ask_of(alice, "completion/complete", "", params, json!({}));
    assert_eq!(completed["error"]["data"]["names"], json!(["a__greet", "b__greet"]));
    assert!(callers.world.effects("append").is_empty());
    // The server that has it under another name is not in doubt.
    let called = callers.ask(alice, "a__append", json!({"arguments": {"text": "x"}}));
    assert_eq!(text(&called["result"]), "appended");
}
