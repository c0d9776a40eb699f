//! Files that change, and indexes that are shared.

use std::os::unix::fs::PermissionsExt as _;

use handback_collections::files::{
    FileOptions, JsonFileCollection, JsonFileOptions, JsonlCollection, TextFileCollection,
};
use handback_page::{Collection, CollectionError, Scalar, Window};
use serde_json::{Value, json};

use super::support::*;
use crate::engine::Asker;
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
    for place in [vec![], place[..1].to_vec(), vec![Scalar::Null; 2]] {
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

/// The rows behind a place, by their key.
fn behind(t: &dyn Collection, sort: &[&str], place: &[Scalar]) -> Result<Vec<Value>, String> {
    let window = Window::Forward { after: Some(place), limit: 9 };
    let fetched = fetch(t, &sorted(t, sort), window).map_err(|error| error.to_string())?;
    Ok(member(&fetched.rows, "id"))
}

#[test]
fn with_a_key_a_walk_survives_that_all_rows_go_and_come() {
    let key = || FileOptions::default().key("id");
    let jsonl = TestFile::new(lines([5, 1, 3]));
    let csv = TestFile::new("id,name\n5,e\n1,a\n3,c\n");
    let collections: [(_, Box<dyn Collection>, _); 2] = [
        (&jsonl, Box::new(jsonl.try_jsonl(key()).unwrap()), &[""][..]),
        (&csv, Box::new(csv.try_csv(key()).unwrap()), &["", "\u{feff}", "id,name\n", "id,name"]),
    ];
    for (file, t, empty) in collections {
        let identity = t.schema().unwrap().identity();
        let window = Window::Forward { after: None, limit: 2 };
        let place = fetch(&*t, &sorted(&*t, &[]), window).unwrap().rows[1].place.clone();
        assert_eq!(place, [Scalar::Int(3)]);
        for content in empty {
            file.write(content);
            assert_eq!(behind(&*t, &[], &place), Ok(vec![]), "{content:?}");
            assert_eq!(behind(&*t, &["-id"], &place), Ok(vec![]));
            assert_eq!(t.count(&query(&*t, &json!({"id": {"gt": 3}}), &[])).unwrap(), 0);
            assert_eq!(t.schema().unwrap().identity(), identity);
            assert!(!t.schema().unwrap().column("id").unwrap().nullable);
        }
    }
    // Without a key, an empty CSV file has no names.
    let nameless = TestFile::new("").try_csv(FileOptions::default());
    assert_eq!(damage(nameless), "there is no first line with names");
}

#[test]
fn a_walk_goes_on_from_nulls_that_are_gone() {
    let key = || FileOptions::default().key("id");
    let jsonl = |rows: &[(u32, Option<u32>)]| -> String {
        rows.iter().map(|(id, v)| format!("{}\n", json!({"id": id, "v": v}))).collect()
    };
    let csv = |rows: &[(u32, Option<u32>)]| -> String {
        let cell = |v: &Option<u32>| v.map(|v| v.to_string()).unwrap_or_default();
        let rows = rows.iter().map(|(id, v)| format!("{id},{}\n", cell(v)));
        format!("id,v\n{}", rows.collect::<String>())
    };
    let before = [(1, Some(5)), (2, None), (3, None), (4, Some(6))];
    let after = [(1, Some(5)), (3, Some(7)), (4, Some(6))];
    let files = [TestFile::new(jsonl(&before)), TestFile::new(csv(&before))];
    let [lines, rows] = &files;
    let lines_of: Box<dyn Collection> = Box::new(lines.try_jsonl(key()).unwrap());
    let rows_of: Box<dyn Collection> = Box::new(rows.try_csv(key()).unwrap());
    let place = [Scalar::Null, Scalar::Int(2)];
    for (file, t, content) in [(lines, lines_of, jsonl(&after)), (rows, rows_of, csv(&after))] {
        assert_eq!(behind(&*t, &["v"], &place), Ok(vec![json!(3)]));
        assert_eq!(behind(&*t, &["v!"], &place), Ok(vec![json!(3), json!(1), json!(4)]));
        file.write(content);
        assert!(!t.schema().unwrap().column("v").unwrap().nullable);
        assert_eq!(behind(&*t, &["v"], &place), Ok(vec![]));
        assert_eq!(behind(&*t, &["v!"], &place), Ok(vec![json!(1), json!(4), json!(3)]));
        let window = Window::Backward { before: Some(&place), limit: 9 };
        let page = fetch(&*t, &sorted(&*t, &["v"]), window).unwrap();
        assert_eq!(member(&page.rows, "id"), [1, 4, 3]);
    }
}

#[test]
fn a_column_of_a_csv_file_that_holds_another_type_ends_its_walks() {
    let file = TestFile::new("id,v\n5,1\n10,2\n9,3\n");
    let t = file.try_csv(FileOptions::default().key("id")).unwrap();
    let identity = t.schema().unwrap().identity();
    let place = [Scalar::Int(9)];
    assert_eq!(behind(&t, &[], &place), Ok(vec![json!(10)]));
    let by_v = [Scalar::Int(1), Scalar::Int(5)];
    assert_eq!(behind(&t, &["v"], &by_v), Ok(vec![json!(10), json!(9)]));
    // Numbers are numbers.
    file.write("id,v\n5,1\n9.5,2\n9,3\n");
    assert_eq!(behind(&t, &[], &place), Ok(vec![json!(9.5)]));
    file.write("id,v\n5,1\n10,x\n9,3\n");
    assert_eq!(behind(&t, &[], &place), Ok(vec![json!(10)]));
    let told = "column 'v' held numbers, and holds text now";
    assert_eq!(behind(&t, &["v"], &by_v), Err(told.to_owned()));
    file.write("id,v\n5,1\n10,2\nx9,3\n");
    let told = "column 'id' held numbers, and holds text now";
    assert_eq!(behind(&t, &[], &place), Err(told.to_owned()));
    assert_eq!(t.schema().unwrap().identity(), identity);
    let text = [Scalar::Text("9".into())];
    assert_eq!(behind(&t, &[], &text), Ok(vec![json!("x9")]));
    file.write("id,v\n10,2\n");
    let told = "column 'id' held text, and holds numbers now";
    assert_eq!(behind(&t, &[], &text), Err(told.to_owned()));
}

#[test]
fn whoever_walks_a_column_of_another_type_is_told_to_start_again() {
    let file = TestFile::new("id\n5\n10\n9\n");
    let asker = Asker::new(file.try_csv(FileOptions::default().key("id")).unwrap());
    let page = asker.page(&json!({"first": 1}));
    let next = json!({"first": 1, "after": page["pageInfo"]["endCursor"]});
    file.write("id\n6\n11\n");
    assert_eq!(asker.members(&next, "id"), [6]);
    file.write("id\n");
    assert_eq!(asker.page(&next)["items"], json!([]));
    file.write("id\n6\nx\n");
    let details = asker.list(&next)["error"]["details"].clone();
    assert_eq!(details["actual_type"], "expired cursor");
    let hint = "Column 'id' held numbers, and holds text now: start again without 'after', with the \
                same filter and sort";
    assert_eq!(details["hint"], hint);
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

#[test]
fn a_byte_order_mark_is_skipped_in_every_kind_of_file() {
    let marked = |text: &str| TestFile::new(format!("\u{feff}{text}"));
    let file = marked("[{\"id\":1},{\"id\":2}]");
    let json = JsonFileCollection::open(file.path(), JsonFileOptions::new()).unwrap();
    assert_eq!(member(&walk(&json, &sorted(&json, &[]), 1), "id"), [1, 2]);
    let file = marked("one\ntwo\n");
    let text = TextFileCollection::open(file.path()).unwrap();
    assert_eq!(member(&walk(&text, &sorted(&text, &["-text"]), 1), "text"), ["two", "one"]);
    assert_eq!(member(&walk_back(&text, &sorted(&text, &[]), 1), "line"), [1, 2]);
    let jsonl = marked("{\"id\":1}\n");
    assert_eq!(found(&jsonl.jsonl(), &json!({"id": 1}), "id"), [1]);
    let csv = marked("\"id\"\n1\n");
    assert_eq!(found(&csv.csv(), &json!({"id": 1}), "id"), [1]);
    // A mark alone is an empty file, and one in the middle is text.
    let file = marked("");
    let text = TextFileCollection::open(file.path()).unwrap();
    assert!(walk(&text, &sorted(&text, &[]), 1).is_empty());
    file.write("a\n\u{feff}b");
    assert_eq!(member(&walk(&text, &sorted(&text, &[]), 5), "text"), ["a", "\u{feff}b"]);
}
