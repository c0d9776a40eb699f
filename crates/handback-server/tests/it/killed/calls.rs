//! One call with a key, killed at every stage, and made again.

use std::time::Duration;

use handback_tool::ToolClass;

use super::client::{Call, Done, Door, Ended, Open};
use super::process::{Process, Site};
use super::tools::{CLASSES, Stop};
use crate::config;

/// Where a call is cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The last byte of it was not sent.
    Unread,
    BeforeReserve,
    AfterReserve,
    /// In the tool, before its effect.
    Entered,
    /// In the tool, after its effect.
    Acted,
    BeforeRecord,
    AfterRecord,
    /// A part of the answer was read.
    Answering,
    /// After so many microseconds.
    Sometime(u64),
}

pub(crate) const STAGES: [Stage; 9] = [
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

/// Bytes of an answer that is not sent in one piece.
const LONG_ANSWER: usize = 2 << 20;

/// Longer than most calls take.
const SOMETIME_MAX_US: u64 = 20_000;

impl Stage {
    /// With another moment in each round.
    pub(crate) fn in_round(self, round: usize) -> Self {
        match self {
            Self::Sometime(_) => Self::Sometime(round as u64 * 769 % SOMETIME_MAX_US),
            other => other,
        }
    }

    /// Makes a call in a process of its own, which is killed at this stage.
    pub(crate) fn cut(self, site: &Site, call: &Call) -> Ended {
        let point = match self {
            Self::BeforeReserve => "before-step:1",
            Self::AfterReserve => "after-step:1",
            Self::BeforeRecord => "before-step:2",
            Self::AfterRecord => "after-step:2",
            _ => "",
        };
        let mut server = site.start_to_die(point);
        let mut open = Open::to(&server, call.door);
        let bytes = call.bytes();
        let stop = match self {
            Self::Entered => Some(Stop::Entered),
            Self::Acted => Some(Stop::Acted),
            _ => None,
        };
        site.stop_at(stop);
        match self {
            Self::Unread => open.send(&bytes[..bytes.len() - 1]),
            _ => open.send(&bytes),
        }
        match self {
            // It kills itself.
            _ if !point.is_empty() => assert_eq!(open.end(), Ended::Cut, "{self:?} {call:?}"),
            Self::Answering => open.begin(),
            Self::Sometime(us) => std::thread::sleep(Duration::from_micros(us)),
            _ => {
                if let Some(stop) = stop {
                    server.stopped(stop);
                }
            }
        }
        server.kill();
        site.stop_at(None);
        open.end()
    }

    /// How often a tool of a class that may be called again came to be called, with one retry.
    fn starts(self) -> std::ops::RangeInclusive<usize> {
        match self {
            Self::Entered | Self::Acted | Self::BeforeRecord => 2..=2,
            Self::Sometime(_) => 1..=2,
            _ => 1..=1,
        }
    }

    /// Whether a call of class unknown is done, of those that were made again.
    fn is_known(self) -> Option<bool> {
        match self {
            Self::Unread | Self::BeforeReserve | Self::AfterRecord | Self::Answering => Some(true),
            Self::AfterReserve | Self::Entered | Self::Acted | Self::BeforeRecord => Some(false),
            Self::Sometime(_) => None,
        }
    }

    /// How often a tool of class unknown was started, and had its effect, if it is not known whether
    /// the call was done.
    fn unknown(self) -> Option<(usize, usize)> {
        match self {
            Self::AfterReserve => Some((0, 0)),
            Self::Entered => Some((1, 0)),
            Self::Acted | Self::BeforeRecord => Some((1, 1)),
            _ => None,
        }
    }
}

/// Makes a call again that was cut off, and checks what came of it, and what it did under `tag`.
pub(crate) fn check(
    site: &Site,
    server: &Process,
    call: &Call,
    class: ToolClass,
    (stage, seen): (Stage, Ended),
    tag: &str,
) -> Option<Done> {
    let what = format!("{class:?} {stage:?} {call:?}, first {seen:?}");
    let again = call.make(server);
    let (effects, starts) = (site.book.effects(tag), site.book.starts(tag));
    assert!(starts.iter().all(|key| *key == starts[0]), "{what}: tries have several keys");
    assert!(!starts.first().is_some_and(String::is_empty), "{what}: the tool has no key");
    assert!(effects.len() <= 1, "{what}: {} effects", effects.len());
    if again == Ended::Ambiguous {
        assert_eq!(class, ToolClass::Unknown, "{what}");
        assert_ne!(stage.is_known(), Some(true), "{what}");
        assert!(!matches!(seen, Ended::Done(_)), "{what}: an answer is lost");
        assert!(starts.len() <= 1, "{what}");
        if let Some(expected) = stage.unknown() {
            assert_eq!((starts.len(), effects.len()), expected, "{what}");
        }
        assert_eq!(call.make(server), Ended::Ambiguous, "{what}");
        assert_eq!(site.book.starts(tag), starts, "{what}: it was started again");
        return None;
    }
    let again = match again {
        Ended::Done(done) => done,
        other => panic!("{what}: {other:?}"),
    };
    if class == ToolClass::Unknown {
        assert_ne!(stage.is_known(), Some(false), "{what}");
        assert_eq!(starts.len(), 1, "{what}");
    }
    assert!(stage.starts().contains(&starts.len()), "{what}: {} starts", starts.len());
    let did: Vec<_> = effects.first().copied().into_iter().collect();
    let expected = if class == ToolClass::ReadOnly { vec![] } else { vec![again.number] };
    assert_eq!((again.tag.as_str(), did), (tag, expected), "{what}");
    let same = |done: &Done| Done { is_replay: true, next: None, ..done.clone() };
    if let Ended::Done(seen) = &seen {
        assert_eq!(same(seen), same(&again), "{what}: another answer");
    }
    if matches!(stage, Stage::AfterRecord | Stage::Answering) {
        assert!(again.is_replay, "{what}");
    }
    let third = call.make(server).done();
    assert!(third.is_replay, "{what}");
    assert_eq!(same(&third), same(&again), "{what}");
    assert_eq!(site.book.starts(tag), starts, "{what}: it was started again");
    Some(again)
}

/// What is cut off in a round: with enough rounds, all of it.
pub(crate) fn combination(
    round: usize,
    doors: &[Door],
) -> (Stage, (ToolClass, &'static str), Door) {
    let all = STAGES.len() * CLASSES.len() * doors.len();
    // Prime to all of these numbers: no combination comes twice before all came once.
    let number = round * 37 % all;
    let stage = STAGES[number % STAGES.len()].in_round(round);
    let class = CLASSES[number / STAGES.len() % CLASSES.len()];
    (stage, class, doors[number / (STAGES.len() * CLASSES.len())])
}

#[test]
fn a_call_that_was_cut_off_anywhere_has_one_effect_and_its_first_answer() {
    let site = Site::new();
    for round in 0..config::kills() {
        let (stage, (class, name), door) =
            combination(round, &[Door::Http, Door::Mcp, Door::Socket]);
        let tag = format!("round {round}");
        let mut call = Call::new(door, format!("act_{name}"), &tag).key(&format!("k{round}"));
        if stage == Stage::Answering {
            call.args["fill"] = LONG_ANSWER.into();
        }
        let seen = stage.cut(&site, &call);
        let server = site.start();
        let done = check(&site, &server, &call, class, (stage, seen), &tag);
        if let Some(done) = done.filter(|_| stage == Stage::Answering) {
            assert_eq!(done.bytes, LONG_ANSWER);
        }
        // Another key is another call.
        let other = call.clone().key(&format!("other {round}").replace(' ', "-"));
        assert!(!other.make(&server).done().is_replay);
    }
}
