//! What is found out about tables and views.

use handback_page::{Collection as _, Kind, Preset, Served};
use serde_json::json;

use super::support::{Db, forward, ids, members, query, walk, walk_back};
use crate::postgres::{PostgresError, PostgresOptions};

#[test]
fn the_key_is_the_primary_key_or_a_unique_index_without_nulls() {
    let Some(db) = Db::new(
        "CREATE TABLE p (a int, b int, c int NOT NULL UNIQUE, PRIMARY KEY (b, a));
         CREATE TABLE u (a int NOT NULL, b int NOT NULL, c int, d int);
         CREATE UNIQUE INDEX ON u (c);
         CREATE UNIQUE INDEX ON u (a) WHERE d > 0;
         CREATE UNIQUE INDEX ON u (abs(a));
         CREATE UNIQUE INDEX ON u (a, b) INCLUDE (d);
         CREATE TABLE none (a int NOT NULL, b int UNIQUE);
         CREATE TABLE late (a int NOT NULL UNIQUE DEFERRABLE INITIALLY DEFERRED);
         CREATE TABLE docs (a jsonb PRIMARY KEY);
         CREATE TABLE coll (a text COLLATE \"C\" NOT NULL);
         CREATE UNIQUE INDEX ON coll (a COLLATE \"POSIX\");
         CREATE TABLE parent (id int PRIMARY KEY); CREATE TABLE child () INHERITS (parent);
         INSERT INTO parent VALUES (1); INSERT INTO child VALUES (1);
         CREATE TABLE dropped (x int, id int PRIMARY KEY, y int); ALTER TABLE dropped DROP x;
         CREATE SEQUENCE seq",
    ) else {
        return;
    };
    for (table, key) in [("p", &["b", "a"][..]), ("u", &["a", "b"]), ("dropped", &["id"])] {
        assert_eq!(db.open(table).schema().unwrap().key(), key, "{table}");
    }
    for table in ["none", "late", "docs", "coll", "parent"] {
        match db.source.open(&db.schema, table, PostgresOptions::default()) {
            Err(PostgresError::NoKey { hint, .. }) => assert!(hint.contains("unique index")),
            other => panic!("{table}: {other:?}"),
        }
    }
    for table in ["absent", "seq", "P", "u_a_b_d_idx", ""] {
        let error = db.source.open(&db.schema, table, PostgresOptions::default()).unwrap_err();
        assert!(matches!(error, PostgresError::NotFound { .. }), "{table}: {error}");
    }
    let columns: Vec<_> =
        db.open("dropped").schema().unwrap().columns().iter().map(|c| c.name.clone()).collect();
    assert_eq!(columns, ["id", "y"]);
    let by_id = PostgresOptions::default().key(["id"]);
    let error = db.source.open(&db.schema, "parent", by_id).unwrap_err();
    assert!(matches!(error, PostgresError::BadKey { .. }), "{error}");
}

#[test]
fn a_view_is_given_a_key_which_is_checked() {
    let Some(db) = Db::new(
        "CREATE TABLE t (id int PRIMARY KEY, a int);
         INSERT INTO t SELECT n, n / 2 FROM generate_series(1, 9) n;
         CREATE VIEW v AS SELECT id, a, a * 2 AS twice, NULLIF(id, 5) AS holes, '{}'::json AS doc FROM t;
         CREATE MATERIALIZED VIEW m AS SELECT * FROM t;
         CREATE INDEX ON m (a, id)",
    ) else {
        return;
    };
    let open = |key: &[&str]| {
        let options = PostgresOptions::default().key(key.iter().copied());
        db.source.open(&db.schema, "v", options)
    };
    for (key, problem) in [
        (&["a"][..], "some rows have the same"),
        (&["holes"], "some rows have null in it"),
        (&["absent"], "there is no column 'absent'"),
        (&["doc"], "have no order"),
        (&[], "no columns"),
    ] {
        match open(key) {
            Err(PostgresError::BadKey { hint, .. }) => assert!(hint.contains(problem), "{hint}"),
            other => panic!("{key:?}: {other:?}"),
        }
    }
    match db.source.open(&db.schema, "v", PostgresOptions::default()) {
        Err(PostgresError::NoKey { hint, .. }) => assert!(hint.contains("name the columns")),
        other => panic!("{other:?}"),
    }
    for v in [open(&["id"]).unwrap(), open(&["a", "id"]).unwrap()] {
        let query = query(&v, &json!({"a": {"gt": 0}}), &["-twice"]);
        assert_eq!(ids(&walk(&v, &query, 2)), [9, 8, 7, 6, 5, 4, 3, 2]);
        assert_eq!(ids(&walk_back(&v, &query, 3)), [9, 8, 7, 6, 5, 4, 3, 2]);
        assert!(matches!(forward(&v, &query, None, 2).served, Served::ByScan { .. }));
        let one = super::support::query(&v, &json!({"id": 5, "a": 2}), &[]);
        assert_eq!(forward(&v, &one, None, 2).served, Served::Directly);
    }
    let m = db.open_with("m", PostgresOptions::default().key(["id"]));
    let by_a = query(&m, &json!({}), &["a"]);
    assert_eq!(forward(&m, &by_a, None, 2).served, Served::Directly);
    assert_eq!(m.about().unwrap().source, "postgres materialized view");
}

#[test]
fn a_partitioned_table_is_one_collection() {
    let Some(db) = Db::new(
        "CREATE TABLE t (id int PRIMARY KEY, a int) PARTITION BY RANGE (id);
         CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (10);
         CREATE TABLE t2 PARTITION OF t FOR VALUES FROM (10) TO (20);
         CREATE INDEX ON t (a, id);
         INSERT INTO t SELECT n, n % 3 FROM generate_series(0, 19) n",
    ) else {
        return;
    };
    let t = db.open("t");
    for (keys, sql) in [(&["a"][..], "a, id"), (&["-id"], "id DESC"), (&["-a", "id"], "a DESC, id")]
    {
        let expected = db.texts(&format!("SELECT id::text AS shown FROM t ORDER BY {sql}"));
        let query = query(&t, &json!({}), keys);
        let found: Vec<_> = ids(&walk(&t, &query, 3)).iter().map(ToString::to_string).collect();
        assert_eq!(found, expected);
    }
    assert!(t.about().unwrap().bytes.is_some());
}

#[test]
fn a_type_of_an_extension_is_compared_by_its_own_operators() {
    let Some(db) = Db::new(
        "CREATE EXTENSION IF NOT EXISTS citext;
         DO $$ BEGIN EXECUTE format('CREATE TABLE t (name %s.citext PRIMARY KEY, n int)',
             (SELECT quote_ident(nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = extnamespace
              WHERE extname = 'citext')); END $$;
         INSERT INTO t VALUES ('apple', 1), ('Banana', 2), ('cherry', 3), ('Date', 4)",
    ) else {
        return;
    };
    let t = db.open("t");
    assert_eq!(t.schema().unwrap().column("name").unwrap().kind, Kind::Text);
    let all = query(&t, &json!({}), &[]);
    let names = [json!("apple"), json!("Banana"), json!("cherry"), json!("Date")];
    assert_eq!(members(&walk(&t, &all, 1), "name"), names);
    assert_eq!(members(&walk_back(&t, &all, 1), "name"), names);
    let found = |filter| members(&walk(&t, &query(&t, &filter, &[]), 9), "n");
    assert_eq!(found(json!({"name": "BANANA"})), [json!(2)]);
    assert_eq!(found(json!({"name": {"in": ["APPLE", "date", "x"]}})), [json!(1), json!(4)]);
    assert_eq!(found(json!({"name": {"gt": "B", "lt": "D"}})), [json!(2), json!(3)]);
    assert!(found(json!({"name": {"contains": "A"}})).is_empty());
    assert_eq!(found(json!({"name": {"contains": "D"}})), [json!(4)]);
    assert_eq!(found(json!({"name": {"ne": "DATE"}})).len(), 3);
}

#[test]
fn a_collation_that_takes_texts_for_equal_still_tells_rows_apart() {
    let Some(db) = Db::new(
        "CREATE COLLATION ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
         CREATE TABLE t (id int PRIMARY KEY, a text COLLATE ci, b text COLLATE \"en-x-icu\");
         CREATE INDEX ON t (a, id);
         INSERT INTO t SELECT n, (ARRAY['a', 'A', 'b', 'B', 'Á'])[n % 5 + 1], (ARRAY['a', 'B', 'c'])[n % 3 + 1]
             FROM generate_series(1, 30) n",
    ) else {
        return;
    };
    let t = db.open("t");
    for (keys, sql) in
        [(&["a"][..], "a, id"), (&["-a", "id"], "a DESC, id"), (&["b", "-a"], "b, a DESC, id DESC")]
    {
        let expected = db.texts(&format!("SELECT id::text AS shown FROM t ORDER BY {sql}"));
        let query = query(&t, &json!({}), keys);
        for rows in [walk(&t, &query, 1), walk(&t, &query, 4), walk_back(&t, &query, 3)] {
            let found: Vec<_> = ids(&rows).iter().map(ToString::to_string).collect();
            assert_eq!(found, expected, "{keys:?}");
        }
    }
    assert_eq!(t.count(&query(&t, &json!({"a": "A"}), &[])).unwrap(), 12);
    assert_eq!(t.count(&query(&t, &json!({"a": {"contains": "A"}}), &[])).unwrap(), 6);
    assert_eq!(t.count(&query(&t, &json!({"a": {"starts_with": "b"}}), &[])).unwrap(), 6);
}

#[test]
fn columns_that_may_not_be_read_are_not_there() {
    let Some(db) = Db::new(
        "CREATE TABLE t (id int PRIMARY KEY, open int, secret int); CREATE INDEX ON t (open, secret);
         INSERT INTO t VALUES (1, 2, 3)",
    ) else {
        return;
    };
    let role = db.schema.replace("hb test ", "hb_reader_");
    db.execute(&format!(
        "CREATE ROLE \"{role}\"; GRANT USAGE ON SCHEMA \"{0}\" TO \"{role}\";
         GRANT SELECT (id, open) ON t TO \"{role}\"",
        db.schema
    ));
    let separator = if db.url.contains('?') { '&' } else { '?' };
    let url = format!("{}{separator}options=-c%20role%3D{role}", db.url);
    let source = crate::postgres::PostgresSource::connect(&url, db.runtime.handle()).unwrap();
    let t = source.open(&db.schema, "t", PostgresOptions::default()).unwrap();
    let page = forward(&t, &query(&t, &json!({}), &["open"]), None, 5);
    assert_eq!(page.rows[0].item, r#"{"id":1,"open":2}"#);
    db.execute("REVOKE ALL ON t FROM public");
    db.execute(&format!("REVOKE SELECT (open) ON t FROM \"{role}\""));
    let all = query(&t, &json!({}), &[]);
    let window = handback_page::Window::Forward { after: None, limit: 5 };
    let error = t.fetch(&super::support::fetch(&all, window)).unwrap_err().to_string();
    assert!(error.contains("may not read"), "{error}");
    // Nothing of it may be read: that is told, and not that it has no key.
    db.execute(&format!("REVOKE SELECT (id) ON t FROM \"{role}\""));
    let error = source.open(&db.schema, "t", PostgresOptions::default()).unwrap_err();
    let table = format!("{}.t", db.schema);
    let told = format!("the database user may not read {table}: it needs SELECT on it");
    assert_eq!(error.to_string(), told);
    db.execute("CREATE TABLE bare ()");
    let error = source.open(&db.schema, "bare", PostgresOptions::default()).unwrap_err();
    assert!(error.to_string().contains("cannot be told apart"), "{error}");
    drop(source);
    db.execute(&format!("DROP OWNED BY \"{role}\"; DROP ROLE \"{role}\""));
}

#[test]
fn people_are_told_what_there_is() {
    let Some(db) = Db::new(
        "CREATE TABLE t (id int PRIMARY KEY, name text, a int, data bytea);
         CREATE INDEX ON t (a DESC NULLS LAST, id); CREATE INDEX ON t (name text_pattern_ops);
         CREATE INDEX ON t USING hash (a); INSERT INTO t SELECT n FROM generate_series(1, 9) n; ANALYZE t",
    ) else {
        return;
    };
    let t = db.open("t");
    let about = t.about().unwrap();
    assert_eq!((about.source.as_str(), about.items), ("postgres table", Some(9)));
    assert!(about.bytes.unwrap() > 0);
    assert_eq!(about.indexes, ["(id) unique", "(a desc, id)"]);
    db.execute("UPDATE pg_class SET reltuples = 1234567 WHERE oid = 't'::regclass");
    let about = t.about().unwrap();
    assert_eq!(about.source, "postgres table, about 1234567 rows");
    assert_eq!(about.items, None);
    let schema = t.schema().unwrap();
    let preset = |name: &str| schema.column(name).unwrap().preset;
    assert_eq!(preset("id"), Preset::Minimal);
    assert_eq!(preset("name"), Preset::Minimal);
    assert_eq!(preset("a"), Preset::Standard);
    assert_eq!(preset("data"), Preset::Full);
}

#[test]
fn an_item_is_called_by_one_column_as_in_sqlite() {
    let Some(db) = Db::new(
        "CREATE TABLE a (id int PRIMARY KEY, note text, title text, \"Name\" text);
         CREATE TABLE b (id int PRIMARY KEY, note varchar(9), title int);
         CREATE TABLE c (id int PRIMARY KEY, n int, note varchar(9), more text);
         CREATE TABLE d (id int PRIMARY KEY, n int)",
    ) else {
        return;
    };
    for (table, expected) in [
        ("a", &["id", "Name"][..]),
        ("b", &["id", "title"]),
        ("c", &["id", "note"]),
        ("d", &["id"]),
    ] {
        let schema = db.open(table).schema().unwrap();
        let minimal = schema.columns().iter().filter(|column| column.preset == Preset::Minimal);
        let names: Vec<_> = minimal.map(|column| column.name.as_str()).collect();
        assert_eq!(names, expected, "{table}");
    }
}
