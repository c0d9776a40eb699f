//! What opens, by which key, and what is refused.

use handback_collections::sqlite::{Key, OpenError, SqliteCollection, SqliteOptions};
use handback_page::{Collection, CollectionError};
use serde_json::json;

use super::support::*;
use crate::support::*;

fn refused(db: &TestDb, table: &str, key: Key) -> OpenError {
    db.try_open(table, SqliteOptions::default().key(key)).unwrap_err()
}

fn columns(names: &[&str]) -> Key {
    Key::Columns(names.iter().map(|name| (*name).to_owned()).collect())
}

#[test]
fn the_key_is_the_best_that_is_declared() {
    for (declared, key) in [
        ("CREATE TABLE t(a, b INTEGER PRIMARY KEY, c TEXT NOT NULL UNIQUE)", vec!["b"]),
        ("CREATE TABLE t(a INT, b INTEGER NOT NULL, PRIMARY KEY (b))", vec!["b"]),
        ("CREATE TABLE t(a TEXT NOT NULL PRIMARY KEY, b INT NOT NULL UNIQUE)", vec!["a"]),
        ("CREATE TABLE t(a TEXT PRIMARY KEY, b INT NOT NULL UNIQUE)", vec!["b"]),
        ("CREATE TABLE t(a TEXT PRIMARY KEY) WITHOUT ROWID", vec!["a"]),
        ("CREATE TABLE t(a INT NOT NULL PRIMARY KEY)", vec!["a"]),
        ("CREATE TABLE t(a TEXT PRIMARY KEY)", vec!["a"]),
        ("CREATE TABLE t(a INTEGER PRIMARY KEY DESC)", vec!["a"]),
        ("CREATE TABLE t(a, b, c UNIQUE, PRIMARY KEY (b, a))", vec!["b", "a"]),
        ("CREATE TABLE t(a INTEGER NOT NULL PRIMARY KEY DESC)", vec!["a"]),
        ("CREATE TABLE t(a NOT NULL, b NOT NULL, c, UNIQUE (a, c), UNIQUE (b, a))", vec!["b", "a"]),
    ] {
        let db = TestDb::new(declared);
        assert_eq!(db.open("t").schema().unwrap().key(), key, "{declared}");
    }
}

#[test]
fn a_table_without_a_key_is_refused_with_a_hint() {
    for declared in [
        "CREATE TABLE t(a, b)",
        "CREATE TABLE t(a NOT NULL, b); CREATE UNIQUE INDEX u ON t(a) WHERE b",
        "CREATE TABLE t(a NOT NULL, b); CREATE UNIQUE INDEX u ON t(lower(a))",
        "CREATE TABLE t(a NOT NULL, b UNIQUE)",
    ] {
        let db = TestDb::new(declared);
        let error = refused(&db, "t", Key::Declared);
        assert!(matches!(error, OpenError::NoKey { has_rowid: true, .. }), "{declared}");
        assert!(error.hint().unwrap().contains("rowid"));
    }
    let db = TestDb::new("CREATE VIEW v AS SELECT 1 AS a");
    let error = refused(&db, "v", Key::Declared);
    assert!(matches!(error, OpenError::NoKey { has_rowid: false, .. }));
    assert!(matches!(refused(&db, "v", Key::Rowid), OpenError::NoRowid { .. }));
}

#[test]
fn a_primary_key_that_may_be_null_is_one_as_long_as_it_is_not() {
    let db = TestDb::new(
        "CREATE TABLE t(id TEXT PRIMARY KEY, n); INSERT INTO t VALUES ('b', 2), ('a', 1), ('c', 3);
         CREATE TABLE two(a, b, PRIMARY KEY (a, b)); INSERT INTO two VALUES (1, NULL);",
    );
    let t = db.open("t");
    assert!(!t.schema().unwrap().column("id").unwrap().nullable);
    assert_eq!(member(&walk(&t, &sorted(&t, &[]), 1), "n"), [1, 2, 3]);
    assert_eq!(member(&walk_back(&t, &sorted(&t, &["-id"]), 2), "n"), [3, 2, 1]);
    let error = refused(&db, "two", Key::Declared);
    assert_eq!(error.to_string(), "key column 'b' holds null");
    assert!(error.hint().unwrap().contains("rowid"));
    db.execute("INSERT INTO t VALUES (NULL, 4)");
    let window = handback_page::Window::Forward { after: None, limit: 5 };
    let error = fetch(&t, &sorted(&t, &[]), window).unwrap_err();
    assert!(matches!(error, CollectionError::Damaged(text) if text.contains("'id'")));
    assert_eq!(refused(&db, "t", Key::Declared).to_string(), "key column 'id' holds null");
}

#[test]
fn the_rowid_can_be_the_key_and_is_shown() {
    let db = TestDb::new(
        "CREATE TABLE t(a); INSERT INTO t VALUES ('x'), ('y'), ('z');
         CREATE INDEX i ON t(a);
         CREATE TABLE shadowed(rowid TEXT, _ROWID_ TEXT); INSERT INTO shadowed VALUES ('r', 's');
         CREATE TABLE taken(rowid, _rowid_, oid);
         CREATE TABLE own(b INTEGER PRIMARY KEY);
         CREATE TABLE w(a PRIMARY KEY) WITHOUT ROWID;
         CREATE VIRTUAL TABLE f USING fts5(body); INSERT INTO f VALUES ('hello');",
    );
    let by_rowid = |table| db.try_open(table, SqliteOptions::default().key(Key::Rowid));
    let t = by_rowid("t").unwrap();
    assert_eq!(t.schema().unwrap().key(), ["rowid"]);
    let rows = walk(&t, &sorted(&t, &["-a"]), 2);
    assert_eq!(rows[0].item, r#"{"rowid":3,"a":"z"}"#);
    assert_eq!(member(&rows, "rowid"), [3, 2, 1]);
    assert_eq!(found(&t, &json!({"rowid": 2}), "a"), ["y"]);
    assert_eq!(t.about().unwrap().indexes, ["(rowid) unique", "(a, rowid)"]);
    let shadowed = by_rowid("shadowed").unwrap();
    let rows = walk(&shadowed, &sorted(&shadowed, &[]), 2);
    assert_eq!(rows[0].item, r#"{"oid":1,"rowid":"r","_ROWID_":"s"}"#);
    assert!(matches!(by_rowid("taken"), Err(OpenError::NoRowid { .. })));
    assert!(matches!(by_rowid("w"), Err(OpenError::NoRowid { .. })));
    assert_eq!(by_rowid("own").unwrap().schema().unwrap().key(), ["b"]);
    let f = by_rowid("f").unwrap();
    assert_eq!(walk(&f, &sorted(&f, &[]), 2)[0].item, r#"{"rowid":1,"body":"hello"}"#);
}

#[test]
fn views_are_read_by_a_given_key() {
    let db = TestDb::new(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, a); INSERT INTO t VALUES (1, 'x'), (2, NULL), (3, 'x');
         CREATE VIEW v AS SELECT id * 10 AS k, a, upper(a) AS u FROM t;
         CREATE VIEW mixed AS SELECT 5 AS k UNION ALL SELECT '5' UNION ALL SELECT 'x' UNION ALL SELECT 4.5;",
    );
    let v = db.open_by("v", &["k"]);
    assert_eq!(member(&walk(&v, &sorted(&v, &["-a"]), 1), "k"), [30, 10, 20]);
    assert_eq!(found(&v, &json!({"u": "X"}), "k"), [10, 30]);
    assert_eq!(v.about().unwrap().source, "sqlite view");
    assert_eq!(v.about().unwrap().items, Some(3));
    let mixed = db.open_by("mixed", &["k"]);
    for limit in [1, 2, 3] {
        let query = sorted(&mixed, &[]);
        assert_eq!(
            member(&walk(&mixed, &query, limit), "k"),
            [json!(4.5), json!(5), json!("5"), json!("x")]
        );
    }
    assert!(matches!(refused(&db, "v", columns(&["a"])), OpenError::NullInKey { .. }));
    assert!(matches!(refused(&db, "v", columns(&["nope"])), OpenError::NoKeyColumn { .. }));
    assert!(matches!(refused(&db, "v", columns(&[])), OpenError::NoKeyColumn { .. }));
    db.execute("UPDATE t SET a = 'y' WHERE id = 2");
    let error = refused(&db, "v", columns(&["a"]));
    assert_eq!(error.to_string(), "the key (a) is not unique");
    assert!(db.try_open("v", SqliteOptions::default().key(columns(&["a", "k"]))).is_ok());
}

#[test]
fn a_given_key_of_a_table_is_checked_unless_it_is_declared() {
    let db = TestDb::new(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, a NOT NULL, b);
         INSERT INTO t VALUES (1, 'x', 1), (2, 'x', 2);",
    );
    assert!(matches!(refused(&db, "t", columns(&["a"])), OpenError::KeyNotUnique { .. }));
    assert_eq!(db.open_by("t", &["a", "id"]).schema().unwrap().key(), ["a", "id"]);
    assert!(!db.open_by("t", &["b"]).schema().unwrap().column("b").unwrap().nullable);
}

#[test]
fn a_key_that_turns_null_later_is_damage_and_not_a_lost_row() {
    let db = TestDb::new("CREATE TABLE t(a); INSERT INTO t VALUES (1), (2);");
    let t = db.open_by("t", &["a"]);
    db.execute("INSERT INTO t VALUES (NULL)");
    let window = handback_page::Window::Forward { after: None, limit: 5 };
    let error = fetch(&t, &sorted(&t, &[]), window).unwrap_err();
    assert!(matches!(error, CollectionError::Damaged(text) if text.contains("'a'")));
}

#[test]
fn nothing_is_created() {
    let dir = tempfile::TempDir::new().unwrap();
    let path = dir.path().join("absent.db");
    let error = SqliteCollection::open(&path, "t", SqliteOptions::default()).unwrap_err();
    assert!(matches!(error, OpenError::NoFile { .. }));
    for path in
        [std::path::Path::new(":memory:"), std::path::Path::new("file::memory:"), dir.path()]
    {
        let error = SqliteCollection::open(path, "t", SqliteOptions::default()).unwrap_err();
        assert!(matches!(error, OpenError::NoFile { .. }), "{path:?}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn unknown_tables_are_told_apart_from_those_that_exist() {
    let db =
        TestDb::new("CREATE TABLE Items(id INTEGER PRIMARY KEY); CREATE VIEW v AS SELECT 1 AS x");
    let error = refused(&db, "t", Key::Declared);
    assert_eq!(error.to_string(), "no table or view 't'");
    assert_eq!(error.hint().as_deref(), Some("the database has: Items, v"));
    assert!(matches!(refused(&db, "sqlite_schema", Key::Rowid), OpenError::NoTable { .. }));
    assert_eq!(db.open("ITEMS").schema().unwrap().key(), ["id"]);
    assert_eq!(SqliteCollection::tables(db.path()).unwrap(), ["Items", "v"]);
}

#[test]
fn a_file_that_is_no_database_is_damaged() {
    let dir = tempfile::TempDir::new().unwrap();
    let path = dir.path().join("text.db");
    std::fs::write(&path, "this is no database ".repeat(100)).unwrap();
    let error = SqliteCollection::open(&path, "t", SqliteOptions::default()).unwrap_err();
    assert!(matches!(error, OpenError::Source(CollectionError::Damaged(_))), "{error:?}");
    std::fs::write(&path, "").unwrap();
    let error = SqliteCollection::open(&path, "t", SqliteOptions::default()).unwrap_err();
    assert!(matches!(error, OpenError::NoTable { .. }));
}

#[test]
fn a_damaged_page_is_told() {
    let db = TestDb::new(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, v);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
         INSERT INTO t SELECT i, hex(randomblob(20)) FROM n;",
    );
    let mut bytes = std::fs::read(db.path()).unwrap();
    for page in bytes.chunks_mut(4096).skip(2) {
        page[..64].fill(0xee);
    }
    let path = db.dir.path().join("broken.db");
    std::fs::write(&path, bytes).unwrap();
    let t = SqliteCollection::open(&path, "t", SqliteOptions::default()).unwrap();
    let window = handback_page::Window::Forward { after: None, limit: 5 };
    let error = fetch(&t, &sorted(&t, &[]), window).unwrap_err();
    assert!(matches!(error, CollectionError::Damaged(_)), "{error:?}");
}
