//! Calls without a key: what is promised of them, row by row of the table in docs/guide/gateway.md,
//! and of tools where identical calls are tries of one.

use std::time::Duration;

use super::site::{BEHIND, Site, Stop, Way};
use super::talk::{Call, Caller, Ended};
use crate::mcp_client::Era;
use crate::wrap::ERAS;

/// The client leaves: the call is cancelled at the server.
#[test]
fn a_newer_client_that_leaves_cancels_its_call_at_the_server() {
    for behind in BEHIND {
        let site = Site::new(behind);
        let server = site.start();
        let caller = Caller::of(&server, Era::Newest);
        site.hold(Stop::Before);
        let open = caller.begin(&Call::new("act", "x"));
        site.until_stopped(Stop::Before, "x");
        drop(open);
        match behind.0 {
            // The newer era says so by closing the connection of the request.
            Way::Http if behind.1 != "older" => site.until("closed x", 1),
            _ => site.until("cancelled tools/call", 1),
        }
    }
}

/// Of the older era a lost connection says nothing: the call goes on, and the client says that it
/// leaves, or comes back to its events.
#[test]
fn an_older_client_cancels_by_saying_so() {
    for behind in BEHIND {
        let site = Site::new(behind);
        let server = site.start();
        let caller = Caller::of(&server, Era::Older);
        site.hold(Stop::Before);
        let open = caller.begin(&Call::new("act", "x"));
        site.until_stopped(Stop::Before, "x");
        drop(open);
        let open = caller.begin(&Call::new("act", "y"));
        site.until_stopped(Stop::Before, "y");
        caller.cancel();
        match behind.0 {
            Way::Http if behind.1 == "newest" => site.until("closed y", 1),
            _ => site.until("cancelled tools/call", 1),
        }
        drop(open);
        site.let_go();
        // Who was cut off and said nothing has the effect.
        site.until("effect x", 1);
        let told = site.record("cancelled tools/call").len() + site.record("closed x").len();
        assert!(told <= 1, "{behind:?}: only one was cancelled");
    }
}

/// The server goes away: the client is told that nobody knows.
#[test]
fn when_the_server_goes_away_the_client_is_told_that_nobody_knows() {
    for behind in BEHIND {
        for era in ERAS {
            let site = Site::new(behind);
            let server = site.start();
            let caller = Caller::of(&server, era);
            site.fail("die-after");
            match caller.call(&Call::new("act", "x")) {
                Ended::Refused(reason, words) => {
                    assert_eq!(reason, "lost", "{behind:?} {era:?}: {words}");
                    assert!(words.contains("is not known"), "{words}");
                }
                other => panic!("{behind:?} {era:?}: {other:?}"),
            }
            assert_eq!(site.effects("x").len(), 1);
        }
    }
}

/// The gateway is killed: as without a gateway. The client sees the connection end, and who calls
/// again makes another call.
#[test]
fn when_the_gateway_is_killed_it_is_as_without_one() {
    for era in ERAS {
        let site = Site::new(BEHIND[1]);
        let server = site.start();
        let call = Call::new("act", "x");
        site.hold(Stop::After);
        let open = Caller::of(&server, era).begin(&call);
        site.until_stopped(Stop::After, "x");
        server.kill();
        assert_eq!(open.end(), Ended::Cut);
        site.let_go();
        let server = site.start();
        let (number, is_replay) = Caller::of(&server, era).call(&call).done();
        assert_eq!((site.effects("x").len(), is_replay), (2, false));
        assert_eq!(site.effects("x").last(), Some(&number));
    }
}

/// Without a key and without a promise, two identical calls are two.
#[test]
fn identical_calls_are_two_where_nothing_else_is_said() {
    for era in ERAS {
        let site = Site::new(BEHIND[0]);
        let server = site.start();
        let caller = Caller::of(&server, era);
        site.hold(Stop::After);
        let call = Call::new("act", "x");
        let open = [caller.begin(&call), caller.begin(&call)];
        site.until("effect x", 2);
        site.let_go();
        let numbers = open.map(|open| open.end().done().0);
        assert_ne!(numbers[0], numbers[1]);
    }
}

#[test]
fn an_identical_call_of_a_client_that_was_cut_off_is_another_try() {
    for behind in BEHIND {
        for era in ERAS {
            let site = Site::new(behind);
            let server = site.start();
            for stop in [Stop::Before, Stop::After] {
                let what = format!("{behind:?} {era:?} {stop:?}");
                let id = format!("{stop:?}");
                let caller = Caller::of(&server, era);
                let call = Call::new("act_identical", &id);
                site.hold(stop);
                let open = caller.begin(&call);
                site.until_stopped(stop, &id);
                drop(open);
                // The second try comes while the first is under way.
                let again = caller.begin(&call);
                site.let_go();
                let (number, is_replay) = again.end().done();
                assert_eq!((site.effects(&id), is_replay), (vec![number], true), "{what}");
                // The answer was delivered: this is another call.
                let (another, is_replay) = caller.call(&call).done();
                assert_eq!(
                    (site.effects(&id), is_replay),
                    (vec![number, another], false),
                    "{what}"
                );
            }
        }
    }
}

/// The first try came to its end while nobody listened.
#[test]
fn an_identical_call_gets_the_answer_that_nobody_took() {
    for behind in BEHIND {
        for era in ERAS {
            let what = format!("{behind:?} {era:?}");
            let site = Site::new(behind);
            let server = site.start();
            let caller = Caller::of(&server, era);
            let call = Call::new("act_identical", "x");
            site.hold(Stop::After);
            let open = caller.begin(&call);
            site.until_stopped(Stop::After, "x");
            drop(open);
            // Who came later was answered: the gateway has seen that the first client left.
            assert_eq!(server.ask("GET /healthz", &[], b"").status, 200);
            site.let_go();
            caller.call(&Call::new("act", "y")).done();
            let (number, is_replay) = caller.call(&call).done();
            assert_eq!((site.effects("x"), is_replay), (vec![number], true), "{what}");
        }
    }
}

/// What is written behind has been by then, also where others use the disk.
const WRITTEN_BEHIND: Duration = Duration::from_secs(5);

/// What was tried is written behind: after a kill it is known, but for the last moments.
#[test]
fn an_identical_call_is_known_after_the_gateway_was_killed() {
    for era in ERAS {
        let site = Site::new(BEHIND[1]);
        let server = site.start();
        let (made, lost) = (Call::new("act_identical", "x"), Call::new("act_identical", "y"));
        let caller = Caller::of(&server, era);
        site.hold(Stop::After);
        let open = caller.begin(&made);
        site.until_stopped(Stop::After, "x");
        drop(open);
        site.let_go();
        caller.call(&Call::new("act", "z")).done();
        site.hold(Stop::After);
        let open = caller.begin(&lost);
        site.until_stopped(Stop::After, "y");
        std::thread::sleep(WRITTEN_BEHIND);
        server.kill();
        assert_eq!(open.end(), Ended::Cut);
        site.let_go();
        let server = site.start();
        let caller = Caller::of(&server, era);
        // It came to its end, and nobody took the answer.
        let (number, is_replay) = caller.call(&made).done();
        assert_eq!((site.effects("x"), is_replay), (vec![number], true), "{era:?}");
        match caller.call(&lost) {
            Ended::Refused(reason, words) => assert_eq!(reason, "ambiguous", "{words}"),
            other => panic!("{era:?}: {other:?}"),
        }
        assert_eq!(site.effects("y").len(), 1);
    }
}
