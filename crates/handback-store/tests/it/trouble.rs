//! Full disks, failed writes, and directories that cannot be opened.

use std::fs;
use std::io::{BufRead, BufReader};

use handback_store::{
    Batch, Change, EmbeddedOptions, EmbeddedStore, Kv, KvBatch, KvError, Log, OpenError, StoreError,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::{process, story};

const SEED: u64 = 31;

#[test]
fn a_second_open_is_refused() {
    let directory = story::directory();
    let store = story::open(directory.path());
    let second = EmbeddedStore::open(directory.path(), EmbeddedOptions::new());
    assert!(matches!(second, Err(OpenError::Locked)));
    store.commit(&story::Story::new(SEED).tell()).unwrap();
    drop(store);
    assert_eq!(story::check(&story::open(directory.path()), SEED), 1);
}

#[test]
fn a_disk_without_headroom_takes_no_writes_but_reads_and_removes() {
    let directory = story::directory();
    let mut story = story::Story::new(SEED);
    story::open(directory.path()).commit(&story.tell()).unwrap();
    let options = EmbeddedOptions::new().headroom_bytes(u64::MAX);
    let store = EmbeddedStore::open(directory.path(), options).unwrap();
    for _ in 0..3 {
        assert!(matches!(store.commit(&story.tell()), Err(StoreError::Full)));
    }
    let change = (b"k".to_vec().into(), Change::Put { value: "v".into(), until: None });
    let batch = KvBatch { conditions: Vec::new(), changes: vec![change] };
    assert!(matches!(store.write(&batch, 0), Err(KvError::Store(StoreError::Full))));
    assert!(matches!(store.recover(), Err(StoreError::Full)));
    assert_eq!(story::check(&store, SEED), 1);
    let removed = vec![story::log_id(story::COUNTER)];
    store.commit(&Batch { removed, ..Batch::default() }).unwrap();
    assert_eq!(story::told(&store), 0);
}

#[test]
fn wound_a8_a_full_disk_is_named_with_the_bytes_that_are_wanted_and_free() {
    let directory = story::directory();
    let options = EmbeddedOptions::new().headroom_bytes(u64::MAX);
    let refused = EmbeddedStore::open(directory.path(), options.clone()).unwrap_err();
    let free = match &refused {
        OpenError::Full { path, wanted: u64::MAX, free } if path == directory.path() => *free,
        other => panic!("{other}"),
    };
    let wants = format!("{} wants {} bytes free", directory.path().display(), u64::MAX);
    assert!(free > 0 && refused.to_string().contains(&wants), "{refused}");
    // One that is there is read all the same; a start that has to write asks first.
    drop(story::open(directory.path()));
    let store = EmbeddedStore::open(directory.path(), options).unwrap();
    assert!(matches!(store.check_free_space(), Err(OpenError::Full { .. })));
}

#[test]
fn a_failed_write_breaks_the_store_until_it_is_recovered() {
    let directory = story::directory();
    for _ in 0..3 {
        let mut child = process::start("trouble::writes_until_it_fails", directory.path());
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let told = process::heard(&mut lines).expect("it came through");
        assert_eq!(process::heard(&mut lines), None);
        assert!(child.wait().unwrap().success());
        assert_eq!(story::check(&story::open(directory.path()), SEED), told);
    }
}

/// Does nothing unless a test above started it in a process of its own.
#[test]
fn writes_until_it_fails() {
    let Some(directory) = process::directory() else { return };
    let store = story::open(&directory);
    let mut told = story::check(&store, SEED);
    let mut story = story::Story::after(SEED, told);
    let unlimited = getrlimit(Resource::Fsize);
    let written = (told + 1) * 4_000;
    setrlimit(Resource::Fsize, Rlimit { current: Some(written + 20_000), ..unlimited }).unwrap();
    loop {
        match store.commit(&story.tell()) {
            Ok(()) => told += 1,
            Err(StoreError::Broken(_)) => break,
            Err(other) => panic!("{other}"),
        }
    }
    assert!(matches!(store.note(story::log_id(0)), Err(StoreError::Broken(_))));
    assert!(matches!(store.get(b"k", 0), Err(StoreError::Broken(_))));
    assert!(matches!(store.commit(&story.tell()), Err(StoreError::Broken(_))));
    // What was acknowledged is read, also after tries to recover that failed.
    for _ in 0..3 {
        let read: Vec<_> = (0..story::COUNTER).map(|log| store.last(story::log_id(log))).collect();
        assert!(read.iter().all(Result::is_ok) && read.iter().flatten().any(Option::is_some));
        let nothing = Rlimit { current: Some(1_000), ..unlimited };
        setrlimit(Resource::Fsize, nothing).unwrap();
        assert!(store.recover().is_err());
    }
    setrlimit(Resource::Fsize, unlimited).unwrap();
    store.recover().unwrap();
    let kept = story::check(&store, SEED);
    assert!(kept == told || kept == told + 1, "{told} acknowledged, {kept} kept");
    let mut story = story::Story::after(SEED, kept);
    for _ in 0..5 {
        store.commit(&story.tell()).unwrap();
    }
    assert_eq!(story::check(&store, SEED), kept + 5);
    process::say(kept + 5);
}

#[test]
fn wound_a6_writes_are_proved_where_no_file_can_be_opened() {
    let directory = story::directory();
    let mut child = process::start("trouble::writes_without_descriptors", directory.path());
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let told = process::heard(&mut lines).expect("it came through");
    child.kill().unwrap();
    child.wait().unwrap();
    let journal = directory.path().join("fjall/0.jnl");
    let whole = story::read_up_to_zeros(&journal);
    // Zeros in the place of the end of the last write, and as long as before.
    let file = fs::File::options().write(true).open(&journal).unwrap();
    let length = file.metadata().unwrap().len();
    file.set_len(whole.len() as u64 - 20).unwrap();
    file.set_len(length).unwrap();
    let opened = EmbeddedStore::open(directory.path(), EmbeddedOptions::new());
    assert!(matches!(opened, Err(OpenError::Damaged(_))), "{told} writes, the last one is lost");
}

/// Does nothing unless a test above started it in a process of its own.
#[test]
fn writes_without_descriptors() {
    let Some(directory) = process::directory() else { return };
    let store = story::open(&directory);
    let mut story = story::Story::new(SEED);
    store.commit(&story.tell()).unwrap();
    let unlimited = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(3), ..unlimited }).unwrap();
    assert!(fs::File::open(&directory).is_err());
    for _ in 0..5 {
        store.commit(&story.tell()).unwrap();
    }
    process::say(6);
    // Until it is killed.
    loop {
        std::thread::park();
    }
}

#[test]
fn a_creation_that_was_interrupted_is_begun_again() {
    let check = |leave: &dyn Fn(&std::path::Path)| {
        let directory = story::directory();
        let database = directory.path().join("fjall");
        fs::create_dir_all(&database).unwrap();
        leave(&database);
        let store = story::open(directory.path());
        store.commit(&story::Story::new(SEED).tell()).unwrap();
        drop(store);
        assert_eq!(story::check(&story::open(directory.path()), SEED), 1);
    };
    check(&|_| {});
    check(&|path| fs::write(path.join("lock"), []).unwrap());
    check(&|path| fs::write(path.join("0.jnl"), []).unwrap());
    check(&|path| fs::write(path.join("0.jnl"), vec![0; 10_000]).unwrap());
    check(&|path| {
        fs::create_dir(path.join("keyspaces")).unwrap();
        fs::write(path.join("0.jnl"), vec![0; 10_000]).unwrap();
        fs::write(path.join("version"), []).unwrap();
    });
}

#[test]
fn a_database_that_lost_its_version_is_not_begun_again() {
    let directory = story::directory();
    story::open(directory.path()).commit(&story::Story::new(SEED).tell()).unwrap();
    let version = directory.path().join("fjall/version");
    let kept = fs::read(&version).unwrap();
    fs::remove_file(&version).unwrap();
    assert!(EmbeddedStore::open(directory.path(), EmbeddedOptions::new()).is_err());
    fs::write(&version, b"FJL\x09").unwrap();
    let opened = EmbeddedStore::open(directory.path(), EmbeddedOptions::new());
    assert!(matches!(opened, Err(OpenError::Format(_))));
    fs::write(&version, kept).unwrap();
    assert_eq!(story::check(&story::open(directory.path()), SEED), 1);
}

#[test]
fn a_path_that_cannot_be_used_is_an_error() {
    let directory = story::directory();
    let path = directory.path().join("file");
    fs::write(&path, []).unwrap();
    assert!(matches!(EmbeddedStore::open(path, EmbeddedOptions::new()), Err(OpenError::Io(_))));
}

#[test]
fn what_a_long_log_leaves_behind_is_swept() {
    let directory = story::directory();
    let store = story::open(directory.path());
    let log = story::log_id(1);
    let record = |number| handback_store::Record { log, number, bytes: "x".into() };
    for start in (0..4_000).step_by(1_000) {
        let records = (start..start + 1_000).map(record).collect();
        store.commit(&Batch { records, ..Batch::default() }).unwrap();
    }
    store.commit(&Batch { removed: vec![log], ..Batch::default() }).unwrap();
    assert_eq!(store.sweep(0, 100).unwrap(), 100);
    drop(store);
    let store = story::open(directory.path());
    assert_eq!(store.last(log).unwrap(), None);
    assert_eq!(store.sweep(0, 10_000).unwrap(), 3_900);
    assert_eq!(store.sweep(0, 10_000).unwrap(), 0);
    let again = Batch { records: vec![record(7)], ..Batch::default() };
    store.commit(&again).unwrap();
    assert_eq!(store.last(log).unwrap(), Some(record(7)));
}
