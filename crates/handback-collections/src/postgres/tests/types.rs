//! Every type: from an item to a filter and back, and through the places of a walk.

use handback_page::{Collection as _, CollectionError, Kind, Window};
use serde_json::{Value, json};

use super::support::{Db, fetch, ids, json, members, query, walk, walk_back};

/// One column for each type, and rows in which each has its extremes.
const EVERYTHING: &str = include_str!("everything.sql");

#[test]
fn what_is_read_can_be_asked_for() {
    let Some(db) = Db::new(EVERYTHING) else { return };
    let t = db.open("t");
    let rows = walk(&t, &query(&t, &json!({}), &[]), 2);
    assert_eq!(ids(&rows), [0, 1, 2, 3, 4, 5, 6]);
    let schema = t.schema().unwrap();
    let comparable = schema.columns().iter().filter(|column| column.is_comparable());
    let mut tested = 0;
    for column in comparable {
        for row in &rows {
            let item = json(row);
            let filter = json!({ column.name.as_str(): item[&column.name] });
            let found = ids(&walk(&t, &query(&t, &filter, &[]), 10));
            assert!(found.contains(&item["id"].as_i64().unwrap()), "{filter} finds {found:?}");
            let expected = db.texts(&format!(
                "SELECT a.id::text FROM t a JOIN t b ON a.\"{0}\" IS NOT DISTINCT FROM b.\"{0}\" \
                 WHERE b.id = {1} ORDER BY a.id",
                column.name, item["id"]
            ));
            let found: Vec<_> = found.iter().map(ToString::to_string).collect();
            assert_eq!(found, expected, "{filter}");
            tested += 1;
        }
    }
    assert_eq!(tested, 34 * 7);
}

#[test]
fn every_order_is_walked_through_places() {
    let Some(db) = Db::new(EVERYTHING) else { return };
    let t = db.open("t");
    let schema = t.schema().unwrap();
    for column in schema.columns().iter().filter(|column| column.is_comparable()) {
        let name = &column.name;
        for (key, sql) in [
            (name.clone(), format!("\"{name}\" NULLS LAST, id")),
            (format!("-{name}<"), format!("\"{name}\" DESC NULLS FIRST, id DESC")),
        ] {
            let query = query(&t, &json!({}), &[&key]);
            let expected = db.texts(&format!("SELECT id::text AS shown FROM t ORDER BY {sql}"));
            let text = |rows: &[_]| ids(rows).iter().map(ToString::to_string).collect::<Vec<_>>();
            assert_eq!(text(&walk(&t, &query, 1)), expected, "{key}");
            assert_eq!(text(&walk_back(&t, &query, 2)), expected, "{key}");
        }
    }
}

#[test]
fn items_are_written_by_the_mapping() {
    let Some(db) = Db::new(EVERYTHING) else { return };
    let t = db.open("t");
    let rows = walk(&t, &query(&t, &json!({}), &[]), 100);
    let item = |id: usize| json(&rows[id]);
    assert!(
        item(0).as_object().unwrap().iter().all(|(name, value)| name == "id" || value.is_null())
    );
    for (id, name, expected) in [
        (1, "bool", json!(true)),
        (1, "i8", json!({"$integer": "9223372036854775807"})),
        (4, "i8", json!({"$integer": "9007199254740993"})),
        (6, "f4", json!(0.1)),
        (6, "f8", json!(0.1)),
        (2, "f8", json!(5e-324)),
        (3, "f4", json!({"$real": "NaN"})),
        (4, "f8", json!({"$real": "Infinity"})),
        (5, "num", json!({"$real": "-Infinity"})),
        (1, "num", json!({"$decimal": "123456789012345678901234567890.123456789"})),
        (5, "num2", json!(12.3)),
        (1, "txt", json!("q\"\\u\n\u{1}é€😀")),
        (1, "ch", json!("ab")),
        (3, "vc", json!("a ")),
        (1, "bin", json!({"$blob": "AP8"})),
        (5, "d", json!("2024-02-29")),
        (1, "ts", json!("infinity")),
        (5, "ts", json!("2024-02-29T01:02:03")),
        (5, "tz", json!("2024-02-28T19:32:03.123456+00:00")),
        (3, "ts", json!("0044-03-15T12:00:00.5 BC")),
        (5, "iv", json!("P1M")),
        (4, "ip", json!("192.168.0.1")),
        (3, "ip", json!("192.168.0.1/24")),
        (1, "o", json!("4294967295")),
        (1, "mood", json!("happy")),
        (1, "grade", json!(10)),
        (1, "jb", json!({"b": [1, null, "x"]})),
        (2, "js", json!(null)),
        (1, "arr", json!([1, null, 3])),
        (1, "comp", json!({"x": 1, "y": "y"})),
        (1, "rng", json!("[1,5)")),
        (1, "pt", json!("(1,2)")),
        (1, "x", json!("<a/>")),
        (1, "rc", json!("pg_class")),
    ] {
        assert_eq!(item(id)[name], expected, "{id} {name}");
    }
}

#[test]
fn kinds_are_what_can_be_done_with_a_column() {
    let Some(db) = Db::new(EVERYTHING) else { return };
    let schema = db.open("t").schema().unwrap();
    let kind = |name: &str| schema.column(name).unwrap().kind.clone();
    let named = |name: &str| Kind::Named(name.to_owned());
    for (names, expected) in [
        (&["bool"][..], Kind::Boolean),
        (&["id", "i2", "i4", "i8", "grade"], Kind::Integer),
        (&["f4", "f8", "num", "num2"], Kind::Number),
        (&["txt", "vc", "ch", "nm", "word"], Kind::Text),
        (&["bin"], Kind::Blob),
        (&["js", "jb", "arr", "tarr", "comp", "rng", "pt", "x", "rc"], Kind::Json),
        (&["tz"], named("timestamp with time zone")),
        (&["u"], named("uuid")),
        (&["net"], named("cidr")),
        (&["bits"], named("\"bit\"")),
        (&["mood"], named(&format!("\"{}\".mood", db.schema))),
    ] {
        for name in names {
            assert_eq!(kind(name), expected, "{name}");
        }
    }
    assert!(!schema.column("id").unwrap().nullable && schema.column("i2").unwrap().nullable);
}

#[test]
fn enums_are_compared_in_the_order_of_their_type() {
    let Some(db) = Db::new(EVERYTHING) else { return };
    let t = db.open("t");
    let found = walk(&t, &query(&t, &json!({"mood": {"gte": "ok", "lt": "Über"}}), &["-mood"]), 2);
    assert_eq!(members(&found, "mood"), [json!("happy"), json!("ok"), json!("ok"), json!("ok")]);
}

#[test]
fn a_value_that_is_none_of_its_type_names_its_column() {
    let Some(db) = Db::new(EVERYTHING) else { return };
    let t = db.open("t");
    for (filter, field, expected) in [
        (json!({"d": "soon"}), "d", "a value of type date"),
        (json!({"d": "2024-02-30"}), "d", "a value of type date"),
        (json!({"txt": "2024", "ts": {"gt": "x"}}), "ts", "timestamp without"),
        (json!({"u": {"in": ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a13", "0"]}}), "u", "uuid"),
        (json!({"d": "2024-01-01", "ip": "x"}), "ip", "a value of type inet"),
        (json!({"mood": "angry"}), "mood", ".mood"),
        (json!({"d": "2024-01-01", "mood": {"in": ["ok", "no"]}}), "mood", ".mood"),
        (json!({"num": {"$decimal": "9".repeat(200_000)}}), "num", "a number"),
        (json!({"qc": "xy"}), "qc", "\"char\""),
        (json!({"o": "-x"}), "o", "oid"),
        (json!({"u": "\0"}), "u", "uuid"),
    ] {
        let query = query(&t, &filter, &["txt"]);
        let window = Window::Forward { after: None, limit: 3 };
        let errors = [t.fetch(&fetch(&query, window)).map(|_| ()), t.count(&query).map(|_| ())];
        for error in errors {
            match error {
                Err(CollectionError::BadValue { field: found, expected: text }) => {
                    assert_eq!(found, field, "{filter}");
                    assert!(text.contains(expected), "{filter}: {text}");
                }
                other => panic!("{filter}: {other:?}"),
            }
        }
    }
}

#[test]
fn what_a_float_cannot_hold_is_not_rounded() {
    let Some(db) = Db::new(
        "CREATE TABLE t (id int PRIMARY KEY, f4 real, f8 double precision);
         INSERT INTO t VALUES (1, 16777216, 9007199254740992), (2, 16777218, 9007199254740994),
             (3, 0.1, 0.1), (4, 'Infinity', 'Infinity'), (5, 'NaN', 'NaN'), (6, 3e10, 1e23);
         CREATE INDEX ON t (f8, id)",
    ) else {
        return;
    };
    let t = db.open("t");
    let found = |filter: &Value| ids(&walk(&t, &query(&t, filter, &[]), 10));
    for (filter, expected) in [
        (json!({"f8": {"$integer": "9007199254740993"}}), vec![]),
        (json!({"f8": {"ne": {"$integer": "9007199254740993"}}}), vec![1, 2, 3, 4, 5, 6]),
        (json!({"f8": {"gt": {"$integer": "9007199254740993"}}}), vec![2, 4, 5, 6]),
        (json!({"f8": {"gte": {"$integer": "9007199254740993"}}}), vec![2, 4, 5, 6]),
        (json!({"f8": {"lt": {"$integer": "9007199254740993"}}}), vec![1, 3]),
        (json!({"f8": {"lte": {"$integer": "9007199254740993"}}}), vec![1, 3]),
        (json!({"f8": {"$integer": "9007199254740992"}}), vec![1]),
        (json!({"f8": 1e23}), vec![6]),
        (json!({"f8": {"$decimal": "0.1"}}), vec![3]),
        (json!({"f8": {"$decimal": "0.1000000000000000000001"}}), vec![]),
        (json!({"f8": {"lt": {"$decimal": "0.1000000000000000000001"}}}), vec![3]),
        (json!({"f8": {"gt": {"$decimal": "9".repeat(400)}}}), vec![4, 5]),
        (json!({"f4": 16_777_217}), vec![]),
        (json!({"f4": {"in": [16_777_217, 16_777_216, 0.1]}}), vec![1, 3]),
        (json!({"f4": {"gt": 16_777_217, "lt": 1e300}}), vec![2, 6]),
        (json!({"f4": {"gte": 16_777_217, "lte": 1e10}}), vec![2]),
        (json!({"f4": {"lt": 16_777_217}}), vec![1, 3]),
        (json!({"f4": {"lt": 1e300}}), vec![1, 2, 3, 6]),
        (json!({"f4": {"gt": 1e300}}), vec![4, 5]),
        (json!({"f4": {"gt": -1e300}}), vec![1, 2, 3, 4, 5, 6]),
        (json!({"f4": 1e300}), vec![]),
        (json!({"f4": 3e10}), vec![6]),
        (json!({"f4": 0.1}), vec![3]),
        (json!({"f4": {"gt": 0.1, "lt": 0.1001}}), vec![]),
    ] {
        assert_eq!(found(&filter), expected, "{filter}");
    }
}

#[test]
fn numbers_are_compared_across_their_types() {
    let Some(db) = Db::new(EVERYTHING) else { return };
    let t = db.open("t");
    let found = |filter: Value| ids(&walk(&t, &query(&t, &filter, &[]), 10));
    for (filter, expected) in [
        (json!({"i2": {"gt": 0.5, "lt": 2.5}}), vec![4, 5]),
        (json!({"i2": {"gt": 40000}}), vec![]),
        (json!({"i2": {"lt": 40000, "gte": 3}}), vec![1, 6]),
        (json!({"i8": {"lt": {"$integer": "99999999999999999999"}, "gt": 5}}), vec![1, 4]),
        (json!({"i4": 3.0}), vec![6]),
        (json!({"i4": 3.5}), vec![]),
        (json!({"not": {"i4": {"lt": 1e300}}}), vec![0]),
        (
            json!({"num": {"gt": {"$decimal": "123456789012345678901234567890.123456788"}}}),
            vec![1, 3, 4],
        ),
        (json!({"num": 0.1}), vec![6]),
        (json!({"f8": {"gt": {"$real": "Infinity"}}}), vec![3]),
        (json!({"f8": {"gte": {"$real": "Infinity"}}}), vec![3, 4]),
        (json!({"f4": {"in": [0.1, {"$real": "NaN"}]}}), vec![3, 6]),
        (json!({"num2": {"gt": 12.299, "lt": 12.301}}), vec![5]),
        (json!({"vc": "a  "}), vec![]),
        (json!({"vc": "a2345678901234567890TOO LONG"}), vec![]),
        (json!({"nm": format!("a{}", " ".repeat(80))}), vec![]),
        (json!({"iv": "P30D"}), vec![4, 5, 6]),
    ] {
        assert_eq!(found(filter.clone()), expected, "{filter}");
    }
}
