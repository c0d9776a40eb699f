//! `handback wrap --connect URL`: a running server at the standard streams of a client.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{ERAS, World, aql, text};
use crate::mcp_client::{Client, Era};
use crate::streams::server::Server;
use crate::support::Sandbox;

const KEY: &str = "dev.handback/idempotency-key";

/// Longer than the longest pause before a server is tried again, on a busy machine.
const BACK_TIME: Duration = Duration::from_secs(120);

/// A server that runs, with an upstream behind it.
struct Running {
    world: World,
    server: Server,
}

impl Running {
    fn new() -> Self {
        Self::with(World::with(Sandbox::new()), &[])
    }

    fn with(world: World, more: &[&str]) -> Self {
        let server = serve(&world, None, more);
        Self { world, server }
    }

    fn url(&self) -> String {
        format!("http://{}", self.server.address)
    }

    /// A client whose command is a wrap.
    fn client(&self, era: Era) -> Client {
        self.silent(era).greeted()
    }

    fn silent(&self, era: Era) -> Client {
        let words = ["wrap", "--connect", &self.url()];
        Client::of(&self.world.sandbox, &words, era, json!({"elicitation": {}}))
    }
}

fn serve(world: &World, address: Option<SocketAddr>, more: &[&str]) -> Server {
    let path = |name: &str| world.sandbox.path(name).to_str().unwrap().to_owned();
    let upstream = format!(
        "up=/usr/bin/env PATH=/usr/local/bin:/usr/bin:/bin python3 {} {} both",
        path("upstream.py"),
        path("record")
    );
    let flags = [&["--upstream", upstream.as_str()], more].concat();
    let data = world.sandbox.path("data");
    match address {
        None => Server::start_with(&world.sandbox, &data, &flags),
        Some(address) => Server::start_at(&world.sandbox, &data, address, &flags),
    }
}

fn keyed(key: &str, more: &Value) -> Value {
    let mut arguments = json!({"text": "a"});
    for (name, value) in more.as_object().unwrap() {
        arguments[name] = value.clone();
    }
    json!({"name": "append", "arguments": arguments, "_meta": {KEY: key}})
}

fn held(result: &Value) -> String {
    let handle = &result["_meta"]["dev.handback/held"][0]["handle"];
    handle.as_str().unwrap_or_else(|| panic!("{result}")).to_owned()
}

#[test]
fn what_the_server_says_is_what_the_client_hears() {
    for era in ERAS {
        let running = Running::new();
        let mut client = running.client(era);
        let first = client.ask("tools/list", json!({}));
        let second = client.ask("tools/list", json!({"cursor": first["nextCursor"]}));
        let names: Vec<_> = [&first["tools"], &second["tools"]]
            .iter()
            .flat_map(|tools| tools.as_array().unwrap())
            .map(|tool| tool["name"].as_str().unwrap())
            .collect();
        // Two of the server's own: a second gateway would add its two, under other names.
        let own = names.iter().filter(|name| name.contains("mcp_aql")).count();
        assert_eq!((own, names.contains(&"append")), (2, true), "{names:?}");
        let id = client.send("tools/call", json!({"name": "append", "arguments": {"text": "a"}}));
        let result =
            r#"{"content":[{"type":"text","text":"appended"}],"x-unknown":{"b":1.50,"a":1e2}}"#;
        let line = client.receive_line();
        assert_eq!(line, format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#));
        assert!(client.close().success());
    }
}

#[test]
fn what_is_too_large_is_held_at_the_server_and_two_at_once_share_it() {
    for era in ERAS {
        let running = Running::new();
        let (mut one, mut other) = (running.client(era), running.client(era));
        let handle = held(&one.call("rows", &json!({"count": 5000})));
        one.kill();
        let count = json!({"operation": "count_elements", "element_type": handle, "params": {}});
        assert_eq!(aql(&mut other, "mcp_aql_read", &count)["count"], 5000);
        assert_eq!(text(&other.call("look", &json!({"text": "here"}))), "here");
    }
}

#[test]
fn a_wrap_that_was_killed_lost_nothing() {
    for era in ERAS {
        let running = Running::new();
        let call = keyed("k", &json!({"delay_ms": 1500}));
        let mut client = running.client(era);
        client.send("tools/call", call.clone());
        running.world.until_effect("append");
        client.kill();
        let mut client = running.client(era);
        let again = client.ask_with_meta("tools/call", call);
        assert_eq!(text(&again), "appended", "{again}");
        assert_eq!(running.world.effects("append").len(), 1);
        assert!(running.world.effects("cancelled").is_empty());
    }
}

#[test]
fn without_a_key_cancelling_reaches_the_upstream() {
    for era in ERAS {
        let running = Running::new();
        let mut client = running.client(era);
        let arguments = json!({"text": "a", "delay_ms": 60_000});
        let id = client.send("tools/call", json!({"name": "append", "arguments": arguments}));
        running.world.until_effect("append");
        let params = json!({"requestId": id});
        client.write(
            &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}),
        );
        running.world.until_effect("cancelled");
    }
}

#[test]
fn questions_of_the_upstream_reach_the_client() {
    let running = Running::new();
    let mut older = running.client(Era::Older);
    let id = older.send("tools/call", json!({"name": "confirm", "arguments": {"what": "x"}}));
    let question = older.receive();
    assert_eq!(question["method"], "elicitation/create", "{question}");
    older.write(&json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept"}}));
    let answer = older.receive();
    assert_eq!((&answer["id"], text(&answer["result"])), (&json!(id), "confirmed"));
    // The state of an exchange is the server's: another process can bring it back.
    let call = json!({"name": "confirm", "arguments": {"what": "x"}});
    let mut newer = running.client(Era::Newest);
    let asked = newer.ask("tools/call", call.clone());
    newer.kill();
    let mut back = call;
    back["requestState"] = asked["requestState"].clone();
    back["inputResponses"] = json!({"q": {"action": "accept"}});
    let confirmed = running.client(Era::Newest).ask("tools/call", back);
    assert_eq!(text(&confirmed), "confirmed upstream-state:x");
}

#[test]
fn a_server_that_goes_away_comes_back() {
    for era in ERAS {
        let running = Running::new();
        let address = running.server.address;
        let mut client = running.client(era);
        let first = client.ask_with_meta("tools/call", keyed("before", &json!({})));
        assert_eq!(text(&first), "appended");
        let Running { world, server } = running;
        server.kill();
        // Without a server every question has an answer: that there is none.
        client.send("tools/call", keyed("between", &json!({})));
        let told = client.receive();
        assert!(told["error"].is_object(), "{told}");
        let _server = serve(&world, Some(address), &[]);
        let until = Instant::now() + BACK_TIME;
        let again = loop {
            client.send("tools/call", keyed("before", &json!({})));
            let told = client.receive();
            if told["error"].is_null() {
                break told["result"].clone();
            }
            assert!(Instant::now() < until, "{told}");
            std::thread::sleep(Duration::from_millis(50));
        };
        assert_eq!(again["_meta"]["dev.handback/replayed"], true, "{again}");
        assert_eq!(world.effects("append").len(), 1, "only the first one was ever made");
    }
}

const STATIC: &str = "[identity]\nmode = \"static\"\n[identity.static]\nfile = \"identities\"\n";

#[test]
fn the_server_is_shown_who_asks() {
    let world = World::with(Sandbox::new());
    let token = |subject: &str| {
        let line = format!("identity add --subject {subject} --file identities");
        world.sandbox.json(&line)["token"].as_str().unwrap().to_owned()
    };
    let (alice, bob) = (token("alice"), token("bob"));
    world.sandbox.write("handback.toml", STATIC);
    world.sandbox.write("alice", &format!("{alice}\n"));
    let config = world.sandbox.path("handback.toml").to_str().unwrap().to_owned();
    let running = Running::with(world, &["--config", &config]);
    let file = running.world.sandbox.path("alice").to_str().unwrap().to_owned();
    let words = ["wrap", "--connect", &running.url(), "--token-file", &file];
    let of_alice = || Client::of(&running.world.sandbox, &words, Era::Newest, json!({})).greeted();
    let handle = held(&of_alice().call("document", &json!({"bytes": 100_000})));
    let read = json!({"operation": "list_elements", "element_type": handle, "params": {}});
    assert!(text(&of_alice().call("mcp_aql_read", &read)).contains("\"success\":true"));
    let url = running.url();
    let Running { world, server } = running;
    let world = World { sandbox: world.sandbox.set("HANDBACK_TOKEN", &bob), ..world };
    let mut of_bob =
        Client::of(&world.sandbox, &["wrap", "--connect", &url], Era::Newest, json!({}));
    let refused = of_bob.call("mcp_aql_read", &read);
    assert!(text(&refused).contains("invalid handle"), "{refused}");
    let world = World { sandbox: world.sandbox.set("HANDBACK_TOKEN", "nobody"), ..world };
    let mut nobody =
        Client::of(&world.sandbox, &["wrap", "--connect", &url], Era::Newest, json!({}));
    nobody.send("tools/list", json!({}));
    let refused = nobody.receive();
    assert!(refused["error"].is_object(), "{refused}");
    drop(server);
}

#[test]
fn what_makes_no_sense_beside_it_is_refused() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run("wrap --connect http://127.0.0.1:1 -- server").expect_code(2);
    assert!(ran.stderr.contains("takes no command") && ran.stderr.contains("hint: "), "{ran:?}");
    for line in [
        "wrap",
        "wrap --connect 127.0.0.1:1",
        "wrap --connect http://me:secret@127.0.0.1:1",
        "wrap --connect http://127.0.0.1:1 --budget 1000",
        "wrap --connect http://127.0.0.1:1 --data d",
        "wrap --token-file t -- server",
    ] {
        sandbox.run(line).expect_code(2);
    }
}
