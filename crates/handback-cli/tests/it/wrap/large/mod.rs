//! Results that are larger than what may be in memory of them, all the way: from a server that gives
//! them, through the binary, to a client that reads them to their end.
//!
//! What is measured is the memory of the process of the binary, as the system tells it.

mod door;
mod reader;

use std::io::{self, Write as _};

use serde_json::{Value, json};

use self::door::{Door, Over, Served, Wrapped};
use self::reader::{Kind, Reading, Size};
use crate::config;

/// What the process may take more than before, while it takes in, holds and reads a result of any size.
const RISE_MAX_BYTES: u64 = 64_000_000;

/// Up to here nothing has to be configured.
const ON_DEFAULTS_MB: u64 = 200;

/// The client of these tests asks faster than others.
const FAST: &str = "[limits]\ncalls_per_second = 1000000\ncalls_burst = 10000000\n";

/// More than any of these results.
const RAISED: &str = "result_bytes = 2147483648\n[held]\nbytes_per_caller = 2147483648\n\
                      [[gateway.tools]]\ntools = \"*\"\ntime_limit_s = 3600\n";

/// What is configured for results of so many megabytes.
fn settings(megabytes: u64) -> String {
    format!("{FAST}{}", if megabytes > ON_DEFAULTS_MB { RAISED } else { "" })
}

/// Reads one result in every way; gives how much more memory that took.
fn read<'a, D: Door>(door: &'a mut D, kind: Kind, megabytes: u64) -> Reading<'a, D> {
    // Everything was done once before memory is looked at.
    for kind in Kind::ALL {
        Reading::call(door, kind, Size::small()).everything();
    }
    let before = door.forget_peak();
    let clock = std::time::Instant::now();
    let mut reading = Reading::call(door, kind, Size::of_megabytes(megabytes));
    let held = clock.elapsed();
    reading.everything();
    let rise = reading.door.peak().saturating_sub(before);
    let text = format!(
        "{kind:?} of {megabytes} MB through {}: {} kB more memory; held after {held:.1?}, read after \
         {:.1?}\n",
        reading.door.name(),
        rise / 1000,
        clock.elapsed()
    );
    io::stderr().write_all(text.as_bytes()).unwrap();
    assert!(rise <= RISE_MAX_BYTES, "{rise} bytes more than before");
    reading
}

#[test]
fn a_wrapped_server_gives_large_results_in_little_memory() {
    for megabytes in config::large_sizes() {
        for kind in Kind::ALL {
            let mut door = Wrapped::start(&settings(megabytes));
            read(&mut door, kind, megabytes);
        }
    }
}

#[test]
fn large_results_of_servers_behind_http_are_their_callers_until_they_end() {
    for megabytes in config::large_sizes() {
        for (over, kind) in [(Over::Http, Kind::Structured), (Over::Stdio, Kind::Log)] {
            let mut served = Served::start(&settings(megabytes), over);
            let reading = read(&mut served, kind, megabytes);
            let (handle, pointer) = (reading.handle().to_owned(), reading.first_pointer());
            belongs_to_its_caller(&mut served, &handle, &pointer);
            // An hour and a second later.
            served.restart("3601000");
            ends(&mut served, &handle, &pointer);
        }
    }
}

/// What can be asked of a handle.
fn questions(handle: &str, pointer: &str) -> Vec<Value> {
    let of = |operation: &str, params: Value| json!({"operation": operation, "element_type": handle, "params": params});
    vec![
        of("list_elements", json!({})),
        of("search_elements", json!({"query": "group1x"})),
        of("count_elements", json!({})),
        of("get_element", json!({"pointer": pointer})),
    ]
}

/// Another caller learns nothing: not even that there is such a handle.
fn belongs_to_its_caller(served: &mut Served, handle: &str, pointer: &str) {
    let never = handback_token::Handle::generate(&mut rand::rng()).to_string();
    for (theirs, nobodys) in questions(handle, pointer).iter().zip(questions(&never, pointer)) {
        let refused = served.bob("mcp_aql_read", theirs);
        assert!(super::text(&refused).contains("invalid handle"), "{refused}");
        assert_eq!(served.bob("mcp_aql_read", &nobodys), refused);
    }
    let listed = served.bob("mcp_aql_read", &json!({"operation": "list_collections"}));
    assert!(!listed.to_string().contains(handle), "{listed}");
    let passed = served.bob("log", &json!({"items": {"$held": handle}}));
    let unknown = served.bob("log", &json!({"items": {"$held": never}}));
    assert_eq!((&passed["isError"], &passed), (&json!(true), &unknown));
}

/// Its caller is told that it is over, and others nothing.
fn ends(served: &mut Served, handle: &str, pointer: &str) {
    for question in questions(handle, pointer) {
        let late = served.call("mcp_aql_read", &question);
        assert!(super::text(&late).contains("expired handle"), "{late}");
        let told = "Make the call that gave the handle once more";
        assert!(super::text(&late).contains(told), "{late}");
        let refused = served.bob("mcp_aql_read", &question);
        assert!(super::text(&refused).contains("invalid handle"), "{refused}");
    }
}

/// A result over the limit: made, said to be too large, and not made again for who asks again.
#[track_caller]
fn is_too_large(door: &mut impl Door, kind: Kind, size: Size) {
    for _ in 0..2 {
        let told = door.call_with_key(kind.tool(), &size.arguments(), "key-of-this-call");
        assert_eq!(told["isError"], true, "{told}");
        assert_eq!(told["_meta"]["dev.handback/reason"], "too_large", "{told}");
        assert!(super::text(&told).contains("the call was made"), "{told}");
        assert_eq!(door.calls(), 1);
    }
    let listed = door.call("mcp_aql_read", &json!({"operation": "list_collections"}));
    assert!(super::text(&listed).contains(r#""items":[]"#), "{listed}");
}

#[test]
fn what_is_over_the_limit_is_recorded_as_too_large() {
    let megabytes = config::large_sizes().into_iter().max().unwrap();
    let size = Size::of_megabytes(megabytes);
    // On defaults, if it is too large for them; else on limits that it is too large for.
    let small = "[limits]\nresult_bytes = 1000000\n";
    let settings = if megabytes > ON_DEFAULTS_MB { "" } else { small };
    for kind in Kind::ALL {
        is_too_large(&mut Served::start(settings, Over::Http), kind, size);
        // The server is there for the next one, by itself or because it was started again.
        let mut door = Wrapped::start(settings);
        is_too_large(&mut door, kind, size);
        Reading::call(&mut door, kind, Size::small()).everything();
    }
}

#[test]
fn what_does_not_fit_into_the_quota_is_said_so() {
    let settings = "[held]\nbytes_per_caller = 2000000\n";
    let mut door = Wrapped::start(settings);
    for kind in Kind::ALL {
        let told = door.call(kind.tool(), &Size::of_megabytes(3).arguments());
        assert_eq!(told["_meta"]["dev.handback/reason"], "not_held", "{told}");
        assert!(super::text(&told).contains("at most 2000000 bytes"), "{told}");
    }
    // And what fits is held.
    Reading::call(&mut door, Kind::Structured, Size::small()).everything();
}
