//! Held values in files, and through crashes.

use std::fs;
use std::path::Path;

use handback_identity::{UnixPeers, VerifiedPrincipal};
use handback_store::faulty::{Fault, FaultPlan, FaultyDisk, FaultyStore};
use handback_store::held::{
    CHUNK_BYTES, Held, HeldError, HeldOptions, HeldStore, LookUp, MAX_IN_STORE_BYTES, NewValue,
};
use handback_store::{DataKey, Kv, MemoryStore};
use handback_token::Handle;
use tempfile::TempDir;

const MIB: usize = 1 << 20;

fn person() -> VerifiedPrincipal {
    UnixPeers::new("h").unwrap().principal(1)
}

fn contents(length: usize) -> Vec<u8> {
    b"nobody may read this. ".iter().copied().cycle().take(length).collect()
}

fn put<S: Kv>(store: &HeldStore<S>, length: usize) -> Result<Held, HeldError> {
    store.put(&person(), NewValue::new("text"), &contents(length), &mut rand::rng(), 0)
}

fn files(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn plain_and_sealed(folder: &TempDir) -> [(bool, HeldOptions); 2] {
    let key = DataKey::generate(&mut rand::rng());
    let options = HeldOptions::new().folder(folder.path());
    [(false, options.clone()), (true, options.encrypted_under(&key))]
}

#[test]
fn what_is_held_is_counted() {
    let kv = MemoryStore::new();
    let store = HeldStore::new(&kv, HeldOptions::new().idle_ms(1_000)).unwrap();
    let (first, _second) = (put(&store, 100).unwrap(), put(&store, 50).unwrap());
    // What only tokens refer to is no held value.
    store.spill(&person(), NewValue::new("text"), b"spilled", &mut rand::rng(), 0).unwrap();
    let counted = |limit, now| {
        let tally = store.tally(limit, now).unwrap();
        (tally.values, tally.bytes, tally.taken_values, tally.taken_bytes, tally.has_more)
    };
    assert_eq!(counted(1_000, 0), (2, 150, 2, 150, false));
    assert!(counted(1, 0).4, "one row is not all of them");
    store.remove(first.handle().unwrap(), &person(), 0).unwrap();
    assert_eq!(counted(1_000, 0), (1, 50, 2, 150, false));
    assert_eq!(counted(1_000, 2_000), (0, 0, 2, 150, false), "nobody used it for a second");
    // Another process finds what is held, and took nothing in itself.
    let other = HeldStore::new(&kv, HeldOptions::new()).unwrap().tally(1_000, 0).unwrap();
    assert_eq!((other.values, other.bytes, other.taken_values), (1, 50, 0));
}

#[test]
fn long_values_are_files() {
    let folder = tempfile::tempdir().unwrap();
    for (is_sealed, options) in plain_and_sealed(&folder) {
        let kv = MemoryStore::new();
        let store = HeldStore::new(&kv, options).unwrap();
        let limit = MAX_IN_STORE_BYTES;
        for length in [limit, limit + 1, limit + MIB, limit + 3 * CHUNK_BYTES + 5] {
            let held = put(&store, length).unwrap();
            let is_file = length > limit;
            assert_eq!(files(folder.path()).len(), usize::from(is_file));
            assert_eq!(kv.scan(b"h/c/", None, 1, 0).unwrap().is_empty(), is_file);
            let reader = store.read(&held, 0).unwrap();
            assert_eq!(reader.read_whole(length).unwrap().unwrap(), contents(length));
            for at in [0, CHUNK_BYTES - 1, limit - 10, length - 1] {
                let mut buffer = [0; 50];
                let read = reader.read_at(at as u64, &mut buffer).unwrap();
                assert_eq!(buffer[..read], contents(length)[at..(at + 50).min(length)]);
            }
            if is_file {
                let path = folder.path().join(&files(folder.path())[0]);
                let stored = fs::read(path).unwrap();
                let is_readable = stored.windows(8).any(|window| window == b"nobody m");
                assert_eq!(is_readable, !is_sealed);
            }
            assert!(store.remove(held.handle().unwrap(), &person(), 0).unwrap());
            assert_eq!(files(folder.path()), [""; 0]);
            // Who has it open reads on.
            let mut buffer = [0; 50];
            let read = reader.read_at(0, &mut buffer);
            assert_eq!(read.is_ok(), is_file);
            assert_eq!(kv.scan(b"h/c/", None, 1, 0).unwrap(), []);
            assert_eq!(store.used_bytes(&person(), 0).unwrap(), 0);
        }
    }
}

#[test]
fn a_file_that_was_changed_is_damaged() {
    let folder = tempfile::tempdir().unwrap();
    for (_, options) in plain_and_sealed(&folder) {
        let store = HeldStore::new(MemoryStore::new(), options).unwrap();
        let (held, other) = (put(&store, 9 * MIB).unwrap(), put(&store, 9 * MIB).unwrap());
        let path = |held: &Held| {
            let id: String = held
                .handle()
                .unwrap()
                .to_bytes()
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            let name = files(folder.path()).into_iter().find(|name| name.ends_with(&id)).unwrap();
            folder.path().join(name)
        };
        let (path, other) = (path(&held), path(&other));
        let original = fs::read(&path).unwrap();
        let is_damaged = |stored: &[u8]| {
            fs::write(&path, stored).unwrap();
            let read = store.read(&held, 0).unwrap().read_whole(usize::MAX);
            matches!(read, Err(HeldError::Damaged))
        };
        assert!(!is_damaged(&original));
        for at in [0, 1, 13, CHUNK_BYTES, CHUNK_BYTES + 7, CHUNK_BYTES + 28, original.len() - 1] {
            let mut edited = original.clone();
            edited[at] ^= 1;
            assert!(is_damaged(&edited), "{at}");
        }
        assert!(is_damaged(&original[..original.len() - 1]));
        assert!(is_damaged(&fs::read(other).unwrap()), "another's");
        // Two chunks of the same file, in each other's place.
        let overhead = (original.len() - 9 * MIB) / (9 * MIB / CHUNK_BYTES);
        let stored_chunk = CHUNK_BYTES + overhead;
        let mut swapped = original.clone();
        swapped[..stored_chunk].copy_from_slice(&original[stored_chunk..2 * stored_chunk]);
        swapped[stored_chunk..2 * stored_chunk].copy_from_slice(&original[..stored_chunk]);
        assert!(is_damaged(&swapped));
        fs::remove_file(&path).unwrap();
        assert!(matches!(store.read(&held, 0), Err(HeldError::Gone)));
        for name in files(folder.path()) {
            fs::remove_file(folder.path().join(name)).unwrap();
        }
    }
}

/// Gives how many files were swept.
fn sweep_all<S: Kv>(store: &HeldStore<S>, limit: usize) -> usize {
    let mut files = 0;
    loop {
        let swept = store.sweep(limit, 0).unwrap();
        files += swept.files;
        if !swept.has_more {
            return files;
        }
    }
}

#[test]
fn files_without_a_row_are_swept() {
    let folder = tempfile::tempdir().unwrap();
    let options = HeldOptions::new().folder(folder.path());
    let kv = MemoryStore::new();
    let store = HeldStore::new(&kv, options.clone()).unwrap();
    put(&store, 9 * MIB).unwrap();
    let mut unfinished =
        store.writer(&person(), NewValue::new("text"), &mut rand::rng(), 0).unwrap();
    unfinished.write(&contents(10 * MIB), 0).unwrap();
    assert_eq!(files(folder.path()).len(), 2);
    // Another process left these, and a person that.
    let owner = "0".repeat(32);
    for name in [format!("{owner}-h{owner}"), format!("{owner}-s{owner}.part"), "notes".to_owned()]
    {
        fs::write(folder.path().join(name), "x").unwrap();
    }
    assert_eq!(sweep_all(&store, 1), 2);
    assert_eq!(files(folder.path()).len(), 3);
    drop(unfinished);
    assert_eq!(files(folder.path()).len(), 2);
    // A store that forgot everything.
    let store = HeldStore::new(MemoryStore::new(), options).unwrap();
    assert_eq!(sweep_all(&store, 10), 1);
    assert_eq!(files(folder.path()), ["notes"]);
}

/// Puts, looks up and removes until the process dies. Gives what it was told is held.
fn live(store: &HeldStore<&FaultyStore>, lengths: &[usize]) -> (Vec<(Handle, usize)>, bool) {
    let mut held = Vec::new();
    for &length in lengths {
        match put(store, length) {
            Ok(value) => held.push((value.handle().unwrap(), length)),
            Err(_) => return (held, false),
        }
    }
    (held, true)
}

fn check_after_crash(
    kv: &FaultyStore,
    folder: &Path,
    options: HeldOptions,
    held: &[(Handle, usize)],
) {
    let store = HeldStore::new(kv, options).unwrap();
    for &(handle, length) in held {
        let LookUp::Found(found) = store.look_up(handle, &person(), 0).unwrap() else {
            panic!("what was acknowledged is held")
        };
        let whole = store.read(&found, 0).unwrap().read_whole(length).unwrap();
        assert_eq!(whole.unwrap(), contents(length));
    }
    // What nobody was told of is held as a whole, or not at all.
    for found in store.list(&person(), None, 100, 0).unwrap() {
        assert!(store.read(&found, 0).unwrap().read_whole(usize::MAX).unwrap().is_some());
    }
    // When all has ended, nothing is left, and nothing counts.
    let later = 2 * 60 * 60 * 1_000;
    while store.sweep(10, later).unwrap().has_more {}
    assert_eq!(files(folder), [""; 0]);
    assert_eq!(store.used_bytes(&person(), later).unwrap(), 0);
    assert!(store.list(&person(), None, 100, later).unwrap().is_empty());
    let day_after = 24 * 60 * 60 * 1_000;
    assert_eq!(kv.scan(b"h/c/", None, 9, day_after).unwrap(), []);
    let much_later = 4 * day_after;
    assert_eq!(kv.scan(b"h/m/", None, 9, much_later).unwrap(), []);
}

#[test]
fn a_crash_at_any_write_loses_nothing_that_was_held() {
    let lives = [(false, [10, 3 * MIB, 20]), (true, [10, 9 * MIB, 20])];
    for (fault, (has_files, lengths)) in [Fault::Crash, Fault::CrashAfterSync]
        .into_iter()
        .flat_map(|fault| lives.map(|life| (fault, life)))
    {
        for at in 0.. {
            let folder = tempfile::tempdir().unwrap();
            let options = HeldOptions::new();
            let options = if has_files { options.folder(folder.path()) } else { options };
            let disk = FaultyDisk::new(FaultPlan::new(at * 7 + 1).fault(at, fault));
            let kv = disk.open();
            let store = HeldStore::new(&kv, options.clone()).unwrap();
            let (held, is_done) = live(&store, &lengths);
            if !disk.is_crashed() {
                assert!(is_done && at > 4);
                break;
            }
            drop(store);
            check_after_crash(&disk.open(), folder.path(), options, &held);
        }
    }
}

#[test]
fn a_crash_while_sweeping_leaves_the_rest_to_the_next_sweep() {
    for fault in [Fault::Crash, Fault::CrashAfterSync] {
        for after in 0.. {
            let folder = tempfile::tempdir().unwrap();
            let disk = FaultyDisk::new(FaultPlan::new(after));
            let kv = disk.open();
            let options = HeldOptions::new().folder(folder.path());
            let store = HeldStore::new(&kv, options).unwrap();
            live(&store, &[10, 9 * MIB, 20]);
            disk.plan(disk.writes() + after, fault);
            let later = 2 * 60 * 60 * 1_000;
            while store.sweep(10, later).is_ok_and(|swept| swept.has_more) {}
            if !disk.is_crashed() {
                assert!(after > 2);
                break;
            }
            drop(store);
            let options = HeldOptions::new().folder(folder.path());
            check_after_crash(&disk.open(), folder.path(), options, &[]);
        }
    }
}
