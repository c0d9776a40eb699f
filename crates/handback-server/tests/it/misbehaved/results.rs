//! What callers of bad tools get.

use std::time::{Duration, Instant};

use super::tools::{Bad, FLOOD_BYTES};
use crate::killed::client::{Call, Door, Ended};
use crate::killed::process::{Process, Site};

const DOORS: [Door; 3] = [Door::Http, Door::Mcp, Door::Socket];

/// More calls than one caller may have under way.
const MANY: usize = 70;

fn bad(door: Door, bad: Bad) -> Call {
    Call::new(door, bad.name(), "bad")
}

#[track_caller]
fn works(server: &Process, door: Door) {
    Call::new(door, "act_unknown", "well").make(server).done();
}

#[track_caller]
fn says(ended: &Ended, words: &str) {
    assert!(matches!(ended, Ended::Other(said) if said.contains(words)), "{words}: {ended:?}");
}

#[test]
fn whoever_calls_a_bad_tool_is_told_so_and_others_are_served() {
    let site = Site::new();
    let server = site.start();
    for door in DOORS {
        for (tool, words) in [
            (Bad::Panics, "the tool failed"),
            (Bad::Hangs, "the call took longer than it may"),
            (Bad::Blocks, "the call took longer than it may"),
            (Bad::Garbles, "the tool failed"),
            (Bad::GarblesBytes, "the tool failed"),
        ] {
            says(&bad(door, tool).make(&server), words);
            works(&server, door);
        }
    }
    for _ in 0..MANY {
        says(&bad(Door::Http, Bad::Panics).make(&server), "the tool failed");
        says(&bad(Door::Mcp, Bad::GarblesBytes).make(&server), "the tool failed");
    }
    works(&server, Door::Http);
}

#[test]
fn a_bad_call_with_a_key_is_not_made_again() {
    let site = Site::new();
    let server = site.start();
    for door in DOORS {
        for tool in [Bad::Panics, Bad::Hangs] {
            let call = bad(door, tool).key(&format!("{door:?}-{tool:?}"));
            assert!(matches!(call.make(&server), Ended::Other(_)));
            assert_eq!(call.make(&server), Ended::Ambiguous, "{door:?} {tool:?}");
        }
        // It was done, and is told as often as it is asked for.
        for tool in [Bad::Garbles, Bad::GarblesBytes] {
            let call = bad(door, tool).key(&format!("{door:?}-{tool:?}"));
            for _ in 0..2 {
                says(&call.make(&server), "the tool failed");
            }
        }
    }
}

/// What a server may need besides a result that it was given.
const MARGIN_KB: usize = 400 << 10;

#[test]
fn a_result_of_a_gigabyte_is_neither_sent_nor_copied_nor_kept() {
    let site = Site::new();
    let server = site.start();
    for (number, door) in DOORS.into_iter().enumerate() {
        let tool = if number == 1 { Bad::FloodsJson } else { Bad::Floods };
        for call in [bad(door, tool), bad(door, tool).key("k")] {
            says(&call.make(&server), "the result is larger than it may be");
        }
        works(&server, door);
    }
    let most = server.memory_kb("VmHWM");
    assert!(most < (FLOOD_BYTES >> 10) + MARGIN_KB, "{most} kB at most");
    // The allocator gives back what is free after a while, and while there is something to do.
    let end = Instant::now() + Duration::from_secs(60);
    while server.memory_kb("VmRSS") >= MARGIN_KB {
        let now = server.memory_kb("VmRSS");
        assert!(Instant::now() < end, "{now} kB now");
        DOORS.into_iter().for_each(|door| works(&server, door));
        std::thread::sleep(Duration::from_millis(50));
    }
}
