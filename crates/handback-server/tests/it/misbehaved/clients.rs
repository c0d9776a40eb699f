//! Clients that vanish at any point.

use std::time::{Duration, Instant};

use crate::killed::client::{Call, Door, Open};
use crate::killed::process::{Process, Site};
use crate::killed::tools::Stop;

/// Bytes of an answer that is not sent in one piece.
const LONG_ANSWER: usize = 4 << 20;

/// How often each of them vanishes: together more often than one caller may have calls under way.
const TIMES: usize = 20;

/// Memory that a server may have gained in the end.
const MARGIN_KB: usize = 100 << 10;

/// Where a client vanishes.
#[derive(Clone, Copy, Debug)]
enum Vanishes {
    Connected,
    /// After so many hundredths of its request.
    Part(usize),
    Sent,
    /// Within the answer.
    Reading,
}

const POINTS: [Vanishes; 7] = [
    Vanishes::Connected,
    Vanishes::Part(1),
    Vanishes::Part(30),
    Vanishes::Part(70),
    Vanishes::Part(99),
    Vanishes::Sent,
    Vanishes::Reading,
];

fn vanish(server: &Process, call: &Call, point: Vanishes) {
    let mut open = Open::to(server, call.door);
    let bytes = call.bytes();
    match point {
        Vanishes::Connected => {}
        Vanishes::Part(hundredths) => open.send(&bytes[..bytes.len() * hundredths / 100]),
        Vanishes::Sent => open.send(&bytes),
        Vanishes::Reading => {
            open.send(&bytes);
            open.begin();
        }
    }
}

/// Waits until a server has no more files open than it had.
fn settles(server: &Process, files: usize) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while server.files() > files {
        assert!(Instant::now() < deadline, "{} files, {files} before", server.files());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_client_that_vanishes_anywhere_leaves_nothing_behind() {
    let site = Site::new();
    let server = site.start();
    let doors = [Door::Http, Door::Mcp, Door::Socket];
    let well = |door| Call::new(door, "act_read_only", "well");
    for door in doors {
        well(door).make(&server).done();
    }
    let (files, memory) = (server.files(), server.memory_kb("VmRSS"));
    for round in 0..TIMES {
        for (number, point) in POINTS.into_iter().enumerate() {
            let mut call = well(doors[(round + number) % doors.len()]);
            if matches!(point, Vanishes::Reading) {
                call.args["fill"] = LONG_ANSWER.into();
            }
            vanish(&server, &call, point);
        }
    }
    settles(&server, files);
    for door in doors {
        well(door).make(&server).done();
    }
    let gained = server.memory_kb("VmRSS").saturating_sub(memory);
    assert!(gained < MARGIN_KB, "{gained} kB more");
}

/// As many as one caller may have under way, and more.
const MANY: usize = 70;

#[test]
fn clients_that_vanish_while_their_calls_are_made_give_their_places_back() {
    let site = Site::new();
    site.stop_at(Some(Stop::Entered));
    let mut server = site.start();
    let files = server.files();
    for number in 0..MANY {
        // In this protocol hanging up cancels.
        let call = Call::new(Door::Mcp, "act_unknown", &format!("call {number}"));
        let mut open = Open::to(&server, Door::Mcp);
        open.send(&call.bytes());
        server.stopped(Stop::Entered);
        drop(open);
        settles(&server, files + 8);
    }
    site.stop_at(None);
    Call::new(Door::Mcp, "act_unknown", "well").make(&server).done();
}
