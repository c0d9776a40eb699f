//! Windows against a model in memory, and walks while the table changes.

use std::borrow::Cow;
use std::collections::BTreeSet;

use handback_page::filter::Test;
use handback_page::{
    Collection as _, Direction, FieldPath, Filter, Member, Nulls, Order, Query, Scalar, Search,
    SortKey, Window,
};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::support::{Db, fetch, forward, ids, query};
use crate::postgres::call;

const TABLE: &str = "\
CREATE TABLE t (a int, b text COLLATE \"C\", c float8, d bool, e int NOT NULL, id int PRIMARY KEY);
CREATE INDEX ON t (a, id);
CREATE INDEX ON t (b DESC NULLS LAST, id DESC);
CREATE INDEX ON t (d, a NULLS FIRST, id);
CREATE INDEX ON t (e, c DESC NULLS LAST, id DESC);
CREATE INDEX ON t (e DESC, b, a DESC, id);";

const COLUMNS: [&str; 6] = ["a", "b", "c", "d", "e", "id"];

type Values = Vec<Scalar>;

fn any_value(column: usize) -> BoxedStrategy<Scalar> {
    let text = |text: &str| Scalar::Text(text.to_owned());
    match column {
        0 => (-1i128..3).prop_map(Scalar::Int).boxed(),
        1 => prop::sample::select(vec![text(""), text("a"), text("a "), text("B"), text("é")])
            .boxed(),
        2 => prop::sample::select(vec![-1.5, 0.0, 0.1, f64::INFINITY, f64::NEG_INFINITY, f64::NAN])
            .prop_map(Scalar::Real)
            .boxed(),
        3 => any::<bool>().prop_map(Scalar::Bool).boxed(),
        4 => (0i128..3).prop_map(Scalar::Int).boxed(),
        _ => (0i128..30).prop_map(Scalar::Int).boxed(),
    }
}

fn any_cell(column: usize) -> BoxedStrategy<Scalar> {
    if column >= 4 {
        return any_value(column);
    }
    prop_oneof![1 => Just(Scalar::Null), 2 => any_value(column)].boxed()
}

fn any_row() -> impl Strategy<Value = Values> {
    (0..6).map(any_cell).collect::<Vec<_>>()
}

fn any_key() -> impl Strategy<Value = SortKey> {
    (0..6usize, any::<bool>(), any::<bool>()).prop_map(|(column, descending, first)| SortKey {
        field: FieldPath::name(COLUMNS[column]),
        direction: if descending { Direction::Descending } else { Direction::Ascending },
        nulls: if first { Nulls::First } else { Nulls::Last },
        nullable: column < 4,
    })
}

fn any_test() -> impl Strategy<Value = Filter> {
    (0..6usize).prop_flat_map(|column| {
        let value = || any_value(column);
        let test = prop_oneof![
            3 => value().prop_map(Test::Equal),
            1 => value().prop_map(Test::Less),
            1 => value().prop_map(Test::LessOrEqual),
            1 => value().prop_map(Test::Greater),
            1 => value().prop_map(Test::GreaterOrEqual),
            1 => prop::collection::vec(value(), 0..3).prop_map(Test::In),
            2 => Just(Test::IsNull),
        ];
        test.prop_map(move |test| Filter::Field(FieldPath::name(COLUMNS[column]), test))
    })
}

fn any_filter() -> impl Strategy<Value = Filter> {
    let some = any_test().prop_recursive(2, 6, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|filter| Filter::Not(Box::new(filter))),
            prop::collection::vec(inner.clone(), 0..3).prop_map(Filter::All),
            prop::collection::vec(inner, 0..3).prop_map(Filter::Any),
        ]
    });
    prop_oneof![1 => Just(Filter::EVERYTHING), 2 => some]
}

#[derive(Clone, Debug)]
struct Case {
    rows: Vec<Values>,
    /// Queries, each with a row that need not be in the table, to start from.
    asked: Vec<(Vec<SortKey>, Filter, Values)>,
    limit: usize,
}

fn any_case() -> impl Strategy<Value = Case> {
    let asked = (prop::collection::vec(any_key(), 0..4), any_filter(), any_row());
    let asked = prop::collection::vec(asked, 1..8);
    (prop::collection::vec(any_row(), 0..30), asked, 1..9usize).prop_map(|(rows, asked, limit)| {
        let mut seen = BTreeSet::new();
        let id = |row: &Values| call::text(&row[5]);
        let rows = rows.into_iter().filter(|row| seen.insert(id(row))).collect();
        Case { rows, asked, limit }
    })
}

fn place(order: &Order, row: &Values) -> Values {
    let value = |key: &SortKey| {
        let column = COLUMNS.iter().position(|name| key.field.column() == Some(name));
        row[column.unwrap()].clone()
    };
    order.keys().iter().map(value).collect()
}

/// What the table must answer.
fn expected(rows: &[Values], query: &Query, window: Window<'_>) -> (Vec<Values>, bool, bool) {
    let mut places: Vec<_> = rows
        .iter()
        .filter(|row| {
            query.filter.matches(&|path| {
                let column = COLUMNS.iter().position(|name| path.column() == Some(name));
                Member::Scalar(Cow::Owned(row[column.unwrap()].clone()))
            })
        })
        .map(|row| place(&query.order, row))
        .collect();
    places.sort_by(|a, b| query.order.order(a, b));
    let count = |test: &dyn Fn(&Values) -> bool| places.iter().filter(|place| test(place)).count();
    let (from, upto) = match window {
        Window::Forward { after, limit } => {
            let from =
                after.map_or(0, |after| count(&|place| query.order.order(place, after).is_le()));
            (from, (from + limit).min(places.len()))
        }
        Window::Backward { before, limit } => {
            let upto = before.map_or(places.len(), |before| {
                count(&|place| query.order.order(place, before).is_lt())
            });
            (upto.saturating_sub(limit), upto)
        }
        Window::Offset { offset, limit } => {
            let from = usize::try_from(offset).unwrap().min(places.len());
            (from, (from + limit).min(places.len()))
        }
    };
    (places[from..upto].to_vec(), from > 0, upto < places.len())
}

#[test]
fn windows_are_those_of_the_model() {
    let Some(db) = Db::new(TABLE) else { return };
    let t = db.open("t");
    let schema = t.schema().unwrap();
    let config = Config { cases: 64, failure_persistence: None, ..Config::default() };
    let check = |case: Case| {
        db.execute("DELETE FROM t");
        if !case.rows.is_empty() {
            let literal = |value: &Scalar| match value {
                Scalar::Null => "NULL".to_owned(),
                value => format!("'{}'", call::text(value)),
            };
            let row = |row: &Values| row.iter().map(literal).collect::<Vec<_>>().join(", ");
            let rows: Vec<_> =
                case.rows.iter().map(|values| format!("({})", row(values))).collect();
            db.execute(&format!("INSERT INTO t VALUES {}", rows.join(", ")));
        }
        let limit = case.limit;
        for (keys, filter, from) in case.asked {
            let order = schema.total_order(distinct(keys));
            let query = Query { filter, search: Search::default(), order };
            let place = place(&query.order, &from);
            for window in [
                Window::Forward { after: None, limit },
                Window::Forward { after: Some(&place), limit },
                Window::Backward { before: None, limit },
                Window::Backward { before: Some(&place), limit },
                Window::Offset { offset: 3, limit },
            ] {
                let found = t.fetch(&fetch(&query, window)).unwrap();
                let places: Vec<_> = found.rows.into_iter().map(|row| row.place).collect();
                let found = (places, found.more_before, found.more_after);
                prop_assert_eq!(
                    found,
                    expected(&case.rows, &query, window),
                    "{:?}",
                    (query, window)
                );
            }
            let all = expected(&case.rows, &query, Window::Forward { after: None, limit: 99 }).0;
            prop_assert_eq!(t.count(&query).unwrap(), all.len() as u64);
            let mut scanned = Vec::new();
            t.scan(&query, &mut |row| {
                scanned.push(row.place);
                Ok(())
            })
            .unwrap();
            prop_assert_eq!(scanned, all);
        }
        Ok(())
    };
    TestRunner::new(config).run(&any_case(), check).unwrap();
}

/// A second key on the same column says nothing.
fn distinct(keys: Vec<SortKey>) -> Vec<SortKey> {
    let mut kept: Vec<SortKey> = Vec::new();
    for key in keys {
        if kept.iter().all(|other| other.field != key.field) {
            kept.push(key);
        }
    }
    kept
}

#[test]
fn rows_that_stay_are_met_once_while_others_come_and_go() {
    let Some(db) = Db::new(
        "CREATE TABLE t (id int PRIMARY KEY, a int); CREATE INDEX ON t (a, id);
         INSERT INTO t SELECT n, NULLIF(n % 7, 0) FROM generate_series(0, 298, 2) n",
    ) else {
        return;
    };
    let t = db.open("t");
    let query = query(&t, &serde_json::json!({}), &["-a"]);
    let mut met: Vec<i64> = Vec::new();
    let mut after = None;
    for step in 0.. {
        let page = forward(&t, &query, after.as_deref(), 7);
        met.extend(ids(&page.rows));
        if let Some(row) = page.rows.last() {
            after = Some(row.place.clone());
        }
        if !page.more_after {
            break;
        }
        // Numbers of one step of three come, those of another go: also the one under the cursor.
        db.execute(&format!(
            "INSERT INTO t SELECT n, NULLIF(n % 7, 0) FROM generate_series({}, 299, 40) n
                 ON CONFLICT DO NOTHING;
             DELETE FROM t WHERE id % 6 = 0 AND id % 5 = {};
             DELETE FROM t WHERE id = {} AND id % 6 = 0",
            step * 2 % 40 + 1,
            step % 5,
            met.last().unwrap(),
        ));
    }
    let mut once = met.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), met.len(), "no row twice");
    let stayed = (0..300).step_by(2).filter(|id| id % 6 != 0);
    assert!(stayed.clone().all(|id| once.binary_search(&id).is_ok()), "no row that stayed is lost");
}
