//! Clients who are cut off at every stage of a call with a key, and make it again.

use std::fs;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::site::{BEHIND, Site, Stop, eventually};
use super::talk::{Call, Caller, Ended, Open, PLACES};
use crate::config;
use crate::mcp_client::Era;
use crate::streams::server::Server;
use crate::wrap::ERAS;

/// Where a client is cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    /// In the head of the request.
    Head,
    /// In its body.
    Body,
    /// After its last byte.
    Sent,
    /// While the gateway writes down that it makes the call.
    Reserving,
    /// When that is written.
    Reserved,
    /// The server has been asked, and did nothing yet.
    Entered,
    /// The server did it, and has not answered.
    Acted,
    /// While the answer is written down.
    Recording,
    /// When that is written.
    Recorded,
    /// A part of the answer was read.
    Answering,
    /// All of it was read, and the client forgot it.
    Answered,
    /// After so many microseconds.
    Sometime(u64),
}

const CUTS: [Cut; 11] = [
    Cut::Head,
    Cut::Body,
    Cut::Sent,
    Cut::Reserving,
    Cut::Reserved,
    Cut::Entered,
    Cut::Acted,
    Cut::Recording,
    Cut::Recorded,
    Cut::Answering,
    Cut::Answered,
];

/// Bytes of an answer that is not sent in one piece, nor kept in the row of its call.
pub(super) const LONG_ANSWER: usize = 2 << 20;

impl Cut {
    /// Where the gateway stands still while the client is cut off.
    const fn point(self) -> &'static str {
        match self {
            Self::Reserving => "still-before-step:1",
            Self::Reserved => "still-after-step:1",
            Self::Recording => "still-before-step:2",
            Self::Recorded => "still-after-step:2",
            _ => "",
        }
    }

    const fn stop(self) -> Option<Stop> {
        match self {
            Self::Entered => Some(Stop::Before),
            Self::Acted => Some(Stop::After),
            _ => None,
        }
    }

    /// Whether the second try is one of a call that was made before; nothing, if both may be.
    const fn is_replay(self) -> Option<bool> {
        match self {
            Self::Head | Self::Body => Some(false),
            Self::Sent | Self::Reserving | Self::Reserved | Self::Sometime(_) => None,
            _ => Some(true),
        }
    }

    /// Makes a call whose client is cut off here.
    fn make(self, site: &Site, server: &Server, caller: &Caller, call: &Call) {
        if let Some(stop) = self.stop() {
            site.hold(stop);
        }
        let bytes = caller.request(call);
        let head = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        let mut open = caller.connect();
        match self {
            Self::Head => open.send(&bytes[..head / 2]),
            Self::Body => open.send(&bytes[..(head + 4 + bytes.len()) / 2]),
            _ => open.send(&bytes),
        }
        match self {
            Self::Head | Self::Body | Self::Sent => {}
            Self::Answering => open.taste(),
            Self::Answered => {
                let (number, is_replay) = open.end().done();
                assert_eq!((site.effects(&call.id), is_replay), (vec![number], false));
                return;
            }
            Self::Sometime(us) => std::thread::sleep(Duration::from_micros(us)),
            Self::Entered | Self::Acted => site.until_stopped(self.stop().unwrap(), &call.id),
            _ => return cut_while_still(server, open),
        }
        drop(open);
    }
}

/// Cuts a client off while all of the gateway stands still.
fn cut_while_still(server: &Server, open: Open) {
    let pid = server.pid();
    eventually("the gateway stands still", || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.rsplit(") ").next().unwrap().starts_with('T')
    });
    drop(open);
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), Signal::CONT).unwrap();
}

/// Makes the call again, and checks that there is one effect, and that its answer is got.
fn check(site: &Site, caller: &Caller, call: &Call, cut: Cut) {
    let what = format!("{cut:?} {:?} {:?} {call:?}", site.behind, caller.era);
    // What is held up goes on when the second try is there.
    let again = caller.begin(call);
    site.let_go();
    let again = again.end();
    let Ended::Done { id, number, is_replay, bytes } = &again else { panic!("{what}: {again:?}") };
    assert_eq!((id, site.effects(&call.id)), (&call.id, vec![*number]), "{what}");
    assert!(*bytes >= call.fill, "{what}: {bytes}");
    if let Some(expected) = cut.is_replay() {
        assert_eq!(*is_replay, expected, "{what}");
    }
    assert_eq!(caller.call(call).done(), (*number, true), "{what}");
    assert_eq!((site.effects(&call.id).len(), site.starts(&call.id)), (1, 1), "{what}");
    // Nobody told the server that the answer is not wanted.
    let told = (site.record("cancelled tools/call"), site.record(&format!("closed {}", call.id)));
    assert_eq!(told, (vec![], vec![]), "{what}");
}

fn call(round: usize, cut: Cut) -> Call {
    let mut call = Call::new("act", &format!("r{round}"));
    if cut == Cut::Answering {
        call.fill = LONG_ANSWER;
    }
    call.key(PLACES[round % PLACES.len()], &format!("k{round}"))
}

/// Each server behind, cut off in each way, by clients of an era.
fn check_era(era: Era) {
    for (shift, behind) in BEHIND.into_iter().enumerate() {
        let site = Site::new(behind);
        let mut server = site.start();
        let mut caller = Caller::of(&server, era);
        for (round, cut) in CUTS.into_iter().enumerate() {
            // Of those that need a gateway of their own, each server behind has some.
            if !cut.point().is_empty() {
                if round % 2 != shift % 2 {
                    continue;
                }
                server.stop();
                server = site.start_at(cut.point());
                caller = Caller::of(&server, era);
            }
            let call = call(round + shift, cut);
            cut.make(&site, &server, &caller, &call);
            if round % 2 == 1 {
                // Who lost a connection may have lost the session as well.
                caller = Caller::of(&server, era);
            }
            check(&site, &caller, &call, cut);
        }
    }
}

#[test]
fn an_older_client_cut_off_anywhere_has_one_effect_and_its_answer() {
    check_era(Era::Older);
}

#[test]
fn a_newer_client_cut_off_anywhere_has_one_effect_and_its_answer() {
    check_era(Era::Newest);
}

/// Longer than most calls take.
const SOMETIME_MAX_US: u64 = 30_000;

#[test]
fn a_client_cut_off_at_any_time_has_one_effect_and_its_answer() {
    // A gateway lives through all of them, so that they are cheap.
    let rounds = usize::try_from(config::kills()).unwrap() * 5 / 2;
    for (number, era) in ERAS.into_iter().enumerate() {
        for (way, behind) in BEHIND[..2].iter().enumerate() {
            let site = Site::new(*behind);
            let server = site.start();
            let caller = Caller::of(&server, era);
            for round in (0..rounds).filter(|round| round % 4 == number * 2 + way) {
                // A prime, so that all times come.
                let cut = Cut::Sometime(round as u64 * 769 % SOMETIME_MAX_US);
                let call = call(round, cut);
                cut.make(&site, &server, &caller, &call);
                check(&site, &caller, &call, cut);
            }
        }
    }
}
