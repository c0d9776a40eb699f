//! Files that change, and indexes that are shared.

use std::os::unix::fs::PermissionsExt as _;

use handback_collections::files::{FileOptions, JsonlCollection};
use handback_page::{Collection, CollectionError, Window};

use super::support::*;
use crate::support::*;

fn lines(ids: impl IntoIterator<Item = u32>) -> String {
    ids.into_iter().map(|id| format!("{{\"id\":{id}}}\n")).collect()
}

#[test]
fn a_changed_file_is_read_anew_and_its_old_places_are_refused() {
    let file = TestFile::new(lines(1..6));
    let t = file.jsonl();
    let query = sorted(&t, &[]);
    let page = fetch(&t, &query, Window::Forward { after: None, limit: 2 }).unwrap();
    let place = page.rows[1].place.clone();
    let go_on = || fetch(&t, &query, Window::Forward { after: Some(&place), limit: 2 });
    assert_eq!(member(&go_on().unwrap().rows, "id"), [3, 4]);
    file.write(lines(10..14));
    assert!(matches!(go_on(), Err(CollectionError::Changed)));
    assert_eq!(member(&walk(&t, &query, 3), "id"), [10, 11, 12, 13]);
    assert_eq!(t.about().unwrap().items, Some(4));
    // Also after a restart.
    let again = file.jsonl();
    let window = Window::Backward { before: Some(&place), limit: 2 };
    assert!(matches!(fetch(&again, &query, window), Err(CollectionError::Changed)));
    for place in [vec![], place[..1].to_vec(), vec![handback_page::Scalar::Null; 2]] {
        let window = Window::Forward { after: Some(&place), limit: 2 };
        let error = fetch(&t, &query, window).unwrap_err();
        let expected =
            [CollectionError::BadPlace.to_string(), CollectionError::Changed.to_string()];
        assert!(expected.contains(&error.to_string()), "{error}");
    }
}

#[test]
fn with_a_key_a_walk_survives_a_change() {
    let file = TestFile::new(lines([5, 1, 3]));
    let t = file.try_jsonl(FileOptions::default().key("id")).unwrap();
    let query = sorted(&t, &[]);
    let page = fetch(&t, &query, Window::Forward { after: None, limit: 2 }).unwrap();
    assert_eq!(member(&page.rows, "id"), [1, 3]);
    file.write(lines([4, 1, 5, 2]));
    let place = &page.rows[1].place;
    let page = fetch(&t, &query, Window::Forward { after: Some(place), limit: 5 }).unwrap();
    assert_eq!(member(&page.rows, "id"), [4, 5]);
    assert!(page.more_before && !page.more_after);
}

#[test]
fn a_deleted_file_is_gone_and_a_damaged_one_is_told() {
    let file = TestFile::new(lines(1..3));
    let t = file.jsonl();
    let query = sorted(&t, &[]);
    file.write("{\"id\":1}\n{");
    let text = damage(t.count(&query));
    assert!(text.starts_with("line 2 is not JSON"), "{text}");
    file.write(lines(1..4));
    assert_eq!(t.count(&query).unwrap(), 3);
    std::fs::remove_file(file.path()).unwrap();
    assert!(matches!(t.count(&query), Err(CollectionError::Gone(_))));
    let error = file.try_jsonl(FileOptions::default()).unwrap_err();
    assert!(matches!(error, CollectionError::Gone(_)));
}

#[test]
fn an_index_is_used_again_and_belongs_to_its_options() {
    let file = TestFile::new(lines(1..4));
    let mut reports = Vec::new();
    let mut open = |options| {
        let mut report = |done, total| reports.push((done, total));
        JsonlCollection::open(file.path(), file.data_dir(), options, &mut report).unwrap();
        std::mem::take(&mut reports)
    };
    let length = lines(1..4).len() as u64;
    assert_eq!(open(FileOptions::default()), [(length, length)]);
    assert_eq!(open(FileOptions::default()), []);
    assert_eq!(open(FileOptions::default().key("id")).len(), 1);
    assert_eq!(open(FileOptions::default().index(["id"])).len(), 1);
    assert_eq!(file.indexes().len(), 3);
    let mode =
        |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&file.data_dir().join("index")), 0o700);
    for index in file.indexes() {
        assert_eq!(mode(&index), 0o600);
    }
}

#[test]
fn an_index_that_is_damaged_or_deleted_is_made_anew() {
    let file = TestFile::new(lines(1..2000));
    let t = file.jsonl();
    let query = sorted(&t, &["-id"]);
    let [index] = &file.indexes()[..] else { panic!("one index") };
    std::fs::remove_file(index).unwrap();
    assert_eq!(walk(&t, &query, 500).len(), 1999);
    std::fs::write(index, "no database").unwrap();
    assert_eq!(file.jsonl().count(&query).unwrap(), 1999);
    // Damaged behind its first pages: found out late, and healed.
    let mut bytes = std::fs::read(index).unwrap();
    for page in bytes.chunks_mut(4096).skip(2).take(3) {
        page.fill(0xee);
    }
    std::fs::remove_file(index).unwrap();
    std::fs::write(index, bytes).unwrap();
    let window = Window::Forward { after: None, limit: 2 };
    let first = fetch(&t, &query, window);
    assert!(matches!(first, Ok(_) | Err(CollectionError::Damaged(_))), "{first:?}");
    assert_eq!(walk(&t, &query, 500).len(), 1999);
}

#[test]
fn many_open_the_same_file_at_once() {
    let file = TestFile::new(lines(1..500));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let t = file.jsonl();
                assert_eq!(walk(&t, &sorted(&t, &[]), 100).len(), 499);
            });
        }
    });
    assert_eq!(file.indexes().len(), 1);
}

#[test]
fn readers_go_on_while_the_file_is_replaced() {
    let file = TestFile::new(lines(0..100));
    let t = file.jsonl();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for round in 1..20 {
                file.write(lines(round * 100..round * 100 + 100));
            }
        });
        let query = sorted(&t, &[]);
        while !writer.is_finished() {
            // A whole page of one state, or the word that there is no rest to be had.
            match fetch(&t, &query, Window::Forward { after: None, limit: 100 }) {
                Ok(page) => {
                    let ids = member(&page.rows, "id");
                    let first = ids[0].as_u64().unwrap();
                    assert_eq!(ids[99].as_u64().unwrap(), first + 99);
                    assert_eq!(first % 100, 0);
                }
                Err(CollectionError::Unavailable(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
    });
    assert_eq!(member(&walk(&t, &sorted(&t, &[]), 60), "id")[0], 1900);
}

#[test]
fn what_a_killed_process_left_behind_is_removed_after_a_day() {
    let file = TestFile::new(lines(1..6));
    let folder = file.data_dir().join("index");
    std::fs::create_dir_all(&folder).unwrap();
    let age = |name: &str, hours: u64| {
        let left = std::fs::File::create(folder.join(name)).unwrap();
        let now = left.metadata().unwrap().modified().unwrap();
        left.set_modified(now - std::time::Duration::from_secs(hours * 3600)).unwrap();
    };
    age(".index-old", 25);
    age(".index-new", 23);
    age("other", 99);
    file.jsonl();
    let mut left: Vec<_> =
        file.indexes().iter().map(|path| path.file_name().unwrap().to_owned()).collect();
    left.retain(|name| !name.to_string_lossy().ends_with(".sqlite"));
    left.sort();
    assert_eq!(left, [".index-new", "other"]);
}
