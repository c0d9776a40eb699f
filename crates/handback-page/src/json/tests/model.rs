//! Any query over any items, against sorting and filtering a list of values.

use std::borrow::Cow;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::Copied;
use crate::collection::{
    Collection, CollectionError, Fetch, Fetched, Places, Query, Row, Search, Window,
};
use crate::filter::{Filter, Member, Test};
use crate::json::listing::Bounds;
use crate::json::{InMemory, JsonCollection, JsonOptions};
use crate::order::{Direction, Nulls, SortKey};
use crate::scalar::Scalar;
use crate::schema::FieldPath;

/// Items as values, and how queries go over them.
struct Model<'a> {
    items: &'a [Value],
    query: &'a Query,
}

fn at<'v>(item: &'v Value, path: &FieldPath) -> &'v Value {
    path.parts().iter().fold(item, |value, name| match value {
        Value::Object(members) => members.get(name).unwrap_or(&Value::Null),
        _ => &Value::Null,
    })
}

fn member(value: &Value) -> Member<'static> {
    match (Scalar::from_json(value), value) {
        (Some(scalar), _) => Member::Scalar(Cow::Owned(scalar)),
        (None, Value::Array(values)) => {
            Member::List(values.iter().filter_map(Scalar::from_json).collect())
        }
        (None, _) => Member::Object,
    }
}

fn sorted_by(value: &Value) -> Scalar {
    Scalar::from_json(value)
        .unwrap_or_else(|| Scalar::Blob(handback_token::canonical_json(value, &[])))
}

fn has_word(value: &Value, search: &Search) -> bool {
    match value {
        Value::String(text) => search.matches(text),
        Value::Array(values) => values.iter().any(|value| has_word(value, search)),
        Value::Object(members) => members.values().any(|value| has_word(value, search)),
        _ => false,
    }
}

impl Model<'_> {
    /// What an item is sorted by, its number last.
    fn key(&self, number: usize) -> (Vec<Scalar>, usize) {
        let keys = self.query.order.keys().iter();
        let values = keys.map(|key| sorted_by(at(&self.items[number], &key.field)));
        (values.collect(), number)
    }

    /// The numbers of the items of the query, in order.
    fn numbers(&self) -> Vec<usize> {
        let Query { filter, search, order } = self.query;
        let mut numbers: Vec<usize> = (0..self.items.len())
            .filter(|number| {
                let item = &self.items[*number];
                filter.matches(&|path| member(at(item, path)))
                    && (search.is_empty() || has_word(item, search))
            })
            .collect();
        numbers.sort_by(|a, b| {
            let (a, b) = (self.key(*a), self.key(*b));
            order.order(&a.0, &b.0).then(a.1.cmp(&b.1))
        });
        numbers
    }

    fn items(&self) -> Vec<Value> {
        self.numbers().into_iter().map(|number| self.items[number].clone()).collect()
    }
}

fn any_member() -> impl Strategy<Value = Value> {
    prop_oneof![
        3 => (-2..3).prop_map(|int| json!(int)),
        1 => prop::sample::select(vec![json!(0.5), json!(1.0), json!(u64::MAX), json!(-1e300)]),
        1 => any::<bool>().prop_map(Value::from),
        1 => Just(Value::Null),
        3 => "[abAB]{0,2}".prop_map(Value::from),
        1 => prop::collection::vec((0..3).prop_map(Value::from), 0..3).prop_map(Value::from),
        1 => (0..2).prop_map(|int| json!({"y": int})),
        1 => Just(json!({"$integer": "9007199254740993"})),
    ]
}

fn any_item() -> impl Strategy<Value = Value> {
    let names = prop::sample::select(vec!["x", "y", "deep"]);
    prop_oneof![
        8 => prop::collection::vec((names, any_member()), 0..4).prop_map(|members| {
            Value::Object(members.into_iter().map(|(name, value)| (name.into(), value)).collect())
        }),
        1 => any_member(),
    ]
}

fn any_path() -> impl Strategy<Value = FieldPath> {
    prop::sample::select(vec!["x", "y", "deep", "deep.y", "deep.y.z", "nope"])
        .prop_map(|dotted| FieldPath::from_parts(dotted.split('.').map(str::to_owned).collect()))
}

fn any_scalar() -> impl Strategy<Value = Scalar> {
    prop_oneof![
        (-2_i128..3).prop_map(Scalar::Int),
        Just(Scalar::Real(0.5)),
        Just(Scalar::Int(9_007_199_254_740_993)),
        any::<bool>().prop_map(Scalar::Bool),
        "[abAB]{0,2}".prop_map(Scalar::Text),
    ]
}

fn any_filter() -> impl Strategy<Value = Filter> {
    let test = prop_oneof![
        any_scalar().prop_map(Test::Equal),
        any_scalar().prop_map(Test::Less),
        any_scalar().prop_map(Test::GreaterOrEqual),
        prop::collection::vec(any_scalar(), 0..3).prop_map(Test::In),
        any_scalar().prop_map(Test::Contains),
        "[abAB]{0,1}".prop_map(Test::StartsWith),
        Just(Test::IsNull),
    ];
    let leaf = (any_path(), test).prop_map(|(path, test)| Filter::Field(path, test));
    let tree = leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Filter::All),
            prop::collection::vec(inner.clone(), 1..3).prop_map(Filter::Any),
            inner.prop_map(|filter| Filter::Not(Box::new(filter))),
        ]
    });
    prop_oneof![Just(Filter::EVERYTHING), tree]
}

fn any_sort_keys() -> impl Strategy<Value = Vec<SortKey>> {
    let key = (any_path(), any::<bool>(), any::<bool>()).prop_map(|(field, down, first)| SortKey {
        field,
        direction: if down { Direction::Descending } else { Direction::Ascending },
        nulls: if first { Nulls::First } else { Nulls::Last },
        nullable: true,
    });
    prop::collection::vec(key, 0..3)
}

fn any_search() -> impl Strategy<Value = Search> {
    prop_oneof![3 => Just(""), 1 => Just("a"), 1 => Just("b ab")].prop_map(Search::new)
}

fn fetch(
    collection: &dyn Collection,
    query: &Query,
    window: Window<'_>,
    budget_bytes: usize,
) -> Result<Fetched, CollectionError> {
    collection.fetch(&Fetch {
        query,
        window,
        columns: None,
        budget_bytes,
        places: Places::All,
        total: false,
    })
}

fn values(rows: &[Row]) -> Vec<Value> {
    rows.iter().map(|row| serde_json::from_str(&row.item).unwrap()).collect()
}

/// Walks over everything in pages, and checks each.
fn check_walks(collection: &dyn Collection, query: &Query, expected: &[Value], limit: usize) {
    let all = usize::MAX;
    let mut seen = vec![];
    let mut place: Option<Vec<Scalar>> = None;
    loop {
        let window = Window::Forward { after: place.as_deref(), limit };
        let page = fetch(collection, query, window, all).unwrap();
        assert_eq!(page.more_before, !seen.is_empty());
        seen.extend(values(&page.rows));
        assert_eq!(page.more_after, seen.len() < expected.len());
        assert!(page.rows.len() == limit || !page.more_after);
        match page.rows.last() {
            Some(row) => place = Some(row.place.clone()),
            None => break,
        }
    }
    assert_eq!(seen, expected);
    let (mut seen, mut place) = (vec![], None::<Vec<Scalar>>);
    loop {
        let window = Window::Backward { before: place.as_deref(), limit };
        let page = fetch(collection, query, window, all).unwrap();
        assert_eq!(page.more_after, !seen.is_empty());
        seen.splice(0..0, values(&page.rows));
        assert_eq!(page.more_before, seen.len() < expected.len());
        match page.rows.first() {
            Some(row) => place = Some(row.place.clone()),
            None => break,
        }
    }
    assert_eq!(seen, expected);
    for offset in 0..expected.len() + 2 {
        let window = Window::Offset { offset: offset as u64, limit };
        let page = fetch(collection, query, window, all).unwrap();
        let start = offset.min(expected.len());
        let end = (start + limit).min(expected.len());
        assert_eq!(values(&page.rows), expected[start..end]);
        assert_eq!((page.more_before, page.more_after), (start > 0, end < expected.len()));
    }
    assert_eq!(collection.count(query).unwrap(), expected.len() as u64);
    let mut scanned = vec![];
    collection
        .scan(query, &mut |row| {
            scanned.push(row);
            Ok(())
        })
        .unwrap();
    assert_eq!(values(&scanned), expected);
    let window = Window::Forward { after: None, limit: all };
    assert_eq!(fetch(collection, query, window, all).unwrap().rows, scanned);
}

/// Items with an id each, which is a member or deeper.
fn with_ids(items: &[Value], ids: &[i32], deep: bool) -> Vec<Value> {
    let with_id = |(item, id): (&Value, &i32)| {
        let mut members = item.as_object().cloned().unwrap_or_else(Map::new);
        let id = if id % 2 == 0 { json!(id) } else { json!(format!("k{id}")) };
        let (name, value) = if deep { ("meta", json!({"id": id})) } else { ("id", id) };
        members.insert(name.into(), value);
        Value::Object(members)
    };
    items.iter().zip(ids).map(with_id).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn pages_without_a_key(
        items in prop::collection::vec(any_item(), 0..30),
        filter in any_filter(),
        search in any_search(),
        keys in any_sort_keys(),
        limit in 1_usize..7,
        copied in any::<bool>(),
    ) {
        let text = Value::from(items.clone()).to_string();
        let collection = if copied {
            JsonCollection::open(Copied::new(text), JsonOptions::new()).unwrap()
        } else {
            JsonCollection::open(InMemory::new(text, 7), JsonOptions::new()).unwrap()
        };
        let order = collection.schema().unwrap().total_order(keys);
        let query = Query { filter, search, order };
        let expected = Model { items: &items, query: &query }.items();
        check_walks(&collection, &query, &expected, limit);
    }

    /// What does not fit into memory at once, in either order.
    #[test]
    fn pages_of_stretches(
        items in prop::collection::vec(any_item(), 0..30),
        filter in any_filter(),
        search in any_search(),
        keys in any_sort_keys(),
        limit in 1_usize..7,
        view_items in 2_usize..9,
        sorted_bytes in 1_usize..300,
    ) {
        let text = Value::from(items.clone()).to_string();
        let bounds = Bounds { view_items, sorted_bytes, stretches: 30 };
        let collection = JsonCollection::open(Copied::new(text), JsonOptions::new()).unwrap();
        let collection = collection.with_bounds(bounds);
        let order = collection.schema().unwrap().total_order(keys);
        let query = Query { filter, search, order };
        let expected = Model { items: &items, query: &query }.items();
        check_walks(&collection, &query, &expected, limit);
    }

    #[test]
    fn pages_with_a_key(
        items in prop::collection::vec(any_item(), 0..30),
        ids in Just((0..30).collect::<Vec<i32>>()).prop_shuffle(),
        filter in any_filter(),
        search in any_search(),
        keys in any_sort_keys(),
        limit in 1_usize..7,
    ) {
        let items = with_ids(&items, &ids, false);
        let text = Value::from(items.clone()).to_string();
        let options = JsonOptions::new().with_key(FieldPath::name("id"));
        let collection = JsonCollection::open(InMemory::new(text, 7), options).unwrap();
        let order = collection.schema().unwrap().total_order(keys);
        let query = Query { filter, search, order };
        let expected = Model { items: &items, query: &query }.items();
        check_walks(&collection, &query, &expected, limit);
    }

    #[test]
    fn a_walk_with_a_key_goes_on_in_other_content(
        before in prop::collection::vec(any_item(), 1..30),
        after in prop::collection::vec(any_item(), 0..30),
        ids in Just((0..40).collect::<Vec<i32>>()).prop_shuffle(),
        other_ids in Just((0..40).collect::<Vec<i32>>()).prop_shuffle(),
        filter in any_filter(),
        keys in any_sort_keys(),
        limit in 1_usize..7,
        from in any::<prop::sample::Index>(),
        backward in any::<bool>(),
        deep in any::<bool>(),
    ) {
        let open = |items: &[Value], edition| {
            let key = if deep { vec!["meta".into(), "id".into()] } else { vec!["id".into()] };
            let options = JsonOptions::new().with_key(FieldPath::from_parts(key));
            let text = Value::from(items.to_vec()).to_string();
            JsonCollection::open(InMemory::new(text, edition), options).unwrap()
        };
        let items = with_ids(&before, &ids, deep);
        let others = with_ids(&after, &other_ids, deep);
        let first = open(&items, 1);
        let order = first.schema().unwrap().total_order(keys);
        let query = Query { filter, search: Search::default(), order };
        let all = Window::Forward { after: None, limit: 100 };
        let rows = fetch(&first, &query, all, usize::MAX).unwrap().rows;
        prop_assume!(!rows.is_empty());
        let place = rows[from.index(rows.len())].place.clone();

        // The order names a deep key by its column.
        let mut keys = query.order.keys().to_vec();
        for key in keys.iter_mut().filter(|key| key.field.column() == Some("meta.id")) {
            key.field = FieldPath::from_parts(vec!["meta".into(), "id".into()]);
        }
        let modelled = Query { order: crate::Order::new(keys), ..query.clone() };
        let model = Model { items: &others, query: &modelled };
        let side = if backward { std::cmp::Ordering::Less } else { std::cmp::Ordering::Greater };
        let numbers = model.numbers();
        let is_there = |number: &&usize| {
            modelled.order.order(&model.key(**number).0, &place) == side
        };
        let mut expected: Vec<_> =
            numbers.iter().filter(is_there).map(|number| others[*number].clone()).collect();
        let more = expected.len() > limit;
        let window = if backward {
            expected = expected.split_off(expected.len().saturating_sub(limit));
            Window::Backward { before: Some(&place), limit }
        } else {
            expected.truncate(limit);
            Window::Forward { after: Some(&place), limit }
        };
        let page = fetch(&open(&others, 2), &query, window, usize::MAX).unwrap();
        prop_assert_eq!(values(&page.rows), expected);
        prop_assert_eq!(if backward { page.more_before } else { page.more_after }, more);
    }

    #[test]
    fn a_budget_cuts_off_what_is_far(
        items in prop::collection::vec(any_item(), 1..20),
        budget in 0_usize..60,
        backward in any::<bool>(),
    ) {
        let text = Value::from(items.clone()).to_string();
        let collection = JsonCollection::open(InMemory::new(text, 7), JsonOptions::new()).unwrap();
        let order = collection.schema().unwrap().total_order(vec![]);
        let query = Query { filter: Filter::EVERYTHING, search: Search::default(), order };
        let window = if backward {
            Window::Backward { before: None, limit: 100 }
        } else {
            Window::Forward { after: None, limit: 100 }
        };
        let page = fetch(&collection, &query, window, budget).unwrap();
        let mut lengths: Vec<_> = items.iter().map(|item| item.to_string().len()).collect();
        if backward {
            lengths.reverse();
        }
        let mut total = 0;
        let fitting = lengths.iter().take_while(|length| {
            total += **length;
            total <= budget
        });
        let count = fitting.count().max(1);
        let cut = count < items.len();
        if backward {
            prop_assert_eq!(values(&page.rows), &items[items.len() - count..]);
            prop_assert_eq!((page.more_before, page.more_after), (cut, false));
        } else {
            prop_assert_eq!(values(&page.rows), &items[..count]);
            prop_assert_eq!((page.more_before, page.more_after), (false, cut));
        }
    }

    #[test]
    fn no_place_makes_it_panic(
        keyed in any::<bool>(),
        keys in any_sort_keys(),
        place in prop::collection::vec(prop_oneof![
            any_scalar(),
            Just(Scalar::Null),
            Just(Scalar::Int(7)),
            any::<i128>().prop_map(Scalar::Int),
            any::<f64>().prop_map(Scalar::Real),
            Just(Scalar::Blob(vec![0, 255])),
        ], 0..5),
    ) {
        let options = match keyed {
            true => JsonOptions::new().with_key(FieldPath::name("x")),
            false => JsonOptions::new(),
        };
        let source = InMemory::new(r#"[{"x":1,"y":2},{"x":3},{"x":"a","y":[]}]"#, 7);
        let collection = JsonCollection::open(source, options).unwrap();
        let order = collection.schema().unwrap().total_order(keys);
        let query = Query { filter: Filter::EVERYTHING, search: Search::default(), order };
        for window in [
            Window::Forward { after: Some(&place), limit: 2 },
            Window::Backward { before: Some(&place), limit: 2 },
        ] {
            match fetch(&collection, &query, window, 1000) {
                Ok(page) => prop_assert!(page.rows.len() <= 2),
                Err(CollectionError::BadPlace | CollectionError::Changed) => {}
                Err(other) => panic!("{other:?}"),
            }
        }
    }
}
