//! Orders: nulls, directions, ties, keys, collations.

use handback_page::{Collection, Served, Window};
use serde_json::{Value, json};

use super::support::*;
use crate::support::*;

/// Walks both ways, with several page sizes, and gives `id`s.
#[track_caller]
fn ids(collection: &dyn Collection, sort: &[&str]) -> Vec<Value> {
    let query = sorted(collection, sort);
    let forward = walk(collection, &query, 2);
    for limit in [1, 3, 100] {
        assert_eq!(walk(collection, &query, limit), forward);
        assert_eq!(walk_back(collection, &query, limit), forward);
    }
    let mut scanned = Vec::new();
    collection
        .scan(&query, &mut |row| {
            scanned.push(row);
            Ok(())
        })
        .unwrap();
    assert_eq!(scanned, forward);
    member(&forward, "id")
}

const TIES: &str = "
    CREATE TABLE t(id INTEGER PRIMARY KEY, a, b TEXT);
    INSERT INTO t VALUES (1, 1, 'x'), (2, NULL, 'y'), (3, 2, NULL), (4, 1, NULL), (5, NULL, 'x'),
                         (6, 2, 'x');";

#[test]
fn nulls_go_where_the_key_says_with_and_without_an_index() {
    for index in ["", "CREATE INDEX i ON t(a, id)", "CREATE INDEX i ON t(a DESC, id DESC)"] {
        let db = TestDb::new(TIES);
        db.execute(index);
        let t = db.open("t");
        assert_eq!(ids(&t, &["a"]), [1, 4, 3, 6, 2, 5], "{index}");
        assert_eq!(ids(&t, &["a!"]), [2, 5, 1, 4, 3, 6], "{index}");
        assert_eq!(ids(&t, &["-a"]), [6, 3, 4, 1, 5, 2], "{index}");
        assert_eq!(ids(&t, &["-a!"]), [5, 2, 6, 3, 4, 1], "{index}");
        assert_eq!(ids(&t, &["a", "-id"]), [4, 1, 6, 3, 5, 2], "{index}");
        let page = fetch(&t, &sorted(&t, &["-a!"]), Window::Forward { after: None, limit: 2 });
        assert_eq!(page.unwrap().served == Served::Directly, !index.is_empty());
    }
}

#[test]
fn directions_may_be_mixed() {
    let db = TestDb::new(TIES);
    let t = db.open("t");
    assert_eq!(ids(&t, &["b", "-a"]), [6, 1, 5, 2, 3, 4]);
    assert_eq!(ids(&t, &["-b!", "a!", "-id"]), [4, 3, 2, 5, 1, 6]);
    db.execute("CREATE INDEX i ON t(b, a DESC, id)");
    assert_eq!(ids(&t, &["b", "-a", "id"]), [6, 1, 5, 2, 3, 4]);
}

#[test]
fn an_index_that_ends_in_the_rowid_serves_the_key_as_well() {
    let db = TestDb::new(TIES);
    db.execute("CREATE INDEX i ON t(a)");
    let t = db.open("t");
    let query = sorted(&t, &["a"]);
    let page = fetch(&t, &query, Window::Forward { after: None, limit: 2 }).unwrap();
    assert_eq!(page.served, Served::Directly);
    assert_eq!(t.about().unwrap().indexes, ["(id) unique", "(a, id)"]);
    let query = sorted(&t, &["b"]);
    let page = fetch(&t, &query, Window::Forward { after: None, limit: 2 }).unwrap();
    let hint = "an index on (b, id) would serve this order".to_owned();
    assert_eq!(page.served, Served::ByScan { hint });
}

#[test]
fn composite_keys_and_tables_without_rowid() {
    let rows =
        "INSERT INTO t VALUES ('b', 2, 5), ('a', 2, 1), ('a', 1, 2), ('b', 1, 6), ('a', 3, 5);";
    for (declared, indexes) in [
        (
            "CREATE TABLE t(x TEXT, y INT, id, PRIMARY KEY (x, y)) WITHOUT ROWID;",
            vec!["(x, y) unique"],
        ),
        (
            "CREATE TABLE t(x TEXT NOT NULL, y INT NOT NULL, id, PRIMARY KEY (x, y));",
            vec!["(x, y) unique"],
        ),
        (
            "CREATE TABLE t(x TEXT, y INT, id, PRIMARY KEY (x, y DESC)) WITHOUT ROWID;
             CREATE INDEX i ON t(id);",
            vec!["(x, y desc) unique", "(id, x, y desc)"],
        ),
        (
            "CREATE TABLE t(x TEXT NOT NULL, y INT NOT NULL, id); CREATE UNIQUE INDEX u ON t(x, y);",
            vec!["(x, y) unique"],
        ),
    ] {
        let db = TestDb::new(declared);
        db.execute(rows);
        let t = db.open("t");
        assert_eq!(t.schema().unwrap().key(), ["x", "y"]);
        assert_eq!(t.about().unwrap().indexes, indexes, "{declared}");
        assert_eq!(ids(&t, &[]), [2, 1, 5, 6, 5], "{declared}");
        assert_eq!(ids(&t, &["-x"]), [5, 6, 5, 1, 2], "{declared}");
        assert_eq!(ids(&t, &["id", "-y"]), [1, 2, 5, 5, 6], "{declared}");
    }
}

#[test]
fn a_declared_collation_orders_and_compares() {
    let db = TestDb::new(
        "CREATE TABLE t(name TEXT PRIMARY KEY NOT NULL COLLATE NOCASE, other TEXT, id);
         CREATE INDEX binary_index ON t(name COLLATE BINARY);
         CREATE INDEX nocase_index ON t(other COLLATE NOCASE);
         INSERT INTO t VALUES ('b', 'q', 1), ('A', 'Q', 2), ('C', 'r', 3), ('a2', 'P', 4);",
    );
    let t = db.open("t");
    // The indexes by another collation serve nothing.
    assert_eq!(t.about().unwrap().indexes, ["(name) unique"]);
    assert_eq!(ids(&t, &[]), [2, 4, 1, 3]);
    assert_eq!(ids(&t, &["other"]), [4, 2, 1, 3]);
    assert_eq!(found(&t, &json!({"name": "B"}), "id"), [1]);
    assert_eq!(found(&t, &json!({"name": {"gt": "a2"}}), "id"), [1, 3]);
    assert_eq!(found(&t, &json!({"other": "q"}), "id"), [1]);
    // What a text has in it goes by case.
    assert_eq!(found(&t, &json!({"name": {"starts_with": "a"}}), "id"), [4]);
    assert_eq!(found(&t, &json!({"name": {"contains": "A"}}), "id"), [2]);
}

#[test]
fn a_unique_index_by_another_collation_is_no_key() {
    let db = TestDb::new(
        "CREATE TABLE t(name TEXT NOT NULL COLLATE NOCASE);
         CREATE UNIQUE INDEX u ON t(name COLLATE BINARY);
         INSERT INTO t VALUES ('a'), ('A');",
    );
    let error = db.try_open("t", handback_collections::sqlite::SqliteOptions::default());
    assert!(error.unwrap_err().to_string().contains("has no key"));
}

#[test]
fn values_of_all_kinds_have_one_order() {
    let db = TestDb::new(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, v);
         INSERT INTO t VALUES (1, 'text'), (2, x'00'), (3, 5), (4, 4.5), (5, '5'), (6, NULL),
           (7, 9e999), (8, -9e999), (9, 9223372036854775807), (10, -9223372036854775808),
           (11, 9223372036854775808.0), (12, x''), (13, '');",
    );
    let t = db.open("t");
    let expected = [8, 10, 4, 3, 9, 11, 7, 13, 5, 1, 12, 2, 6];
    assert_eq!(ids(&t, &["v"]), expected);
    db.execute("CREATE INDEX i ON t(v)");
    assert_eq!(ids(&t, &["v"]), expected);
    let mut backwards = expected;
    backwards[..12].reverse();
    assert_eq!(ids(&t, &["-v"]), backwards);
}

#[test]
fn offset_windows_know_both_sides() {
    let db = TestDb::new(TIES);
    let t = db.open("t");
    let query = sorted(&t, &["a"]);
    for (offset, limit, expected, before, after) in [
        (0, 2, vec![1, 4], false, true),
        (2, 2, vec![3, 6], true, true),
        (4, 2, vec![2, 5], true, false),
        (5, 9, vec![5], true, false),
        (6, 2, vec![], true, false),
        (u64::MAX, 2, vec![], true, false),
        (0, 0, vec![], false, true),
        (3, 0, vec![], true, true),
    ] {
        let page = fetch(&t, &query, Window::Offset { offset, limit }).unwrap();
        assert_eq!(member(&page.rows, "id"), expected, "{offset} {limit}");
        assert_eq!((page.more_before, page.more_after), (before, after), "{offset} {limit}");
    }
    db.execute("DELETE FROM t");
    let page = fetch(&t, &query, Window::Offset { offset: 3, limit: 2 }).unwrap();
    assert!(!page.more_before && !page.more_after);
}

#[test]
fn windows_without_rows_tell_what_is_around_the_place() {
    let db = TestDb::new(TIES);
    let t = db.open("t");
    let query = sorted(&t, &[]);
    let rows = walk(&t, &query, 10);
    let (first, last) = (&rows[0].place, &rows[5].place);
    let flags = |window| {
        let page = fetch(&t, &query, window).unwrap();
        assert!(page.rows.is_empty());
        (page.more_before, page.more_after)
    };
    assert_eq!(flags(Window::Forward { after: Some(last), limit: 2 }), (true, false));
    assert_eq!(flags(Window::Backward { before: Some(first), limit: 2 }), (false, true));
    assert_eq!(flags(Window::Forward { after: Some(first), limit: 0 }), (true, true));
    assert_eq!(flags(Window::Forward { after: None, limit: 0 }), (false, true));
    assert_eq!(flags(Window::Backward { before: None, limit: 0 }), (true, false));
    db.execute("DELETE FROM t WHERE id = 6");
    assert_eq!(flags(Window::Forward { after: Some(last), limit: 2 }), (true, false));
    db.execute("DELETE FROM t");
    assert_eq!(flags(Window::Forward { after: Some(last), limit: 2 }), (false, false));
    assert_eq!(flags(Window::Backward { before: Some(first), limit: 2 }), (false, false));
}
