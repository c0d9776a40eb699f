//! Round two of an exchange, and page two of a walk, killed at every stage.

use handback_tool::ToolClass;

use super::calls::{Stage, check, combination};
use super::client::{Back, Call, Door, Ended};
use super::process::Site;
use super::tools::PAGES;
use crate::config;

#[test]
fn an_answer_that_was_cut_off_anywhere_is_redeemed_once() {
    let site = Site::new();
    let mut server = site.start();
    for round in 0..config::kills() {
        let (stage, (class, name), door) = combination(round, &[Door::Http, Door::Mcp]);
        let tag = format!("round {round}");
        let first = Call::new(door, format!("ask_{name}"), &tag);
        // State that is redeemed once needs no key, and has the same meaning with one.
        let first = if round % 2 == 0 { first } else { first.key(&format!("k{round}")) };
        let Ended::Asked(state) = first.make(&server) else { panic!("nothing was asked") };
        // With a key, the same question again is the same question, in another text.
        let again = first.key.is_some().then(|| first.make(&server));
        server.kill();
        let second = first.back(Back::Yes(state));
        let seen = stage.cut(&site, &second);
        server = site.start();
        let done = check(&site, &server, &second, class, (stage, seen), &tag);
        if let Some(Ended::Asked(state)) = again {
            let ended = first.back(Back::Yes(state)).make(&server);
            match done {
                Some(done) => assert_eq!(ended.done().number, done.number),
                None => assert_eq!(ended, Ended::Ambiguous),
            }
            let effects = site.book.effects(&tag);
            assert!(effects.len() <= 1, "{stage:?} {class:?} {door:?}: {effects:?}");
        }
    }
}

#[test]
fn a_question_that_was_cut_off_anywhere_is_one_question() {
    let site = Site::new();
    for round in 0..config::kills() / 2 {
        let (stage, (class, name), door) = combination(round, &[Door::Http, Door::Mcp]);
        // It does not act in this round, so nothing stops it.
        let stage = match stage {
            Stage::Entered | Stage::Acted => Stage::BeforeRecord,
            other => other,
        };
        let tag = format!("round {round}");
        let first = Call::new(door, format!("ask_{name}"), &tag).key(&format!("k{round}"));
        let seen = stage.cut(&site, &first);
        let server = site.start();
        let again = first.make(&server);
        if again == Ended::Ambiguous {
            assert_eq!(class, ToolClass::Unknown);
            assert!(!matches!(seen, Ended::Asked(_)), "an answer is lost");
            continue;
        }
        let states = [seen, again].into_iter().filter_map(|ended| match ended {
            Ended::Asked(state) => Some(state),
            Ended::Cut => None,
            other => panic!("{stage:?} {class:?} {door:?}: {other:?}"),
        });
        let numbers: Vec<_> =
            states.map(|state| first.back(Back::Yes(state)).make(&server).done().number).collect();
        assert!(numbers.iter().all(|number| *number == numbers[0]), "{numbers:?}");
        assert_eq!(site.book.starts(&tag).len(), 1, "{stage:?} {class:?} {door:?}");
    }
}

#[test]
fn a_walk_goes_on_under_its_key_wherever_a_page_was_cut_off() {
    let site = Site::new();
    let mut server = site.start();
    for round in 0..config::kills() {
        let (stage, (class, name), door) =
            combination(round, &[Door::Http, Door::Mcp, Door::Socket]);
        let tag = format!("round {round}");
        let first = Call::new(door, format!("walk_{name}"), &tag).key(&format!("k{round}"));
        let page = first.make(&server).done();
        server.kill();
        let mut call = first.back(Back::Cursor(page.next.clone().unwrap()));
        let seen = stage.cut(&site, &call);
        server = site.start();
        let Some(second) = check(&site, &server, &call, class, (stage, seen), &format!("{tag}/1"))
        else {
            continue;
        };
        let replay = first.make(&server).done();
        assert!(replay.is_replay && replay.number == page.number);
        let mut next = second.next;
        for number in 2..PAGES {
            call = call.back(Back::Cursor(next.unwrap()));
            let page = call.make(&server).done();
            assert_eq!((page.tag, page.is_replay), (format!("{tag}/{number}"), false));
            next = page.next;
        }
        assert_eq!(next, None);
    }
}
