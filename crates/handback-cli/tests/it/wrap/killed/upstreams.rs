//! Servers that end, or fail, in a call with a key.

use super::site::{BEHIND, Behind, Site, Stop, Way, eventually};
use super::talk::{Call, Caller, Ended, PLACES, Place};
use crate::mcp_client::Era;
use crate::wrap::ERAS;

/// How a server over HTTP fails, and how many effects it has had then.
const FAULTS: [(&str, usize); 9] = [
    ("reset-before", 0),
    ("reset-after", 1),
    ("half", 1),
    ("status-before-500", 0),
    ("status-after-500", 1),
    ("status-before-503", 0),
    ("status-after-502", 1),
    ("status-before-408", 0),
    ("status-after-409", 1),
];

#[test]
fn a_server_that_fails_in_a_call_is_not_asked_again() {
    for behind in [BEHIND[1], BEHIND[3], BEHIND[5]] {
        let site = Site::new(behind);
        let server = site.start();
        for era in ERAS {
            let caller = Caller::of(&server, era);
            for (round, (fault, effects)) in FAULTS.into_iter().enumerate() {
                let what = format!("{behind:?} {era:?} {fault}");
                let id = format!("{era:?}-{fault}");
                let call = Call::new("act", &id).key(PLACES[round % 3], &format!("k-{id}"));
                site.fail(fault);
                assert_eq!(caller.call(&call).reason(), "ambiguous", "{what}");
                site.fail("");
                for _ in 0..2 {
                    assert_eq!(caller.call(&call).reason(), "ambiguous", "{what}");
                }
                assert_eq!((site.starts(&id), site.effects(&id).len()), (1, effects), "{what}");
                // What may be made again is.
                let id = format!("again-{id}");
                let call = Call::new("act_again", &id).key(Place::Meta, &format!("k-{id}"));
                site.fail(fault);
                assert_eq!(caller.call(&call).reason(), "ambiguous", "{what}");
                site.fail("");
                let (number, _) = caller.call(&call).done();
                assert_eq!(site.effects(&id).last(), Some(&number), "{what}");
                assert_eq!(site.starts(&id), 2, "{what}");
                assert_eq!(caller.call(&call).done(), (number, true), "{what}");
            }
        }
    }
}

/// What says that nothing was done frees the key.
#[test]
fn a_server_that_refuses_to_be_asked_has_done_nothing() {
    for behind in [BEHIND[1], BEHIND[3], BEHIND[5]] {
        let site = Site::new(behind);
        let server = site.start();
        for era in ERAS {
            let caller = Caller::of(&server, era);
            for status in ["400", "401", "403", "429"] {
                let what = format!("{behind:?} {era:?} {status}");
                let id = format!("{era:?}-{status}");
                let call = Call::new("act", &id).key(Place::Header, &format!("k-{id}"));
                site.fail(&format!("status-before-{status}"));
                let refused = caller.call(&call);
                assert!(
                    matches!(&refused, Ended::Refused(reason, _) if reason != "ambiguous"),
                    "{what}: {refused:?}"
                );
                site.fail("");
                let (number, is_replay) = caller.call(&call).done();
                assert_eq!((site.effects(&id), is_replay), (vec![number], false), "{what}");
            }
        }
    }
}

#[test]
fn a_server_that_ends_in_a_call_is_not_asked_again() {
    for behind in BEHIND {
        for (fault, effects) in [("die-before", 0), ("die-after", 1)] {
            for era in ERAS {
                let what = format!("{behind:?} {era:?} {fault}");
                let mut site = Site::new(behind);
                let server = site.start();
                let caller = Caller::of(&server, era);
                let call = Call::new("act", "x").key(Place::OtherHeader, "k");
                site.fail(fault);
                assert_eq!(caller.call(&call).reason(), "ambiguous", "{what}");
                site.fail("");
                if behind.0 == Way::Http {
                    site.end_upstream();
                    site.begin_upstream();
                }
                assert_eq!(caller.call(&call).reason(), "ambiguous", "{what}");
                assert_eq!((site.starts("x"), site.effects("x").len()), (1, effects), "{what}");
                // It is there for what comes next, in the same session.
                let next = Call::new("act", "next").key(Place::Meta, "next");
                until_done(&caller, &next);
                assert_eq!((site.starts("next"), site.effects("next").len()), (1, 1), "{what}");
            }
        }
    }
}

/// Makes a call until it is done; before that it is told that nothing happened.
#[track_caller]
fn until_done(caller: &Caller, call: &Call) {
    eventually("the server is there again", || match caller.call(call) {
        Ended::Done { is_replay: false, .. } => true,
        Ended::Refused(reason, _) if reason == "unreachable" => false,
        other => panic!("{:?} {call:?}: {other:?}", caller.era),
    });
}

#[test]
fn a_server_that_is_not_there_has_done_nothing() {
    for behind in [BEHIND[1], BEHIND[3], BEHIND[5]] {
        for era in ERAS {
            let what = format!("{behind:?} {era:?}");
            let mut site = Site::new(behind);
            let server = site.start();
            let caller = Caller::of(&server, era);
            // With a line that was open before, and without.
            if era == ERAS[1] {
                caller.call(&Call::new("act", "first")).done();
            }
            site.end_upstream();
            let call = Call::new("act", "x").key(Place::Meta, "k");
            for _ in 0..3 {
                assert_eq!(caller.call(&call).reason(), "unreachable", "{what}");
            }
            site.begin_upstream();
            until_done(&caller, &call);
            assert_eq!((site.starts("x"), site.effects("x").len()), (1, 1), "{what}");
            assert!(caller.call(&call).done().1, "{what}");
        }
    }
}

/// A server of the older era that was started again does not know the sessions from before. It says
/// so before it does anything.
#[test]
fn a_server_that_forgot_the_session_has_done_nothing() {
    for era in ERAS {
        let mut site = Site::new(Behind(Way::Http, "older"));
        let server = site.start();
        let caller = Caller::of(&server, era);
        caller.call(&Call::new("act", "first")).done();
        site.end_upstream();
        site.begin_upstream();
        let call = Call::new("act", "x").key(Place::Header, "k");
        let (number, is_replay) = caller.call(&call).done();
        assert_eq!((site.effects("x"), is_replay), (vec![number], false), "{era:?}");
        // Without a key as well.
        site.end_upstream();
        site.begin_upstream();
        caller.call(&Call::new("act", "y")).done();
        assert_eq!((site.starts("y"), site.effects("y").len()), (1, 1), "{era:?}");
    }
}

#[test]
fn a_server_killed_while_it_is_held_up_leaves_no_doubt_unsaid() {
    for (stop, effects) in [(Stop::Before, 0), (Stop::After, 1)] {
        for era in ERAS {
            let mut site = Site::new(BEHIND[1]);
            let server = site.start();
            let caller = Caller::of(&server, era);
            let call = Call::new("act", "x").key(Place::Meta, "k");
            site.hold(stop);
            let open: Vec<_> = (0..3).map(|_| caller.begin(&call)).collect();
            site.until_stopped(stop, "x");
            site.end_upstream();
            for open in open {
                assert_eq!(open.end().reason(), "ambiguous", "{stop:?} {era:?}");
            }
            site.let_go();
            site.begin_upstream();
            assert_eq!(caller.call(&call).reason(), "ambiguous", "{stop:?} {era:?}");
            assert_eq!((site.starts("x"), site.effects("x").len()), (1, effects));
        }
    }
}

/// What a server says while it starts, or something between says for it, is nothing of its era.
#[test]
fn a_server_that_was_not_ready_once_is_asked_again() {
    for behind in [BEHIND[1], BEHIND[3]] {
        let site = Site::new(behind);
        site.fail("discover-503");
        let server = site.start();
        let caller = Caller::of(&server, Era::Newest);
        let call = Call::new("act", "x").key(Place::Header, "k");
        let first = caller.call(&call);
        site.fail("");
        match first {
            Ended::Done { .. } => assert_eq!(behind.1, "both"),
            other => assert_eq!((other.reason().as_str(), behind.1), ("unreachable", "newest")),
        }
        until_done(&caller, &Call::new("act", "y").key(Place::Header, "other"));
        caller.call(&call).done();
        assert_eq!((site.effects("x").len(), site.effects("y").len()), (1, 1), "{behind:?}");
    }
}

/// For an older client the gateway runs the rounds of a newer server. What was done in the first one
/// is not done again because there was nobody to be asked for the second.
#[test]
fn a_server_that_ends_between_two_rounds_is_not_asked_from_the_start() {
    let site = Site::new(BEHIND[4]);
    let server = site.start();
    let caller = Caller::of(&server, Era::Older);
    // As it is when nothing fails.
    let mut open = caller.begin(&Call::new("early", "well").key(Place::Meta, "well"));
    caller.reply(&open.question());
    open.end().done();
    assert_eq!((site.effects("well").len(), site.effects("well-end").len()), (1, 1));
    let call = Call::new("early", "x").key(Place::Meta, "k");
    site.fail("die-asked");
    let mut open = caller.begin(&call);
    let question = open.question();
    site.fail("");
    // It is there again for others: the gateway has seen that it ended.
    let other = Call::new("act", "y");
    eventually("it answers others", || matches!(caller.call(&other), Ended::Done { .. }));
    caller.reply(&question);
    assert_eq!(open.end().reason(), "ambiguous");
    assert_eq!(caller.call(&call).reason(), "ambiguous");
    assert_eq!((site.starts("x"), site.effects("x").len()), (1, 1));
    assert_eq!(site.starts("x-end"), 0);
}
