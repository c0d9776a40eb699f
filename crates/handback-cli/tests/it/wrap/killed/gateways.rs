//! Gateways that are killed at every stage of a call with a key, which is made again at the next one.

use std::time::Duration;

use super::clients::LONG_ANSWER;
use super::site::{BEHIND, Behind, Site, Stop, Way};
use super::talk::{Call, Caller, Ended, PLACES, Place};
use crate::config;
use crate::mcp_client::Era;
use crate::wrap::ERAS;

/// Where a gateway is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The last byte of the call was not sent.
    Unread,
    BeforeReserve,
    AfterReserve,
    /// The server has been asked, and did nothing yet.
    Entered,
    /// The server did it, and has not answered.
    Acted,
    BeforeRecord,
    AfterRecord,
    /// A part of the answer was read.
    Answering,
    /// After so many microseconds.
    Sometime(u64),
}

const STAGES: [Stage; 9] = [
    Stage::Unread,
    Stage::BeforeReserve,
    Stage::AfterReserve,
    Stage::Entered,
    Stage::Acted,
    Stage::BeforeRecord,
    Stage::AfterRecord,
    Stage::Answering,
    Stage::Sometime(0),
];

/// Longer than most calls take.
const SOMETIME_MAX_US: u64 = 30_000;

/// Tools, and whether they may be called again if nobody knows what became of a call.
const TOOLS: [(&str, bool); 3] = [("act", false), ("act_again", true), ("act_reading", true)];

impl Stage {
    const fn point(self) -> &'static str {
        match self {
            Self::BeforeReserve => "before-step:1",
            Self::AfterReserve => "after-step:1",
            Self::BeforeRecord => "before-step:2",
            Self::AfterRecord => "after-step:2",
            _ => "",
        }
    }

    /// Whether the next gateway knows how the call ended, or that it did not begin; nothing, if both
    /// may be.
    const fn is_known(self) -> Option<bool> {
        match self {
            Self::Unread | Self::BeforeReserve | Self::AfterRecord | Self::Answering => Some(true),
            Self::AfterReserve | Self::Entered | Self::Acted | Self::BeforeRecord => Some(false),
            Self::Sometime(_) => None,
        }
    }

    /// Makes a call at a gateway of its own, which is killed at this stage.
    fn cut(self, site: &Site, era: Era, call: &Call) -> Ended {
        let server = site.start_at(self.point());
        let caller = Caller::of(&server, era);
        let bytes = caller.request(call);
        let mut open = caller.connect();
        let stop = match self {
            Self::Entered => Some(Stop::Before),
            Self::Acted => Some(Stop::After),
            _ => None,
        };
        if let Some(stop) = stop {
            site.hold(stop);
        }
        match self {
            Self::Unread => open.send(&bytes[..bytes.len() - 1]),
            _ => open.send(&bytes),
        }
        match (self, stop) {
            (Self::Answering, _) => open.taste(),
            (Self::Sometime(us), _) => std::thread::sleep(Duration::from_micros(us)),
            (_, Some(stop)) => site.until_stopped(stop, &call.id),
            _ => {}
        }
        if self.point().is_empty() {
            server.kill();
            return open.end();
        }
        // It kills itself.
        let seen = open.end();
        assert_eq!(seen, Ended::Cut, "{self:?} {era:?} {call:?}");
        seen
    }
}

/// Makes a call again whose gateway was killed, and checks what came of it.
fn check(
    site: &Site,
    caller: &Caller,
    call: &Call,
    may_again: bool,
    (stage, seen): (Stage, &Ended),
) {
    let what = format!("{stage:?} {:?} {:?} {call:?}, first {seen:?}", site.behind, caller.era);
    let again = caller.begin(call);
    // A server that outlived the gateway goes on with what it was asked.
    site.let_go();
    let again = again.end();
    if let Ended::Refused(reason, _) = &again {
        assert_eq!((reason.as_str(), may_again), ("ambiguous", false), "{what}: {again:?}");
        assert_ne!(stage.is_known(), Some(true), "{what}");
        assert!(!matches!(seen, Ended::Done { .. }), "{what}: an answer is lost");
        if site.behind.0 == Way::Http && matches!(stage, Stage::Entered) {
            site.until(&format!("effect {}", call.id), 1);
        }
        assert_eq!(caller.call(call).reason(), "ambiguous", "{what}");
        assert!(site.starts(&call.id) <= 1, "{what}: it was asked again");
        assert!(site.effects(&call.id).len() <= 1, "{what}");
        return;
    }
    let Ended::Done { number, is_replay, bytes, .. } = &again else { panic!("{what}: {again:?}") };
    assert!(*bytes >= call.fill, "{what}: {bytes}");
    assert!(site.effects(&call.id).contains(number), "{what}");
    if may_again {
        // Once more, where nobody knows; and only then.
        let most = if stage.is_known() == Some(true) { 1 } else { 2 };
        assert!((1..=most).contains(&site.starts(&call.id)), "{what}");
    } else {
        assert_ne!(stage.is_known(), Some(false), "{what}");
        assert_eq!((site.starts(&call.id), site.effects(&call.id).len()), (1, 1), "{what}");
    }
    if let Ended::Done { number: seen, .. } = seen {
        assert_eq!(seen, number, "{what}: another answer");
    }
    if matches!(stage, Stage::AfterRecord | Stage::Answering) {
        assert!(*is_replay, "{what}");
    }
    let starts = site.starts(&call.id);
    assert_eq!(caller.call(call).done(), (*number, true), "{what}");
    assert_eq!(site.starts(&call.id), starts, "{what}: it was asked again");
}

/// What is killed in a round: with enough rounds, all of it.
fn combination(round: usize) -> (Stage, (&'static str, bool), Era, Behind) {
    let all = STAGES.len() * TOOLS.len() * ERAS.len() * BEHIND.len();
    // Prime to all of these numbers: no combination comes twice before all came once.
    let number = round * 37 % all;
    let stage = match STAGES[number % STAGES.len()] {
        Stage::Sometime(_) => Stage::Sometime(round as u64 * 769 % SOMETIME_MAX_US),
        other => other,
    };
    let number = number / STAGES.len();
    let tool = TOOLS[number % TOOLS.len()];
    let number = number / TOOLS.len();
    (stage, tool, ERAS[number % ERAS.len()], BEHIND[number / ERAS.len()])
}

#[test]
fn a_gateway_killed_anywhere_has_one_effect_or_says_that_it_does_not_know() {
    for round in 0..usize::try_from(config::kills()).unwrap() {
        let (stage, (tool, may_again), era, behind) = combination(round);
        let site = Site::new(behind);
        let mut call = Call::new(tool, "x").key(PLACES[round % PLACES.len()], "k");
        if stage == Stage::Answering {
            call.fill = LONG_ANSWER;
        }
        let seen = stage.cut(&site, era, &call);
        let server = site.start();
        let caller = Caller::of(&server, era);
        check(&site, &caller, &call, may_again, (stage, &seen));
        // Another key is another call.
        let other = Call::new(tool, "other").key(Place::Meta, "other");
        assert!(!caller.call(&other).done().1);
    }
}

#[test]
fn a_gateway_killed_at_any_time_has_one_effect_or_says_that_it_does_not_know() {
    for (number, behind) in BEHIND[..2].iter().enumerate() {
        let site = Site::new(*behind);
        for round in 0..config::kills() / 4 {
            let era = ERAS[usize::try_from(round % 2).unwrap()];
            // A prime, so that all times come.
            let stage = Stage::Sometime((2 * round + number as u64) * 1_999 % SOMETIME_MAX_US);
            let call =
                Call::new("act", &format!("r{round}")).key(Place::Header, &format!("k{round}"));
            let seen = stage.cut(&site, era, &call);
            let server = site.start();
            check(&site, &Caller::of(&server, era), &call, false, (stage, &seen));
        }
    }
}

#[test]
fn what_nobody_knows_stays_so_however_often_it_is_asked_and_the_gateway_killed() {
    let site = Site::new(BEHIND[1]);
    let call = Call::new("act", "x").key(Place::Header, "k");
    Stage::Acted.cut(&site, Era::Newest, &call);
    site.let_go();
    for era in [Era::Newest, Era::Older, Era::Newest] {
        let server = site.start();
        let caller = Caller::of(&server, era);
        for _ in 0..3 {
            assert_eq!(caller.call(&call).reason(), "ambiguous");
        }
        server.kill();
    }
    assert_eq!((site.starts("x"), site.effects("x").len()), (1, 1));
}

#[test]
fn state_that_is_good_for_one_use_is_redeemed_once_wherever_the_gateway_is_killed() {
    let rounds = usize::try_from(config::kills()).unwrap() / 2;
    for round in 0..rounds.max(STAGES.len() * 2) {
        // An exchange that is parked does not outlive its gateway.
        let behind = [BEHIND[0], BEHIND[1], BEHIND[3], BEHIND[4]][round / STAGES.len() % 4];
        let stage = match STAGES[round % STAGES.len()] {
            Stage::Sometime(_) => Stage::Sometime(round as u64 * 769 % SOMETIME_MAX_US),
            other => other,
        };
        let site = Site::new(behind);
        let server = site.start();
        let mut first = Call::new("confirm", "x");
        if stage == Stage::Answering {
            first.fill = LONG_ANSWER;
        }
        let state = Caller::of(&server, Era::Newest).call(&first).asked();
        server.kill();
        let mut second = first.state(&state);
        // It needs no key, and has the same meaning with one.
        if round % 2 == 1 {
            second = second.key(Place::Meta, "k");
        }
        let seen = stage.cut(&site, Era::Newest, &second);
        let server = site.start();
        let caller = Caller::of(&server, Era::Newest);
        check(&site, &caller, &second, false, (stage, &seen));
    }
}
