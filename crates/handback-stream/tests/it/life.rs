//! Creation, expiry and deletion.

use handback_stream::{Command, Life, Refusal, Reply};

use crate::disk::{Server, name};

#[test]
fn a_stream_is_created_once_and_asked_for_again() {
    let mut server = Server::new();
    assert!(matches!(server.create("s"), Reply::Created { is_new: true, number: 0, .. }));
    server.append("s", "x");
    server.restart();
    assert!(matches!(server.create("s"), Reply::Created { is_new: false, number: 1, .. }));
    let mut other = server.creation("s");
    other.content_type = Some("application/json".to_owned());
    assert_eq!(server.run(Command::Create(Box::new(other))), Reply::Refused(Refusal::Exists));
    let mut other = server.creation("s");
    other.life = Life::Sliding { ttl_s: 1 };
    assert_eq!(server.run(Command::Create(Box::new(other))), Reply::Refused(Refusal::Exists));
    let mut same = server.creation("s");
    same.content_type = Some("Text/Plain; charset=utf-8".to_owned());
    let reply = server.run(Command::Create(Box::new(same)));
    assert!(matches!(reply, Reply::Created { is_new: false, .. }));
}

#[test]
fn a_deleted_stream_does_not_come_back() {
    let mut server = Server::new();
    server.create("s");
    server.append("s", "old");
    let old = server.id("s");
    assert_eq!(server.run(Command::Delete(name("s").id())), Reply::Deleted);
    server.restart();
    assert_eq!(server.append("s", "x"), Reply::Refused(Refusal::NotFound));
    server.create("s");
    server.restart();
    assert_ne!(server.id("s"), old);
    assert!(server.disk.data(server.id("s")).is_empty());
}

#[test]
fn created_and_deleted_in_one_commit_leaves_nothing() {
    let mut server = Server::new();
    let create = server.creation("s");
    server.hub.submit(0, Command::Create(Box::new(create)), server.now);
    server.hub.submit(1, Command::Delete(name("s").id()), server.now);
    let replies = server.commit();
    assert!(matches!(replies[..], [Reply::Created { .. }, Reply::Deleted]));
    assert!(server.disk.records.is_empty() && server.disk.notes.is_empty());
}

#[test]
fn a_sliding_life_ends_after_the_last_use_also_over_restarts() {
    let mut server = Server::new();
    let mut create = server.creation("s");
    create.life = Life::Sliding { ttl_s: 10 };
    server.run(Command::Create(Box::new(create)));
    for _ in 0..5 {
        server.now += 9_000;
        assert!(matches!(server.append("s", "x"), Reply::Appended(_)));
    }
    for _ in 0..3 {
        server.now += 9_000;
        server.view("s").meta.touch(server.now);
        server.hub.sweep(server.now);
        server.commit();
    }
    server.restart();
    server.now += 9_000;
    assert!(matches!(server.append("s", "x"), Reply::Appended(_)));
    server.now += 10_000;
    assert_eq!(server.append("s", "x"), Reply::Refused(Refusal::NotFound));
    assert!(server.views.is_empty());
}

#[test]
fn an_absolute_end_does_not_slide_and_the_sweep_finds_it() {
    let mut server = Server::new();
    let mut create = server.creation("s");
    create.life = Life::Until(server.now + 1000);
    server.run(Command::Create(Box::new(create)));
    server.now += 999;
    assert!(matches!(server.append("s", "x"), Reply::Appended(_)));
    server.now += 1;
    server.restart();
    server.hub.sweep(server.now);
    server.commit();
    assert!(server.views.is_empty());
}

#[test]
fn restarts_do_not_keep_what_nobody_uses() {
    const TTL_MS: u64 = 80_000;
    let mut server = Server::new();
    let mut create = server.creation("s");
    create.life = Life::Sliding { ttl_s: TTL_MS / 1000 };
    server.run(Command::Create(Box::new(create)));
    let start = server.now;
    // Each time sooner than what is allowed for.
    for _ in 0..40 {
        server.now += TTL_MS / 10;
        server.restart();
        server.hub.sweep(server.now);
        server.commit();
    }
    let ended = server.views.get(&name("s").id()).is_none_or(|view| view.meta.is_over(server.now));
    assert!(ended, "it was not used for {} times its life", (server.now - start) / TTL_MS);
}
