//! Several callers with one key.

use std::sync::Barrier;
use std::thread;

use handback_tool::ToolClass;

use super::client::{Call, Door, Ended};
use super::process::{Process, Site};
use super::tools::CLASSES;
use crate::config;

/// Callers at a time: what they write in the record of calls is the steps that are killed at.
const CROWD: usize = 8;

/// Steps that a crowd makes: all try to reserve, one records, and the others look again.
const STEPS: usize = 2 * CROWD;

fn all(server: &Process, calls: &[Call]) -> Vec<Ended> {
    let start = Barrier::new(calls.len());
    thread::scope(|scope| {
        let make = |call| {
            let start = &start;
            scope.spawn(move || {
                start.wait();
                Call::make(call, server)
            })
        };
        let made: Vec<_> = calls.iter().map(make).collect();
        made.into_iter().map(|one| one.join().unwrap()).collect()
    })
}

#[test]
fn a_crowd_with_one_key_that_was_cut_off_has_one_effect_and_one_answer() {
    let site = Site::new();
    for round in 0..config::kills() {
        let (class, name) = CLASSES[round % CLASSES.len()];
        let tag = format!("round {round}");
        let door = |number: usize| if number.is_multiple_of(2) { Door::Http } else { Door::Mcp };
        let call = |number| {
            Call::new(door(number), format!("act_{name}"), &tag).key(&tag.replace(' ', "-"))
        };
        let calls: Vec<_> = (0..CROWD).map(call).collect();
        let side = if round % 8 < 4 { "after" } else { "before" };
        let server = site.start_to_die(&format!("{side}-step:{}", 1 + round / 8 * 3 % STEPS));
        let mut ended = all(&server, &calls);
        server.kill();
        let server = site.start();
        ended.extend(all(&server, &calls));
        ended.retain(|ended| *ended != Ended::Cut);
        let (effects, starts) = (site.book.effects(&tag), site.book.starts(&tag));
        let what = format!("round {round}, {class:?}: {effects:?} {starts:?} {ended:?}");
        assert!(effects.len() <= 1 && ended.len() >= CROWD, "{what}");
        if class == ToolClass::Unknown {
            assert!(starts.len() <= 1, "{what}");
            if ended.iter().all(|ended| *ended == Ended::Ambiguous) {
                continue;
            }
        }
        assert!(starts.iter().all(|key| *key == starts[0]), "{what}");
        let done: Vec<_> = ended.into_iter().map(Ended::done).collect();
        let number = effects.first().copied().unwrap_or(0);
        assert!(done.iter().all(|done| done.number == number), "{what}");
        assert!(done.iter().filter(|done| !done.is_replay).count() <= 1, "{what}");
        assert_eq!(effects.len(), usize::from(class != ToolClass::ReadOnly), "{what}");
    }
}
