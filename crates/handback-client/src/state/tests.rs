use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use bytes::Bytes;
use handback_stream::{Head, StreamId, StreamKey};

use super::*;

const ID: &str = "00112233445566778899aabbccddeeff";

fn saved() -> Saved {
    Saved {
        url: "http://127.0.0.1:1".to_owned(),
        handler: "echo".to_owned(),
        idempotency_key: "key".to_owned(),
        format: "json".to_owned(),
        verify: Some(Trust::Pinned(vec!["0102030405060708".to_owned()])),
        has_stream_key: true,
        event_id: Some("event".to_owned()),
        place: Some(Place {
            stream: StreamId::from_bytes([1; 24]),
            number: 7,
            head: Head::from_bytes([2; 32]),
        }),
        proved: None,
        next_seqno: 0,
        resume_token: Some("token".to_owned()),
        closing: Some(Closing::Close),
        ended: None,
        created_ms: 1,
        updated_ms: 2,
    }
}

fn chunks(from: u32, texts: &[&str]) -> Vec<Chunk> {
    let chunk =
        |(seqno, text): (u32, &&str)| Chunk { seqno, data: Bytes::from((*text).to_owned()) };
    (from..).zip(texts).map(chunk).collect()
}

/// A folder with these chunks in its outbox, of which the state knows none.
fn kept(root: &Path, texts: &[&str]) -> StateDir {
    let state = StateDir::open(root).unwrap();
    let mut folder = state.take(ID).unwrap();
    folder.start(&saved(), Some(&StreamKey::from_bytes(&[9; 32]))).unwrap();
    for chunk in chunks(0, texts) {
        folder.append(&[chunk]).unwrap();
    }
    state
}

fn load(state: &StateDir) -> Result<Option<(Saved, Vec<Chunk>)>, StateError> {
    state.take(ID)?.load()
}

fn file(root: &Path, name: &str) -> std::path::PathBuf {
    root.join("duplex").join(ID).join(name)
}

#[test]
fn what_was_kept_comes_back() {
    let root = tempfile::tempdir().unwrap();
    let texts = ["a", "", "ccc"];
    let state = kept(root.path(), &texts);
    let (found, held) = load(&state).unwrap().unwrap();
    assert_eq!(held, chunks(0, &texts));
    assert_eq!(found, Saved { next_seqno: 3, ..saved() });
    let folder = state.take(ID).unwrap();
    assert!(folder.stream_key().unwrap().is_some());
    // The key is nowhere in the folder.
    let key = StreamKey::from_bytes(&[9; 32]).dangerous_to_text();
    for name in ["state", "outbox"] {
        let bytes = fs::read(file(root.path(), name)).unwrap();
        assert!(!bytes.windows(key.len()).any(|part| part == key.as_bytes()));
    }
    folder.clear().unwrap();
    assert!(load(&state).unwrap().is_none());
    assert_eq!(fs::read_dir(root.path().join("keys")).unwrap().count(), 0);
}

/// A crash cuts the file anywhere: what was whole is there, and it goes on from there.
#[test]
fn an_outbox_that_is_cut_has_its_whole_entries() {
    let root = tempfile::tempdir().unwrap();
    let texts = ["one", "two", "", "four"];
    let state = kept(root.path(), &texts);
    let path = file(root.path(), "outbox");
    let whole = fs::read(&path).unwrap();
    let mut counts = Vec::new();
    for length in 0..=whole.len() {
        fs::write(&path, &whole[..length]).unwrap();
        let mut folder = state.take(ID).unwrap();
        let held = match folder.load() {
            Ok(found) => found.unwrap().1,
            Err(why) => {
                assert!(length < 60, "{length}: {why}");
                continue;
            }
        };
        assert!(length >= 60);
        assert_eq!(held, chunks(0, &texts[..held.len()]), "{length}");
        counts.push(held.len());
        // And what is appended then is there after the next crash.
        let next = Chunk { seqno: u32::try_from(held.len()).unwrap(), data: Bytes::from("next") };
        folder.append(std::slice::from_ref(&next)).unwrap();
        drop(folder);
        let (_, again) = load(&state).unwrap().unwrap();
        assert_eq!(again, [held, vec![next]].concat(), "{length}");
    }
    assert!(counts.is_sorted());
    assert_eq!(counts.last(), Some(&4));
}

#[test]
fn zeros_that_a_crash_left_are_no_damage() {
    let root = tempfile::tempdir().unwrap();
    let state = kept(root.path(), &["one"]);
    let path = file(root.path(), "outbox");
    let whole = fs::read(&path).unwrap();
    for zeros in [1, 24, 100] {
        fs::write(&path, [&whole[..], &vec![0; zeros]].concat()).unwrap();
        assert_eq!(load(&state).unwrap().unwrap().1, chunks(0, &["one"]));
    }
}

#[test]
fn every_edited_byte_is_noticed() {
    let root = tempfile::tempdir().unwrap();
    let texts = ["one", "two"];
    let state = kept(root.path(), &texts);
    for name in ["state", "outbox"] {
        let path = file(root.path(), name);
        let whole = fs::read(&path).unwrap();
        for place in 0..whole.len() {
            for bits in [1, 0x20, 0x80, 0xff] {
                let mut edited = whole.clone();
                edited[place] ^= bits;
                fs::write(&path, &edited).unwrap();
                let found = load(&state);
                assert!(
                    matches!(found, Err(StateError::Damaged { .. })),
                    "{name} byte {place}: {found:?}"
                );
            }
        }
        fs::write(&path, &whole).unwrap();
        assert!(load(&state).unwrap().is_some());
    }
}

#[test]
fn a_state_file_that_is_cut_or_longer_is_noticed() {
    let root = tempfile::tempdir().unwrap();
    let state = kept(root.path(), &[]);
    let path = file(root.path(), "state");
    let whole = fs::read(&path).unwrap();
    for length in 0..whole.len() {
        fs::write(&path, &whole[..length]).unwrap();
        assert!(load(&state).is_err(), "{length}");
    }
    fs::write(&path, [&whole[..], b" "].concat()).unwrap();
    assert!(load(&state).is_err());
}

/// Entries have equal lengths here, so that whatever is moved has a place to go to.
#[test]
fn entries_that_are_left_out_moved_or_of_another_folder_are_noticed() {
    let root = tempfile::tempdir().unwrap();
    let state = kept(root.path(), &["1", "2", "3"]);
    let path = file(root.path(), "outbox");
    let whole = fs::read(&path).unwrap();
    let (head, entries) = whole.split_at(60);
    let size = entries.len() / 3;
    let entry = |place: usize| &entries[place * size..(place + 1) * size];
    for order in [&[1, 2][..], &[0, 2], &[1, 0, 2], &[0, 2, 1], &[0, 0], &[0, 1, 2, 2]] {
        let moved = order.iter().map(|place| entry(*place)).collect::<Vec<_>>().concat();
        fs::write(&path, [head, &moved].concat()).unwrap();
        assert!(matches!(load(&state), Err(StateError::Damaged { .. })), "{order:?}");
    }
    // The same chunks in another folder, under the same device key.
    let other = "ffeeddccbbaa99887766554433221100";
    let mut folder = state.take(other).unwrap();
    folder.start(&saved(), None).unwrap();
    folder.append(&chunks(0, &["1", "2", "3"])).unwrap();
    for name in ["state", "outbox"] {
        let good = [fs::read(file(root.path(), name)), Ok(whole.clone())];
        let good = good[usize::from(name == "outbox")].as_ref().unwrap();
        fs::copy(root.path().join("duplex").join(other).join(name), file(root.path(), name))
            .unwrap();
        assert!(matches!(load(&state), Err(StateError::Damaged { .. })), "{name}");
        fs::write(file(root.path(), name), good).unwrap();
    }
}

#[test]
fn an_outbox_that_lacks_what_the_state_knows_is_noticed() {
    let root = tempfile::tempdir().unwrap();
    let state = kept(root.path(), &["1", "2"]);
    state.take(ID).unwrap().save(&Saved { next_seqno: 2, ..saved() }).unwrap();
    let path = file(root.path(), "outbox");
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    assert!(matches!(load(&state), Err(StateError::Damaged { .. })));
    fs::remove_file(&path).unwrap();
    assert!(matches!(load(&state), Err(StateError::Damaged { .. })));
}

#[test]
fn what_the_server_has_is_trimmed_when_it_is_worth_it() {
    let root = tempfile::tempdir().unwrap();
    let state = StateDir::open(root.path()).unwrap();
    let mut folder = state.take(ID).unwrap();
    folder.start(&saved(), None).unwrap();
    let large = "x".repeat(200_000);
    let all = chunks(0, &[large.as_str(); 8]);
    folder.append(&all).unwrap();
    let length = || fs::metadata(file(root.path(), "outbox")).unwrap().len();
    let before = length();
    folder.trim(&all[4..]).unwrap();
    assert_eq!(length(), before, "less than half is gone");
    folder.trim(&all[7..]).unwrap();
    assert!(length() < 201_000);
    folder.append(&chunks(8, &["next"])).unwrap();
    drop(folder);
    let (found, held) = load(&state).unwrap().unwrap();
    assert_eq!((found.next_seqno, held.len(), held[0].seqno), (9, 2, 7));
    let mut folder = state.take(ID).unwrap();
    folder.load().unwrap();
    folder.append(&chunks(9, &[large.as_str(); 6])).unwrap();
    folder.trim(&[]).unwrap();
    drop(folder);
    let (found, held) = load(&state).unwrap().unwrap();
    assert_eq!((found.next_seqno, held.len()), (15, 0));
}

#[test]
fn one_at_a_time_has_a_folder() {
    let root = tempfile::tempdir().unwrap();
    let state = StateDir::open(root.path()).unwrap();
    let folder = state.take(ID).unwrap();
    assert!(matches!(state.take(ID), Err(StateError::Owned { .. })));
    let other = StateDir::open(root.path()).unwrap();
    assert!(matches!(other.take(ID), Err(StateError::Owned { .. })));
    drop(folder);
    let folder = other.take(ID).unwrap();
    folder.clear().unwrap();
    assert!(state.take(ID).is_ok());
}

#[test]
fn only_the_owner_reads_what_is_kept() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("state");
    kept(&path, &["1"]);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for folder in [&path, &path.join("keys"), &path.join("duplex").join(ID)] {
        assert_eq!(mode(folder), 0o700, "{}", folder.display());
    }
    let key = path.join("device.key");
    for name in [&key, &path.join("keys").join(format!("{ID}.key")), &file(&path, "state")] {
        assert_eq!(mode(name), 0o600, "{}", name.display());
    }
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(matches!(StateDir::open(&path), Err(StateError::NotPrivate { .. })));
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&key, [1; 31]).unwrap();
    assert!(matches!(StateDir::open(&path), Err(StateError::Damaged { .. })));
    // Another key: all that is there is of somebody else.
    fs::write(&key, [1; 32]).unwrap();
    assert!(matches!(load(&StateDir::open(&path).unwrap()), Err(StateError::Damaged { .. })));
}

#[test]
fn keys_do_not_print() {
    let root = tempfile::tempdir().unwrap();
    let state = StateDir::open(root.path()).unwrap();
    assert!(format!("{state:?}").contains("DeviceKey(..)"));
}
