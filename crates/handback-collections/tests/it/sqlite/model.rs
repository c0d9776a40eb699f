//! Windows against a model that filters, sorts and cuts in memory.

use std::borrow::Cow;

use handback_page::filter::Test;
use handback_page::{
    Collection, FieldPath, Filter, Kind, Member, Query, Row, Scalar, Search, SortKey, Window,
};
use proptest::prelude::*;

use super::support::*;
use crate::support::*;

const COLUMNS: [&str; 6] = ["id", "any", "int", "text", "date", "real"];

fn any_text() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "",
        "a",
        "b",
        "B",
        "ab",
        "5",
        "-5.0",
        "5x",
        " 7",
        "2024-01-01",
        "é",
        "a\0b",
    ])
    .prop_map(str::to_owned)
}

fn any_number() -> impl Strategy<Value = Scalar> {
    prop_oneof![
        4 => (-3i128..8).prop_map(Scalar::Int),
        2 => prop::sample::select(vec![5.0, 0.5, -2.5, 1e300, f64::INFINITY]).prop_map(Scalar::Real),
        1 => prop::sample::select(vec![i128::from(i64::MAX), i128::from(i64::MIN)]).prop_map(Scalar::Int),
    ]
}

fn any_scalar() -> impl Strategy<Value = Scalar> {
    prop_oneof![
        any_number(),
        any_text().prop_map(Scalar::Text),
        prop::collection::vec(0u8..3, 0..2).prop_map(Scalar::Blob),
    ]
}

/// Also what no column can hold.
fn any_filter_value() -> impl Strategy<Value = Scalar> {
    prop_oneof![
        8 => any_scalar(),
        1 => prop::sample::select(vec![
            Scalar::Int(1 << 63),
            Scalar::Int((1 << 70) + 1),
            Scalar::Int(-(1 << 63) - 1),
            Scalar::Real(f64::NAN),
        ]),
    ]
}

fn nullable(values: impl Strategy<Value = Scalar>) -> impl Strategy<Value = Scalar> {
    prop_oneof![1 => Just(Scalar::Null), 4 => values]
}

fn any_rows() -> impl Strategy<Value = Vec<Vec<Scalar>>> {
    let row = (
        nullable(any_scalar()),
        nullable((0i128..4).prop_map(Scalar::Int)),
        nullable(any_text().prop_map(Scalar::Text)),
        nullable(any_scalar()),
        nullable(any_number()),
    )
        .prop_map(|(any, int, text, date, real)| vec![any, int, text, date, real]);
    prop::collection::vec(row, 0..30)
}

fn any_test(kind: &Kind) -> BoxedStrategy<Test> {
    let value = match kind {
        Kind::Integer | Kind::Number => {
            prop_oneof![any_number(), Just(Scalar::Int(1 << 63)), Just(Scalar::Real(f64::NAN))]
                .boxed()
        }
        Kind::Text => any_text().prop_map(Scalar::Text).boxed(),
        _ => any_filter_value().boxed(),
    };
    let compared = (value.clone(), 0..5).prop_map(|(value, which)| match which {
        0 => Test::Equal(value),
        1 => Test::Less(value),
        2 => Test::LessOrEqual(value),
        3 => Test::Greater(value),
        _ => Test::GreaterOrEqual(value),
    });
    let among = prop::collection::vec(value, 0..4).prop_map(Test::In);
    match kind {
        Kind::Integer | Kind::Number => {
            prop_oneof![4 => compared, 1 => among, 1 => Just(Test::IsNull)].boxed()
        }
        _ => prop_oneof![
            4 => compared,
            1 => among,
            1 => Just(Test::IsNull),
            1 => any_text().prop_map(|text| Test::Contains(Scalar::Text(text))),
            1 => any_text().prop_map(Test::StartsWith),
        ]
        .boxed(),
    }
}

fn any_filter() -> impl Strategy<Value = Filter> {
    let kinds = [Kind::Integer, Kind::Any, Kind::Integer, Kind::Text, Kind::Any, Kind::Number];
    let field = (0..COLUMNS.len()).prop_flat_map(move |number| {
        any_test(&kinds[number])
            .prop_map(move |test| Filter::Field(FieldPath::name(COLUMNS[number]), test))
    });
    let tree = field.prop_recursive(3, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Filter::All),
            prop::collection::vec(inner.clone(), 0..3).prop_map(Filter::Any),
            inner.prop_map(|filter| Filter::Not(Box::new(filter))),
        ]
    });
    prop_oneof![1 => Just(Filter::EVERYTHING), 3 => tree]
}

fn any_sort() -> impl Strategy<Value = Vec<String>> {
    let key = (prop::sample::select(COLUMNS.to_vec()), any::<bool>(), any::<bool>()).prop_map(
        |(name, down, first)| {
            format!("{}{name}{}", if down { "-" } else { "" }, if first { "!" } else { "" })
        },
    );
    prop::collection::vec(key, 0..4).prop_map(|mut keys| {
        let mut seen = Vec::new();
        keys.retain(|key| {
            let name = key.trim_matches(['-', '!']).to_owned();
            let new = !seen.contains(&name);
            seen.push(name);
            new
        });
        keys
    })
}

fn any_indexes() -> impl Strategy<Value = Vec<&'static str>> {
    prop::sample::subsequence(
        vec![
            "CREATE INDEX i1 ON t(\"any\")",
            "CREATE INDEX i2 ON t(int, text DESC)",
            "CREATE INDEX i3 ON t(text, int, \"any\")",
            "CREATE INDEX i4 ON t(date DESC, id DESC)",
            "CREATE INDEX i5 ON t(real, text)",
            "CREATE INDEX i6 ON t(int) WHERE int > 1",
        ],
        0..=6,
    )
}

/// Where a window starts: at which row of all, and whether that row is deleted first.
#[derive(Clone, Debug)]
struct Start {
    row: Option<prop::sample::Index>,
    gone: bool,
}

fn any_start() -> impl Strategy<Value = Start> {
    (prop::option::of(any::<prop::sample::Index>()), any::<bool>())
        .prop_map(|(row, gone)| Start { row, gone })
}

fn to_sql(value: &Scalar) -> rusqlite::types::Value {
    use rusqlite::types::Value;
    match value {
        Scalar::Null => Value::Null,
        Scalar::Bool(truth) => Value::Integer((*truth).into()),
        Scalar::Int(int) => Value::Integer(i64::try_from(*int).unwrap()),
        Scalar::Real(real) => Value::Real(*real),
        Scalar::Decimal(decimal) => decimal.nearest().into(),
        Scalar::Text(text) => Value::Text(text.clone()),
        Scalar::Blob(bytes) => Value::Blob(bytes.clone()),
    }
}

fn from_sql(value: rusqlite::types::Value) -> Scalar {
    use rusqlite::types::Value;
    match value {
        Value::Null => Scalar::Null,
        Value::Integer(int) => Scalar::Int(int.into()),
        Value::Real(real) => Scalar::Real(real),
        Value::Text(text) => Scalar::Text(text),
        Value::Blob(bytes) => Scalar::Blob(bytes),
    }
}

struct Model {
    rows: Vec<Vec<Scalar>>,
}

impl Model {
    /// What the table holds: SQLite converts some values when they are stored.
    fn read(db: &TestDb) -> Self {
        let sql = "SELECT id, \"any\", int, text, date, real FROM t";
        let mut statement = db.db.prepare(sql).unwrap();
        let rows = statement
            .query_map([], |row| {
                (0..COLUMNS.len()).map(|number| row.get(number).map(from_sql)).collect()
            })
            .unwrap();
        Self { rows: rows.map(Result::unwrap).collect() }
    }

    fn value<'a>(row: &'a [Scalar], path: &FieldPath) -> &'a Scalar {
        &row[COLUMNS.iter().position(|name| path.column() == Some(name)).unwrap()]
    }

    fn place(row: &[Scalar], keys: &[SortKey]) -> Vec<Scalar> {
        keys.iter().map(|key| Self::value(row, &key.field).clone()).collect()
    }

    /// What matches, as places in the order.
    fn places(&self, query: &Query) -> Vec<Vec<Scalar>> {
        let matches = |row: &&Vec<Scalar>| {
            query.filter.matches(&|path| Member::Scalar(Cow::Borrowed(Self::value(row, path))))
        };
        let mut places: Vec<_> = self
            .rows
            .iter()
            .filter(matches)
            .map(|row| Self::place(row, query.order.keys()))
            .collect();
        places.sort_by(|a, b| query.order.order(a, b));
        places
    }
}

fn places(rows: &[Row]) -> Vec<Vec<Scalar>> {
    rows.iter().map(|row| row.place.clone()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn windows_are_what_the_model_says(
        rows in any_rows(),
        indexes in any_indexes(),
        filter in any_filter(),
        sort in any_sort(),
        starts in prop::collection::vec(any_start(), 3),
        limit in 0usize..7,
        offset in 0u64..35,
    ) {
        let db = TestDb::new(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, \"any\", int INTEGER, text TEXT, date DATE, real REAL)",
        );
        for row in &rows {
            let values = rusqlite::params_from_iter(row.iter().map(to_sql));
            db.db
                .execute("INSERT INTO t(\"any\", int, text, date, real) VALUES (?, ?, ?, ?, ?)", values)
                .unwrap();
        }
        for index in indexes {
            db.execute(index);
        }
        let t = db.open("t");
        let schema = t.schema().unwrap();
        let keys = sort.iter().map(|text| sort_key(&schema, text)).collect();
        let order = schema.total_order(keys);
        let query = Query { filter, search: Search::default(), order };

        for start in &starts {
            let model = Model::read(&db);
            let place = match (&start.row, model.rows.is_empty()) {
                (Some(index), false) => {
                    let row = index.get(&model.rows);
                    if start.gone {
                        db.db.execute("DELETE FROM t WHERE id = ?1", [to_sql(&row[0])]).unwrap();
                    }
                    Some(Model::place(row, query.order.keys()))
                }
                _ => None,
            };
            let all = Model::read(&db).places(&query);
            prop_assert_eq!(t.count(&query).unwrap(), all.len() as u64);

            // How many come before the place, and how many up to and including it.
            let (below, upto) = match &place {
                None => (all.len(), 0),
                Some(place) => (
                    all.iter().filter(|row| query.order.order(row, place).is_lt()).count(),
                    all.iter().filter(|row| query.order.order(row, place).is_le()).count(),
                ),
            };
            let forward = fetch(&t, &query, Window::Forward { after: place.as_deref(), limit }).unwrap();
            let end = all.len().min(upto + limit);
            prop_assert_eq!(&places(&forward.rows), &all[upto..end]);
            prop_assert_eq!((forward.more_before, forward.more_after), (upto > 0, end < all.len()));

            let backward = fetch(&t, &query, Window::Backward { before: place.as_deref(), limit }).unwrap();
            let begin = below.saturating_sub(limit);
            prop_assert_eq!(&places(&backward.rows), &all[begin..below]);
            prop_assert_eq!((backward.more_before, backward.more_after), (begin > 0, below < all.len()));

            let page = fetch(&t, &query, Window::Offset { offset, limit }).unwrap();
            let begin = all.len().min(usize::try_from(offset).unwrap());
            let end = all.len().min(begin + limit);
            prop_assert_eq!(&places(&page.rows), &all[begin..end]);
            prop_assert_eq!((page.more_before, page.more_after), (begin > 0, end < all.len()));
        }
        let all = Model::read(&db).places(&query);
        let mut scanned = Vec::new();
        t.scan(&query, &mut |row| {
            scanned.push(row.place);
            Ok(())
        })
        .unwrap();
        prop_assert_eq!(scanned, all);
    }
}
