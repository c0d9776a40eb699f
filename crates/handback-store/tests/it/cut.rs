//! Journals that were cut, emptied, filled with zeros or removed after their writes were acknowledged.

use std::fs::{self, File};
use std::path::Path;

use handback_store::embedded::{self, AcceptError};
use handback_store::{EmbeddedOptions, EmbeddedStore, Kv, Log, OpenError};
use tempfile::TempDir;

use crate::story::{self, Story};

const SEED: u64 = 5;
const BATCHES: u64 = 30;

/// Seed of long batches, of which some make a journal full.
const LONG: u64 = 12;

fn written(seed: u64, batches: u64) -> TempDir {
    let directory = story::directory();
    let mut story = Story::new(seed);
    let store = story::open(directory.path());
    for _ in 0..batches {
        store.commit(&story.tell()).unwrap();
    }
    directory
}

/// Copies a store, changes the copy, and gives the error of its opening.
#[track_caller]
fn refused(original: &Path, change: impl FnOnce(&Path)) -> (TempDir, String) {
    let copy = story::directory();
    story::copy_all(original, copy.path());
    change(copy.path());
    // Also at the second try: the first one changes nothing.
    let open = || EmbeddedStore::open(copy.path(), EmbeddedOptions::new()).unwrap_err();
    let (first, second) = (open(), open());
    assert!(matches!(first, OpenError::Damaged(_)), "{first:?}");
    assert_eq!(first.to_string(), second.to_string());
    (copy, first.to_string())
}

fn set_len(path: &Path, bytes: u64) {
    File::options().write(true).open(path).unwrap().set_len(bytes).unwrap();
}

fn length(path: &Path) -> u64 {
    fs::metadata(path).unwrap().len()
}

/// The journal as it is after a restart: no longer than its content.
fn restarted(seed: u64, batches: u64) -> TempDir {
    let directory = written(seed, batches);
    drop(story::open(directory.path()));
    assert!(length(&directory.path().join("fjall/0.jnl")) < 1 << 20);
    directory
}

#[test]
fn wound_a6_a_journal_cut_to_half_is_refused_with_its_lengths() {
    for (directory, made) in [(written(SEED, BATCHES), 64 << 20), (restarted(SEED, BATCHES), 0)] {
        let whole = length(&directory.path().join("fjall/0.jnl"));
        let content = story::read_up_to_zeros(&directory.path().join("fjall/0.jnl")).len() as u64;
        assert!(whole == made || whole == content);
        for end in [whole / 2, content / 2, content - 1, 1, 0] {
            let (_, error) = refused(directory.path(), |copy| {
                set_len(&copy.join("fjall/0.jnl"), end);
            });
            let lengths = format!("fjall/0.jnl was cut: it had {whole} bytes, and has {end}");
            assert!(error.contains(&lengths), "{error}");
            assert_eq!(error.contains("acknowledged writes are missing"), end < content);
        }
    }
}

#[test]
fn wound_a6_a_journal_that_grows_with_each_write_is_not_cut_in_silence() {
    // After a restart the length is not known ahead: the last acknowledged write is.
    let directory = restarted(SEED, BATCHES);
    let store = story::open(directory.path());
    let before = length(&directory.path().join("fjall/0.jnl"));
    let mut story = Story::after(SEED, BATCHES);
    for _ in 0..10 {
        store.commit(&story.tell()).unwrap();
    }
    drop(store);
    let after = length(&directory.path().join("fjall/0.jnl"));
    for end in [before, before + (after - before) / 2, after - 1] {
        let (_, error) = refused(directory.path(), |copy| set_len(&copy.join("fjall/0.jnl"), end));
        assert!(error.contains("fjall/0.jnl is damaged at byte"), "{error}");
        assert!(error.contains("acknowledged writes are missing"), "{error}");
    }
    assert_eq!(story::check(&story::open(directory.path()), SEED), BATCHES + 10);
}

#[test]
fn wound_a6_zeros_in_the_place_of_the_last_writes_are_refused() {
    let directory = written(SEED, BATCHES);
    let journal = directory.path().join("fjall/0.jnl");
    let content = story::read_up_to_zeros(&journal).len() as u64;
    for end in [content / 2, 100, 0] {
        let (_, error) = refused(directory.path(), |copy| {
            let journal = copy.join("fjall/0.jnl");
            let whole = length(&journal);
            set_len(&journal, end);
            set_len(&journal, whole);
        });
        assert!(error.contains("acknowledged writes are missing"), "{error}");
    }
}

#[test]
fn wound_a6_a_removed_journal_is_put_back_or_named() {
    let directory = written(SEED, BATCHES);
    let copy = story::directory();
    story::copy_all(directory.path(), copy.path());
    fs::remove_file(copy.path().join("fjall/0.jnl")).unwrap();
    assert_eq!(story::check(&story::open(copy.path()), SEED), BATCHES);
    let (_, error) = refused(directory.path(), |copy| {
        fs::remove_file(copy.join("fjall/0.jnl")).unwrap();
        fs::remove_file(copy.join("journals/0.jnl")).unwrap();
    });
    assert!(error.contains("fjall/0.jnl is missing"), "{error}");
}

#[test]
fn wound_a6_a_watermark_that_is_gone_or_cut_is_refused() {
    let directory = written(SEED, BATCHES);
    let (_, error) = refused(directory.path(), |copy| {
        fs::remove_file(copy.join("watermark")).unwrap();
    });
    assert!(error.contains("watermark is missing"), "{error}");
    for bytes in [0, 4096, 8191] {
        let (_, error) = refused(directory.path(), |copy| set_len(&copy.join("watermark"), bytes));
        assert!(error.contains("watermark was cut"), "{error}");
    }
    let (_, error) = refused(directory.path(), |copy| {
        fs::write(copy.join("watermark"), vec![0; 8192]).unwrap();
    });
    assert!(error.contains("watermark is damaged"), "{error}");
}

#[test]
fn wound_a6_a_directory_of_an_earlier_version_opens_and_is_recorded() {
    let directory = restarted(SEED, BATCHES);
    let old = story::directory();
    story::copy_all(directory.path(), old.path());
    for file in ["watermark", "format"] {
        fs::remove_file(old.path().join(file)).unwrap();
    }
    fs::remove_dir_all(old.path().join("journals")).unwrap();
    let checked = embedded::check(old.path()).unwrap();
    assert!(checked.damage.is_empty() && !checked.is_proved);
    assert!(!old.path().join("watermark").exists());
    assert_eq!(story::check(&story::open(old.path()), SEED), BATCHES);
    let checked = embedded::check(old.path()).unwrap();
    assert!(checked.damage.is_empty() && checked.is_proved);
    let (_, error) = refused(old.path(), |copy| set_len(&copy.join("fjall/0.jnl"), 1_000));
    assert!(error.contains("fjall/0.jnl was cut"), "{error}");
}

/// Several journals, of which the older ones wait for a keyspace that is rarely flushed.
fn rotated() -> TempDir {
    let directory = story::directory();
    let store = story::open_restless(directory.path());
    let mut story = Story::new(LONG);
    let journals = || {
        let names = fs::read_dir(directory.path().join("fjall")).unwrap();
        names.filter(|name| {
            let name = name.as_ref().unwrap().file_name();
            name.to_string_lossy().ends_with(".jnl")
        })
    };
    let mut batches = 0;
    while journals().count() < 3 || batches < 200 {
        store.commit(&story.tell()).unwrap();
        batches += 1;
        assert!(batches < 3_000, "no journal was begun");
    }
    drop(store);
    directory
}

#[test]
fn wound_a6_older_journals_are_proved_as_well() {
    let directory = rotated();
    let told = {
        let copy = story::directory();
        story::copy_all(directory.path(), copy.path());
        story::check(&story::open(copy.path()), LONG)
    };
    let mut journals: Vec<u64> = story::walk(&directory.path().join("fjall"))
        .iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "jnl"))
        // The engine may have begun one after the last write: nothing proves that, nor is it missed.
        .filter(|path| !story::read_up_to_zeros(path).is_empty())
        .map(|path| path.file_stem().unwrap().to_str().unwrap().parse().unwrap())
        .collect();
    journals.sort_unstable();
    // Copies are large: the oldest and the newest stand for all.
    for id in [journals[0], journals[journals.len() - 1]] {
        let name = format!("fjall/{id}.jnl");
        let whole = length(&directory.path().join(&name));
        let (_, error) = refused(directory.path(), |copy| set_len(&copy.join(&name), whole / 2));
        assert!(error.contains(&format!("{name} was cut")), "{error}");
        let (_, error) = refused(directory.path(), |copy| {
            fs::remove_file(copy.join(&name)).unwrap();
            fs::remove_file(copy.join(format!("journals/{id}.jnl"))).unwrap();
        });
        assert!(error.contains(&format!("{name} is missing")), "{error}");
        let copy = story::directory();
        story::copy_all(directory.path(), copy.path());
        fs::remove_file(copy.path().join(&name)).unwrap();
        assert_eq!(story::check(&story::open(copy.path()), LONG), told);
    }
}

#[test]
fn a_journal_that_the_engine_removed_is_taken_off_the_list() {
    let directory = rotated();
    let store = story::open_restless(directory.path());
    let mut story = Story::after(LONG, story::check(&store, LONG));
    // Until the first journal is of no use any more.
    for _ in 0..3_000 {
        store.commit(&story.tell()).unwrap();
        if !directory.path().join("fjall/0.jnl").exists() {
            break;
        }
    }
    if directory.path().join("fjall/0.jnl").exists() {
        // A keyspace that has few rows keeps it: nothing was removed.
        return;
    }
    store.sweep(0, 0).unwrap();
    assert!(!directory.path().join("journals/0.jnl").exists());
    let told = story::told(&store);
    drop(store);
    assert_eq!(story::check(&story::open_restless(directory.path()), LONG), told);
}

#[test]
fn wound_a6_a_loss_that_is_accepted_is_written_down_and_the_store_opens() {
    let directory = written(SEED, BATCHES);
    let content = story::read_up_to_zeros(&directory.path().join("fjall/0.jnl")).len() as u64;
    for (end, kept) in [(content / 2, 10..20), (0, 0..1)] {
        let (copy, _) = refused(directory.path(), |copy| set_len(&copy.join("fjall/0.jnl"), end));
        let before: Vec<_> =
            story::walk(copy.path()).into_iter().map(|path| length(&path)).collect();
        let checked = embedded::check(copy.path()).unwrap();
        assert_eq!(checked.damage.len(), 1);
        assert_eq!(checked.damage[0].found_bytes, Some(end));
        let after: Vec<_> =
            story::walk(copy.path()).into_iter().map(|path| length(&path)).collect();
        assert_eq!(before, after, "a check changes nothing");
        let accepted = embedded::accept_loss(copy.path(), "2026-11-19T00:00:00Z").unwrap();
        assert_eq!(accepted.damage, checked.damage);
        let note = fs::read_to_string(copy.path().join("losses.txt")).unwrap();
        assert!(note.starts_with("2026-11-19T00:00:00Z accepted: fjall/0.jnl was cut"), "{note}");
        assert_eq!(length(&copy.path().join("lost/20261119T000000Z-0/0.jnl")), end);
        let store = story::open(copy.path());
        let told = story::check(&store, SEED);
        assert!(kept.contains(&told), "{told}");
        store.commit(&Story::after(SEED, told).tell()).unwrap();
        drop(store);
        assert_eq!(story::check(&story::open(copy.path()), SEED), told + 1);
        assert!(embedded::check(copy.path()).unwrap().damage.is_empty());
    }
}

#[test]
fn wound_a6_every_kind_of_lost_journal_can_be_accepted() {
    let directory = rotated();
    let changes: [&dyn Fn(&Path); 4] = [
        &|copy| fs::remove_file(copy.join("watermark")).unwrap(),
        &|copy| {
            fs::remove_file(copy.join("fjall/0.jnl")).unwrap();
            fs::remove_file(copy.join("journals/0.jnl")).unwrap();
        },
        &|copy| set_len(&copy.join("fjall/1.jnl"), 1_000_000),
        &|copy| {
            for folder in ["fjall", "journals"] {
                for id in 0..9 {
                    let _ = fs::remove_file(copy.join(format!("{folder}/{id}.jnl")));
                }
            }
        },
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let (copy, _) = refused(directory.path(), change);
        let accepted = embedded::accept_loss(copy.path(), "now").unwrap();
        assert!(!accepted.damage.is_empty());
        let store = story::open_restless(copy.path());
        story::told(&store);
        drop(store);
        let checked = embedded::check(copy.path()).unwrap();
        assert!(checked.damage.is_empty() && checked.is_proved, "change {number}: {checked:?}");
    }
}

/// A store whose last batch is in a second journal, and the bytes of the other batches in the first.
fn in_two_journals() -> (TempDir, u64) {
    let (directory, two) = (story::directory(), story::directory());
    let mut story = Story::new(SEED);
    let store = story::open(directory.path());
    for _ in 1..BATCHES {
        store.commit(&story.tell()).unwrap();
    }
    story::copy_all(directory.path(), two.path());
    let journal = directory.path().join("fjall/0.jnl");
    let first = story::read_up_to_zeros(&journal).len();
    store.commit(&story.tell()).unwrap();
    let second = story::read_up_to_zeros(&journal).split_off(first);
    fs::write(two.path().join("fjall/1.jnl"), second).unwrap();
    (two, first as u64)
}

#[test]
fn wound_a6_a_journal_that_lacks_no_write_costs_no_other_journal() {
    let (directory, content) = in_two_journals();
    // The zeros behind the last write are cut off.
    let (copy, error) = refused(directory.path(), |copy| {
        set_len(&copy.join("fjall/0.jnl"), content);
    });
    assert!(error.contains("fjall/0.jnl was cut"), "{error}");
    assert!(!error.contains("acknowledged writes are missing"), "{error}");
    embedded::accept_loss(copy.path(), "now").unwrap();
    assert_eq!(story::check(&story::open(copy.path()), SEED), BATCHES);
}

#[test]
fn wound_a6_a_journal_behind_a_torn_one_can_be_accepted() {
    let (directory, content) = in_two_journals();
    // Of an earlier version: nothing tells that the end of the first journal was acknowledged.
    let (copy, error) = refused(directory.path(), |copy| {
        for file in ["watermark", "format"] {
            fs::remove_file(copy.join(file)).unwrap();
        }
        fs::remove_dir_all(copy.join("journals")).unwrap();
        set_len(&copy.join("fjall/0.jnl"), content - 3);
    });
    assert!(error.contains("fjall/1.jnl is damaged at byte 0"), "{error}");
    embedded::accept_loss(copy.path(), "now").unwrap();
    assert_eq!(story::check(&story::open(copy.path()), SEED), BATCHES - 2);
    let checked = embedded::check(copy.path()).unwrap();
    assert!(checked.damage.is_empty() && checked.is_proved, "{checked:?}");
}

#[test]
fn a_database_without_its_folder_is_named() {
    let directory = written(SEED, 1);
    fs::remove_dir_all(directory.path().join("fjall")).unwrap();
    let checked = embedded::check(directory.path()).unwrap();
    let version = Path::new("fjall/version");
    assert!(checked.damage.iter().any(|damage| damage.file == version), "{checked:?}");
    assert!(!directory.path().join("fjall").exists(), "a check changes nothing");
}

#[test]
fn a_loss_that_nothing_can_replace_is_not_accepted() {
    let directory = written(SEED, BATCHES);
    let (copy, error) = refused(directory.path(), |copy| {
        fs::remove_file(copy.join("fjall/keyspaces/1/current")).unwrap();
    });
    assert!(error.contains("fjall/keyspaces/1/current is missing"), "{error}");
    let accepted = embedded::accept_loss(copy.path(), "now");
    assert!(matches!(accepted, Err(AcceptError::Needed(_))));
    assert!(!copy.path().join("losses.txt").exists());
}

#[test]
fn a_store_that_is_open_or_absent_is_not_checked() {
    let directory = written(SEED, 1);
    let store = story::open(directory.path());
    assert!(matches!(embedded::check(directory.path()), Err(OpenError::Locked)));
    drop(store);
    let absent = directory.path().join("absent");
    assert!(matches!(embedded::check(&absent), Err(OpenError::Absent(_))));
    assert!(!absent.exists());
}
