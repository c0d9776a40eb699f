//! Servers that do what they should not.

use std::collections::BTreeMap;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{ERAS, World, text};
use crate::mcp_client::{Client, Era};

#[test]
fn what_nobody_understands_is_passed_over() {
    for era in ERAS {
        let world = World::new();
        let mut client = world.client(era);
        for how in ["malformed", "twice"] {
            let result = client.call("wrong", &json!({"how": how}));
            assert_eq!(text(&result), format!("wrong {how}"));
        }
        assert!(client.close().success());
    }
}

#[test]
fn of_two_answers_to_one_question_the_first_is_the_answer() {
    for speaks in ["both", "older", "newest"] {
        for era in ERAS {
            let world = World::speaking(speaks);
            let mut client = world.client(era);
            let mut expected = BTreeMap::new();
            for number in 0..4 {
                let calls = [
                    ("slow", json!({"text": number.to_string(), "delay_ms": 300})),
                    ("wrong", json!({"how": "again"})),
                    ("look", json!({"text": number.to_string()})),
                ];
                for (tool, arguments) in calls {
                    let call = json!({"name": tool, "arguments": arguments});
                    let answer = match tool {
                        "slow" => format!("slow {number}"),
                        "wrong" => "wrong again".to_owned(),
                        _ => number.to_string(),
                    };
                    expected.insert(client.send("tools/call", call), answer);
                }
            }
            // As many answers as questions, each to its own.
            while !expected.is_empty() {
                let told = client.receive();
                let wanted = expected.remove(&told["id"].as_u64().unwrap());
                assert_eq!(wanted.as_deref(), Some(text(&told["result"])), "{told}");
            }
            assert_eq!(text(&client.call("look", &json!({"text": "x"}))), "x");
            assert!(client.close().success());
        }
    }
}

#[test]
fn one_that_dies_is_started_again() {
    for era in ERAS {
        let world = World::new();
        let mut client = world.client(era);
        for how in ["die", "half"] {
            let result = client.call("wrong", &json!({"how": how}));
            assert_eq!(
                (&result["isError"], &result["_meta"]["dev.handback/reason"]),
                (&json!(true), &json!("lost"))
            );
            assert!(text(&result).contains("not known"), "{result}");
            let result = client.call("look", &json!({"text": "hello"}));
            assert_eq!(text(&result), "hello");
        }
    }
}

/// Questions that come while a program is of no use.
const QUESTIONS: usize = 50;

/// How often a program may be started for them.
const STARTS_MAX: usize = 8;

/// Asks many questions within two seconds: each has an answer that says why there is none.
fn check_few_starts(world: &World, mut client: Client) {
    let began = Instant::now();
    for number in 0..QUESTIONS {
        let id = client.send("resources/read", json!({"uri": format!("x://{number}")}));
        let answer = client.receive();
        assert_eq!(answer["id"], id, "{answer}");
        let reason = answer["error"]["data"]["reason"].as_str().unwrap_or_default();
        assert!(matches!(reason, "unreachable" | "lost"), "{answer}");
        let next = Duration::from_millis(40) * u32::try_from(number).unwrap();
        thread::sleep(next.saturating_sub(began.elapsed()));
    }
    let (starts, took) = (world.effects("start").len(), began.elapsed());
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert!((1..=STARTS_MAX).contains(&starts), "{starts} starts in {took:?}");
}

#[test]
fn one_that_ends_at_once_is_not_started_for_every_question() {
    let world = World::new();
    let record = world.sandbox.path("record");
    let command = ["wrap", "--", "/bin/sh", "-c", "echo start >> \"$0\"", record.to_str().unwrap()];
    let command = world.sandbox.command(&command);
    check_few_starts(&world, Client::at(&world.sandbox, command, Era::Newest, json!({})));
    // One that says what it is, and ends over everything else.
    let world = World::speaking("newest brief");
    check_few_starts(&world, world.client(Era::Newest));
}

#[test]
fn a_large_error_keeps_to_the_budget() {
    for era in ERAS {
        let world = World::new();
        let mut client = world.client(era);
        let wrong = json!({"name": "wrong", "arguments": {"how": "error"}});
        client.send("tools/call", wrong);
        let told = client.receive();
        let omitted = json!({"dev.handback/omitted": 7_000_000 + r#"{"trace": ""}"#.len()});
        let error = json!({"code": -32001, "message": "no such order", "data": omitted});
        assert_eq!(told["error"], error);
    }
}

#[test]
fn a_full_disk_fails_the_call_that_needs_it() {
    let world = World::new();
    let wrap = world.command(&[]);
    // No file grows beyond 80 MiB: as if there was no more room.
    let script = r#"ulimit -f 81920; exec "$0" "$@""#;
    let mut command = Command::new("/bin/bash");
    command.args(["-c", script]).arg(wrap.get_program()).args(wrap.get_args());
    command.current_dir(wrap.get_current_dir().unwrap()).env_clear();
    command.envs(wrap.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut client = Client::at(&world.sandbox, command, Era::Newest, json!({})).greeted();
    let failed = client.call("document", &json!({"bytes": 100_000_000}));
    assert_eq!(
        (&failed["isError"], &failed["_meta"]["dev.handback/reason"]),
        (&json!(true), &json!("not_held")),
        "{failed}"
    );
    assert!(text(&failed).starts_with("the call was made"), "{failed}");
    // It is known that it was made, so that another try is told the same.
    let call = json!({
        "name": "document",
        "arguments": {"bytes": 100_000_000},
        "_meta": {"dev.handback/idempotency-key": "k"},
    });
    for is_replayed in [Value::Null, json!(true)] {
        let failed = client.ask("tools/call", call.clone());
        let meta = &failed["_meta"];
        assert_eq!(meta["dev.handback/reason"], "not_held", "{failed}");
        assert_eq!(meta["dev.handback/replayed"], is_replayed, "{failed}");
    }
    let held = client.call("document", &json!({"bytes": 20_000_000}));
    assert!(held["_meta"]["dev.handback/held"][0]["handle"].is_string(), "{held}");
    assert_eq!(text(&client.call("look", &json!({"text": "x"}))), "x");
}

#[test]
fn one_that_changes_all_the_time_is_not_looked_at_all_the_time() {
    let world = World::speaking("both restless");
    let mut client = world.client(Era::Older);
    let begun = Instant::now();
    let lists = 30;
    for _ in 0..lists {
        client.ask("tools/list", json!({}));
    }
    // The gateway looks for itself, and not more than once in a second.
    let looks = world.effects("list").len() - lists;
    let seconds = usize::try_from(begun.elapsed().as_secs()).unwrap();
    assert!((1..=seconds + 2).contains(&looks), "{looks} looks in {seconds} seconds");
}

#[test]
fn lists_without_end_are_not_read_without_end() {
    for (speaks, pages_max) in [("both endless", 1_100), ("both heavy", 20)] {
        let world = World::speaking(speaks);
        let mut client = world.client(Era::Older);
        client.ask("tools/list", json!({}));
        let pages = world.effects("page").len();
        assert!((2..pages_max).contains(&pages), "{speaks}: {pages}");
    }
}
