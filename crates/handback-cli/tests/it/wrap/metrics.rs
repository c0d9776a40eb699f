//! `/metrics` of `handback serve`: what happened, as numbers.

use std::thread;

use serde_json::{Value, json};

use super::World;
use crate::mcp_client::{ERRORS, Era};
use crate::streams::server::Server;
use crate::support::{Sandbox, read};

/// A server with an upstream behind it, that identifies nobody.
struct Served {
    world: World,
    server: Server,
}

/// All samples, by name and labels.
struct Numbers(String);

impl Numbers {
    fn of(text: &[u8]) -> Self {
        Self(String::from_utf8(text.to_vec()).unwrap())
    }

    /// One sample; it must be there.
    #[track_caller]
    fn at(&self, name: &str) -> u64 {
        let found = self.0.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        found.unwrap_or_else(|| panic!("no {name} in {}", self.0)).parse().unwrap()
    }

    fn refused(&self, reason: &str) -> u64 {
        self.at(&format!("handback_refusals_total{{reason=\"{reason}\"}}"))
    }

    fn ended(&self, outcome: &str) -> u64 {
        self.at(&format!("handback_calls_total{{surface=\"mcp\",outcome=\"{outcome}\"}}"))
    }

    fn upstream(&self, outcome: &str) -> u64 {
        let labels = format!("upstream=\"up\",outcome=\"{outcome}\"");
        self.at(&format!("handback_upstream_calls_total{{{labels}}}"))
    }

    /// All refusals.
    fn refusals(&self) -> u64 {
        let lines = self.0.lines().filter(|line| line.starts_with("handback_refusals_total{"));
        lines.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    }

    /// Names and labels, without their numbers.
    fn series(&self) -> Vec<&str> {
        let samples = self.0.lines().filter(|line| !line.starts_with('#'));
        samples.map(|line| line.rsplit_once(' ').unwrap().0).collect()
    }
}

impl Served {
    fn new() -> Self {
        Self::with(&[])
    }

    fn with(more: &[&str]) -> Self {
        let world = World::with(Sandbox::new());
        let path = |name: &str| world.sandbox.path(name).to_str().unwrap().to_owned();
        let upstream = format!(
            "up=/usr/bin/env PATH=/usr/local/bin:/usr/bin:/bin python3 {} {} both",
            path("upstream.py"),
            path("record")
        );
        let flags = [&["--upstream", upstream.as_str()], more].concat();
        let server = Server::start_with(&world.sandbox, &world.sandbox.path("data"), &flags);
        Self { world, server }
    }

    fn numbers(&self) -> Numbers {
        let answer = self.server.ask("GET /metrics", &[], b"");
        assert_eq!(answer.status, 200, "{answer:?}");
        assert!(answer.headers["content-type"].starts_with("text/plain; version=0.0.4"));
        Numbers::of(&answer.body)
    }

    /// A call of the newer era; gives the text of the message that answers it.
    fn ask(&self, tool: &str, key: Option<&str>, mut params: Value) -> String {
        params["name"] = tool.into();
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
        });
        let mut headers = vec![
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", "tools/call"),
            ("mcp-name", tool),
        ];
        headers.extend(key.map(|key| ("idempotency-key", key)));
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let answer = self.server.ask("POST /mcp", &headers, message.to_string().as_bytes());
        let body = String::from_utf8(answer.body).unwrap();
        // The last event is the answer.
        let json = body.lines().rev().find_map(|line| line.strip_prefix("data: ")).unwrap_or(&body);
        json.to_owned()
    }

    fn result(&self, tool: &str, key: Option<&str>, params: Value) -> Value {
        let answer: Value = serde_json::from_str(&self.ask(tool, key, params)).unwrap();
        answer["result"].clone()
    }
}

/// The text of the result in the text of a message.
fn result_text(message: &str) -> &str {
    message.split_once("\"result\":").unwrap().1.strip_suffix('}').unwrap()
}

#[test]
fn what_is_held_and_what_clients_got_instead() {
    let served = Served::new();
    let before = served.numbers();
    assert_eq!((before.at("handback_held_values"), before.at("handback_held_bytes")), (0, 0));
    let answer = served.ask("rows", None, json!({"arguments": {"count": 5000}}));
    let after = served.numbers();
    assert_eq!(after.at("handback_bounded_results_total"), 1);
    let given = after.at("handback_bounded_given_bytes_total");
    assert_eq!(given, result_text(&answer).len() as u64);
    let result = after.at("handback_bounded_result_bytes_total");
    assert!(result > 400_000, "{result}: the rows are there twice");
    assert_eq!(after.at("handback_saved_tokens_total"), (result - given) / 4);
    let taken = after.at("handback_taken_bytes_total");
    assert!((200_000..result).contains(&taken), "{taken}: they are kept once");
    assert_eq!((after.at("handback_taken_values_total"), after.at("handback_held_values")), (1, 1));
    assert_eq!(after.at("handback_held_bytes"), taken);
    // Reading is counted, and saves nothing more.
    let message: Value = serde_json::from_str(&answer).unwrap();
    let handle = message["result"]["_meta"]["dev.handback/held"][0]["handle"].as_str().unwrap();
    let read = json!({"operation": "list_elements", "element_type": handle, "params": {}});
    let answer = served.ask("mcp_aql_read", None, json!({"arguments": read}));
    let read = served.numbers();
    assert_eq!(read.at("handback_read_bytes_total"), result_text(&answer).len() as u64);
    assert_eq!(read.at("handback_saved_tokens_total"), (result - given) / 4);
    let sealed = "handback_continuations_sealed_total{kind=\"cursor\"}";
    assert!(read.at(sealed) > after.at(sealed), "the page has a cursor");
    // After a restart, what is held is still there; the process took in nothing.
    let Served { world, server } = served;
    server.kill();
    let server = Server::start(&world.sandbox, &world.sandbox.path("data"));
    let numbers = Served { world, server }.numbers();
    assert_eq!((numbers.at("handback_held_values"), numbers.at("handback_held_bytes")), (1, taken));
    assert_eq!(numbers.at("handback_taken_bytes_total"), 0);
}

#[test]
fn calls_by_how_they_ended() {
    let served = Served::new();
    let append = json!({"arguments": {"text": "a"}});
    served.result("append", Some("k"), append.clone());
    served.result("append", Some("k"), append.clone());
    served.result("append", Some("k"), json!({"arguments": {"text": "b"}}));
    served.result("append", Some("with space"), append.clone());
    served.result("append", None, append);
    let numbers = served.numbers();
    assert_eq!((numbers.ended("answered"), numbers.ended("replayed")), (2, 1));
    assert_eq!((numbers.ended("refused"), numbers.refusals()), (2, 2));
    assert_eq!((numbers.refused("mismatch"), numbers.refused("bad_key")), (1, 1));
    assert_eq!((numbers.at("handback_replays_total"), numbers.at("handback_joins_total")), (1, 0));
    assert_eq!((numbers.upstream("answered"), numbers.upstream("lost")), (2, 0));
    assert_eq!(numbers.at("handback_overhead_seconds_count"), 2, "replays have no upstream");
    assert_eq!(numbers.at("handback_upstream_seconds_count{upstream=\"up\"}"), 2);
    assert_eq!(numbers.at("handback_upstream_up{upstream=\"up\"}"), 1);
    assert_eq!(numbers.at("handback_upstream_connections_total{upstream=\"up\"}"), 1);
    assert_eq!(served.world.effects("append").len(), 2);
}

#[test]
fn a_call_that_waits_for_another_one_joins_it() {
    let served = Served::new();
    let slow = json!({"arguments": {"text": "a", "delay_ms": 1500}});
    thread::scope(|scope| {
        let first = scope.spawn(|| served.result("append", Some("k"), slow.clone()));
        served.world.until_effect("append");
        let second = served.result("append", Some("k"), slow.clone());
        assert_eq!(second["_meta"]["dev.handback/replayed"], true, "{second}");
        assert!(first.join().unwrap()["_meta"]["dev.handback/replayed"].is_null());
    });
    let numbers = served.numbers();
    assert_eq!((numbers.at("handback_joins_total"), numbers.at("handback_replays_total")), (1, 1));
    assert_eq!((numbers.upstream("answered"), numbers.refusals()), (1, 0));
}

#[test]
fn an_upstream_that_goes_away_and_comes_back() {
    let served = Served::new();
    served.result("append", Some("k"), json!({"arguments": {"text": "a", "die": true}}));
    let numbers = served.numbers();
    assert_eq!((numbers.refused("ambiguous"), numbers.upstream("lost")), (1, 1));
    assert_eq!(numbers.at("handback_upstream_up{upstream=\"up\"}"), 0);
    assert_eq!(numbers.at("handback_upstream_reconnections_total{upstream=\"up\"}"), 0);
    served.result("append", Some("other"), json!({"arguments": {"text": "a"}}));
    let numbers = served.numbers();
    assert_eq!((numbers.refused("ambiguous"), numbers.upstream("answered")), (1, 1));
    assert_eq!(numbers.at("handback_upstream_up{upstream=\"up\"}"), 1);
    assert_eq!(numbers.at("handback_upstream_reconnections_total{upstream=\"up\"}"), 1);
}

#[test]
fn state_that_is_sealed_and_opened() {
    let served = Served::new();
    let call = json!({"arguments": {"what": "x"}});
    let asked = served.result("confirm", None, call.clone());
    let kinds = |numbers: &Numbers| {
        let of = |event: &str| {
            numbers.at(&format!("handback_continuations_{event}_total{{kind=\"state\"}}"))
        };
        (of("sealed"), of("opened"))
    };
    assert_eq!(kinds(&served.numbers()), (1, 0));
    let mut back = call;
    back["requestState"] = asked["requestState"].clone();
    back["inputResponses"] = json!({"q": {"action": "accept"}});
    let mut other = back.clone();
    served.result("confirm", None, back);
    other["arguments"]["what"] = "y".into();
    served.ask("confirm", None, other);
    let numbers = served.numbers();
    assert_eq!((kinds(&numbers), numbers.refused("not_opened")), ((1, 1), 1));
}

#[test]
fn a_value_by_reference_is_counted_and_a_wrong_one_has_its_reason() {
    let served = Served::new();
    let document = served.result("document", None, json!({"arguments": {"bytes": 100_000}}));
    let handle = document["_meta"]["dev.handback/held"][0]["handle"].as_str().unwrap();
    let write = |handle: &str| {
        let text = format!("$held:{handle}");
        served.result("write_document", None, json!({"arguments": {"text": text}}));
    };
    write(handle);
    write(&handback_token::Handle::generate(&mut rand::rng()).to_string());
    let numbers = served.numbers();
    let line = "line 000000 of a document, some text\n";
    assert_eq!(numbers.at("handback_referenced_bytes_total"), 2500 * line.len() as u64);
    assert_eq!((numbers.refused("unknown_handle"), numbers.refused("bad_arguments")), (1, 0));
}

#[test]
fn a_value_by_reference_is_counted_when_it_is_sent() {
    let served = Served::new();
    let document = served.result("document", None, json!({"arguments": {"bytes": 100_000}}));
    let handle = document["_meta"]["dev.handback/held"][0]["handle"].as_str().unwrap();
    let text = format!("$held:{handle}");
    for arguments in [json!({"text": text}), json!({"text": text}), json!({"text": text, "n": 1})] {
        served.result("write_document", Some("k"), json!({"arguments": arguments}));
    }
    let numbers = served.numbers();
    assert_eq!((numbers.ended("replayed"), numbers.refused("mismatch")), (1, 1));
    let line = "line 000000 of a document, some text\n";
    assert_eq!(numbers.at("handback_referenced_bytes_total"), 2500 * line.len() as u64);
}

#[test]
fn nothing_of_what_clients_say_is_a_label() {
    let served = Served::new();
    served.result("append", None, json!({"arguments": {"text": "a"}}));
    let before = served.numbers();
    for number in 0..20 {
        let strange = format!("strange-{number}");
        served.ask(&strange, Some(&strange), json!({"arguments": {"text": strange}}));
        served.ask("confirm", None, json!({"arguments": {}, "requestState": strange}));
        let read = json!({"operation": strange, "element_type": strange, "params": {}});
        served.ask("mcp_aql_read", None, json!({"arguments": read}));
        served.server.ask(&format!("GET /{strange}"), &[], b"");
    }
    let after = served.numbers();
    assert_eq!(before.series(), after.series());
    assert!(!after.0.contains("strange"), "{}", after.0);
    assert_eq!(after.refused("other"), 0, "the audit has no reason that is not known");
    assert!(after.refusals() >= 20);
}

const STATIC: &str = "[identity]\nmode = \"static\"\n[identity.static]\nfile = \"identities\"\n";

#[test]
fn where_callers_are_identified_it_is_closed_unless_it_is_granted() {
    let sandbox = Sandbox::new();
    let token = |subject: &str, flags: &str| {
        let line = format!("identity add --subject {subject} {flags} --file identities");
        sandbox.json(&line)["token"].as_str().unwrap().to_owned()
    };
    let alice = token("alice", "--scope metrics --scope handback:revoke");
    let operator = token("operator", "--scope handback:metrics");
    sandbox.write("handback.toml", STATIC);
    let config = sandbox.path("handback.toml");
    let flags = ["--config", config.to_str().unwrap()];
    let server = Server::start_with(&sandbox, &sandbox.path("data"), &flags);
    let ask = |line: &str, token: Option<&str>| {
        let bearer = token.map(|token| format!("Bearer {token}"));
        let headers: Vec<_> = bearer.iter().map(|bearer| ("authorization", &**bearer)).collect();
        server.ask(line, &headers, b"")
    };
    assert_eq!(ask("GET /metrics", None).status, 401);
    assert_eq!(ask("GET /metrics", Some("hb_no")).status, 401);
    let refused = ask("GET /metrics", Some(&alice));
    let nothing = ask("GET /nothing", Some(&alice));
    assert_eq!((refused.status, &refused.body), (404, &nothing.body), "as if it were not there");
    assert_eq!(ask("POST /metrics", Some(&alice)).status, 404);
    let given = ask("GET /metrics", Some(&operator));
    assert_eq!(given.status, 200);
    assert_eq!(Numbers::of(&given.body).at("handback_unidentified_total"), 2);
    assert_eq!(ask("POST /metrics", Some(&operator)).status, 405);
}

#[test]
fn a_foreign_page_cannot_read_it() {
    let served = Served::new();
    let ask = |headers: &[(&str, &str)]| served.server.ask("GET /metrics", headers, b"").status;
    assert_eq!(ask(&[("origin", "https://evil.example")]), 403);
}

#[test]
fn one_upstream_that_is_down_does_not_make_the_server_unready() {
    let served = Served::with(&["--upstream", "gone=/nonexistent/program"]);
    served.result("append", None, json!({"arguments": {"text": "a"}}));
    let numbers = served.numbers();
    assert_eq!(numbers.at("handback_upstream_up{upstream=\"gone\"}"), 0);
    assert!(numbers.at("handback_upstream_failed_connections_total{upstream=\"gone\"}") > 0);
    assert_eq!(numbers.at("handback_upstream_up{upstream=\"up\"}"), 1);
    let ready = served.server.ask("GET /readyz", &[], b"");
    assert_eq!(ready.status, 200, "{ready:?}");
}

#[test]
fn what_has_no_endpoint_tells_its_sums_at_its_end() {
    let world = World::new();
    let mut client = world.client(Era::Newest);
    client.call("rows", &json!({"count": 5000}));
    client.call("look", &json!({"text": "a"}));
    assert!(client.close().success());
    let told = read(&world.sandbox.path(ERRORS));
    let sums: Vec<_> = told.lines().filter(|line| line.contains("sums of this run")).collect();
    assert_eq!(sums.len(), 1, "{told}");
    assert!(sums[0].starts_with("note: sums of this run; calls: 2; replays: 0;"), "{told}");
    assert!(sums[0].contains("; results_held: 1;"), "{told}");
}

#[test]
fn what_the_gateway_says_in_the_place_of_a_server_has_failed() {
    let served = Served::new();
    let told = served.result("append", None, json!({"arguments": {"text": "a", "die": true}}));
    assert_eq!(told["_meta"]["dev.handback/reason"], "lost", "{told}");
    let numbers = served.numbers();
    assert_eq!((numbers.ended("failed"), numbers.ended("answered")), (1, 0));
    assert_eq!((numbers.refused("lost"), numbers.refusals()), (1, 1));
}
