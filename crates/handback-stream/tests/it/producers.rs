//! Producers: each line of the protocol's table, before and after a restart.

use handback_stream::{Acquire, Append, Command, Refusal, Reply};

use crate::disk::{Server, append, by, name};

/// What came of an append: the last record and whether it was there, or why not.
fn send(server: &mut Server, epoch: u64, seq: u64, text: &str) -> Result<(u64, bool), Refusal> {
    let command = Command::Append(append("s", text).producer(by("p", epoch, seq)));
    match server.run(command) {
        Reply::Appended(appended) => Ok((appended.number, appended.is_duplicate)),
        Reply::Refused(refusal) => Err(refusal),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_table_of_the_protocol_holds_over_restarts() {
    for restarts in [false, true] {
        let mut server = Server::new();
        server.create("s");
        let mut check = |epoch, seq, expected| {
            assert_eq!(send(&mut server, epoch, seq, "x"), expected, "{epoch} {seq}");
            if restarts {
                server.restart();
            }
        };
        check(3, 1, Err(Refusal::Gap { expected: 0, received: 1 }));
        check(3, 0, Ok((1, false)));
        check(3, 0, Ok((1, true)));
        check(3, 2, Err(Refusal::Gap { expected: 1, received: 2 }));
        check(3, 1, Ok((2, false)));
        check(3, 0, Ok((2, true)));
        check(2, 2, Err(Refusal::StaleEpoch { current: 3 }));
        check(4, 1, Err(Refusal::EpochStart));
        check(4, 0, Ok((3, false)));
        check(3, 2, Err(Refusal::StaleEpoch { current: 4 }));
        check(4, 1, Ok((4, false)));
    }
}

#[test]
fn a_retry_in_the_same_commit_is_a_duplicate_and_other_bytes_are_noticed() {
    let mut server = Server::new();
    server.create("s");
    for content in ["a", "a", "b"] {
        let command = Command::Append(append("s", content).producer(by("p", 0, 0)));
        server.hub.submit(0, command, server.now);
    }
    let replies = server.commit();
    let told: Vec<_> = replies
        .iter()
        .map(|reply| match reply {
            Reply::Appended(appended) => (appended.is_duplicate, appended.differs),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(told, [(false, false), (true, false), (true, true)]);
    assert_eq!(server.disk.data(server.id("s")), ["a"]);
}

#[test]
fn a_fence_ends_earlier_epochs_also_after_a_restart() {
    let mut server = Server::new();
    server.create("s");
    let acquire = || acquire("p", None);
    assert_eq!(
        server.run(acquire()),
        Reply::Acquired { epoch: 1, next_seq: 0, number: 1, writer_seq: None }
    );
    assert_eq!(send(&mut server, 0, 0, "x"), Err(Refusal::StaleEpoch { current: 1 }));
    assert_eq!(send(&mut server, 1, 0, "a"), Ok((2, false)));
    assert_eq!(
        server.run(acquire()),
        Reply::Acquired { epoch: 2, next_seq: 1, number: 3, writer_seq: None }
    );
    server.restart();
    assert_eq!(send(&mut server, 1, 1, "b"), Err(Refusal::StaleEpoch { current: 2 }));
    // The sequence goes on: what was there before the fence is known to be there.
    assert_eq!(send(&mut server, 2, 2, "b"), Err(Refusal::Gap { expected: 1, received: 2 }));
    assert_eq!(send(&mut server, 2, 0, "a"), Ok((3, true)));
    assert_eq!(send(&mut server, 2, 1, "b"), Ok((4, false)));
}

#[test]
fn a_producer_of_ours_has_the_epochs_that_it_was_given() {
    let mut server = Server::new();
    server.create("s");
    let send = |server: &mut Server, epoch, seq| {
        let append = Append::new(name("s").id(), Some(crate::disk::text("x")), false, 0);
        server.run(Command::Append(append.producer(by("hb:p", epoch, seq))))
    };
    assert_eq!(send(&mut server, 0, 0), Reply::Refused(Refusal::NotAcquired));
    assert_eq!(
        server.run(acquire("hb:p", None)),
        Reply::Acquired { epoch: 1, next_seq: 0, number: 1, writer_seq: None }
    );
    assert_eq!(send(&mut server, 2, 0), Reply::Refused(Refusal::NotAcquired));
    assert!(matches!(send(&mut server, 1, 0), Reply::Appended(_)));
}

#[test]
fn what_was_superseded_acquires_nothing() {
    let mut server = Server::new();
    server.create("s");
    let acquired = |server: &mut Server, heard_of| match server.run(acquire("hb:p", heard_of)) {
        Reply::Acquired { epoch, .. } => Ok(epoch),
        Reply::Refused(refusal) => Err(refusal),
        other => panic!("{other:?}"),
    };
    let over = Err(Refusal::Superseded);
    assert_eq!(acquired(&mut server, Some(1)), over, "nothing was handed out yet");
    assert_eq!(acquired(&mut server, Some(0)), Ok(1));
    // What was handed out may have been lost on the way: the one before is still good.
    assert_eq!(acquired(&mut server, Some(0)), Ok(2));
    assert_eq!(acquired(&mut server, Some(3)), over, "this one was never handed out");
    assert_eq!(acquired(&mut server, Some(2)), Ok(3));
    assert_eq!(acquired(&mut server, Some(1)), over);
    assert_eq!(acquired(&mut server, Some(0)), over);
    assert_eq!(acquired(&mut server, Some(2)), Ok(4));
    let stream = server.id("s");
    let seen = |epoch| Command::Seen { stream, producer: "hb:p".to_owned(), epoch };
    assert_eq!(server.run(seen(4)), Reply::Nothing);
    assert_eq!(server.run(seen(9)), Reply::Nothing, "this one was never handed out");
    server.restart();
    assert_eq!(acquired(&mut server, Some(3)), over);
    assert_eq!(acquired(&mut server, Some(4)), Ok(5));
}

fn acquire(producer: &str, heard_of: Option<u64>) -> Command {
    Command::Acquire(Acquire {
        stream: name("s").id(),
        expected: None,
        producer: producer.to_owned(),
        heard_of,
    })
}

#[test]
fn a_closed_stream_takes_only_what_closed_it() {
    let mut server = Server::new();
    server.create("s");
    let close = |producer| {
        let append = Append::new(name("s").id(), Some(crate::disk::text("end")), true, 0);
        Command::Append(append.content_type("text/plain").producer(producer))
    };
    assert!(matches!(server.run(close(by("p", 0, 0))), Reply::Appended(a) if a.closed));
    server.restart();
    let again = server.run(close(by("p", 0, 0)));
    assert!(matches!(again, Reply::Appended(a) if a.is_duplicate && a.closed));
    for producer in [None, by("p", 0, 1), by("p", 1, 0), by("q", 0, 0)] {
        let refused = server.run(close(producer));
        assert_eq!(refused, Reply::Refused(Refusal::Closed { number: 1 }));
    }
    let only_close = Append::new(name("s").id(), None, true, 0);
    let reply = server.run(Command::Append(only_close));
    assert!(matches!(reply, Reply::Appended(a) if a.is_duplicate));
    assert_eq!(server.disk.data(server.id("s")), ["end"]);
}

#[test]
fn writer_sequences_only_grow() {
    let mut server = Server::new();
    server.create("s");
    let mut send = |seq: &str, restart: bool| {
        if restart {
            server.restart();
        }
        let command = Command::Append(append("s", "x").writer_seq(Some(seq.to_owned())));
        server.run(command)
    };
    assert!(matches!(send("b", false), Reply::Appended(_)));
    assert_eq!(send("b", true), Reply::Refused(Refusal::WriterSeq));
    assert_eq!(send("a", false), Reply::Refused(Refusal::WriterSeq));
    assert!(matches!(send("ba", true), Reply::Appended(_)));
}

#[test]
fn the_number_of_producers_is_bounded() {
    let mut server = Server::new();
    server.create("s");
    for number in 0..handback_stream::MAX_PRODUCERS {
        let command = append("s", "x").producer(by(&format!("p{number}"), 0, 0));
        server.hub.submit(0, Command::Append(command), server.now);
    }
    server.commit();
    let one_more = |id: &str, seq| Command::Append(append("s", "x").producer(by(id, 0, seq)));
    let refused = server.run(one_more("new", 0));
    assert_eq!(refused, Reply::Refused(Refusal::TooManyProducers));
    server.restart();
    assert!(matches!(server.run(one_more("p7", 1)), Reply::Appended(_)));
    assert!(matches!(server.append("s", "x"), Reply::Appended(_)));
}
