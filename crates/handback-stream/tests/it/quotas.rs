//! Limits on streams and stored bytes, also after a restart.

use handback_stream::{Append, Command, Refusal, Reply, StreamQuota, StreamQuotas};

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
