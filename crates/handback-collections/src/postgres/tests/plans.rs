//! That pages at any depth are read by an index, also by plans that the server keeps.

use std::sync::Arc;

use handback_page::{Collection as _, Fetch, Query, Scalar, Served, Window};
use serde_json::json;

use super::support::{Db, forward, query, walk};
use crate::postgres::call::{self, Statement};
use crate::postgres::catalog::{self, Layout};
use crate::postgres::pages::Told;
use crate::postgres::rows::Selection;
use crate::postgres::statement::{self, Probe};
use crate::postgres::{PostgresOptions, PostgresSettings, fit};

/// Rows in no order on disk, with ties and nulls.
const BIG: &str = "\
CREATE TABLE t (id bigint PRIMARY KEY, a int, b timestamptz NOT NULL, k int, s text);
INSERT INTO t SELECT n, CASE WHEN n % 10 > 0 THEN n * 7919 % 500 END,
        timestamptz '2020-01-01' + n * 7919 % 5000 * interval '1 min', NULLIF(n % 20, 0), 'x' || n
    FROM generate_series(1::bigint, 20000) n;
CREATE INDEX ON t (a, id);
CREATE INDEX ON t (b DESC NULLS LAST, id DESC NULLS LAST);
CREATE INDEX ON t (k, a DESC NULLS LAST, id);";

fn big() -> Option<Db> {
    let db = Db::new(BIG)?;
    db.execute("VACUUM ANALYZE t");
    Some(db)
}

fn layout(db: &Db) -> Layout {
    let options = PostgresOptions::default();
    let found =
        db.source.run(async |session| Ok(catalog::look(session, &db.schema, "t", &options).await));
    found.unwrap().unwrap()
}

/// The statements of a page: the usual ones, and the one that leaves nothing open.
fn statements(layout: &Layout, query: &Query, window: Window<'_>) -> [Statement; 3] {
    let query = fit::query(query, layout).unwrap();
    let selection = Selection::new(layout, None, &query.order).unwrap();
    let usual = |probe| statement::page(layout, &selection, &query, window, probe).unwrap();
    let exact = statement::exact_page(layout, &selection, &query, window, false).unwrap();
    [usual(Probe::Meet).statement, usual(Probe::Look).statement, exact.statement]
}

/// The plan of a page, by `EXPLAIN (ANALYZE)`: for all values (`generic`), or for these (`custom`).
fn explain(db: &Db, statement: &Statement, window: Window<'_>, mode: &str) -> String {
    let (Window::Forward { after: place, .. } | Window::Backward { before: place, .. }) = window
    else {
        panic!("{window:?}");
    };
    let literal = |text: String| format!("'{}'", text.replace('\'', "''"));
    let call = statement.at(place.unwrap_or_default());
    let values: Vec<_> = call.values().map(|(value, _)| literal(call::text(value))).collect();
    let execute = if values.is_empty() {
        "EXECUTE page".to_owned()
    } else {
        format!("EXECUTE page({})", values.join(", "))
    };
    db.execute(&format!(
        "SET plan_cache_mode = force_{mode}_plan; SET random_page_cost = 1.1;
         SET max_parallel_workers_per_gather = 0; SET jit = off"
    ));
    db.execute(&format!("PREPARE page AS {}", call.sql()));
    let plan =
        db.texts(&format!("EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) {execute}"));
    db.execute("DEALLOCATE page; RESET plan_cache_mode");
    plan.join("\n")
}

/// The most rows that one step of a plan gave or threw away.
fn rows_max(plan: &str) -> u64 {
    let number = |rest: &str| {
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u64>().unwrap()
    };
    let given = plan.split("actual rows=").skip(1).map(number);
    let thrown = plan.split("Rows Removed by Filter: ").skip(1).map(number);
    given.chain(thrown).max().unwrap()
}

#[test]
fn every_served_order_is_read_from_its_index_at_any_depth() {
    let Some(db) = big() else { return };
    let (t, layout) = (db.open("t"), layout(&db));
    for (filter, keys) in [
        (json!({}), &[][..]),
        (json!({}), &["-id"]),
        (json!({}), &["a"]),
        (json!({}), &["a<"]),
        (json!({}), &["-a"]),
        (json!({}), &["-a<"]),
        (json!({}), &["b"]),
        (json!({}), &["-b"]),
        (json!({"k": 7}), &["-a", "id"]),
        (json!({"k": 7}), &["a<", "-id"]),
        (json!({"k": null}), &["-a", "id"]),
        (json!({}), &["k", "-a", "id"]),
        (json!({"k": {"in": [7]}}), &["k", "-a", "id"]),
    ] {
        let query = query(&t, &filter, keys);
        let total = usize::try_from(t.count(&query).unwrap()).unwrap();
        for part in [0, 1, 50, 89, 91, 99, 100] {
            let offset = (total * part / 100).saturating_sub(1) as u64;
            let window = Window::Offset { offset, limit: 1 };
            let fetch = super::support::fetch(&query, window);
            let place = t.fetch(&fetch).unwrap().rows[0].place.clone();
            let place = Some(place.as_slice()).filter(|_| part > 0);
            for window in [
                Window::Forward { after: place, limit: 20 },
                Window::Backward { before: place, limit: 20 },
            ] {
                for statement in statements(&layout, &query, window) {
                    for mode in ["generic", "custom"] {
                        let plan = explain(&db, &statement, window, mode);
                        let tag = format!("{filter} {keys:?} {part}% {window:?} {mode}\n{plan}");
                        assert!(rows_max(&plan) <= 22, "{tag}");
                        // For these very values it may know that there is next to nothing to sort.
                        assert!(mode == "custom" || !plan.contains("Sort"), "{tag}");
                        assert!(!plan.contains("Seq Scan"), "{tag}");
                    }
                }
            }
        }
    }
}

#[test]
fn numbers_that_a_float_cannot_hold_are_found_by_its_index() {
    let Some(db) = Db::new(
        "CREATE TABLE t (id bigint PRIMARY KEY, f4 real NOT NULL, f8 float8 NOT NULL);
         INSERT INTO t SELECT n, 16777216 + 2 * (n % 10000), 9007199254740992 + 2 * n
             FROM generate_series(1::bigint, 20000) n;
         CREATE INDEX ON t (f4, id);
         CREATE INDEX ON t (f8, id)",
    ) else {
        return;
    };
    db.execute("VACUUM ANALYZE t");
    let (t, layout) = (db.open("t"), layout(&db));
    for (filter, key) in [
        (json!({"f4": {"gt": 16_787_217}}), "f4"),
        (json!({"f4": {"lte": {"$decimal": "16787216.5"}}}), "-f4"),
        (json!({"f8": {"gte": {"$integer": "9007199254760993"}}}), "f8"),
        (json!({"f8": {"lt": {"$integer": "9007199254760993"}}}), "-f8"),
    ] {
        let query = query(&t, &filter, &[key]);
        let window = Window::Forward { after: None, limit: 20 };
        for statement in statements(&layout, &query, window) {
            for mode in ["generic", "custom"] {
                let plan = explain(&db, &statement, window, mode);
                assert!(rows_max(&plan) <= 22, "{filter} {mode}\n{plan}");
                assert!(!plan.contains("Seq Scan") && !plan.contains("Sort"), "{filter}\n{plan}");
            }
        }
    }
}

#[test]
fn an_index_on_the_first_key_alone_still_helps() {
    let Some(db) = big() else { return };
    db.execute("DROP INDEX t_b_id_idx; CREATE INDEX ON t (b); ANALYZE t");
    let (t, layout) = (db.open("t"), layout(&db));
    let query = query(&t, &json!({}), &["b"]);
    let place = [Scalar::Text("2020-01-03 00:00:00+00".into()), Scalar::Int(5)];
    let window = Window::Forward { after: Some(&place), limit: 20 };
    for statement in statements(&layout, &query, window) {
        let plan = explain(&db, &statement, window, "generic");
        assert!(plan.contains("Incremental Sort"), "{plan}");
        assert!(rows_max(&plan) < 100, "{plan}");
    }
}

#[test]
fn a_walk_prepares_once() {
    let Some(db) = big() else { return };
    let (t, layout) = (db.open("t"), layout(&db));
    let query = query(&t, &json!({"s": {"contains": "7"}}), &["-a"]);
    let mut texts = Vec::new();
    let mut after = None;
    for _ in 0..3 {
        let page = forward(&t, &query, after.as_deref(), 20);
        after = page.rows.last().map(|row| row.place.clone());
        let window = Window::Forward { after: after.as_deref(), limit: 20 };
        texts.push(statements(&layout, &query, window).map(|statement| statement.sql));
    }
    texts.dedup();
    assert_eq!(texts.len(), 1, "{texts:#?}");
}

#[test]
fn the_index_of_a_hint_serves() {
    let Some(db) =
        Db::new("CREATE TABLE t (id int PRIMARY KEY, a int, b int, \"C d\" int NOT NULL, k int)")
    else {
        return;
    };
    for (filter, keys, expected) in [
        (json!({}), &["a"][..], "a, id"),
        (json!({}), &["-a"], "a, id"),
        (json!({}), &["-a<", "b"], "a, b desc, id desc"),
        (json!({}), &["a", "-b"], "a, b desc nulls last, id desc"),
        (json!({}), &["a", "b<", "-id"], "a, b nulls first, id desc"),
        (json!({"k": 5, "b": null}), &["b", "C d"], "k, b, \"C d\", id"),
    ] {
        let t = db.open("t");
        let query = query(&t, &filter, keys);
        let Served::ByScan { hint } = forward(&t, &query, None, 1).served else {
            panic!("{keys:?} is served already");
        };
        assert_eq!(hint, format!("an index on ({expected}) would serve this order"));
        db.execute(&format!("CREATE INDEX hinted ON t ({expected})"));
        assert_eq!(forward(&db.open("t"), &query, None, 1).served, Served::Directly, "{keys:?}");
        db.execute("DROP INDEX hinted");
    }
}

/// The statements that the only connection has prepared for the table.
fn prepared(db: &Db) -> usize {
    let sql = "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%AS t %'";
    let rows = db.source.run(async |session| session.look(sql, &[]).await).unwrap();
    usize::try_from(rows[0].get::<_, i64>(0)).unwrap()
}

#[test]
fn a_page_asks_once_unless_the_row_at_its_place_is_gone() {
    let settings = PostgresSettings::default().connections_max(1);
    let Some(db) = Db::with_settings(
        "CREATE TABLE t (id int PRIMARY KEY, a int NOT NULL); CREATE INDEX ON t (a, id);
         INSERT INTO t SELECT n, n / 3 FROM generate_series(1, 99) n",
        &settings,
    ) else {
        return;
    };
    let t = db.open("t");
    for keys in [&[][..], &["-a"]] {
        let query = query(&t, &json!({}), keys);
        let known = prepared(&db);
        // Four pages, the last one too, by two statements.
        assert_eq!(walk(&t, &query, 30).len(), 99);
        assert_eq!(prepared(&db), known + 2, "{keys:?}");
        let after = forward(&t, &query, None, 30).rows.pop().unwrap();
        let id = super::support::ids(std::slice::from_ref(&after))[0];
        db.execute(&format!("DELETE FROM t WHERE id = {id}"));
        // One that finds it out, then one that expects it.
        for expected in [3, 4, 4] {
            let page = forward(&t, &query, Some(&after.place), 30);
            assert!(page.more_before && page.more_after);
            assert_eq!(prepared(&db), known + expected, "{keys:?}");
        }
        db.execute(&format!("INSERT INTO t VALUES ({id}, {id} / 3)"));
    }
}

#[test]
fn what_pages_of_a_walk_share_is_made_once() {
    let Some(db) = big() else { return };
    let (t, layout) = (db.open("t"), layout(&db));
    let query = query(&t, &json!({}), &["a"]);
    let page = |window: Window<'_>, columns: Option<&[String]>| {
        let fetch = Fetch { columns, ..super::support::fetch(&query, window) };
        layout.pages.page(&layout, &fetch, Told::Cheap(Probe::Meet)).unwrap()
    };
    let place = |a: Scalar, id| [a, Scalar::Int(id)];
    let after = |place: &[Scalar], limit| page(Window::Forward { after: Some(place), limit }, None);
    let first = after(&place(Scalar::Int(1), 1), 20);
    assert!(Arc::ptr_eq(&first, &after(&place(Scalar::Int(7), 9), 20)));
    assert!(!Arc::ptr_eq(&first, &after(&place(Scalar::Null, 9), 20)));
    assert!(!Arc::ptr_eq(&first, &after(&place(Scalar::Int(7), 9), 21)));
    let (window, columns) = (place(Scalar::Int(7), 9), ["a".to_owned()]);
    let window = Window::Forward { after: Some(&window), limit: 20 };
    assert!(!Arc::ptr_eq(&first, &page(window, Some(&columns))));
    assert!(!Arc::ptr_eq(&first, &page(Window::Forward { after: None, limit: 20 }, None)));
    // A place is looked at every time.
    let wrong = place(Scalar::Bool(true), 9);
    let fetch = super::support::fetch(&query, Window::Forward { after: Some(&wrong), limit: 20 });
    assert!(layout.pages.page(&layout, &fetch, Told::Cheap(Probe::Meet)).is_err());
    for limit in 0..100 {
        page(Window::Offset { offset: 1, limit }, None);
    }
    assert!(!Arc::ptr_eq(&first, &after(&place(Scalar::Int(7), 9), 20)), "it was driven out");
    let long = "x".repeat(1 << 17);
    let long = super::support::query(&t, &json!({"s": long}), &[]);
    let fetch = super::support::fetch(&long, Window::Forward { after: None, limit: 20 });
    let page = || layout.pages.page(&layout, &fetch, Told::Cheap(Probe::Meet)).unwrap();
    assert!(!Arc::ptr_eq(&page(), &page()));
}
