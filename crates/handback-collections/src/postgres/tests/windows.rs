//! Windows: order, sides, columns, budgets, scans.

use handback_page::{
    Collection as _, CollectionError, Fetch, Fetched, Kind, Places, Scalar, Search, Served, Window,
};
use serde_json::json;

use super::support::{Db, backward, fetch, forward, ids, members, query, walk, walk_back};
use crate::postgres::PostgresOptions;

const TIES: &str = "\
CREATE TABLE t (id int PRIMARY KEY, a int, b text COLLATE \"C\");
CREATE INDEX ON t (a, id);
INSERT INTO t VALUES (1, 2, 'x'), (2, NULL, 'y'), (3, 1, NULL), (4, 2, 'y'), (5, NULL, NULL),
    (6, 1, 'x'), (7, 2, NULL);";

#[test]
fn nulls_go_where_the_order_says() {
    let Some(db) = Db::new(TIES) else { return };
    let t = db.open("t");
    for (keys, expected) in [
        (&["a"][..], [3, 6, 1, 4, 7, 2, 5]),
        (&["a<"], [2, 5, 3, 6, 1, 4, 7]),
        (&["-a"], [7, 4, 1, 6, 3, 5, 2]),
        (&["-a<"], [5, 2, 7, 4, 1, 6, 3]),
        (&["a", "-id"], [6, 3, 7, 4, 1, 5, 2]),
        (&["a", "b<"], [3, 6, 7, 1, 4, 5, 2]),
        (&["-b", "a"], [4, 2, 6, 1, 3, 7, 5]),
        (&["-id"], [7, 6, 5, 4, 3, 2, 1]),
    ] {
        let query = query(&t, &json!({}), keys);
        for limit in [1, 2, 3, 7, 8] {
            assert_eq!(ids(&walk(&t, &query, limit)), expected, "{keys:?} {limit}");
            assert_eq!(ids(&walk_back(&t, &query, limit)), expected, "{keys:?} {limit}");
        }
        let mut scanned = Vec::new();
        t.scan(&query, &mut |row| {
            scanned.push(row);
            Ok(())
        })
        .unwrap();
        assert_eq!(scanned, walk(&t, &query, 3));
    }
}

#[test]
fn a_window_tells_the_truth_about_its_sides() {
    let Some(db) = Db::new(TIES) else { return };
    let t = db.open("t");
    let all = query(&t, &json!({}), &[]);
    let place = |id: i128| [Scalar::Int(id)];
    let sides = |page: Fetched| (page.rows.len(), page.more_before, page.more_after);
    assert_eq!(sides(forward(&t, &all, None, 7)), (7, false, false));
    assert_eq!(sides(forward(&t, &all, None, 0)), (0, false, true));
    assert_eq!(sides(forward(&t, &all, Some(&place(7)), 5)), (0, true, false));
    assert_eq!(sides(forward(&t, &all, Some(&place(0)), 5)), (5, false, true));
    assert_eq!(sides(backward(&t, &all, Some(&place(1)), 5)), (0, false, true));
    assert_eq!(sides(backward(&t, &all, Some(&place(9)), 5)), (5, true, false));
    assert_eq!(sides(backward(&t, &all, Some(&place(9)), 0)), (0, true, false));
    let offset =
        |offset, limit| sides(t.fetch(&fetch(&all, Window::Offset { offset, limit })).unwrap());
    assert_eq!(offset(0, 3), (3, false, true));
    assert_eq!(offset(4, 3), (3, true, false));
    assert_eq!(offset(7, 3), (0, true, false));
    assert_eq!(offset(u64::MAX, 3), (0, true, false));
    assert_eq!(offset(0, 0), (0, false, true));
    let none = query(&t, &json!({"a": 77}), &[]);
    assert_eq!(sides(forward(&t, &none, Some(&place(3)), 5)), (0, false, false));
    assert_eq!(
        sides(t.fetch(&fetch(&none, Window::Offset { offset: 3, limit: 3 })).unwrap()),
        (0, false, false)
    );
    assert_eq!((t.count(&all).unwrap(), t.count(&none).unwrap()), (7, 0));
}

#[test]
fn only_the_columns_that_are_asked_for_are_shown() {
    let Some(db) = Db::new(TIES) else { return };
    let t = db.open("t");
    let query = query(&t, &json!({"id": 1}), &["a"]);
    let window = Window::Forward { after: None, limit: 5 };
    for (columns, item) in [
        (vec!["b"], r#"{"b":"x"}"#),
        (vec!["b", "id", "no such column"], r#"{"id":1,"b":"x"}"#),
        (vec![], "{}"),
    ] {
        let columns: Vec<String> = columns.into_iter().map(str::to_owned).collect();
        let columns = Some(&columns[..]);
        let page = t
            .fetch(&Fetch {
                query: &query,
                window,
                columns,
                budget_bytes: 1000,
                places: Places::All,
                total: false,
            })
            .unwrap();
        assert_eq!(page.rows[0].item, item);
        assert_eq!(page.rows[0].place, [Scalar::Int(2), Scalar::Int(1)]);
    }
}

#[test]
fn a_page_over_its_budget_ends_early_and_says_so() {
    let Some(db) = Db::new(
        "CREATE TABLE t (id int PRIMARY KEY, x text NOT NULL);
         INSERT INTO t SELECT n, repeat('x', 100000) FROM generate_series(1, 50) n",
    ) else {
        return;
    };
    let t = db.open("t");
    let query = query(&t, &json!({}), &[]);
    let get = |window, budget_bytes| {
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
        (ids(&page.rows), page.more_before, page.more_after)
    };
    let forward = Window::Forward { after: None, limit: 50 };
    let backward = Window::Backward { before: None, limit: 50 };
    assert_eq!(get(forward, 0), (vec![1], false, true));
    assert_eq!(get(forward, 250_000), (vec![1, 2, 3], false, true));
    assert_eq!(get(backward, 250_000), (vec![48, 49, 50], true, false));
    assert_eq!(get(Window::Forward { after: None, limit: 1 }, 0), (vec![1], false, true));
    assert_eq!(get(forward, usize::MAX).0.len(), 50);
    let last = [Scalar::Int(49)];
    assert_eq!(get(Window::Forward { after: Some(&last), limit: 5 }, 0), (vec![50], true, false));
}

#[test]
fn composite_keys_and_odd_names_are_kept_apart() {
    let Some(db) = Db::new(
        "CREATE TABLE \"Odd \"\"table; --\" (
             \"select\" int, \"a\"\"b'c\" text COLLATE \"C\", \"t\" int, \"s\" int, \"$1\" int, \"é.x\" int,
             PRIMARY KEY (\"select\", \"a\"\"b'c\"));
         INSERT INTO \"Odd \"\"table; --\" SELECT x, y, x * 7 % 3, 1, 2, 3
             FROM generate_series(1, 4) x, unnest(ARRAY['', 'a', '''; DROP TABLE t; --']) y",
    ) else {
        return;
    };
    let t = db.open("Odd \"table; --");
    assert_eq!(t.schema().unwrap().key(), ["select", "a\"b'c"]);
    for keys in [&[][..], &["t"], &["-t", "s"], &["a\"b'c", "-$1"], &["é.x"]] {
        let query = query(&t, &json!({}), keys);
        let rows = walk(&t, &query, 5);
        assert_eq!(rows.len(), 12, "{keys:?}");
        assert_eq!(rows, walk_back(&t, &query, 4));
        assert_eq!(rows, walk(&t, &query, 100));
    }
    let query = query(&t, &json!({"a\"b'c": "'; DROP TABLE t; --", "select": {"gt": 2}}), &[]);
    assert_eq!(members(&walk(&t, &query, 5), "select"), [json!(3), json!(4)]);
}

#[test]
fn what_callers_send_is_never_sql() {
    let Some(db) = Db::new(TIES) else { return };
    let t = db.open("t");
    for text in ["'", "' OR 1=1 --", "$1", "\\", "%", "_", "x'; DROP TABLE t; --", "\u{feff}"] {
        for filter in [
            json!({"b": text}),
            json!({"b": {"contains": text}}),
            json!({"b": {"starts_with": text}}),
            json!({"b": {"in": [text, text]}}),
        ] {
            assert_eq!(t.count(&query(&t, &filter, &[])).unwrap(), 0, "{filter}");
        }
        let mut query = query(&t, &json!({}), &[]);
        query.search = Search::new(text);
        let expected = if query.search.is_empty() { 7 } else { 0 };
        assert_eq!(t.count(&query).unwrap(), expected, "{text}");
    }
    assert_eq!(t.count(&query(&t, &json!({}), &[])).unwrap(), 7);
}

#[test]
fn a_character_that_the_server_has_not_matches_nothing() {
    let Some(db) = Db::new(TIES) else { return };
    let t = db.open("t");
    for (filter, expected) in [
        (json!({"b": "x\0"}), 0),
        (json!({"b": {"ne": "x\0"}}), 7),
        (json!({"b": {"in": ["x\0", "x"]}}), 2),
        (json!({"b": {"contains": "\0"}}), 0),
        (json!({"b": {"starts_with": "\0"}}), 0),
    ] {
        assert_eq!(t.count(&query(&t, &filter, &[])).unwrap(), expected, "{filter}");
    }
    let query_ = query(&t, &json!({"b": {"gt": "x\0"}}), &[]);
    let error = t.count(&query_).unwrap_err();
    assert!(matches!(&error, CollectionError::BadValue { field, .. } if field == "b"), "{error}");
    let mut searched = query(&t, &json!({}), &[]);
    searched.search = Search::new("\0 x");
    assert_eq!(t.count(&searched).unwrap(), 2);
    searched.search = Search::new("\0");
    assert_eq!(t.count(&searched).unwrap(), 0);
    let by_text = query(&t, &json!({}), &["b"]);
    let place = [Scalar::Text("\0".into()), Scalar::Int(1)];
    let window = Window::Forward { after: Some(&place), limit: 1 };
    assert!(matches!(t.fetch(&fetch(&by_text, window)), Err(CollectionError::BadPlace)));
}

#[test]
fn texts_are_found_by_case_and_words_without() {
    let Some(db) = Db::new(
        "CREATE TABLE t (id int PRIMARY KEY, b text, c varchar(9), d char(5), n int);
         INSERT INTO t VALUES (1, 'Grüße', 'one', 'ab', 7), (2, 'GRÜSSE', 'Two', 'cd', 7),
             (3, NULL, NULL, NULL, 7)",
    ) else {
        return;
    };
    let t = db.open("t");
    let found = |filter| ids(&walk(&t, &query(&t, &filter, &[]), 9));
    assert_eq!(found(json!({"b": {"contains": "Grü"}})), [1]);
    assert_eq!(found(json!({"b": {"contains": "grü"}})), [0i64; 0]);
    assert_eq!(found(json!({"b": {"starts_with": "GR"}})), [2]);
    assert_eq!(found(json!({"c": {"contains": "w"}})), [2]);
    assert_eq!(found(json!({"d": {"starts_with": "a"}})), [1]);
    assert_eq!(found(json!({"d": "ab"})), [1]);
    assert_eq!(found(json!({"d": "ab  "})), [1]);
    let search = |words: &str| {
        let mut query = query(&t, &json!({}), &[]);
        query.search = Search::new(words);
        ids(&walk(&t, &query, 9))
    };
    assert_eq!(search("gr"), [1, 2]);
    assert_eq!(search("TWO"), [2]);
    assert_eq!(search("ü"), [1]);
    assert_eq!(search("CD one"), [1, 2]);
    assert_eq!(search("7"), [0i64; 0]);
}

#[test]
fn places_that_do_not_fit_are_refused() {
    let Some(db) = Db::new(
        "CREATE TABLE t (id bigint PRIMARY KEY, d date, n numeric, f real, u uuid NOT NULL)",
    ) else {
        return;
    };
    let t = db.open("t");
    let text = |text: &str| Scalar::Text(text.into());
    let id = Scalar::Int(1);
    for (keys, place) in [
        (&[][..], vec![]),
        (&[], vec![id.clone(), id.clone()]),
        (&[], vec![Scalar::Null]),
        (&[], vec![text("1")]),
        (&[], vec![Scalar::Int(1 << 64)]),
        (&["d"], vec![text("yesterday-ish"), id.clone()]),
        (&["d"], vec![Scalar::Int(5), id.clone()]),
        (&["n"], vec![text("1.x"), id.clone()]),
        (&["n"], vec![Scalar::Real(1.5), id.clone()]),
        (&["f"], vec![text("1.5"), id.clone()]),
        (&["f"], vec![Scalar::Real(1e300), id.clone()]),
        (&["u"], vec![Scalar::Null, id.clone()]),
        (&["u"], vec![text("0"), id.clone()]),
    ] {
        let query = query(&t, &json!({}), keys);
        for window in [
            Window::Forward { after: Some(&place), limit: 1 },
            Window::Backward { before: Some(&place), limit: 1 },
        ] {
            let error = t.fetch(&fetch(&query, window)).unwrap_err();
            assert!(matches!(error, CollectionError::BadPlace), "{keys:?} {place:?}: {error}");
        }
    }
}

#[test]
fn an_order_without_an_index_is_told_or_refused() {
    let Some(db) = Db::new(TIES) else { return };
    let t = db.open("t");
    let served = |keys: &[&str]| forward(&t, &query(&t, &json!({}), keys), None, 2).served;
    assert_eq!(served(&["a"]), Served::Directly);
    assert_eq!(served(&["-a<"]), Served::Directly);
    let hint = "an index on (b, id) would serve this order".to_owned();
    assert_eq!(served(&["b"]), Served::ByScan { hint: hint.clone() });
    let strict = db.open_with("t", PostgresOptions::default().require_index(true));
    let by_b = query(&strict, &json!({}), &["b"]);
    let window = Window::Forward { after: None, limit: 1 };
    match strict.fetch(&fetch(&by_b, window)) {
        Err(CollectionError::NotIndexed { hint: found }) => assert_eq!(found, hint),
        other => panic!("{other:?}"),
    }
    forward(&strict, &query(&strict, &json!({}), &["-a"]), None, 1);
    assert_eq!(t.schema().unwrap().column("b").unwrap().kind, Kind::Text);
}

#[test]
fn a_scan_is_of_one_moment_and_ends_with_its_sink() {
    let Some(db) = Db::new(
        "CREATE TABLE t (id int PRIMARY KEY, x text);
         INSERT INTO t SELECT n, repeat('x', n % 700) FROM generate_series(1, 3000) n",
    ) else {
        return;
    };
    let t = db.open("t");
    let all = query(&t, &json!({}), &["-id"]);
    let mut found = Vec::new();
    t.scan(&all, &mut |row| {
        if found.is_empty() {
            db.execute("DELETE FROM t WHERE id % 2 = 0; INSERT INTO t VALUES (0, 'late')");
        }
        found.push(row);
        Ok(())
    })
    .unwrap();
    assert_eq!(ids(&found), (1..=3000).rev().collect::<Vec<_>>());
    let mut count = 0;
    let error = t.scan(&all, &mut |_| {
        count += 1;
        if count == 100 { Err(CollectionError::Changed) } else { Ok(()) }
    });
    assert!(matches!(error, Err(CollectionError::Changed)));
    assert_eq!((count, t.count(&all).unwrap()), (100, 1501));
}

#[test]
fn a_total_is_counted_by_the_statement_of_the_page() {
    let Some(db) = Db::new(
        "CREATE TABLE t (id int PRIMARY KEY, a int NOT NULL, b text);
         INSERT INTO t SELECT n, n % 3, 'x' FROM generate_series(1, 30) n",
    ) else {
        return;
    };
    let t = db.open("t");
    for keys in [&[][..], &["a"], &["-b"]] {
        for (filter, expected) in [(json!({}), 30), (json!({"a": 1}), 10), (json!({"a": 7}), 0)] {
            let query = query(&t, &filter, keys);
            let all = walk(&t, &query, 7);
            let place = all.get(all.len() / 2).map(|row| row.place.clone());
            for window in [
                Window::Forward { after: None, limit: 4 },
                Window::Forward { after: place.as_deref(), limit: 4 },
                Window::Backward { before: None, limit: 4 },
                Window::Backward { before: place.as_deref(), limit: 40 },
                Window::Offset { offset: 0, limit: 4 },
                Window::Offset { offset: 7, limit: 0 },
            ] {
                let plain = t.fetch(&fetch(&query, window)).unwrap();
                assert_eq!(plain.total, None);
                let counted = t.fetch(&Fetch { total: true, ..fetch(&query, window) }).unwrap();
                assert_eq!(counted.total, Some(expected), "{window:?} {keys:?}");
                assert_eq!(Fetched { total: None, ..counted }, plain);
            }
        }
    }
}

#[test]
fn a_total_is_of_the_moment_of_its_page() {
    let Some(db) =
        Db::new("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t SELECT generate_series(1, 50)")
    else {
        return;
    };
    let t = db.open("t");
    let query = query(&t, &json!({}), &[]);
    let window = Window::Forward { after: None, limit: 100 };
    let asked = Fetch { total: true, ..fetch(&query, window) };
    let is_done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(std::sync::atomic::Ordering::Relaxed) {
                db.execute("DELETE FROM t WHERE id > 25");
                db.execute("INSERT INTO t SELECT generate_series(26, 50)");
            }
        });
        for _ in 0..300 {
            let page = t.fetch(&asked).unwrap();
            assert_eq!(page.total, Some(page.rows.len() as u64));
        }
        is_done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
fn what_may_be_null_is_what_the_table_says_now() {
    for index in ["", "CREATE INDEX ON t (a, id);", "CREATE INDEX ON t (a NULLS FIRST, id);"] {
        let Some(db) = Db::new(&format!(
            "CREATE TABLE t (id int PRIMARY KEY, a int NOT NULL); {index}
             INSERT INTO t SELECT n, n FROM generate_series(1, 3) n"
        )) else {
            return;
        };
        for (window, expected) in [
            (
                Window::Forward { after: Some(&[Scalar::Int(2), Scalar::Int(2)]), limit: 9 },
                [3, 4, 5],
            ),
            (Window::Backward { before: None, limit: 3 }, [3, 4, 5]),
            (Window::Offset { offset: 2, limit: 9 }, [3, 4, 5]),
        ] {
            // What is known of the table is good for half a minute.
            let t = db.open("t");
            let query = query(&t, &json!({}), &["a"]);
            assert_eq!(ids(&walk(&t, &query, 2)), [1, 2, 3]);
            db.execute(
                "ALTER TABLE t ALTER a DROP NOT NULL; INSERT INTO t VALUES (4, NULL), (5, NULL)",
            );
            let page = t.fetch(&fetch(&query, window)).unwrap();
            assert_eq!(ids(&page.rows), expected, "{window:?} {index}");
            db.execute("DELETE FROM t WHERE a IS NULL; ALTER TABLE t ALTER a SET NOT NULL");
        }
    }
}

#[test]
fn a_walk_ends_when_a_key_that_nothing_declares_gets_duplicates() {
    let Some(db) = Db::new(
        "CREATE TABLE t (id int NOT NULL, v text); CREATE INDEX ON t (id);
         INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')",
    ) else {
        return;
    };
    let t = db.open_with("t", PostgresOptions::default().key(["id".to_owned()]));
    let query = query(&t, &json!({}), &[]);
    for sql in ["INSERT INTO t VALUES (2, 'b2')", "INSERT INTO t VALUES (2, 'b3')"] {
        db.execute(sql);
        for limit in 1..4 {
            let mut seen = ids(&walk(&t, &query, limit));
            assert!(seen.len() <= 5);
            seen.dedup();
            assert_eq!(seen, [1, 2, 3]);
        }
    }
}

#[test]
fn a_scan_that_meets_a_null_where_none_was_works_again_at_once() {
    let Some(db) = Db::new(
        "CREATE TABLE t (id int PRIMARY KEY, a int NOT NULL); INSERT INTO t VALUES (1, 1), (2, 2)",
    ) else {
        return;
    };
    let t = db.open("t");
    let query = query(&t, &json!({}), &["a"]);
    db.execute("ALTER TABLE t ALTER a DROP NOT NULL; INSERT INTO t VALUES (3, NULL)");
    let scan = || {
        let mut rows = Vec::new();
        t.scan(&query, &mut |row| {
            rows.push(row);
            Ok(())
        })?;
        Ok(ids(&rows))
    };
    assert!(matches!(scan(), Err(CollectionError::Unavailable(_))));
    assert_eq!(scan().unwrap(), [1, 2, 3]);
}

/// What every order of `GONE` is asked for.
fn gone_orders() -> [&'static [&'static str]; 9] {
    // By an index in one piece, in several, with nulls at either end, with a trusted column; and
    // without an index.
    [&[], &["-id"], &["a"], &["-a<"], &["a<"], &["e"], &["-e", "id"], &["e", "a<"], &["b", "-a"]]
}

const GONE: &str = "\
CREATE TABLE t (id int PRIMARY KEY, a int, b text COLLATE \"C\", e int NOT NULL);
CREATE INDEX ON t (a, id);
CREATE INDEX ON t (e, id);
CREATE INDEX ON t (e, a NULLS FIRST, id);
INSERT INTO t VALUES (1, 2, 'x', 1), (2, NULL, 'y', 1), (3, 1, NULL, 2), (4, 2, 'y', 2),
    (5, NULL, NULL, 1), (6, 1, 'x', 2), (7, 2, NULL, 1);";

#[test]
fn a_row_that_is_gone_hides_nothing_of_what_is_on_its_other_side() {
    let Some(db) = Db::new(GONE) else { return };
    for keys in gone_orders() {
        let all = walk(&db.open("t"), &query(&db.open("t"), &json!({}), keys), 9);
        for (number, gone) in all.iter().enumerate() {
            // New: it has never met a place whose row was gone.
            let t = db.open("t");
            let query = query(&t, &json!({}), keys);
            let place = Some(gone.place.as_slice());
            let (before, after) = (&all[..number], &all[number + 1..]);
            let check = |is_there: bool| {
                let tag = format!("{keys:?} {number} {is_there}");
                for limit in [1, 2, 7] {
                    let page = forward(&t, &query, place, limit);
                    assert_eq!(page.rows, after[..limit.min(after.len())], "{tag} {limit}");
                    assert_eq!(page.more_before, is_there || !before.is_empty(), "{tag} {limit}");
                    assert_eq!(page.more_after, after.len() > limit, "{tag} {limit}");
                    let page = backward(&t, &query, place, limit);
                    let from = before.len().saturating_sub(limit);
                    assert_eq!(page.rows, before[from..], "{tag} {limit}");
                    assert_eq!(page.more_after, is_there || !after.is_empty(), "{tag} {limit}");
                    assert_eq!(page.more_before, before.len() > limit, "{tag} {limit}");
                }
            };
            check(true);
            let id = ids(std::slice::from_ref(gone))[0];
            db.execute(&format!("CREATE TEMP TABLE kept AS SELECT * FROM t WHERE id = {id}"));
            db.execute(&format!("DELETE FROM t WHERE id = {id}"));
            // The first one finds out, the second one knows.
            check(false);
            check(false);
            db.execute("INSERT INTO t SELECT * FROM kept; DROP TABLE kept");
            check(true);
        }
    }
}

#[test]
fn nothing_is_before_the_first_page_nor_in_an_empty_table() {
    let Some(db) = Db::new(GONE) else { return };
    let t = db.open("t");
    let sides = |page: Fetched| (page.rows.len(), page.more_before, page.more_after);
    for keys in gone_orders() {
        let query = query(&t, &json!({}), keys);
        assert_eq!(sides(forward(&t, &query, None, 3)), (3, false, true), "{keys:?}");
        assert_eq!(sides(backward(&t, &query, None, 3)), (3, true, false), "{keys:?}");
        assert_eq!(sides(forward(&t, &query, None, 7)), (7, false, false), "{keys:?}");
    }
    let places: Vec<_> = gone_orders()
        .iter()
        .map(|keys| walk(&t, &query(&t, &json!({}), keys), 9)[3].place.clone())
        .collect();
    db.execute("DELETE FROM t");
    for (keys, place) in gone_orders().iter().zip(&places) {
        let query = query(&t, &json!({}), keys);
        for place in [None, Some(place.as_slice()), Some(place)] {
            assert_eq!(sides(forward(&t, &query, place, 3)), (0, false, false), "{keys:?}");
            assert_eq!(sides(backward(&t, &query, place, 3)), (0, false, false), "{keys:?}");
        }
        let window = Window::Offset { offset: 2, limit: 3 };
        assert_eq!(sides(t.fetch(&fetch(&query, window)).unwrap()), (0, false, false));
    }
}

#[test]
fn a_row_at_the_place_is_what_the_server_takes_for_the_same() {
    let Some(db) = Db::new(
        "CREATE COLLATION ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
         CREATE TABLE t (id int PRIMARY KEY, a text COLLATE ci NOT NULL, n numeric, f float8);
         CREATE INDEX ON t (a, id); CREATE INDEX ON t (n, id); CREATE INDEX ON t (f, id);
         INSERT INTO t VALUES (1, 'a', 1.0, 0), (2, 'A', 1.00, '-0'), (3, 'b', 2, 'NaN'),
             (4, 'B', 2.0, 'NaN')",
    ) else {
        return;
    };
    for (key, change) in [
        ("a", "UPDATE t SET a = CASE WHEN a < 'b' THEN 'A' ELSE 'B' END"),
        ("n", "UPDATE t SET n = n::numeric(5, 3)"),
        ("f", "UPDATE t SET f = -f WHERE f = 0"),
    ] {
        let t = db.open("t");
        let query = query(&t, &json!({}), &[key]);
        let all = walk(&t, &query, 9);
        db.execute(change);
        for (number, row) in all.iter().enumerate() {
            let page = forward(&t, &query, Some(&row.place), 9);
            assert_eq!(ids(&page.rows), ids(&all[number + 1..]), "{key}");
            assert!(page.more_before);
            let page = backward(&t, &query, Some(&row.place), 9);
            assert_eq!(ids(&page.rows), ids(&all[..number]), "{key}");
            assert!(page.more_after);
        }
    }
}

#[test]
fn a_key_that_is_one_no_longer_is_noticed_by_the_rows_at_the_place() {
    let Some(db) =
        Db::new("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t SELECT generate_series(1, 9)")
    else {
        return;
    };
    let t = db.open("t");
    let query = query(&t, &json!({}), &[]);
    let place = [Scalar::Int(3)];
    assert_eq!(ids(&forward(&t, &query, Some(&place), 2).rows), [4, 5]);
    db.execute("ALTER TABLE t DROP CONSTRAINT t_pkey; INSERT INTO t VALUES (3), (3), (3)");
    let window = Window::Forward { after: Some(&place), limit: 2 };
    let error = t.fetch(&fetch(&query, window)).unwrap_err();
    assert!(matches!(error, CollectionError::Gone(_)), "{error}");
}

#[test]
fn a_column_of_the_same_name_is_not_the_same_column() {
    let Some(db) = Db::new(
        "CREATE TABLE t (id int PRIMARY KEY, a int NOT NULL); CREATE INDEX ON t (a, id);
         INSERT INTO t SELECT n, n FROM generate_series(1, 5) n",
    ) else {
        return;
    };
    let t = db.open("t");
    let query = query(&t, &json!({}), &["a"]);
    let place = [Scalar::Int(2), Scalar::Int(2)];
    assert_eq!(ids(&forward(&t, &query, Some(&place), 9).rows), [3, 4, 5]);
    db.execute(
        "ALTER TABLE t DROP COLUMN a; ALTER TABLE t ADD COLUMN a int;
         UPDATE t SET a = id WHERE id IN (2, 4)",
    );
    assert_eq!(ids(&forward(&t, &query, Some(&place), 9).rows), [4, 1, 3, 5]);
}
