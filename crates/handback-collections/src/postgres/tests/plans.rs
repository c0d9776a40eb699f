//! That pages at any depth are read by an index, also by plans that the server keeps.

use handback_page::{Collection as _, Query, Scalar, Served, Window};
use serde_json::json;

use super::support::{Db, forward, query};
use crate::postgres::catalog::{self, Layout};
use crate::postgres::rows::Selection;
use crate::postgres::{PostgresOptions, fit, statement};

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

/// The plan of a page, by `EXPLAIN (ANALYZE)`: for all values (`generic`), or for these (`custom`).
fn explain(db: &Db, layout: &Layout, query: &Query, window: Window<'_>, mode: &str) -> String {
    let query = fit::query(query, layout).unwrap();
    let selection = Selection::new(layout, None, &query.order).unwrap();
    let page = statement::page(layout, &selection, &query, window, false).unwrap();
    let literal = |text: String| format!("'{}'", text.replace('\'', "''"));
    let values: Vec<_> =
        page.statement.parameters.iter().map(|(value, _)| literal(fit::text(value))).collect();
    let execute = if values.is_empty() {
        "EXECUTE page".to_owned()
    } else {
        format!("EXECUTE page({})", values.join(", "))
    };
    db.execute(&format!(
        "SET plan_cache_mode = force_{mode}_plan; SET random_page_cost = 1.1;
         SET max_parallel_workers_per_gather = 0; SET jit = off"
    ));
    db.execute(&format!("PREPARE page AS {}", page.statement.sql));
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
                for mode in ["generic", "custom"] {
                    let plan = explain(&db, &layout, &query, window, mode);
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

#[test]
fn an_index_on_the_first_key_alone_still_helps() {
    let Some(db) = big() else { return };
    db.execute("DROP INDEX t_b_id_idx; CREATE INDEX ON t (b); ANALYZE t");
    let (t, layout) = (db.open("t"), layout(&db));
    let query = query(&t, &json!({}), &["b"]);
    let place = [Scalar::Text("2020-01-03 00:00:00+00".into()), Scalar::Int(5)];
    let window = Window::Forward { after: Some(&place), limit: 20 };
    let plan = explain(&db, &layout, &query, window, "generic");
    assert!(plan.contains("Incremental Sort"), "{plan}");
    assert!(rows_max(&plan) < 100, "{plan}");
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
        let selection = Selection::new(&layout, None, &query.order).unwrap();
        let window = Window::Forward { after: after.as_deref(), limit: 20 };
        texts.push(
            statement::page(&layout, &selection, &query, window, false).unwrap().statement.sql,
        );
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
