//! From one life of a process to the next.

use std::path::Path;
use std::sync::Arc;

use handback_client::duplex::{Duplex, DuplexError, DuplexOptions, Duplexes, Phase, Settings, Why};
use handback_stream::StreamKey;
use handback_stream::duplex::{ClientFrame, Code, ServerFrame};

use crate::script::{Script, TestClock, end, error, event};

fn kept(script: &Script, directory: &Path) -> DuplexOptions {
    script.options().state(directory, Settings::persistent())
}

fn folders(directory: &Path) -> usize {
    std::fs::read_dir(directory.join("duplex")).unwrap().count()
}

#[tokio::test]
async fn what_was_interrupted_is_resumed() {
    let directory = tempfile::tempdir().unwrap();
    let script = Script::start().await;
    let key = StreamKey::from_bytes(&[3; 32]);
    let duplex =
        Duplex::open(kept(&script, directory.path()).stream_key(key.clone())).await.unwrap();
    for text in ["a", "b", "c"] {
        duplex.send(text).await.unwrap();
    }
    let (mut peer, hello) = script.welcome(0, 1).await;
    assert_eq!(hello.encryption_key.unwrap().0, *key.dangerous_to_text());
    peer.chunk().await;
    peer.say(ServerFrame::Ack { seqno: 0 }).await;
    peer.say(event("e1", "A")).await;
    let given = duplex.next_event().await.unwrap().unwrap();
    duplex.ack(&given).await.unwrap();
    peer.say(event("e2", "B")).await;
    duplex.next_event().await.unwrap().unwrap();
    duplex.close().await.unwrap();
    duplex.leave().await;

    let found = Duplexes::resume_all(directory.path(), &kept(&script, directory.path())).await;
    let found = found.unwrap();
    assert_eq!((found.resumed.len(), found.cleared.len(), found.left.len()), (1, 0, 0));
    let duplex = &found.resumed[0];
    assert_eq!(duplex.idempotency_key(), "key");
    assert_eq!(duplex.next_seqno().await.unwrap(), 3);
    let (mut peer, hello) = script.welcome(1, 2).await;
    assert_eq!(hello.event_id.as_deref(), Some("e1"));
    assert_eq!(hello.resume_token.as_deref(), Some("token-1"));
    assert_eq!(hello.encryption_key.unwrap().0, *key.dangerous_to_text());
    assert_eq!(peer.chunk().await, (1, "b".to_owned()));
    assert_eq!(peer.chunk().await, (2, "c".to_owned()));
    assert_eq!(peer.hear().await, Some(ClientFrame::Close));
    // What was not acknowledged comes again.
    peer.say(event("e2", "B")).await;
    peer.say(end()).await;
    let given = duplex.next_event().await.unwrap().unwrap();
    assert_eq!(given.id(), "e2");
    assert!(duplex.next_event().await.unwrap().is_none());
    assert_eq!(folders(directory.path()), 1, "until the last event is kept");
    duplex.ack(&given).await.unwrap();
    assert_eq!(folders(directory.path()), 0);
    assert_eq!(std::fs::read_dir(directory.path().join("keys")).unwrap().count(), 0);
}

#[tokio::test]
async fn opening_it_by_its_key_goes_on_too() {
    let directory = tempfile::tempdir().unwrap();
    let script = Script::start().await;
    let duplex = Duplex::open(kept(&script, directory.path())).await.unwrap();
    assert_eq!(duplex.send("a").await.unwrap(), 0);
    duplex.leave().await;
    let duplex = Duplex::open(kept(&script, directory.path())).await.unwrap();
    assert_eq!(duplex.send("b").await.unwrap(), 1);
    let (mut peer, _) = script.welcome(0, 1).await;
    assert_eq!(peer.chunk().await, (0, "a".to_owned()));
    assert_eq!(peer.chunk().await, (1, "b".to_owned()));
}

#[tokio::test]
async fn what_came_to_its_end_is_not_run_again() {
    let directory = tempfile::tempdir().unwrap();
    let script = Script::start().await;
    let duplex = Duplex::open(kept(&script, directory.path())).await.unwrap();
    duplex.send("a").await.unwrap();
    duplex.close().await.unwrap();
    let (mut peer, _) = script.welcome(0, 1).await;
    peer.chunk().await;
    peer.say(end()).await;
    let ended = duplex.finished().await.unwrap();
    assert_eq!(folders(directory.path()), 0);
    duplex.leave().await;
    // The script has no second connection: nothing goes to the server.
    let again = Duplex::open(kept(&script, directory.path())).await.unwrap();
    assert_eq!(again.status().phase, Phase::Ended);
    assert_eq!(again.finished().await.unwrap(), ended);
    assert_eq!(again.next_seqno().await.unwrap(), 1);
    assert!(again.next_event().await.unwrap().is_none());
    assert!(matches!(again.send("b").await, Err(DuplexError::AlreadyEnded)));
    again.leave().await;
    // An edited note is not believed.
    let notes: Vec<_> =
        std::fs::read_dir(directory.path().join("finished")).unwrap().map(Result::unwrap).collect();
    assert_eq!(notes.len(), 1);
    let note = notes[0].path();
    let good = std::fs::read(&note).unwrap();
    let text = String::from_utf8(good.clone()).unwrap();
    assert!(!text.contains("token-1"), "{text}");
    std::fs::write(&note, text.replace("\"next_seqno\":1", "\"next_seqno\":2")).unwrap();
    let edited = Duplex::open(kept(&script, directory.path())).await;
    assert!(matches!(edited, Err(DuplexError::State(_))));
    // A crash before the rest was cleared.
    std::fs::write(&note, good).unwrap();
    let id = note.file_name().unwrap().to_owned();
    std::fs::create_dir_all(directory.path().join("duplex").join(id)).unwrap();
    let found = Duplexes::resume_all(directory.path(), &kept(&script, directory.path())).await;
    assert_eq!(found.unwrap().cleared[0].why, Why::Finished);
    assert_eq!(folders(directory.path()), 0);
    // It is forgotten after a day, and a new one can begin.
    let long_ago = std::fs::File::options().write(true).open(&note).unwrap();
    long_ago.set_modified(std::time::UNIX_EPOCH).unwrap();
    let found = Duplexes::resume_all(directory.path(), &kept(&script, directory.path())).await;
    assert!(found.unwrap().cleared.is_empty());
    assert!(!note.exists());
    let fresh = Duplex::open(kept(&script, directory.path())).await.unwrap();
    assert_eq!(fresh.next_seqno().await.unwrap(), 0);
}

#[tokio::test]
async fn it_goes_on_as_it_was_started() {
    let directory = tempfile::tempdir().unwrap();
    let script = Script::start().await;
    let options = kept(&script, directory.path());
    Duplex::open(options.clone()).await.unwrap().leave().await;
    let other = Duplex::open(options.clone().verify(handback_client::Keys::Server)).await;
    assert!(matches!(other, Err(DuplexError::Options(_))));
    let key = StreamKey::from_bytes(&[3; 32]);
    let other = Duplex::open(options.clone().stream_key(key)).await;
    assert!(matches!(other, Err(DuplexError::Options(_))));
    assert!(Duplex::open(options).await.is_ok());
}

#[tokio::test]
async fn one_at_a_time_drives_it() {
    let directory = tempfile::tempdir().unwrap();
    let script = Script::start().await;
    let options = kept(&script, directory.path());
    let duplex = Duplex::open(options.clone()).await.unwrap();
    assert!(matches!(Duplex::open(options.clone()).await, Err(DuplexError::Owned)));
    let found = Duplexes::resume_all(directory.path(), &options).await.unwrap();
    assert_eq!((found.resumed.len(), found.cleared.len(), found.left.len()), (0, 0, 1));
    assert!(matches!(found.left[0].why, DuplexError::Owned));
    duplex.leave().await;
    assert!(Duplex::open(options).await.is_ok());
}

#[tokio::test]
async fn only_what_is_inside_the_window_is_resumed() {
    let directory = tempfile::tempdir().unwrap();
    let script = Script::start().await;
    let clock = TestClock::default();
    clock.set(1_000_000);
    let options = kept(&script, directory.path()).clock(Arc::new(clock.clone()));
    let early = Duplex::open(options.clone().idempotency_key("early")).await.unwrap();
    early.leave().await;
    clock.set(1_000_001);
    let late = Duplex::open(options.clone().idempotency_key("late")).await.unwrap();
    late.leave().await;
    clock.set(1_000_001 + 900_000);
    let found = Duplexes::resume_all(directory.path(), &options).await.unwrap();
    let keys: Vec<_> = found.resumed.iter().map(Duplex::idempotency_key).collect();
    assert_eq!(keys, ["late"]);
    let cleared: Vec<_> =
        found.cleared.iter().map(|one| (one.idempotency_key.as_deref(), one.why)).collect();
    assert_eq!(cleared, [(Some("early"), Why::TooOld)]);
    assert_eq!(folders(directory.path()), 1);
}

#[tokio::test]
async fn what_the_server_refused_is_kept_and_cleared_at_the_next_start() {
    for (code, why) in [
        (Code::Expired, Why::Expired),
        (Code::Invalid, Why::Invalid),
        (Code::Superseded, Why::Superseded),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let script = Script::start().await;
        let options = kept(&script, directory.path());
        let duplex = Duplex::open(options.clone()).await.unwrap();
        duplex.send("a").await.unwrap();
        let mut peer = script.accept().await;
        peer.hello().await;
        peer.say(error(code, None)).await;
        duplex.finished().await.unwrap_err();
        duplex.leave().await;
        assert_eq!(folders(directory.path()), 1, "it can be looked at");
        let found = Duplexes::resume_all(directory.path(), &options).await.unwrap();
        assert_eq!((found.resumed.len(), found.cleared.len()), (0, 1));
        assert_eq!(found.cleared[0].why, why);
        assert_eq!(folders(directory.path()), 0);
    }
}

#[tokio::test]
async fn what_is_damaged_is_left_and_told() {
    let directory = tempfile::tempdir().unwrap();
    let script = Script::start().await;
    let options = kept(&script, directory.path());
    Duplex::open(options.clone()).await.unwrap().leave().await;
    let folder = std::fs::read_dir(directory.path().join("duplex")).unwrap().next().unwrap();
    std::fs::write(folder.unwrap().path().join("state"), "x").unwrap();
    let found = Duplexes::resume_all(directory.path(), &options).await.unwrap();
    assert_eq!((found.resumed.len(), found.cleared.len(), found.left.len()), (0, 0, 1));
    assert!(matches!(found.left[0].why, DuplexError::State(_)));
    assert!(matches!(Duplex::open(options).await, Err(DuplexError::State(_))));
}

#[tokio::test]
async fn without_the_setting_nothing_is_kept_or_resumed() {
    let directory = tempfile::tempdir().unwrap();
    let script = Script::start().await;
    let off = script.options().state(directory.path(), Settings::default());
    let duplex = Duplex::open(off.clone()).await.unwrap();
    duplex.send("a").await.unwrap();
    let once = kept(&script, directory.path()).idempotent(false);
    let duplex = Duplex::open(once).await.unwrap();
    duplex.send("a").await.unwrap();
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    Duplex::open(kept(&script, directory.path())).await.unwrap().leave().await;
    let found = Duplexes::resume_all(directory.path(), &off).await.unwrap();
    assert_eq!((found.resumed.len(), found.cleared.len(), found.left.len()), (0, 0, 0));
    assert_eq!(folders(directory.path()), 1);
}
