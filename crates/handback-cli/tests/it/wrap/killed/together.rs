//! The same call, by many at once.

use std::collections::HashSet;

use super::site::{BEHIND, Site, Stop};
use super::talk::{Call, Caller, Ended, Open, PLACES};
use crate::mcp_client::Era;
use crate::wrap::ERAS;

const TOGETHER: usize = 8;

/// Waits for all of them: one effect, and all have its answer.
fn check(site: &Site, id: &str, open: Vec<Open>, what: &str) {
    site.until(&format!("enter {id}"), 1);
    site.let_go();
    let ended: Vec<_> = open.into_iter().map(|open| open.end().done()).collect();
    let numbers: HashSet<_> = ended.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers.into_iter().collect::<Vec<_>>(), site.effects(id), "{what}");
    let replays = ended.iter().filter(|(_, is_replay)| *is_replay).count();
    assert_eq!(replays, TOGETHER - 1, "{what}: one of them made the call");
    assert_eq!((site.starts(id), site.effects(id).len()), (1, 1), "{what}");
}

#[test]
fn one_key_of_many_at_once_is_one_effect() {
    for behind in BEHIND {
        let site = Site::new(behind);
        let server = site.start();
        for era in ERAS {
            for place in PLACES {
                let what = format!("{behind:?} {era:?} {place:?}");
                let id = format!("{era:?}-{place:?}");
                let call = Call::new("act", &id).key(place, &format!("k-{id}"));
                // Half of them have a session of their own, if they have any.
                let one = Caller::of(&server, era);
                let others: Vec<_> = (0..TOGETHER / 2).map(|_| Caller::of(&server, era)).collect();
                site.hold(Stop::Before);
                let mut open: Vec<_> = others.iter().map(|other| other.begin(&call)).collect();
                open.extend((0..TOGETHER / 2).map(|_| one.begin(&call)));
                check(&site, &id, open, &what);
            }
        }
    }
}

#[test]
fn the_same_key_of_clients_of_both_eras_is_one_effect() {
    let site = Site::new(BEHIND[0]);
    let server = site.start();
    let call = Call::new("act", "x").key(PLACES[0], "k");
    let callers = [Era::Older, Era::Newest].map(|era| Caller::of(&server, era));
    site.hold(Stop::After);
    let open = (0..TOGETHER).map(|number| callers[number % 2].begin(&call)).collect();
    check(&site, "x", open, "both eras");
}

#[test]
fn state_that_is_good_for_one_use_is_redeemed_once_by_many_at_once() {
    for behind in [BEHIND[0], BEHIND[1], BEHIND[3], BEHIND[4]] {
        let site = Site::new(behind);
        let server = site.start();
        let caller = Caller::of(&server, Era::Newest);
        let first = Call::new("confirm", "x");
        let state = caller.call(&first).asked();
        let second = first.clone().state(&state);
        site.hold(Stop::Before);
        let open = (0..TOGETHER).map(|_| caller.begin(&second)).collect();
        check(&site, "x", open, &format!("{behind:?}"));
        // With a key of its own, it is the same redemption.
        let keyed = second.clone().key(PLACES[1], "k");
        assert!(caller.call(&keyed).done().1);
        assert_eq!((site.starts("x"), site.effects("x").len()), (1, 1));
    }
}

#[test]
fn a_question_of_an_older_server_is_answered_once_by_many_at_once() {
    let site = Site::new(BEHIND[2]);
    let server = site.start();
    let caller = Caller::of(&server, Era::Newest);
    let first = Call::new("confirm", "x");
    let state = caller.call(&first).asked();
    let second = first.state(&state);
    site.hold(Stop::Before);
    let open = (0..TOGETHER).map(|_| caller.begin(&second)).collect();
    check(&site, "x", open, "parked");
    // Who comes with it later gets the same.
    assert!(matches!(caller.call(&second), Ended::Done { is_replay: true, .. }));
}
