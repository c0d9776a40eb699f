//! Limits on streams and stored bytes, also after a restart.

use handback_stream::{Append, Command, Refusal, Reply, StreamQuota, StreamQuotas, Uncounted};

use crate::disk::{Server, append, name};

fn quotas(streams: u64, bytes: u64) -> StreamQuotas {
    StreamQuotas { streams_per_owner: streams, bytes_per_owner: bytes, ..StreamQuotas::default() }
}

fn over(quota: StreamQuota) -> Reply {
    Reply::Refused(Refusal::Quota(quota))
}

/// More appends than a note covers, so that a restart counts from the note and from records.
const APPENDS: u64 = 300;

#[test]
fn wound_a7_stored_bytes_are_counted_again_after_a_restart() {
    let mut server = Server::new();
    server.create("s");
    let piece = "x".repeat(1_000);
    for _ in 0..APPENDS {
        assert!(matches!(server.append("s", &piece), Reply::Appended(_)));
    }
    let stored: usize = server
        .disk
        .records
        .iter()
        .filter(|((id, _), _)| *id == server.id("s"))
        .map(|(_, bytes)| bytes.len())
        .sum();
    let stored = stored as u64;
    assert!(stored > APPENDS * 1_000);
    for bytes in [stored, stored + 1_000] {
        server.restart();
        server.hub.quotas = quotas(9, bytes);
        assert_eq!(server.append("s", &piece), over(StreamQuota::OwnerBytes));
    }
    server.hub.quotas = quotas(9, stored + 2_000);
    assert!(matches!(server.append("s", &piece), Reply::Appended(_)));
    assert_eq!(server.append("s", &piece), over(StreamQuota::OwnerBytes));
    // It can be ended, and its bytes are free again with it.
    let end = Append::new(name("s").id(), None, true, 0);
    assert!(matches!(server.run(Command::Append(end)), Reply::Appended(_)));
    server.run(Command::Delete(name("s").id()));
    server.create("s");
    assert!(matches!(server.append("s", &piece), Reply::Appended(_)));
}

/// The note of a stream as the version before wrote it: without the stored bytes at its end.
fn make_note_old(server: &mut Server, path: &str) {
    let id = server.id(path);
    let mut note = server.disk.notes[&id].to_vec();
    note.truncate(note.len() - 8);
    note[0] = 2;
    server.disk.notes.insert(id, note.into());
}

/// Sums up the stored bytes of records, as a surface does.
fn count(server: &Server, uncounted: Uncounted) -> Uncounted {
    let range = (uncounted.stream, uncounted.next)..=(uncounted.stream, uncounted.upto);
    let more: usize = server.disk.records.range(range).map(|(_, bytes)| bytes.len()).sum();
    Uncounted { bytes: uncounted.bytes + more as u64, next: uncounted.upto + 1, ..uncounted }
}

#[test]
fn stored_bytes_of_streams_from_before_their_count_are_counted_once() {
    let mut server = Server::new();
    server.create("s");
    let piece = "x".repeat(1_000);
    (0..APPENDS).for_each(|_| drop(server.append("s", &piece)));
    make_note_old(&mut server, "s");
    server.restart();
    let stored = server.disk.records.iter().filter(|((id, _), _)| *id == server.id("s"));
    let stored = stored.map(|(_, bytes)| bytes.len() as u64).sum::<u64>();
    let uncounted = Uncounted::of(&server.hub);
    let [whole] = uncounted[..] else { panic!("{uncounted:?}") };
    // A note that is written before the count is none of version 3.
    for _ in 0..2 * APPENDS {
        server.append("s", "y");
    }
    let whole = count(&server, whole);
    server.restart();
    let later = match server.run(Command::Count(whole)) {
        Reply::Uncounted(upto) => count(&server, Uncounted { upto, ..whole }),
        other => panic!("{other:?}"),
    };
    let all = server.disk.records.iter().filter(|((id, _), _)| *id == server.id("s"));
    let all = all.map(|(_, bytes)| bytes.len() as u64).sum::<u64>();
    assert!(all > stored);
    assert_eq!(server.run(Command::Count(later)), Reply::Nothing);
    assert_eq!(server.run(Command::Count(later)), Reply::Nothing, "and not twice");
    for _ in 0..2 {
        assert_eq!(Uncounted::of(&server.hub), []);
        server.hub.quotas = quotas(9, all + 1_000);
        assert_eq!(server.append("s", &piece), over(StreamQuota::OwnerBytes));
        // What was counted is in the note.
        server.restart();
    }
    server.hub.quotas = quotas(9, all + 1_500);
    assert!(matches!(server.append("s", &piece), Reply::Appended(_)));
}

#[test]
fn streams_are_counted_again_after_a_restart() {
    let mut server = Server::new();
    for path in ["a", "b"] {
        server.create(path);
    }
    server.restart();
    server.hub.quotas = quotas(2, u64::MAX);
    assert_eq!(server.create("c"), over(StreamQuota::OwnerStreams));
    assert!(matches!(
        server.create("b"),
        Reply::Refused(Refusal::Exists) | Reply::Created { is_new: false, .. }
    ));
    server.run(Command::Delete(name("a").id()));
    assert!(matches!(server.create("c"), Reply::Created { is_new: true, .. }));
    assert!(matches!(server.run(Command::Append(append("c", "x"))), Reply::Appended(_)));
}
