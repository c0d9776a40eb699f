//! Tables and files that change under a walk.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use handback_collections::sqlite::SqliteOptions;
use handback_page::{Collection, CollectionError, Fetch, Places, Query, Row, Window};
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use rusqlite::Connection;
use serde_json::json;

use super::support::*;
use crate::engine::Asker;
use crate::support::*;

const THREE: &str = "
    CREATE TABLE t(id INTEGER PRIMARY KEY, a, b);
    INSERT INTO t VALUES (1, 'x', 1), (2, 'y', 2), (3, 'z', 3);";

fn next(t: &dyn Collection, query: &Query, after: &Row) -> Result<Vec<Row>, CollectionError> {
    let window = Window::Forward { after: Some(&after.place), limit: 2 };
    fetch(t, query, window).map(|page| page.rows)
}

fn first(t: &dyn Collection, query: &Query) -> Row {
    fetch(t, query, Window::Forward { after: None, limit: 1 }).unwrap().rows.remove(0)
}

#[test]
fn a_dropped_table_is_gone() {
    let db = TestDb::new(THREE);
    let t = db.open("t");
    let query = sorted(&t, &[]);
    let row = first(&t, &query);
    db.execute("DROP TABLE t");
    assert!(matches!(next(&t, &query, &row), Err(CollectionError::Gone(_))));
    assert!(matches!(t.count(&query), Err(CollectionError::Gone(_))));
    db.execute(THREE);
    assert_eq!(member(&next(&t, &query, &row).unwrap(), "id"), [2, 3]);
}

#[test]
fn a_dropped_column_is_gone_only_for_those_who_use_it() {
    let db = TestDb::new(THREE);
    let t = db.open("t");
    let (by_a, by_id) = (sorted(&t, &["a"]), sorted(&t, &[]));
    let with_a = query(&t, &json!({"a": {"ne": "x"}}), &[]);
    let (row_a, row_id) = (first(&t, &by_a), first(&t, &by_id));
    db.execute("ALTER TABLE t DROP COLUMN a");
    let errors = [next(&t, &by_a, &row_a).unwrap_err(), t.count(&with_a).unwrap_err()];
    for error in errors {
        let CollectionError::ColumnGone { column } = &error else { panic!("{error}") };
        assert_eq!(column, "a");
    }
    let rows = next(&t, &by_id, &row_id).unwrap();
    assert_eq!(rows[0].item, r#"{"id":2,"b":2}"#);
}

#[test]
fn wound_a13_a_dropped_sort_column_is_named() {
    for filter in [json!({}), json!({"b": {"ne": 7}})] {
        let db = TestDb::new(THREE);
        let asker = Asker::new(db.open("t"));
        let mut params = json!({"first": 1, "sort": {"field": "a"}, "filter": filter});
        params["after"] = asker.page(&params)["pageInfo"]["endCursor"].clone();
        db.execute("ALTER TABLE t DROP COLUMN a");
        // While the schema is remembered, and when it was looked at anew.
        for _ in 0..2 {
            let refused = asker.list(&params)["error"].clone();
            let message = "Parameter 'sort.field' names an unknown column 'a'";
            assert_eq!(refused["message"], message, "{refused}");
            assert_eq!(refused["details"]["param_name"], "sort.field", "{refused}");
            assert_eq!(refused["details"]["valid_names"], json!(["id", "b"]), "{refused}");
        }
    }
    // Where no page is read, the error itself names the column.
    let db = TestDb::new(THREE);
    let asker = Asker::new(db.open("t"));
    let count = || {
        let params = json!({"filter": {"a": "x"}});
        asker.ask(&json!({"operation": "count_elements", "element_type": "t", "params": params}))
    };
    assert_eq!(count()["data"]["count"], 1);
    db.execute("ALTER TABLE t DROP COLUMN a");
    let message = count()["error"]["message"].to_string();
    assert!(message.contains("column 'a'"), "{message}");
}

#[test]
fn a_new_column_is_seen_and_a_new_index_is_used() {
    let db = TestDb::new(THREE);
    let t = db.open("t");
    let query = sorted(&t, &["a"]);
    let row = first(&t, &query);
    db.execute("ALTER TABLE t ADD COLUMN c DEFAULT 'new'; CREATE INDEX i ON t(a)");
    assert_eq!(next(&t, &query, &row).unwrap()[0].item, r#"{"id":2,"a":"y","b":2,"c":"new"}"#);
    assert_eq!(t.schema().unwrap().columns().len(), 4);
    assert_eq!(t.about().unwrap().indexes.len(), 2);
}

#[test]
fn a_place_of_another_order_is_refused() {
    use handback_page::Scalar;
    let db = TestDb::new(THREE);
    let t = db.open("t");
    let query = sorted(&t, &["a"]);
    for place in [
        vec![],
        vec![Scalar::Int(1)],
        vec![Scalar::Int(1), Scalar::Int(1), Scalar::Int(1)],
        vec![Scalar::Int(1), Scalar::Null],
        vec![Scalar::Int(1), Scalar::Int(i128::MAX)],
        vec![Scalar::Bool(true), Scalar::Int(1)],
        vec![Scalar::Real(f64::NAN), Scalar::Int(1)],
    ] {
        let window = Window::Forward { after: Some(&place), limit: 1 };
        let error = fetch(&t, &query, window).unwrap_err();
        assert!(matches!(error, CollectionError::BadPlace), "{place:?} {error}");
    }
}

#[test]
fn a_locked_database_is_not_available_for_the_moment() {
    let db = TestDb::new(THREE);
    let t =
        db.try_open("t", SqliteOptions::default().busy_timeout(Duration::from_millis(50))).unwrap();
    let query = sorted(&t, &[]);
    db.execute("BEGIN EXCLUSIVE");
    let error = fetch(&t, &query, Window::Forward { after: None, limit: 2 }).unwrap_err();
    assert!(matches!(error, CollectionError::Unavailable(_)), "{error:?}");
    db.execute("COMMIT");
    assert_eq!(first(&t, &query).item, r#"{"id":1,"a":"x","b":1}"#);
}

#[test]
fn writers_do_not_disturb_readers_of_a_write_ahead_log() {
    let db = TestDb::new(THREE);
    db.execute("PRAGMA journal_mode = WAL; BEGIN IMMEDIATE; DELETE FROM t WHERE id = 2");
    let t = db.open("t");
    let query = sorted(&t, &[]);
    assert_eq!(member(&walk(&t, &query, 2), "id"), [1, 2, 3]);
    db.execute("COMMIT");
    assert_eq!(member(&walk(&t, &query, 2), "id"), [1, 3]);
}

/// Which file is there is asked once in a millisecond.
fn until_noticed() {
    std::thread::sleep(Duration::from_millis(2));
}

#[test]
fn a_replaced_file_is_read_and_a_deleted_one_is_gone() {
    let db = TestDb::new(THREE);
    let t = db.open("t");
    let query = sorted(&t, &[]);
    let row = first(&t, &query);
    let other = db.dir.path().join("other.db");
    let writer = Connection::open(&other).unwrap();
    writer
        .execute_batch(
            "CREATE TABLE pad(x); CREATE TABLE t(id INTEGER PRIMARY KEY, n);
             INSERT INTO t VALUES (1, 'one'), (7, 'seven')",
        )
        .unwrap();
    drop(writer);
    std::fs::rename(&other, db.path()).unwrap();
    until_noticed();
    assert_eq!(next(&t, &query, &row).unwrap()[0].item, r#"{"id":7,"n":"seven"}"#);
    std::fs::remove_file(db.path()).unwrap();
    until_noticed();
    assert!(matches!(next(&t, &query, &row), Err(CollectionError::Gone(_))));
}

#[test]
fn a_replacement_with_the_same_schema_count_is_looked_at_as_well() {
    let db = TestDb::new("CREATE TABLE t(id INTEGER PRIMARY KEY, a); INSERT INTO t VALUES (1, 2)");
    let t = db.open("t");
    let row = first(&t, &sorted(&t, &[]));
    assert_eq!(row.item, r#"{"id":1,"a":2}"#);
    let other =
        TestDb::new("CREATE TABLE t(id INTEGER PRIMARY KEY, b); INSERT INTO t VALUES (1, 3)");
    std::fs::rename(other.path(), db.path()).unwrap();
    until_noticed();
    let query = sorted(&t, &[]);
    assert_eq!(first(&t, &query).item, r#"{"id":1,"b":3}"#);
}

#[test]
fn an_operation_ends_at_its_time_limit() {
    let db = TestDb::new(
        "CREATE TABLE t(id INTEGER PRIMARY KEY);
         CREATE VIEW endless AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
           SELECT i AS id FROM n WHERE i < 0;",
    );
    let options = SqliteOptions::default().time_limit(Duration::from_millis(100));
    let t = db.try_open("t", options).unwrap();
    db.execute("DROP TABLE t; CREATE VIEW t AS SELECT id FROM endless");
    // The view has no key of its own: that is found out without running it.
    let query = sorted(&t, &[]);
    let start = Instant::now();
    assert!(matches!(t.count(&query), Err(CollectionError::Gone(_))));
    assert!(start.elapsed() < Duration::from_secs(5));
    let mut big = String::from("CREATE TABLE big(id INTEGER PRIMARY KEY, v);");
    big.push_str(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)
         INSERT INTO big SELECT i, 'x' FROM n;
         DROP VIEW t;
         CREATE VIEW slow AS SELECT a.id * 100000 + b.id AS id FROM big a, big b WHERE a.v <> b.v;",
    );
    db.execute(&big);
    let key = handback_collections::sqlite::Key::Columns(vec!["id".into()]);
    let options = SqliteOptions::default().time_limit(Duration::from_millis(100)).key(key);
    db.execute("CREATE TABLE quick(id, v); CREATE VIEW w AS SELECT * FROM quick;");
    let w = db.try_open("w", options).unwrap();
    db.execute("DROP VIEW w; CREATE VIEW w AS SELECT * FROM slow");
    let query = sorted(&w, &[]);
    let start = Instant::now();
    let error = w.count(&query).unwrap_err();
    assert!(matches!(error, CollectionError::Unavailable(_)), "{error:?}");
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    // The connection is good for the next operation.
    db.execute("DROP VIEW w; CREATE VIEW w AS SELECT * FROM quick");
    assert_eq!(w.count(&query).unwrap(), 0);
}

#[test]
fn a_sink_that_stops_ends_the_scan() {
    let db = TestDb::new(THREE);
    let t = db.open("t");
    let mut seen = 0;
    let result = t.scan(&sorted(&t, &[]), &mut |_| {
        seen += 1;
        if seen == 2 { Err(CollectionError::Changed) } else { Ok(()) }
    });
    assert!(matches!(result, Err(CollectionError::Changed)));
    assert_eq!(seen, 2);
    // Nothing stays locked.
    db.execute("INSERT INTO t VALUES (4, 'w', 4)");
}

#[test]
fn many_threads_share_few_connections() {
    let db = TestDb::new(THREE);
    let t = db.try_open("t", SqliteOptions::default().connections_max(2)).unwrap();
    let query = sorted(&t, &["a"]);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..50 {
                    assert_eq!(member(&walk(&t, &query, 1), "id"), [1, 2, 3]);
                }
            });
        }
    });
}

/// Between pages rows come and go. No row is met twice, and none is lost that was there all along.
#[test]
fn a_walk_meets_every_row_that_stays_exactly_once() {
    let indexes = ["", "CREATE INDEX i ON t(a)", "CREATE INDEX i ON t(b, a)"];
    for (seed, index) in (0..30).zip(indexes.into_iter().cycle()) {
        let mut random = SmallRng::seed_from_u64(seed);
        let db = TestDb::new("CREATE TABLE t(id INTEGER PRIMARY KEY, a, b)");
        db.execute(index);
        let insert = |id: i64, random: &mut SmallRng| {
            let a = random.random_bool(0.7).then(|| random.random_range(0..5));
            let b = random.random_bool(0.7).then(|| random.random_range(0..3));
            db.db.execute("INSERT OR IGNORE INTO t VALUES (?1, ?2, ?3)", (id, a, b)).unwrap();
        };
        for id in 0..200 {
            insert(id * 10_000, &mut random);
        }
        let t = db.open("t");
        let sorts: [&[&str]; 5] = [&[], &["a"], &["-a!", "id"], &["b", "a"], &["-b", "-a"]];
        let query = sorted(&t, sorts[random.random_range(0..5)]);
        let mut stayed: BTreeMap<i64, u32> = (0..200).map(|id| (id * 10_000, 0)).collect();
        let mut met: BTreeMap<i64, u32> = BTreeMap::new();
        let mut place: Option<Vec<handback_page::Scalar>> = None;
        let mut fresh = 0;
        loop {
            let window = Window::Forward { after: place.as_deref(), limit: 7 };
            let page = fetch(&t, &query, window).unwrap();
            for id in member(&page.rows, "id") {
                *met.entry(id.as_i64().unwrap()).or_default() += 1;
            }
            place = page.rows.last().map(|row| row.place.clone()).or(place);
            if !page.more_after {
                break;
            }
            for _ in 0..6 {
                fresh += 1;
                insert(random.random_range(0..200) * 10_000 + fresh, &mut random);
                // The row under the cursor is among those that go.
                let id = match page.rows.last() {
                    Some(row) if random.random_bool(0.3) => {
                        member(std::slice::from_ref(row), "id")[0].as_i64().unwrap()
                    }
                    _ => random.random_range(0..200) * 10_000,
                };
                db.db.execute("DELETE FROM t WHERE id = ?1", [id]).unwrap();
                stayed.remove(&id);
            }
        }
        assert!(met.values().all(|times| *times == 1), "seed {seed}: met twice");
        for id in stayed.keys() {
            assert!(met.contains_key(id), "seed {seed}: {id} was lost");
        }
    }
}

#[test]
fn a_walk_ends_when_a_key_that_nothing_declares_gets_duplicates() {
    let db = TestDb::new(
        "CREATE TABLE t(k INT NOT NULL, v); CREATE INDEX i ON t(k);
         INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c');",
    );
    let t = db.open_by("t", &["k"]);
    let by_k = sorted(&t, &[]);
    for sql in ["INSERT INTO t VALUES (2, 'b2')", "INSERT INTO t VALUES (2, 'b3')"] {
        db.execute(sql);
        for limit in 1..4 {
            let mut seen = Vec::new();
            let mut after = None;
            loop {
                let window = Window::Forward { after: after.as_deref(), limit };
                let page = fetch(&t, &by_k, window).unwrap();
                seen.extend(member(&page.rows, "k"));
                if !page.more_after {
                    break;
                }
                assert!(seen.len() < 10, "{seen:?}");
                after = page.rows.last().map(|row| row.place.clone());
            }
            seen.dedup();
            assert_eq!(seen, [1, 2, 3]);
        }
    }
}

#[test]
fn what_may_be_null_is_what_the_table_says_now() {
    let db = TestDb::new(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, a INT NOT NULL);
         INSERT INTO t VALUES (1, 1), (2, 2), (3, 3);",
    );
    for index in ["", "CREATE INDEX i ON t(a);"] {
        db.execute(index);
        let asker = Asker::new(db.open("t"));
        let mut params = json!({"first": 2, "sort": {"field": "a"}});
        let page = asker.page(&params);
        params["after"] = page["pageInfo"]["endCursor"].clone();
        params["first"] = json!(9);
        db.execute(&format!(
            "BEGIN; DROP TABLE t; CREATE TABLE t(id INTEGER PRIMARY KEY, a INT); {index}
             INSERT INTO t VALUES (1, 1), (2, 2), (3, 3), (4, NULL), (5, NULL); COMMIT"
        ));
        // At once: what was seen of the table is still taken for granted elsewhere.
        assert_eq!(asker.members(&params, "id"), [3, 4, 5]);
        db.execute(
            "BEGIN; DROP TABLE t; CREATE TABLE t(id INTEGER PRIMARY KEY, a INT NOT NULL);
             INSERT INTO t VALUES (1, 1), (2, 2), (3, 3); COMMIT",
        );
    }
}

#[test]
fn a_total_is_of_the_moment_of_its_page() {
    let db = TestDb::new(
        "PRAGMA journal_mode = WAL; CREATE TABLE t(id INTEGER PRIMARY KEY);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50)
         INSERT INTO t SELECT i FROM n;",
    );
    let t = db.open("t");
    let query = sorted(&t, &[]);
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let writer = Connection::open(db.path()).unwrap();
    writer.busy_timeout(Duration::from_secs(5)).unwrap();
    let writing = std::thread::spawn(move || {
        while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
            writer.execute_batch("DELETE FROM t WHERE id > 25").unwrap();
            writer.execute_batch("INSERT INTO t SELECT id + 25 FROM t WHERE id <= 25").unwrap();
        }
    });
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(700) {
        let asked = Fetch {
            query: &query,
            window: Window::Forward { after: None, limit: 100 },
            columns: None,
            budget_bytes: usize::MAX,
            places: Places::Ends,
            total: true,
        };
        let page = t.fetch(&asked).unwrap();
        assert_eq!(page.total, Some(page.rows.len() as u64));
    }
    stop.send(()).unwrap();
    writing.join().unwrap();
}

#[test]
fn a_snapshot_outlives_its_table() {
    let db = TestDb::new(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT, \"a.b\" INT, data BLOB);
         INSERT INTO t VALUES (1, 'x', 7, x'00'), (2, 'y', 8, x'00'), (3, 'z', 9, x'00');",
    );
    let asker = Asker::new(db.open("t"));
    let mut params = json!({"first": 1, "snapshot": true, "sort": {"field": "name"}});
    let page = asker.page(&params);
    assert_eq!(page["items"], json!([{"id": 1, "name": "x", "a.b": 7}]));
    params["after"] = page["pageInfo"]["endCursor"].clone();
    db.execute("DROP TABLE t");
    std::thread::sleep(Duration::from_millis(1100));
    let page = asker.page(&params);
    // Presets and names mean what they did.
    assert_eq!(page["items"], json!([{"id": 2, "name": "y", "a.b": 8}]));
    assert_eq!(page["pageInfo"]["totalCount"], 3);
    params["fields"] = json!(["a.b", "column:data"]);
    params["after"] = page["pageInfo"]["endCursor"].clone();
    let page = asker.page(&params);
    assert_eq!(page["items"], json!([{"a.b": 9, "data": {"$blob": "AA"}}]));
    // The cursor is bound to all the rest as before.
    params["sort"] = json!({"field": "id"});
    assert_eq!(asker.list(&params)["error"]["details"]["actual_type"], "invalid cursor");
    let gone = asker.list(&json!({"first": 1, "snapshot": true}));
    assert_eq!(gone["error"]["code"], "NOT_FOUND_RESOURCE");
}
