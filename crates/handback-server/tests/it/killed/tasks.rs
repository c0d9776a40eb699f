//! Tasks of servers that are killed.

use std::time::{Duration, Instant};

use handback_tool::ToolClass;
use serde_json::Value;

use super::client::{Call, Door, Ended, Open, task};
use super::process::{Process, Site};
use super::tools::{CLASSES, Stop};
use crate::config;

fn long(name: &str, tag: &str) -> Call {
    let call = Call::new(Door::Mcp, format!("long_{name}"), tag).key(&tag.replace(' ', "-"));
    Call { knows_tasks: true, ..call }
}

#[track_caller]
fn handle(ended: Ended) -> String {
    match ended {
        Ended::Task(id) => id,
        other => panic!("no task: {other:?}"),
    }
}

fn ended(server: &Process, id: &str) -> Value {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let task = task(server, id);
        if task["status"] != "working" {
            return task;
        }
        assert!(Instant::now() < deadline, "{task}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A handle tells that the work was cut off, and the key what may be done about it.
#[test]
fn a_task_that_was_cut_off_is_ambiguous() {
    let site = Site::new();
    for round in 0..config::kills() / 4 {
        let (class, name) = CLASSES[round % CLASSES.len()];
        let stop = if round / 4 % 2 == 0 { Stop::Entered } else { Stop::Acted };
        let tag = format!("round {round}");
        let call = long(name, &tag);
        site.stop_at(Some(stop));
        let mut server = site.start();
        let id = handle(call.make(&server));
        server.stopped(stop);
        assert_eq!(task(&server, &id)["status"], "working");
        server.kill();
        site.stop_at(None);
        let server = site.start();
        let cut = task(&server, &id);
        assert_eq!(cut["status"], "failed", "{cut}");
        assert_eq!(cut["error"]["data"]["reason"], "ambiguous", "{cut}");
        let again = Call { knows_tasks: false, ..call }.make(&server);
        if class == ToolClass::Unknown {
            assert_eq!(again, Ended::Ambiguous);
            assert_eq!(site.book.starts(&tag).len(), 1);
        } else {
            let number = again.done().number;
            let effects = if class == ToolClass::ReadOnly { vec![] } else { vec![number] };
            assert_eq!(site.book.effects(&tag), effects);
        }
        assert_eq!(task(&server, &id), cut, "what a handle told stays so");
    }
}

#[test]
fn a_handle_that_was_given_answers_whenever_its_server_died() {
    let site = Site::new();
    let mut completed = 0;
    for round in 0..config::kills() / 2 {
        let (class, name) = CLASSES[round % CLASSES.len()];
        let tag = format!("round {round}");
        let call = long(name, &tag);
        let server = site.start();
        let mut open = Open::to(&server, Door::Mcp);
        open.send(&call.bytes());
        let id = handle(open.end());
        // Some die at once, some when it has ended.
        if round % 3 == 0 {
            assert_eq!(ended(&server, &id)["status"], "completed");
        } else {
            std::thread::sleep(Duration::from_micros(round as u64 * 769 % 10_000));
        }
        server.kill();
        let server = site.start();
        let told = task(&server, &id);
        let effects = site.book.effects(&tag);
        let what = format!("{class:?} {told} {effects:?}");
        assert!(effects.len() <= 1, "{what}");
        match told["status"].as_str() {
            Some("completed") => {
                completed += 1;
                let number = effects.first().copied().unwrap_or(0);
                assert_eq!(told["result"]["structuredContent"]["number"], number, "{what}");
            }
            Some("failed") => {
                assert_ne!(round % 3, 0, "{what}: what was completed is not any more");
                assert_eq!(told["error"]["data"]["reason"], "ambiguous", "{what}");
            }
            _ => panic!("{what}"),
        }
        let again = Call { knows_tasks: false, ..call }.make(&server);
        let effects = site.book.effects(&tag);
        match again {
            Ended::Ambiguous => assert_eq!((class, effects.len() <= 1), (ToolClass::Unknown, true)),
            again => {
                let number = again.done().number;
                let expected = if class == ToolClass::ReadOnly { vec![] } else { vec![number] };
                assert_eq!(effects, expected, "{what}");
            }
        }
    }
    assert!(completed > 0);
}
