//! Records that cannot be written: the disk takes nothing while a call is made.

use super::site::{BEHIND, Site, Stop, eventually};
use super::talk::{Call, Caller, Ended, Place};
use crate::support::limit_files;
use crate::wrap::ERAS;

#[test]
fn an_answer_that_cannot_be_recorded_is_given_and_the_call_is_not_made_again() {
    for era in ERAS {
        let site = Site::new(BEHIND[0]);
        let server = site.start();
        let caller = Caller::of(&server, era);
        let call = Call::new("act", "x").key(Place::Meta, "k");
        site.hold(Stop::After);
        let open = caller.begin(&call);
        site.until_stopped(Stop::After, "x");
        limit_files(server.pid(), Some(0));
        site.let_go();
        let (number, is_replay) = open.end().done();
        assert_eq!((site.effects("x"), is_replay), (vec![number], false), "{era:?}");
        // While nothing can be written, nothing is begun.
        let other = Call::new("act", "y").key(Place::Meta, "other");
        assert_eq!(caller.call(&other).reason(), "unavailable", "{era:?}");
        assert_eq!(site.starts("y"), 0, "{era:?}");
        limit_files(server.pid(), None);
        eventually("the store takes writes again", || {
            matches!(caller.call(&other), Ended::Done { .. })
        });
        assert_eq!(site.effects("y").len(), 1, "{era:?}");
        // What became of the first one is not in the record, unless what could not be written then was
        // written when it could.
        match caller.call(&call) {
            Ended::Refused(reason, _) => assert_eq!(reason, "ambiguous", "{era:?}"),
            again => assert_eq!(again.done(), (number, true), "{era:?}"),
        }
        assert_eq!(site.effects("x").len(), 1, "{era:?}");
    }
}
