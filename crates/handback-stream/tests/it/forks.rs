//! Forks: what they share, what keeps what alive.

use handback_stream::{Command, Fork, Found, Refusal, Reply, Stored};

use crate::disk::{Server, name, text};

fn fork(server: &mut Server, path: &str, source: &str, number: u64) -> Reply {
    let view = server.view(source).clone();
    let segment = view.meta.segments().iter().rev().find(|s| s.after <= number).copied();
    let stored = segment.and_then(|s| server.disk.records.get(&(s.id, number)));
    let head = Stored::decode(stored.unwrap()).unwrap().head;
    let found = Ok(Found { id: view.meta.id(), number, head, part: None });
    let mut create = server.creation(path);
    create.fork = Some(Fork { source: name(source).id(), number: Some(number), part: 0, found });
    server.run(Command::Create(Box::new(create)))
}

/// All that a reader of a stream sees.
fn read(server: &Server, path: &str) -> Vec<String> {
    let view = server.view(path);
    let mut seen = Vec::new();
    let mut after = 0;
    while after < view.number {
        let segment = view.meta.segment_after(after);
        let upto = segment.upto.unwrap_or(view.number).min(view.number);
        for number in segment.after + 1..=upto {
            let bytes = &server.disk.records[&(segment.id, number)];
            let stored = Stored::decode(bytes).unwrap();
            let record = handback_stream::Record::decode(&stored.record).unwrap();
            let payload = record.payload().map(|payload| payload.bytes.to_vec());
            seen.extend(payload.map(|bytes| String::from_utf8(bytes).unwrap()));
        }
        after = upto;
    }
    seen
}

#[test]
fn a_fork_shares_what_was_there_and_nothing_else() {
    let mut server = Server::new();
    server.create("a");
    for content in ["1", "2", "3"] {
        server.append("a", content);
    }
    assert!(matches!(
        fork(&mut server, "b", "a", 2),
        Reply::Created { is_new: true, number: 2, .. }
    ));
    server.append("b", "b1");
    server.append("a", "4");
    assert!(matches!(fork(&mut server, "c", "b", 3), Reply::Created { .. }));
    assert!(matches!(fork(&mut server, "d", "c", 1), Reply::Created { .. }));
    server.append("c", "c1");
    server.append("d", "d1");
    for _ in 0..2 {
        assert_eq!(read(&server, "a"), ["1", "2", "3", "4"]);
        assert_eq!(read(&server, "b"), ["1", "2", "b1"]);
        assert_eq!(read(&server, "c"), ["1", "2", "b1", "c1"]);
        assert_eq!(read(&server, "d"), ["1", "d1"]);
        server.restart();
    }
}

#[test]
fn a_stream_is_kept_as_long_as_a_fork_needs_it() {
    let mut server = Server::new();
    server.create("a");
    server.append("a", "1");
    fork(&mut server, "b", "a", 1);
    fork(&mut server, "c", "b", 1);
    let delete = |server: &mut Server, path: &str| server.run(Command::Delete(name(path).id()));
    assert_eq!(delete(&mut server, "a"), Reply::Deleted);
    server.restart();
    assert_eq!(delete(&mut server, "a"), Reply::Refused(Refusal::Gone));
    assert_eq!(server.append("a", "x"), Reply::Refused(Refusal::Gone));
    assert_eq!(server.create("a"), Reply::Refused(Refusal::NameInUse));
    assert_eq!(delete(&mut server, "b"), Reply::Deleted);
    server.restart();
    assert_eq!(read(&server, "c"), ["1"]);
    assert_eq!(delete(&mut server, "c"), Reply::Deleted);
    server.restart();
    assert!(server.views.is_empty());
    let left = server.disk.records.keys().filter(|(id, _)| id.as_bytes()[0] != 0xff).count();
    assert_eq!((left, server.disk.notes.len()), (0, 0));
    assert!(matches!(server.create("a"), Reply::Created { is_new: true, .. }));
}

#[test]
fn a_fork_of_what_is_not_there_is_refused() {
    let mut server = Server::new();
    server.create("a");
    server.append("a", "1");
    let id = server.id("a");
    let head = server.view("a").head;
    let mut create = server.creation("b");
    let found = Ok(Found { id, number: 2, head, part: Some(text("x")) });
    create.fork = Some(Fork { source: name("a").id(), number: Some(2), part: 0, found });
    let reply = server.run(Command::Create(Box::new(create)));
    assert_eq!(reply, Reply::Refused(Refusal::ForkBeyond));
    server.run(Command::Delete(name("a").id()));
    server.create("a");
    let mut create = server.creation("b");
    let found = Ok(Found { id, number: 0, head, part: None });
    create.fork = Some(Fork { source: name("a").id(), number: None, part: 0, found });
    let reply = server.run(Command::Create(Box::new(create)));
    assert_eq!(reply, Reply::Refused(Refusal::NoSource));
}
