//! What values look like, and how filters compare them.

use handback_collections::sqlite::{Key, SqliteCollection, SqliteOptions};
use handback_page::{
    Collection, CollectionError, Fetch, Kind, Places, Preset, Query, Search, Window,
};
use serde_json::json;

use super::support::*;
use crate::engine::Asker;
use crate::support::*;

#[test]
fn items_show_values_by_their_storage_class() {
    let db = TestDb::new(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, v);
         INSERT INTO t VALUES (1, 9007199254740993), (2, x'68690a'), (3, 9e999), (4, -9e999),
           (5, 0.1), (6, 'a\"b\\' || char(10) || 'é'), (7, NULL), (8, 2.0), (9, 'x' || char(0) || 'y');",
    );
    let t = db.open("t");
    let rows = walk(&t, &sorted(&t, &[]), 4);
    assert_eq!(rows[0].item, r#"{"id":1,"v":{"$integer":"9007199254740993"}}"#);
    assert_eq!(rows[1].item, r#"{"id":2,"v":{"$blob":"aGkK"}}"#);
    assert_eq!(rows[2].item, r#"{"id":3,"v":{"$real":"Infinity"}}"#);
    assert_eq!(rows[3].item, r#"{"id":4,"v":{"$real":"-Infinity"}}"#);
    assert_eq!(rows[4].item, r#"{"id":5,"v":0.1}"#);
    assert_eq!(rows[5].item, r#"{"id":6,"v":"a\"b\\\né"}"#);
    assert_eq!(rows[6].item, r#"{"id":7,"v":null}"#);
    assert_eq!(rows[7].item, r#"{"id":8,"v":2.0}"#);
    assert_eq!(rows[8].item, r#"{"id":9,"v":"x\u0000y"}"#);
    // What was read can be asked for.
    for (number, value) in member(&rows, "v").iter().enumerate() {
        assert_eq!(found(&t, &json!({"v": value}), "id"), [number + 1], "{value}");
    }
}

#[test]
fn kinds_follow_the_declared_types() {
    let db = TestDb::new(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, name VARCHAR(10) NOT NULL, price DECIMAL(5,2),
           day DATE, at DATETIME, paid BOOLEAN, data BLOB, untyped, ratio DOUBLE, n BIGINT, j JSON,
           g TEXT GENERATED ALWAYS AS (name || '!') VIRTUAL);
         CREATE TABLE s(id INTEGER PRIMARY KEY, a ANY, i INT, t TEXT) STRICT;",
    );
    let schema = db.open("t").schema().unwrap();
    let kinds: Vec<_> = schema
        .columns()
        .iter()
        .map(|column| (column.name.as_str(), column.kind.clone(), column.nullable, column.preset))
        .collect();
    let standard = Preset::Standard;
    assert_eq!(
        kinds,
        [
            ("id", Kind::Integer, false, Preset::Minimal),
            ("name", Kind::Text, false, Preset::Minimal),
            ("price", Kind::Number, true, standard),
            ("day", Kind::Any, true, standard),
            ("at", Kind::Any, true, standard),
            ("paid", Kind::Any, true, standard),
            ("data", Kind::Blob, true, Preset::Full),
            ("untyped", Kind::Any, true, standard),
            ("ratio", Kind::Number, true, standard),
            ("n", Kind::Integer, true, standard),
            ("j", Kind::Any, true, standard),
            ("g", Kind::Text, true, standard),
        ]
    );
    let strict = db.open("s").schema().unwrap();
    let kinds: Vec<_> = strict.columns().iter().map(|column| column.kind.clone()).collect();
    assert_eq!(kinds, [Kind::Integer, Kind::Any, Kind::Integer, Kind::Text]);
}

#[test]
fn no_affinity_makes_numbers_of_text_or_text_of_numbers() {
    for declared in ["", "DATE", "ANY"] {
        let strict = if declared == "ANY" { " STRICT" } else { "" };
        let db = TestDb::new(&format!(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, v {declared}){strict};
             CREATE INDEX i ON t(v);
             INSERT INTO t VALUES (1, 5), (2, '5x'), (3, '-x'), (4, 'abc'), (5, 7.5);"
        ));
        let t = db.open("t");
        for (filter, expected) in [
            (json!({"v": "5"}), vec![]),
            (json!({"v": 5}), vec![1]),
            (json!({"v": {"in": ["5", 7.5]}}), vec![5]),
            (json!({"v": {"in": ["5", "abc"]}}), vec![4]),
            (json!({"v": {"gt": "5"}}), vec![2, 4]),
            (json!({"v": {"lt": "5"}}), vec![3]),
            (json!({"v": {"gt": "5x"}}), vec![4]),
            (json!({"v": {"gte": 5}}), vec![1, 5]),
            (json!({"v": {"gt": 5}}), vec![5]),
            (json!({"v": {"lt": "a"}}), vec![2, 3]),
            (json!({"v": {"ne": "5"}}), vec![1, 2, 3, 4, 5]),
            (json!({"not": {"v": {"gt": 5}}}), vec![1, 2, 3, 4]),
            (json!({"v": {"contains": "5"}}), vec![2]),
        ] {
            assert_eq!(found(&t, &filter, "id"), expected, "{declared} {filter}");
        }
    }
}

#[test]
fn integers_beyond_64_bits_and_odd_doubles_compare_exactly() {
    let db = TestDb::new(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, v);
         INSERT INTO t VALUES (1, 9223372036854775807), (2, 9223372036854775808.0),
           (3, 1180591620717411303424.0), (4, 9e999), (5, -9223372036854775808), (6, 'x'), (7, NULL);",
    );
    let t = db.open("t");
    let int = |text: &str| json!({ "$integer": text });
    for (filter, expected) in [
        (json!({"v": int("9223372036854775808")}), vec![2]),
        (json!({"v": int("1180591620717411303424")}), vec![3]),
        (json!({"v": int("1180591620717411303425")}), vec![]),
        (json!({"v": {"ne": int("1180591620717411303425")}}), vec![1, 2, 3, 4, 5, 6, 7]),
        (json!({"v": {"in": [int("1180591620717411303425"), "x"]}}), vec![6]),
        (json!({"v": {"gt": int("1180591620717411303425")}}), vec![4]),
        (json!({"v": {"gte": int("1180591620717411303423")}}), vec![3, 4]),
        (json!({"v": {"gte": int("1180591620717411303424")}}), vec![3, 4]),
        (json!({"v": {"lt": int("1180591620717411303425")}}), vec![1, 2, 3, 5]),
        (json!({"v": {"lte": int("1180591620717411303423")}}), vec![1, 2, 5]),
        (json!({"v": {"lt": int("-170141183460469231731687303715884105728")}}), vec![]),
        (json!({"v": {"gt": 9.223_372_036_854_776e18}}), vec![3, 4]),
        (json!({"v": {"$real": "NaN"}}), vec![]),
        (json!({"v": {"lt": {"$real": "NaN"}}}), vec![1, 2, 3, 4, 5]),
        (json!({"v": {"gte": {"$real": "NaN"}}}), vec![]),
        (json!({"v": {"lt": {"$real": "Infinity"}}}), vec![1, 2, 3, 5]),
    ] {
        assert_eq!(found(&t, &filter, "id"), expected, "{filter}");
    }
}

#[test]
fn truth_values_are_ones_and_zeros_and_decimals_are_numbers() {
    let db = TestDb::new(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, paid BOOLEAN, price NUMERIC);
         INSERT INTO t VALUES (1, 1, 1.1), (2, 0, 2), (3, NULL, NULL), (4, TRUE, 'n/a');",
    );
    let t = db.open("t");
    assert_eq!(found(&t, &json!({"paid": true}), "id"), [1, 4]);
    assert_eq!(found(&t, &json!({"paid": {"ne": true}}), "id"), [2, 3]);
    assert_eq!(found(&t, &json!({"price": {"$decimal": "1.10"}}), "id"), [1]);
    assert_eq!(found(&t, &json!({"price": {"gte": {"$decimal": "1.10"}}}), "id"), [1, 2]);
    assert_eq!(found(&t, &json!({"price": {"gt": 1}}), "id"), [1, 2]);
}

#[test]
fn decimals_are_compared_as_numbers_and_exactly() {
    let db = TestDb::new(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, v, day DATE, num NUMERIC);
         INSERT INTO t(id, v) VALUES (1, 1.5), (2, '1.5'), (3, 2), (4, 0.1),
           (5, 9007199254740993), (6, 9007199254740992.0), (7, 9223372036854775807), (8, 1e300),
           (9, x'312e35'), (10, NULL);
         UPDATE t SET day = v, num = v WHERE typeof(v) IN ('integer', 'real');",
    );
    let t = db.open("t");
    for (test, expected) in [
        (json!({"$decimal": "1.5"}), vec![1]),
        (json!({"$decimal": "0.1"}), vec![4]),
        (json!({"$decimal": "0.1000000000000000000001"}), vec![]),
        (json!({"gt": {"$decimal": "0.1000000000000000000001"}}), vec![1, 3, 5, 6, 7, 8]),
        (json!({"gte": {"$decimal": "0.0999999999999999999999"}, "lt": 1}), vec![4]),
        (json!({"lt": {"$decimal": "1.50000000000000000000001"}}), vec![1, 4]),
        (json!({"lte": {"$decimal": "1.49999999999999999999999"}}), vec![4]),
        (json!({"gt": {"$decimal": "9007199254740992.5"}}), vec![5, 7, 8]),
        (json!({"lt": {"$decimal": "9007199254740992.5"}, "gt": 2}), vec![6]),
        (json!({"gt": {"$decimal": "9223372036854775807.5"}}), vec![8]),
        (json!({"gt": {"$decimal": "9223372036854775806.5"}}), vec![7, 8]),
        (json!({"lt": {"$decimal": "9".repeat(400)}, "gt": 1e200}), vec![8]),
        (json!({"in": [{"$decimal": "2.0"}, {"$decimal": "2.00000000000000000001"}]}), vec![3]),
        (json!({"$decimal": format!("{:.0}", 1e300)}), vec![8]),
    ] {
        for column in ["v", "day", "num"] {
            let filter = json!({ column: test });
            assert_eq!(found(&t, &filter, "id"), expected, "{filter}");
        }
    }
}

#[test]
fn texts_are_searched_by_bytes_also_behind_nul() {
    let db = TestDb::new(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, v);
         INSERT INTO t VALUES (1, 'a' || char(0) || 'bc'), (2, 'ábc'), (3, x'616263'), (4, 5),
           (5, ''), (6, 'A%_'), (7, NULL);",
    );
    let t = db.open("t");
    for (filter, expected) in [
        (json!({"v": {"contains": "bc"}}), vec![1, 2]),
        (json!({"v": {"contains": "a\u{0}b"}}), vec![1]),
        (json!({"v": {"contains": ""}}), vec![1, 2, 5, 6]),
        (json!({"v": {"contains": "%"}}), vec![6]),
        (json!({"v": {"contains": 5}}), vec![]),
        (json!({"v": {"starts_with": "á"}}), vec![2]),
        (json!({"v": {"starts_with": "a\u{0}"}}), vec![1]),
        (json!({"v": {"starts_with": "a\u{0}bcd"}}), vec![]),
        (json!({"v": {"starts_with": "a\u{0}x"}}), vec![]),
        (json!({"v": {"starts_with": ""}}), vec![1, 2, 5, 6]),
        (json!({"v": {"starts_with": "a"}}), vec![1]),
        (json!({"not": {"v": {"starts_with": "a"}}}), vec![2, 3, 4, 5, 6, 7]),
    ] {
        assert_eq!(found(&t, &filter, "id"), expected, "{filter}");
    }
    let search = |text: &str| {
        let query = Query { search: Search::new(text), ..sorted(&t, &[]) };
        member(&walk(&t, &query, 3), "id")
    };
    assert_eq!(search("BC"), [1, 2]);
    assert_eq!(search("a%_ nothing"), [6]);
    assert_eq!(search("5"), [] as [i32; 0]);
    assert_eq!(search(" "), [1, 2, 3, 4, 5, 6, 7]);
    let words: Vec<_> = (0..1000).map(|number| format!("w{number}")).collect();
    let query = Query { search: Search::new(&words.join(" ")), ..sorted(&t, &[]) };
    let window = Window::Forward { after: None, limit: 1 };
    assert!(matches!(fetch(&t, &query, window), Err(CollectionError::TooLarge { .. })));
}

#[test]
fn a_search_without_text_columns_finds_nothing() {
    let db = TestDb::new("CREATE TABLE t(id INTEGER PRIMARY KEY); INSERT INTO t VALUES (1);");
    let t = db.open("t");
    let query = Query { search: Search::new("1"), ..sorted(&t, &[]) };
    assert!(walk(&t, &query, 3).is_empty());
    assert_eq!(t.count(&query).unwrap(), 0);
}

#[test]
fn names_and_values_are_never_sql() {
    let names = [
        "a\"b",
        "c.d",
        "e\nf",
        "x; DROP TABLE t; --",
        "sel'ect",
        "[g]",
        "`h`",
        "column",
        "ü",
        "%s",
    ];
    let columns: Vec<_> =
        names.iter().map(|name| format!("\"{}\"", name.replace('"', "\"\""))).collect();
    let table = "odd\"; DROP TABLE t; --";
    let quoted = format!("\"{}\"", table.replace('"', "\"\""));
    let db = TestDb::new(&format!(
        "CREATE TABLE {quoted}(\"the \"\"key\"\"\" INTEGER PRIMARY KEY, {});
         CREATE INDEX \"i\"\"x\" ON {quoted}({});
         INSERT INTO {quoted} SELECT 1, {}; INSERT INTO {quoted} SELECT 2, {};",
        columns.join(", "),
        columns[0],
        vec!["'x'"; names.len()].join(", "),
        vec!["'''; DROP TABLE t; --'"; names.len()].join(", "),
    ));
    let t = db.open(table);
    for name in names {
        let name = if name == "column" { "column:column" } else { name };
        let bare = name.strip_prefix("column:").unwrap_or(name);
        assert_eq!(found(&t, &json!({name: "x"}), "the \"key\""), [1], "{name}");
        assert_eq!(found(&t, &json!({name: "'; DROP TABLE t; --"}), "the \"key\""), [2], "{name}");
        assert!(found(&t, &json!({name: "' OR 1=1 --"}), "the \"key\"").is_empty(), "{name}");
        let down = format!("-{bare}");
        assert_eq!(member(&walk(&t, &sorted(&t, &[&down]), 1), "the \"key\""), [1, 2]);
    }
}

#[test]
fn only_the_asked_columns_are_given() {
    let db = TestDb::new(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, a, b, c);
         INSERT INTO t VALUES (1, 'a', 'b', 'c'), (2, 'A', 'B', 'C');",
    );
    let t = db.open("t");
    let query = sorted(&t, &["-b"]);
    let items = |columns: &[&str]| -> Vec<String> {
        let columns: Vec<String> = columns.iter().map(|name| (*name).to_owned()).collect();
        let window = Window::Forward { after: None, limit: 5 };
        let fetch = Fetch {
            query: &query,
            window,
            columns: Some(&columns),
            budget_bytes: usize::MAX,
            places: Places::All,
            total: false,
        };
        let page = t.fetch(&fetch).unwrap();
        assert!(page.rows.iter().all(|row| row.place.len() == 2));
        page.rows.into_iter().map(|row| row.item.to_string()).collect()
    };
    assert_eq!(items(&["c", "a", "c"]), [r#"{"a":"a","c":"c"}"#, r#"{"a":"A","c":"C"}"#]);
    assert_eq!(items(&["b", "gone"]), [r#"{"b":"b"}"#, r#"{"b":"B"}"#]);
    assert_eq!(items(&[]), ["{}", "{}"]);
}

#[test]
fn a_budget_cuts_at_the_far_end() {
    let db = TestDb::new(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, v);
         INSERT INTO t VALUES (1, 'x'), (2, 'x'), (3, 'x'), (4, 'x');",
    );
    let t = db.open("t");
    let query = sorted(&t, &[]);
    let page = |window, budget_bytes| {
        let page = t
            .fetch(&Fetch {
                query: &query,
                window,
                columns: None,
                budget_bytes,
                places: Places::All,
                total: false,
            })
            .unwrap();
        (member(&page.rows, "id"), page.more_before, page.more_after)
    };
    let forward = Window::Forward { after: None, limit: 4 };
    assert_eq!(page(forward, 0), (vec![json!(1)], false, true));
    assert_eq!(page(forward, 20), (vec![json!(1), json!(2)], false, true));
    assert_eq!(page(forward, 1000), (vec![json!(1), json!(2), json!(3), json!(4)], false, false));
    let backward = Window::Backward { before: None, limit: 4 };
    assert_eq!(page(backward, 20), (vec![json!(3), json!(4)], true, false));
    let exactly = Window::Forward { after: None, limit: 1 };
    assert_eq!(page(exactly, 0), (vec![json!(1)], false, true));
}

#[test]
fn text_that_is_not_utf_8_is_named() {
    let db = TestDb::new(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, good, bad);
         INSERT INTO t VALUES (1, 'x', CAST(x'ff' AS TEXT));",
    );
    let t = db.open("t");
    let window = Window::Forward { after: None, limit: 4 };
    for sort in [&[][..], &["bad"]] {
        let error = fetch(&t, &sorted(&t, sort), window).unwrap_err();
        let CollectionError::Damaged(text) = error else { panic!("{error}") };
        assert!(text.contains("'bad'"), "{text}");
    }
}

#[test]
fn orders_without_an_index_can_be_refused() {
    let db = TestDb::new("CREATE TABLE t(id INTEGER PRIMARY KEY, a)");
    let t = db.try_open("t", SqliteOptions::default().require_index(true)).unwrap();
    let window = Window::Forward { after: None, limit: 4 };
    assert!(fetch(&t, &sorted(&t, &["-id"]), window).is_ok());
    let error = fetch(&t, &sorted(&t, &["a"]), window).unwrap_err();
    assert!(matches!(error, CollectionError::NotIndexed { hint } if hint.contains("(a, id)")));
    assert_eq!(t.count(&sorted(&t, &["a"])).unwrap(), 0);
}

#[test]
fn the_widest_table_is_searched() {
    let columns: Vec<_> = (0..1999).map(|number| format!("c{number} TEXT")).collect();
    let db = TestDb::new(&format!(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, {});
         INSERT INTO t(id, c0, c1998) VALUES (1, 'Hello', 'x'), (2, 'x', 'hello'), (3, 'x', 5);",
        columns.join(", ")
    ));
    let t = db.open("t");
    let words: Vec<_> = (0..15).map(|number| format!("nothing{number}")).collect();
    for text in ["HELLO".to_owned(), format!("{} hello", words.join(" "))] {
        let query = Query { search: Search::new(&text), ..sorted(&t, &[]) };
        assert_eq!(member(&walk(&t, &query, 1), "id"), [1, 2]);
        assert_eq!(t.count(&query).unwrap(), 2);
    }
    let many = Search::new(&(0..17).map(|n| format!("w{n}")).collect::<Vec<_>>().join(" "));
    let error = t.count(&Query { search: many, ..sorted(&t, &[]) }).unwrap_err();
    let expected = "search has more than 16 words over this many columns";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn what_sqlite_does_not_take_is_not_called_damaged() {
    let columns: Vec<_> = (0..2000).map(|number| format!("c{number}")).collect();
    let db = TestDb::new(&format!("CREATE TABLE t({})", columns.join(", ")));
    let t = db.try_open("t", SqliteOptions::default().key(Key::Rowid)).unwrap();
    // With the rowid it has one column more than a result may have.
    let window = Window::Forward { after: None, limit: 1 };
    let error = fetch(&t, &sorted(&t, &[]), window).unwrap_err();
    assert!(matches!(error, CollectionError::Refused(_)), "{error}");
}

#[test]
fn text_that_is_no_utf8_is_told_by_its_row_and_column() {
    let db = TestDb::new(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT NOT NULL, b TEXT NOT NULL, v TEXT,
                        UNIQUE (a, b));
         INSERT INTO t VALUES (1, 'x', 'y', 'ok'), (7, 'x', 'z', CAST(x'ff' AS TEXT));
         CREATE TABLE k(id TEXT NOT NULL PRIMARY KEY);
         INSERT INTO k VALUES (CAST(x'ff' AS TEXT));",
    );
    let told = |t: SqliteCollection, sort: &[&str]| {
        let window = Window::Forward { after: None, limit: 9 };
        match fetch(&t, &sorted(&t, sort), window).unwrap_err() {
            CollectionError::Damaged(text) => text,
            other => panic!("{other}"),
        }
    };
    let expected = "column 'v' of the row (id = 7) holds text that is not UTF-8";
    assert_eq!(told(db.open("t"), &[]), expected);
    assert_eq!(told(db.open("t"), &["-v"]), expected);
    let by = told(db.open_by("t", &["a", "b"]), &[]);
    assert_eq!(by, "column 'v' of the row (a = \"x\", b = \"z\") holds text that is not UTF-8");
    let key = told(db.open("k"), &[]);
    assert_eq!(
        key,
        "column 'id' of the row (id = {\"$blob\":\"_w\"}) holds text that is not UTF-8"
    );
    let answer = Asker::new(db.open("t")).list(&json!({}));
    let why = format!("the source holds something unreadable: {expected}");
    assert_eq!(answer["error"]["details"]["upstream_error"], why);
}
