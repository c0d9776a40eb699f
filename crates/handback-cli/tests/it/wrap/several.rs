//! Several servers behind one gateway: none of them is in the way of another.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::callers::{Callers, commands};
use super::{World, text};
use crate::mcp_client::{Client, Era};
use crate::support::Sandbox;

const KEY: &str = "dev.handback/idempotency-key";

#[test]
fn a_server_that_says_nothing_keeps_nobody_from_another() {
    let callers = Callers::before(&[("aaa", "mute"), ("good", "both")], "");
    let alice = callers.alice.as_str();
    let tools = callers.tools(alice);
    for tool in ["append", "mcp_aql_read"] {
        assert!(tools.iter().any(|name| name == tool), "{tools:?}");
    }
    let called = callers.ask(alice, "look", json!({"arguments": {"text": "here"}}));
    assert_eq!(text(&called["result"]), "here");
    let hello = callers.ask_of(alice, "server/discover", "", json!({}), json!({}));
    assert!(hello["result"]["capabilities"]["tools"].is_object(), "{hello}");
    // What nobody is known to have may be its own.
    let unknown = callers.ask(alice, "nothing", json!({"arguments": {}}));
    assert_eq!(reason(&unknown), "unreachable", "{unknown}");
}

/// Why a call was not made.
fn reason(answer: &Value) -> &Value {
    &answer["result"]["_meta"]["dev.handback/reason"]
}

#[test]
fn names_that_two_have_go_by_their_servers() {
    let callers = Callers::before(&[("a", "both"), ("b", "both")], "");
    let tools = callers.tools(&callers.alice);
    for tool in ["a__append", "b__append", "mcp_aql_read"] {
        assert_eq!(tools.iter().filter(|name| *name == tool).count(), 1, "{tools:?}");
    }
    let called = callers.ask(&callers.alice, "b__look", json!({"arguments": {"text": "x"}}));
    assert_eq!(text(&called["result"]), "x");
}

#[test]
fn a_name_that_goes_by_its_server_is_not_taken_by_another() {
    let callers = Callers::before(&[("a", "both has:b__append"), ("b", "both")], "");
    let tools = callers.tools(&callers.alice);
    for tool in ["b__append", "a__b__append"] {
        assert_eq!(tools.iter().filter(|name| *name == tool).count(), 1, "{tools:?}");
    }
    let params = json!({"arguments": {"text": "x"}});
    let called = callers.ask(&callers.alice, "b__append", params.clone());
    assert_eq!(text(&called["result"]), "appended");
    let called = callers.ask(&callers.alice, "a__b__append", params);
    assert_eq!(text(&called["result"]), "learnt before");
    assert_eq!(callers.world.effects("append").len(), 1);
}

#[test]
fn nothing_is_called_as_if_another_server_had_it() {
    let rules = "[[permissions.rules]]\nallow = [\"*\"]\nsubjects = [\"alice\"]\n\
                 [[permissions.rules]]\nallow = [\"shop__*\"]\nsubjects = [\"bob\"]\n";
    let evil = "both has:shop__wipe has:handback__read has:evil__own";
    let callers = Callers::before(&[("evil", evil), ("shop", "both has:wipe")], rules);
    let (alice, bob) = (callers.alice.as_str(), callers.bob.as_str());
    let has = |who: &str, name: &str| callers.tools(who).iter().any(|known| known == name);
    for name in ["evil__shop__wipe", "evil__handback__read", "evil__own", "wipe"] {
        assert!(has(alice, name), "{name}");
        let called = callers.ask(alice, name, json!({"arguments": {}}));
        assert_eq!(text(&called["result"]), "learnt before", "{called}");
    }
    for name in ["evil__shop__wipe", "handback__read"] {
        assert!(!has(bob, name), "{name}");
        let refused = callers.ask(bob, name, json!({"arguments": {}}));
        assert_eq!(refused["error"]["code"], -32602, "{name}: {refused}");
    }
    // By the name of its server and its own, it is that server's.
    let calls = |upstream: &str| {
        let labels = format!("{{upstream=\"{upstream}\",outcome=\"answered\"}}");
        callers.number(&format!("handback_upstream_calls_total{labels}"))
    };
    let before = (calls("evil"), calls("shop"));
    assert!(!has(bob, "shop__wipe"));
    let called = callers.ask(bob, "shop__wipe", json!({"arguments": {}}));
    assert_eq!(text(&called["result"]), "learnt before", "{called}");
    assert_eq!((calls("evil"), calls("shop")), (before.0, before.1 + 1));
    assert!(has(bob, "wipe") && has(bob, "shop__append"));
    // Also where there is no other one but ours.
    let callers = Callers::before(&[("up", "both has:handback__read")], "");
    let tools = callers.tools(&callers.alice);
    assert!(tools.iter().all(|name| name != "handback__read"), "{tools:?}");
    let called = callers.ask(&callers.alice, "up__handback__read", json!({"arguments": {}}));
    assert_eq!(text(&called["result"]), "learnt before", "{called}");
}

#[test]
fn names_of_servers_tell_where_they_end() {
    let world = World::with(Sandbox::new());
    let config = world.sandbox.path("names.toml");
    for name in ["a__b", "a_", "handback", &"x".repeat(33)] {
        world.sandbox.write("names.toml", &format!("[upstreams.{name}]\ncommand = [\"x\"]\n"));
        for line in [
            format!("serve --no-demo --upstream {name}=x"),
            format!("serve --no-demo --config {}", config.display()),
            format!("wrap --name {name} -- x"),
        ] {
            let refused = world.sandbox.run(&line);
            assert_ne!(refused.code, 0, "{line}");
            assert!(refused.stderr.contains("has no `__`"), "{line}: {refused:?}");
        }
    }
}

#[test]
fn a_call_is_the_same_under_the_new_name_of_its_tool() {
    let callers = Callers::before(&[("a", "both")], "");
    let call = json!({"arguments": {"text": "x"}, "_meta": {KEY: "k"}});
    let first = callers.ask(&callers.alice, "append", call.clone());
    assert!(first["result"]["_meta"]["dev.handback/replayed"].is_null(), "{first}");
    let callers = callers.now_before(&[("a", "both"), ("b", "both")]);
    let again = callers.ask(&callers.alice, "a__append", call.clone());
    assert_eq!(text(&again["result"]), "appended", "{again}");
    assert_eq!(again["result"]["_meta"]["dev.handback/replayed"], true, "{again}");
    assert_eq!(callers.world.effects("append").len(), 1);
    let other = callers.ask(&callers.alice, "b__append", call);
    assert!(other["result"]["_meta"]["dev.handback/replayed"].is_null(), "{other}");
    assert_eq!(callers.world.effects("append").len(), 2);
}

/// Whether an answer is that of an earlier try.
fn is_replayed(answer: &Value) -> bool {
    answer["result"]["_meta"]["dev.handback/replayed"] == true
}

#[test]
fn a_call_is_made_once_whatever_its_name_means_by_then() {
    let callers = Callers::before(&[("a", "newest has:mine")], "");
    let call = |key: &str| json!({"arguments": {"text": "x"}, "_meta": {KEY: key}});
    callers.ask(&callers.alice, "append", call("k"));
    callers.ask(&callers.alice, "mine", call("k"));
    assert_eq!(callers.world.effects("append").len(), 1);
    // The one that made it says nothing any more, and another one has the name.
    let callers = callers.now_before(&[("a", "newest brief"), ("b", "newest")]);
    for name in ["append", "a__append", "mine", "a__mine"] {
        let again = callers.ask(&callers.alice, name, call("k"));
        assert!(is_replayed(&again), "{name}: {again}");
    }
    assert_eq!(callers.world.effects("append").len(), 1);
    // What was not made is nobody's, until it is known what the first one has.
    let unknown = callers.ask(&callers.alice, "mine", call("other"));
    assert_eq!(reason(&unknown), "unreachable", "{unknown}");
    // Another caller, key or text is another call.
    let other = callers.ask(&callers.bob, "append", call("k"));
    assert!(!is_replayed(&other) && text(&other["result"]) == "appended", "{other}");
    let made = callers.ask(&callers.alice, "append", call("l"));
    assert!(!is_replayed(&made) && text(&made["result"]) == "appended", "{made}");
    assert_eq!(callers.world.effects("append").len(), 3);
    // Both have it, so that the name means neither.
    let callers = callers.now_before(&[("a", "newest"), ("b", "newest")]);
    for (name, key) in [("append", "k"), ("a__append", "k"), ("append", "l"), ("b__append", "l")] {
        let again = callers.ask(&callers.alice, name, call(key));
        assert!(is_replayed(&again), "{name} {key}: {again}");
    }
    // In a session of an older client as well.
    let session = callers.begin(&callers.alice);
    let params = json!({"name": "append", "arguments": {"text": "x"}, "_meta": {KEY: "k"}});
    let again = callers.ask_in(&callers.alice, &session, "tools/call", params);
    assert!(is_replayed(&again), "{again}");
    assert_eq!(callers.world.effects("append").len(), 3);
    let unknown = callers.ask(&callers.alice, "append", call("new"));
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
}

#[test]
fn what_is_denied_is_as_what_is_not_known_yet() {
    let rules = "[[permissions.rules]]\ndeny = [\"wipe\"]\nsubjects = [\"bob\"]\n";
    for others in [&[][..], &[("b", "newest has:wipe")]] {
        let first = [&[("a", "newest has:wipe has:mine")][..], others].concat();
        let callers = Callers::before(&first, rules);
        let call = json!({"arguments": {}, "_meta": {KEY: "k"}});
        let made = callers.ask(&callers.bob, "mine", call.clone());
        assert_eq!(text(&made["result"]), "learnt before", "{made}");
        let callers = callers.now_before(&[&[("a", "newest brief")][..], others].concat());
        let again = callers.ask(&callers.bob, "mine", call.clone());
        assert!(is_replayed(&again), "{again}");
        let unknown = callers.ask(&callers.bob, "never", call.clone());
        assert_eq!(reason(&unknown), "unreachable", "{unknown}");
        for name in ["wipe", "b__wipe", "a__wipe"] {
            assert_eq!(callers.ask(&callers.bob, name, call.clone()), unknown, "{name}");
        }
    }
}

#[test]
fn a_tool_goes_by_its_server_in_any_case() {
    let callers = Callers::before(&[("a", "newest has:mine"), ("b", "newest")], "");
    let alice = callers.alice.as_str();
    assert!(!callers.tools(alice).iter().any(|name| name == "a__mine"));
    let called = callers.ask(alice, "a__mine", json!({"arguments": {}}));
    assert_eq!(text(&called["result"]), "learnt before", "{called}");
    for name in ["b__mine", "c__mine", "a__b__append"] {
        let unknown = callers.ask(alice, name, json!({"arguments": {}}));
        assert_eq!(unknown["error"]["code"], -32602, "{name}: {unknown}");
    }
}

#[test]
fn a_name_that_another_one_gets_is_not_there_twice() {
    let callers = Callers::before(&[("a", "newest has:mine"), ("b", "newest")], "");
    let alice = callers.alice.as_str();
    assert!(callers.tools(alice).iter().any(|name| name == "mine"));
    for name in ["mine", "a__look", "mcp_aql_read"] {
        callers.ask(alice, "b__learn", json!({"arguments": {"name": name}}));
    }
    let mut tools = callers.tools(alice);
    for name in ["b__mine", "b__a__look", "mcp_aql_read", "b__mcp_aql_read"] {
        assert!(tools.iter().any(|known| known == name), "{name}: {tools:?}");
    }
    tools.sort_unstable();
    let all = tools.len();
    tools.dedup();
    assert_eq!(tools.len(), all, "{tools:?}");
    // The first page was given before anything new was seen.
    let tools = callers.tools(alice);
    assert!(tools.iter().any(|name| name == "a__mine"), "{tools:?}");
    assert!(tools.iter().all(|name| name != "mine"), "{tools:?}");
}

#[test]
fn a_line_comes_about_although_nobody_waits_for_it() {
    let callers = Callers::before(&[("good", "both"), ("late", "older gated")], "");
    let (world, alice) = (&callers.world, callers.alice.as_str());
    let left = "handback_upstream_calls_total{upstream=\"late\",outcome=\"cancelled\"}";
    let begin = || callers.begin_to_ask(alice, "late__look", json!({"arguments": {}}));
    let close = || world.sandbox.write("record.gate", "");
    let open = || std::fs::remove_file(world.sandbox.path("record.gate")).unwrap();
    // It is not known which era it speaks.
    close();
    let waiting = begin();
    world.until_effect("held server/discover");
    drop(waiting);
    assert_eq!(callers.number(left), 0);
    open();
    until("it is greeted", || world.effects("hello").len() == 1);
    assert!(callers.tools(alice).iter().any(|name| name == "late__look"));
    // It has to be started again.
    close();
    callers.ask(alice, "late__wrong", json!({"arguments": {"how": "die"}}));
    let waiting = begin();
    world.until_effect("held initialize");
    let called = callers.ask(alice, "good__look", json!({"arguments": {"text": "here"}}));
    assert_eq!(text(&called["result"]), "here");
    drop(waiting);
    until("the client has left", || callers.number(left) == 1);
    open();
    until("it is greeted again", || world.effects("hello").len() == 2);
}

/// Waits until something is so.
#[track_caller]
fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LONG, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn completions_are_for_who_may_use_the_prompt() {
    let rules = "[[permissions.rules]]\ndeny = [\"greet\"]\nsubjects = [\"bob\"]\n";
    let callers = Callers::before(&[("a", "both")], rules);
    let complete = |who: &str, prompt: &str| {
        let reference = json!({"type": "ref/prompt", "name": prompt});
        let params = json!({"ref": reference, "argument": {"name": "who", "value": "w"}});
        callers.ask_of(who, "completion/complete", "", params, json!({}))
    };
    let refused = complete(&callers.bob, "greet");
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    assert_eq!(refused, complete(&callers.bob, "nothing"));
    // What it is about is said once.
    for wrong in [
        json!({"type": "ref/prompt", "name": "greet", "uri": "x"}),
        json!({"type": "ref/resource", "name": "greet", "uri": "x"}),
        json!({"type": "ref/prompt", "uri": "x"}),
        json!({"type": "ref/resource", "name": "greet"}),
        json!({"type": "ref/prompt", "name": "greet", "uri": 5}),
    ] {
        let params = json!({"ref": wrong, "argument": {"name": "who", "value": "w"}});
        let told = callers.ask_of(&callers.bob, "completion/complete", "", params, json!({}));
        assert_eq!(told["error"], refused["error"], "{wrong}");
    }
    assert!(callers.world.effects("complete").is_empty());
    let completed = complete(&callers.alice, "greet");
    assert_eq!(completed["result"]["completion"]["values"], json!(["world"]), "{completed}");
    assert_eq!(callers.world.effects("complete"), ["complete greet"]);
}

/// Beyond every time after which what is known is looked at anew.
const LONG: Duration = Duration::from_secs(90);

#[test]
fn a_tool_that_is_new_is_found() {
    let callers = Callers::before(&[("a", "both"), ("b", "mute")], "");
    let alice = callers.alice.as_str();
    let unknown = callers.ask(alice, "news", json!({"arguments": {}}));
    assert_eq!(reason(&unknown), "unreachable", "{unknown}");
    let learnt = callers.ask(alice, "learn", json!({"arguments": {"name": "news"}}));
    assert_eq!(text(&learnt["result"]), "learnt");
    let begun = Instant::now();
    loop {
        let called = callers.ask(alice, "news", json!({"arguments": {}}));
        if reason(&called).is_null() {
            assert_eq!(text(&called["result"]), "learnt before");
            return;
        }
        assert!(begun.elapsed() < LONG, "{called}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn what_one_caller_may_not_use_another_finds() {
    let rules = "[[permissions.rules]]\ndeny = [\"mcp_*\"]\nsubjects = [\"bob\"]\n";
    for upstreams in [&[("a", "both")][..], &[("a", "both"), ("b", "both")]] {
        let callers = Callers::before(upstreams, rules);
        let (alice, bob) = (callers.alice.as_str(), callers.bob.as_str());
        // The first to ask is one who may not.
        assert!(!callers.tools(bob).iter().any(|name| name.starts_with("mcp_")));
        let read = json!({"arguments": {"operation": "list_collections", "params": {}}});
        let refused = callers.ask(bob, "mcp_aql_read", read.clone());
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
        assert_eq!(refused, callers.ask(bob, "never", read.clone()), "as what is not there");
        let found = callers.ask(alice, "mcp_aql_read", read);
        assert!(text(&found["result"]).contains("\"success\":true"), "{found}");
    }
}

#[test]
fn a_place_in_a_list_is_that_of_its_server() {
    let callers = Callers::before(&[("a", "both"), ("b", "both")], "");
    let alice = callers.alice.clone();
    let list = |callers: &Callers, cursor: &Value| {
        let params = match cursor.is_null() {
            true => json!({}),
            false => json!({"cursor": cursor}),
        };
        callers.ask_of(&alice, "tools/list", "", params, json!({}))
    };
    let first = list(&callers, &Value::Null);
    // Within the list of `a`: it has two pages.
    let cursor = first["result"]["nextCursor"].clone();
    let second = list(&callers, &cursor)["result"]["tools"][0]["name"].clone();
    assert!(second.as_str().unwrap().starts_with("a__"), "{second}");
    // Another one is the first now.
    let callers = callers.now_before(&[("b", "both"), ("a", "both")]);
    assert_eq!(list(&callers, &cursor)["result"]["tools"][0]["name"], second);
    let callers = callers.now_before(&[("b", "both")]);
    let gone = list(&callers, &cursor);
    assert_eq!(gone["error"]["data"]["reason"], "expired", "{gone}");
}

#[test]
fn what_is_denied_stays_so_whatever_it_is_called() {
    let rules = "[[permissions.rules]]\ndeny = [\"wipe\"]\nsubjects = [\"bob\"]\n\
                 [[permissions.rules]]\ndeny = [\"b__look\"]\nsubjects = [\"bob\"]\n";
    let callers = Callers::before(&[("a", "both has:wipe"), ("b", "newest has:look2")], rules);
    let (alice, bob) = (callers.alice.as_str(), callers.bob.as_str());
    let has = |who: &str, name: &str| callers.tools(who).iter().any(|known| known == name);
    assert!(has(alice, "wipe") && !has(bob, "wipe"));
    assert!(has(bob, "a__look") && !has(bob, "b__look"));
    // Another server has it as well, and the first one's goes by another name.
    callers.ask(alice, "b__learn", json!({"arguments": {"name": "wipe"}}));
    let begun = Instant::now();
    while !has(alice, "a__wipe") {
        assert!(begun.elapsed() < LONG);
        // Before a name is said to be unknown, it is looked for.
        callers.ask(alice, "never", json!({"arguments": {}}));
        std::thread::sleep(Duration::from_millis(200));
    }
    let unknown = callers.ask(bob, "never", json!({"arguments": {}}));
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    for name in ["wipe", "a__wipe", "b__wipe"] {
        assert!(!has(bob, name), "{name}");
        let refused = callers.ask(bob, name, json!({"arguments": {}}));
        assert_eq!(refused, unknown, "{name}");
    }
}

#[test]
fn what_is_denied_at_the_only_server_is_as_what_is_not_there() {
    let rules = "[[permissions.rules]]\ndeny = [\"wipe\", \"greet\", \"db://secret\"]\nsubjects = [\"bob\"]\n";
    let callers = Callers::before(&[("a", "both has:wipe res:db://x res:db://secret")], rules);
    let (alice, bob) = (callers.alice.as_str(), callers.bob.as_str());
    let ask = |who: &str, method: &str, name: &str| {
        let member = if method == "resources/read" { "uri" } else { "name" };
        callers.ask_of(who, method, name, json!({member: name, "arguments": {}}), json!({}))
    };
    let session = callers.begin(bob);
    for (method, denied, never) in [
        ("tools/call", "wipe", "never"),
        ("prompts/get", "greet", "never"),
        ("resources/read", "db://secret", "db://never"),
    ] {
        let unknown = ask(bob, method, never);
        assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
        assert_eq!(ask(bob, method, denied), unknown, "{method}");
        assert_eq!(ask(alice, method, never), unknown, "{method}");
        assert!(ask(alice, method, denied)["result"].is_object(), "{method}");
        let member = if method == "resources/read" { "uri" } else { "name" };
        let in_session = |name: &str| {
            callers.ask_in(bob, &session, method, json!({member: name, "arguments": {}}))
        };
        assert_eq!(in_session(denied), in_session(never), "{method}");
    }
    assert_eq!(callers.world.effects("prompt"), ["prompt greet"]);
    assert_eq!(callers.world.effects("resources/"), ["resources/read db://secret"]);
    assert_eq!(ask(bob, "resources/read", "db://x")["result"]["contents"][0]["text"], "here");
}

#[test]
fn a_resource_that_fits_a_template_is_known() {
    let rules = "[[permissions.rules]]\ndeny = [\"db://secret*\"]\nsubjects = [\"bob\"]\n";
    for template in ["db://{table}/{id}", "{any}"] {
        let speaks = format!("both tpl:{template}");
        let callers = Callers::before(&[("a", speaks.as_str())], rules);
        let read = |uri: &str| {
            callers.ask_of(&callers.bob, "resources/read", uri, json!({"uri": uri}), json!({}))
        };
        assert_eq!(read("db://x/1")["result"]["contents"][0]["text"], "here", "{template}");
        assert_eq!(read("db://secret/1")["error"]["code"], -32602, "{template}");
    }
}

#[test]
fn without_rules_the_only_server_may_have_what_it_does_not_list() {
    let callers = Callers::before(&[("a", "both res:db://x")], "");
    let alice = callers.alice.as_str();
    let reference = json!({"type": "ref/prompt", "name": "unlisted"});
    let params = json!({"ref": reference, "argument": {"name": "who", "value": "w"}});
    let completed = callers.ask_of(alice, "completion/complete", "", params, json!({}));
    assert_eq!(completed["result"]["completion"]["values"], json!(["world"]), "{completed}");
    // What it does not have, it says in its own words.
    let (uri, name) = (json!({"uri": "db://y"}), json!({"name": "unlisted"}));
    let read = callers.ask_of(alice, "resources/read", "db://y", uri, json!({}));
    assert_eq!(read["error"]["message"], "the server has no such resource", "{read}");
    let prompt = callers.ask_of(alice, "prompts/get", "unlisted", name, json!({}));
    assert_eq!(prompt["error"]["message"], "the server has no such prompt", "{prompt}");
}

#[test]
fn a_page_of_one_caller_is_nobody_elses() {
    // Each of them says that its lists are public.
    let callers = Callers::before(&[("a", "newest"), ("b", "newest")], "");
    let (alice, mut params) = (callers.alice.as_str(), json!({}));
    let hello = callers.ask_of(alice, "server/discover", "", json!({}), json!({}));
    assert_eq!(hello["result"]["cacheScope"], "private", "{hello}");
    loop {
        let page = callers.ask_of(alice, "tools/list", "", params, json!({}));
        assert_eq!(page["result"]["cacheScope"], "private", "{page}");
        match &page["result"]["nextCursor"] {
            Value::Null => break,
            cursor => params = json!({"cursor": cursor}),
        }
    }
    // What is the same for all stays as it was.
    let callers = Callers::before(&[("a", "newest")], "");
    let page = callers.ask_of(&callers.alice, "prompts/list", "", json!({}), json!({}));
    assert_eq!(page["result"]["cacheScope"], "public", "{page}");
    let rules = "[[permissions.rules]]\ndeny = [\"greet\"]\nsubjects = [\"bob\"]\n";
    let callers = Callers::before(&[("a", "newest")], rules);
    let page = callers.ask_of(&callers.alice, "prompts/list", "", json!({}), json!({}));
    assert_eq!(page["result"]["cacheScope"], "private", "{page}");
    assert_eq!(page["result"]["prompts"][0]["name"], "greet", "{page}");
}

#[test]
fn a_server_that_does_not_list_is_in_nobodys_way() {
    let callers = Callers::before(&[("good", "newest has:mine"), ("deaf", "newest deaf")], "");
    let (alice, bob) = (callers.alice.as_str(), callers.bob.as_str());
    // Nothing is known yet: who calls does not wait for the one that says nothing.
    let begun = Instant::now();
    let called = callers.ask(alice, "mine", json!({"arguments": {}}));
    assert_eq!(text(&called["result"]), "learnt before", "{called}");
    let first = begun.elapsed();
    assert!(first < Duration::from_secs(9), "{first:?}");
    // Names that nobody has are looked for, together.
    let unknown: Vec<_> = (0..20)
        .map(|number| {
            callers.begin_to_ask(bob, &format!("never_{number}"), json!({"arguments": {}}))
        })
        .collect();
    let begun = Instant::now();
    assert!(callers.tools(alice).iter().any(|name| name == "mine"));
    let listed = begun.elapsed();
    // Two looks, each of which waits ten seconds for it, and the list itself.
    assert!(listed < Duration::from_secs(60), "{listed:?}");
    drop(unknown);
    // Who did not answer is not waited for ten seconds each time.
    let begun = Instant::now();
    for _ in 0..6 {
        assert!(callers.tools(alice).iter().any(|name| name == "mine"));
    }
    let listed = begun.elapsed();
    assert!(listed < Duration::from_secs(55), "{listed:?}");
}

/// Where there are rules, what is not listed is not there.
#[test]
fn a_list_that_does_not_come_takes_nothing_from_the_others() {
    let rules = "[[permissions.rules]]\ndeny = [\"wipe\"]\nsubjects = [\"bob\"]\n";
    let upstreams = [("half", "newest halting has:mine"), ("other", "newest")];
    let callers = Callers::before(&upstreams, rules);
    let called = callers.ask(&callers.bob, "mine", json!({"arguments": {}}));
    assert_eq!(text(&called["result"]), "learnt before", "{called}");
    let unknown = callers.ask(&callers.bob, "never", json!({"arguments": {}}));
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
}

#[test]
fn what_a_server_lists_for_one_caller_is_nothing_to_another() {
    let callers = Callers::before(&[("good", "both"), ("mine", "older jealous has:hers")], "");
    let (alice, bob) = (callers.alice.as_str(), callers.bob.as_str());
    let has = |who: &str, name: &str| callers.tools(who).iter().any(|known| known == name);
    assert!(has(alice, "hers") && has(alice, "mine__append"));
    for _ in 0..2 {
        assert!(!has(bob, "hers") && !has(bob, "mine__append"));
        assert!(has(bob, "good__append"), "the other one is there");
    }
    assert!(has(alice, "hers"));
}

/// The URIs of all resources that a caller sees.
fn resources(callers: &Callers, who: &str) -> Vec<String> {
    let (mut uris, mut params) = (Vec::new(), json!({}));
    loop {
        let page = callers.ask_of(who, "resources/list", "", params, json!({}));
        let resources = page["result"]["resources"].as_array().unwrap_or_else(|| panic!("{page}"));
        uris.extend(resources.iter().map(|one| one["uri"].as_str().unwrap().to_owned()));
        match &page["result"]["nextCursor"] {
            Value::Null => return uris,
            cursor => params = json!({"cursor": cursor}),
        }
    }
}

#[test]
fn what_is_listed_of_resources_can_be_read_and_nothing_else() {
    let rules = "[[permissions.rules]]\nallow = [\"shop__*\"]\nsubjects = [\"bob\"]\n\
                 [[permissions.rules]]\ndeny = [\"shop__db://secret*\"]\nsubjects = [\"bob\"]\n";
    let shop = "both res:db://x res:db://secret/1";
    let callers = Callers::before(&[("shop", shop), ("other", "both res:db://y")], rules);
    let bob = callers.bob.as_str();
    assert_eq!(resources(&callers, bob), ["db://x"]);
    let session = callers.begin(bob);
    let read =
        |uri: &str| callers.ask_of(bob, "resources/read", uri, json!({"uri": uri}), json!({}));
    let complete = |uri: &str| {
        let reference = json!({"type": "ref/resource", "uri": uri});
        let params = json!({"ref": reference, "argument": {"name": "a", "value": "w"}});
        callers.ask_of(bob, "completion/complete", "", params, json!({}))
    };
    let follow =
        |uri: &str| callers.ask_in(bob, &session, "resources/subscribe", json!({"uri": uri}));
    assert_eq!(read("db://x")["result"]["contents"][0]["text"], "here");
    assert!(complete("db://x")["result"].is_object());
    assert!(follow("db://x")["result"].is_object());
    let effects = || {
        let kinds = ["resources/", "complete"].map(|kind| callers.world.effects(kind));
        kinds.concat()
    };
    let before = effects();
    assert_eq!(before.len(), 3, "{before:?}");
    for (asked, unknown) in [
        (&read as &dyn Fn(&str) -> Value, read("db://never")),
        (&complete, complete("db://never")),
        (&follow, follow("db://never")),
    ] {
        assert!(unknown["error"].is_object(), "{unknown}");
        for uri in ["db://secret/1", "db://y"] {
            assert_eq!(asked(uri), unknown, "{uri}");
        }
    }
    assert_eq!(effects(), before);
    let wanted = json!({"resourceSubscriptions": ["db://x", "db://secret/1", "db://y"]});
    let _listening = callers.listen_to(bob, &wanted.to_string());
    until("both are listened to", || callers.world.effects("listen").len() == 2);
    let read = |line: &String| -> Value {
        serde_json::from_str(line.strip_prefix("listen ").unwrap()).unwrap()
    };
    let heard: Vec<_> = callers.world.effects("listen").iter().map(read).collect();
    // Each of them is asked for what it has and may be used, and learns nothing of what another has.
    for uris in [json!(["db://x"]), json!([])] {
        assert!(heard.contains(&json!({"resourceSubscriptions": uris})), "{heard:?}");
    }
}

#[test]
fn what_a_subscription_is_about_is_read_by_all_in_one_way() {
    let rules = "[[permissions.rules]]\ndeny = [\"secret:*\"]\nsubjects = [\"bob\"]\n";
    let callers = Callers::before(&[("a", "newest res:secret:x res:other:x")], rules);
    for wrong in [
        r#"{"resourceSubscriptions":["secret:x"],"n":1e999,"resourceSubscriptions":5}"#,
        r#"{"resourceSubscriptions":["secret:x"],"resourceSubscriptions":["secret:x"]}"#,
        r#"{"resourceSubscriptions":"secret:x"}"#,
        r#"{"resourceSubscriptions":["secret:x",5]}"#,
        r#"["secret:x"]"#,
    ] {
        let answer = crate::streams::server::read(&mut callers.listen_to(&callers.bob, wrong));
        let body = String::from_utf8(answer.body).unwrap();
        assert!(body.contains("\"error\""), "{wrong}: {body}");
    }
    let heard = callers.world.effects("listen");
    assert!(heard.is_empty(), "{heard:?}");
    // What it lists is known.
    assert_eq!(resources(&callers, &callers.bob), ["other:x"]);
    let wanted = r#"{"resourceSubscriptions":["secret:x","other:x"],"n":1e999}"#;
    let _listening = callers.listen_to(&callers.bob, wanted);
    callers.world.until_effect("listen");
    let heard = callers.world.effects("listen").concat();
    assert!(heard.contains("other:x") && !heard.contains("secret:x"), "{heard}");
}

#[test]
fn what_an_older_client_says_goes_to_whom_it_concerns() {
    let world = World::with(Sandbox::new());
    let servers = commands(&world, &[("a", "older token:one"), ("b", "older token:two")]);
    let flags: Vec<_> = servers.iter().flat_map(|one| ["--upstream", one.as_str()]).collect();
    let flags = [&["--no-demo"], flags.as_slice()].concat();
    let can = json!({"elicitation": {}, "roots": {"listChanged": true}});
    let mut client = Client::start(&world.sandbox, &flags, Era::Older, can);
    let call = client.send("tools/call", json!({"name": "b__confirm", "arguments": {"what": "x"}}));
    let asked = client.receive();
    assert_eq!(asked["params"]["_meta"]["progressToken"], "two", "{asked}");
    let tell = |client: &mut Client, method: &str, params: Value| {
        let method = format!("notifications/{method}");
        client.write(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    };
    // What nobody asked to hear, and what nobody is known for, is for neither.
    for token in ["one", "never", "two"] {
        tell(&mut client, "progress", json!({"progressToken": token, "progress": 1}));
    }
    tell(&mut client, "something/else", json!({}));
    // What is said after the answer concerns nobody any more.
    until("it has heard it", || !world.effects("told two").is_empty());
    tell(&mut client, "roots/list_changed", json!({}));
    client.write(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "accept"}}));
    let answer = client.receive();
    assert_eq!((&answer["id"], text(&answer["result"])), (&json!(call), "confirmed"));
    until("both have heard it", || world.effects("told").len() >= 3);
    let mut told = world.effects("told");
    told.sort();
    let roots = "notifications/roots/list_changed";
    let expected = [
        format!("told one {roots}"),
        "told two notifications/progress".to_owned(),
        format!("told two {roots}"),
    ];
    assert_eq!(told, expected);
}

#[test]
fn two_servers_of_one_name_are_refused() {
    let world = World::with(Sandbox::new());
    let refused = world.sandbox.run("serve --no-demo --upstream a=x --upstream a=y");
    assert_ne!(refused.code, 0);
    assert!(refused.stderr.contains("two upstreams are called `a`"), "{refused:?}");
}
