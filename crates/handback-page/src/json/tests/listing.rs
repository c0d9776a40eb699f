//! What is special about places, keys, views and schemas.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use super::Copied;
use crate::collection::{
    Collection, CollectionError, Fetch, Fetched, Places, Query, Search, Served, Unread, Window,
};
use crate::excerpt::{Excerpt, Extent, Located};
use crate::filter::{Filter, Test};
use crate::json::view::{View, Views};
use crate::json::{InMemory, JsonCollection, JsonOptions};
use crate::order::{Direction, Nulls, Order, SortKey};
use crate::scalar::Scalar;
use crate::schema::{FieldPath, Preset, Shape};

fn open(text: &str) -> JsonCollection {
    JsonCollection::open(InMemory::new(String::from(text), 7), JsonOptions::new()).unwrap()
}

fn keyed(text: &str, key: &str) -> JsonCollection {
    let options = JsonOptions::new()
        .with_key(FieldPath::from_parts(key.split('.').map(str::to_owned).collect()));
    JsonCollection::open(InMemory::new(String::from(text), 7), options).unwrap()
}

fn sorted(collection: &JsonCollection, field: &str) -> Query {
    let schema = collection.schema().unwrap();
    let key = SortKey {
        field: schema.resolve(field).unwrap(),
        direction: Direction::Ascending,
        nulls: Nulls::Last,
        nullable: true,
    };
    let order = schema.total_order(vec![key]);
    Query { filter: Filter::EVERYTHING, search: Search::default(), order }
}

fn everything(collection: &JsonCollection) -> Query {
    let order = collection.schema().unwrap().total_order(vec![]);
    Query { filter: Filter::EVERYTHING, search: Search::default(), order }
}

fn fetch(
    collection: &JsonCollection,
    query: &Query,
    window: Window<'_>,
) -> Result<Fetched, CollectionError> {
    collection.fetch(&Fetch {
        query,
        window,
        columns: None,
        budget_bytes: usize::MAX,
        places: Places::All,
        total: false,
    })
}

fn after(place: &[Scalar], limit: usize) -> Window<'_> {
    Window::Forward { after: Some(place), limit }
}

#[test]
fn a_place_without_a_key_is_good_for_one_edition() {
    let collection = open(r#"[{"a":3},{"a":1},{"a":2}]"#);
    let int = |int: i128| Scalar::Int(int);
    for query in [everything(&collection), sorted(&collection, "a")] {
        let page = fetch(&collection, &query, Window::Forward { after: None, limit: 9 }).unwrap();
        assert_eq!(page.served, Served::Directly);
        for row in &page.rows {
            assert!(matches!(row.place[..], [Scalar::Int(7), Scalar::Int(0..3)]), "{row:?}");
        }
        let changed = fetch(&collection, &query, after(&[int(8), int(0)], 1));
        assert!(matches!(changed, Err(CollectionError::Changed)));
        for place in [
            vec![],
            vec![int(7)],
            vec![int(7), int(3)],
            vec![int(7), int(-1)],
            vec![int(7), int(i128::MAX)],
            vec![int(7), Scalar::Null],
            vec![int(7), int(0), int(0)],
            vec![Scalar::Text("7".into()), int(0)],
        ] {
            let refused = fetch(&collection, &query, after(&place, 1));
            assert!(matches!(refused, Err(CollectionError::BadPlace)), "{place:?}");
        }
    }
}

#[test]
fn empty_windows_tell_what_is_around_them() {
    let collection = open("[10,20,30]");
    let query = everything(&collection);
    let place = |number: i128| [Scalar::Int(7), Scalar::Int(number)];
    let (first, last) = (place(0), place(2));
    let huge = usize::MAX;
    for (window, rows, more_before, more_after) in [
        (Window::Forward { after: None, limit: 0 }, 0, false, true),
        (Window::Forward { after: None, limit: huge }, 3, false, false),
        (after(&first, 0), 0, true, true),
        (after(&first, huge), 2, true, false),
        (after(&last, 5), 0, true, false),
        (Window::Backward { before: None, limit: 0 }, 0, true, false),
        (Window::Backward { before: None, limit: huge }, 3, false, false),
        (Window::Backward { before: Some(&first), limit: 5 }, 0, false, true),
        (Window::Backward { before: Some(&last), limit: 0 }, 0, true, true),
        (Window::Offset { offset: 0, limit: 0 }, 0, false, true),
        (Window::Offset { offset: 3, limit: 5 }, 0, true, false),
        (Window::Offset { offset: u64::MAX, limit: huge }, 0, true, false),
        (Window::Offset { offset: 1, limit: huge }, 2, true, false),
    ] {
        let page = fetch(&collection, &query, window).unwrap();
        assert_eq!(
            (page.rows.len(), page.more_before, page.more_after),
            (rows, more_before, more_after),
            "{window:?}"
        );
    }
    let collection = open("[]");
    let query = everything(&collection);
    for window in [
        Window::Forward { after: None, limit: 5 },
        Window::Backward { before: None, limit: 5 },
        Window::Offset { offset: 5, limit: 5 },
    ] {
        let page = fetch(&collection, &query, window).unwrap();
        assert_eq!((page.rows.len(), page.more_before, page.more_after), (0, false, false));
    }
}

#[test]
fn a_place_with_a_key_is_its_sort_values() {
    let collection = keyed(r#"[{"id":"b","a":1},{"id":"a"},{"id":3,"a":[1, 2]}]"#, "id");
    let page = fetch(&collection, &everything(&collection), Window::Offset { offset: 0, limit: 9 });
    let places: Vec<_> = page.unwrap().rows.into_iter().map(|row| row.place).collect();
    let text = |text: &str| Scalar::Text(text.into());
    assert_eq!(places, [vec![Scalar::Int(3)], vec![text("a")], vec![text("b")]]);
    let query = sorted(&collection, "a");
    let page = fetch(&collection, &query, Window::Offset { offset: 0, limit: 9 }).unwrap();
    let places: Vec<_> = page.rows.into_iter().map(|row| row.place).collect();
    assert_eq!(
        places,
        [
            vec![Scalar::Int(1), text("b")],
            vec![Scalar::Blob(b"[1,2]".to_vec()), Scalar::Int(3)],
            vec![Scalar::Null, text("a")],
        ]
    );
    for place in [vec![], vec![Scalar::Int(1)], vec![Scalar::Int(1), text("b"), Scalar::Null]] {
        let refused = fetch(&collection, &query, after(&place, 1));
        assert!(matches!(refused, Err(CollectionError::BadPlace)), "{place:?}");
    }
}

#[test]
fn bad_keys_are_told_every_time() {
    for (text, expected) in [
        (r#"[{"id":1},{"id":2},{"id":1.0}]"#, "is the same in items 0 and 2"),
        (r#"[{"id":1},{"id":null}]"#, "is missing or null in item 1"),
        (r#"[{"id":1},{}]"#, "is missing or null in item 1"),
        (r#"[{"id":1},7]"#, "is missing or null in item 1"),
        (r#"[{"id":[1]}]"#, "is no single value in item 0"),
    ] {
        let collection = keyed(text, "id");
        let hint = "name another key, or none";
        let expected = format!("the source is damaged: the key 'id' {expected}; {hint}");
        for query in [sorted(&collection, "x"), everything(&collection)] {
            for _ in 0..2 {
                let error = fetch(&collection, &query, Window::Offset { offset: 0, limit: 1 });
                assert_eq!(error.unwrap_err().to_string(), expected);
            }
        }
    }
    let tagged = keyed(r#"[{"id":{"$integer":"1"}},{"id":{"$blob":"aGk"}}]"#, "id");
    let page = fetch(&tagged, &everything(&tagged), Window::Offset { offset: 0, limit: 9 });
    assert_eq!(page.unwrap().rows.len(), 2);
}

#[test]
fn long_arrays_are_sorted_by_their_start_and_then_by_the_tie_breaker() {
    let long = |end: u32| json!({"id": 10 - end, "a": ["x".repeat(300), end]});
    let text = json!([long(3), long(1), long(2)]).to_string();
    for collection in [open(&text), keyed(&text, "id")] {
        let query = sorted(&collection, "a");
        let mut seen = vec![];
        let mut place: Option<Vec<Scalar>> = None;
        loop {
            let window = Window::Forward { after: place.as_deref(), limit: 1 };
            let page = fetch(&collection, &query, window).unwrap();
            let Some(row) = page.rows.into_iter().next() else { break };
            let item: serde_json::Value = serde_json::from_str(&row.item).unwrap();
            seen.push(item["id"].as_u64().unwrap());
            place = Some(row.place);
        }
        let is_keyed = !collection.schema().unwrap().key().is_empty();
        assert_eq!(seen, if is_keyed { [7, 8, 9] } else { [7, 9, 8] });
    }
}

#[test]
fn errors_of_the_source_are_passed_on() {
    let text = r#"[{"a":1},{"a":2},{"a":3}]"#;
    for reads in 4..11 {
        let source = Copied::for_reads(text, reads);
        let Ok(collection) = JsonCollection::open(source, JsonOptions::new()) else { continue };
        let query = sorted(&collection, "a");
        let mut failures = 0;
        for _ in 0..3 {
            match fetch(&collection, &query, Window::Offset { offset: 0, limit: 2 }) {
                Ok(page) => assert_eq!(page.rows.len(), 2),
                Err(CollectionError::Gone(_)) => failures += 1,
                Err(other) => panic!("{other:?}"),
            }
        }
        assert!(failures > 0);
    }
}

#[test]
fn text_that_is_no_json_any_more_is_a_change() {
    #[derive(Debug)]
    struct Replaced(AtomicUsize);
    impl crate::ByteSource for Replaced {
        fn size_bytes(&self) -> u64 {
            10
        }
        fn edition(&self) -> u64 {
            1
        }
        fn read(
            &self,
            range: std::ops::Range<u64>,
        ) -> Result<std::borrow::Cow<'_, [u8]>, CollectionError> {
            let texts: [&[u8]; 3] = [b"[12,[3],4]", b"[\xff2,[3,4]]", b"]]]]]]]]]]"];
            let text = texts[self.0.load(Ordering::SeqCst)];
            Ok(text[range.start.try_into().unwrap()..range.end.try_into().unwrap()].into())
        }
    }
    for state in [1, 2] {
        let source = Arc::new(Replaced(AtomicUsize::new(0)));
        #[derive(Debug)]
        struct Shared(Arc<Replaced>);
        impl crate::ByteSource for Shared {
            fn size_bytes(&self) -> u64 {
                self.0.size_bytes()
            }
            fn edition(&self) -> u64 {
                self.0.edition()
            }
            fn read(
                &self,
                range: std::ops::Range<u64>,
            ) -> Result<std::borrow::Cow<'_, [u8]>, CollectionError> {
                self.0.read(range)
            }
        }
        let collection = JsonCollection::open(Shared(Arc::clone(&source)), JsonOptions::new());
        let collection = collection.unwrap();
        source.0.store(state, Ordering::SeqCst);
        let searched = Query { search: Search::new("x"), ..everything(&collection) };
        for query in [everything(&collection), sorted(&collection, "a"), searched] {
            let result = fetch(&collection, &query, Window::Offset { offset: 0, limit: 9 });
            assert!(matches!(result, Err(CollectionError::Changed)), "{result:?}");
            let result = collection.scan(&query, &mut |_| Ok(()));
            assert!(matches!(result, Err(CollectionError::Changed)), "{result:?}");
        }
    }
}

#[test]
fn a_sink_can_end_a_scan() {
    let collection = open("[1,2,3]");
    let mut seen = 0;
    let result = collection.scan(&everything(&collection), &mut |_| {
        seen += 1;
        if seen == 2 { Err(CollectionError::BadPlace) } else { Ok(()) }
    });
    assert!(matches!(result, Err(CollectionError::BadPlace)));
    assert_eq!(seen, 2);
}

#[test]
fn many_short_items_are_found_in_their_blocks() {
    let numbers: Vec<u32> = (0..50_000).collect();
    let text = serde_json::to_string(&numbers).unwrap();
    let collection = open(&text);
    let query = everything(&collection);
    assert_eq!(collection.count(&query).unwrap(), 50_000);
    for offset in [0, 1, 7, 16_383, 16_384, 49_990] {
        let page = fetch(&collection, &query, Window::Offset { offset, limit: 5 }).unwrap();
        let items: Vec<u64> = page.rows.iter().map(|row| row.item.parse().unwrap()).collect();
        assert_eq!(items, (offset..offset + 5).collect::<Vec<_>>());
    }
    let mut next = 0;
    collection
        .scan(&query, &mut |row| {
            assert_eq!(row.item, next.to_string());
            next += 1;
            Ok(())
        })
        .unwrap();
    assert_eq!(next, 50_000);
}

#[test]
fn the_schema_names_what_the_first_items_have() {
    let collection = open(r#"[{"n":1,"id":2},{"label":"x","name":"y","n":2},3,{"z\n":0}]"#);
    let schema = collection.schema().unwrap();
    let shown: Vec<_> =
        schema.columns().iter().map(|column| (column.name.as_str(), column.preset)).collect();
    assert_eq!(
        shown,
        [
            ("n", Preset::Standard),
            ("id", Preset::Minimal),
            ("label", Preset::Standard),
            ("name", Preset::Minimal),
            ("z\n", Preset::Standard),
        ]
    );
    assert_eq!((schema.shape(), schema.key().len()), (Shape::Open, 0));
    assert!(schema.counts_always());
    assert!(schema.columns().iter().all(|column| column.nullable));

    let minimal = |collection: &JsonCollection| -> Vec<String> {
        let schema = collection.schema().unwrap();
        let columns = schema.columns().iter();
        columns.filter(|column| column.preset == Preset::Minimal).map(|c| c.name.clone()).collect()
    };
    assert_eq!(minimal(&open(r#"[{"a":1,"b":"text","c":"more"}]"#)), ["b"]);
    assert_eq!(minimal(&open(r#"[{"a":1,"b":2}]"#)), ["a"]);
    assert_eq!(minimal(&open(r#"{"a":1,"b":2}"#)), ["key"]);
    assert_eq!(minimal(&open("[1,2]")), [""; 0]);
    let collection = keyed(r#"[{"a":{"b":1},"title":"x"}]"#, "a.b");
    assert_eq!(minimal(&collection), ["a.b", "title"]);
    let schema = collection.schema().unwrap();
    assert_eq!(schema.key(), ["a.b"]);
    assert!(!schema.column("a.b").unwrap().nullable);

    let many: Vec<_> = (0..300).map(|number| json!({format!("c{number}"): 1})).collect();
    assert_eq!(open(&json!(many).to_string()).schema().unwrap().columns().len(), 200);
}

#[test]
fn it_says_what_it_is() {
    for (text, source, items) in
        [("[1,2]", "json array", 2), ("{}", "json object", 0), ("1", "json value", 1)]
    {
        let about = open(text).about().unwrap();
        assert_eq!((about.source.as_str(), about.items), (source, Some(items)));
        assert_eq!(about.bytes, Some(text.len() as u64));
        assert!(about.indexes.is_empty());
    }
    assert_eq!(keyed(r#"[{"id":1}]"#, "id").about().unwrap().indexes, ["(id) unique"]);
}

fn query_for(word: usize) -> Query {
    let search = Search::new(&format!("w{word}"));
    Query { filter: Filter::EVERYTHING, search, order: Order::new(vec![]) }
}

fn whole(numbers: Vec<u32>, count: u32) -> View {
    let total = numbers.len();
    View::new(numbers, 0, total, count)
}

fn get_whole(
    views: &Views,
    query: &Query,
    find: impl FnOnce() -> Result<View, CollectionError>,
) -> Result<Arc<View>, CollectionError> {
    views.get(query, |_| panic!("a whole view always serves"), |_| find())
}

#[test]
fn views_are_found_once_and_the_oldest_are_forgotten() {
    let views = Views::new(0);
    let found = AtomicUsize::new(0);
    // Three of these are more than the limit of 1 MiB.
    let get = |word| {
        let view = get_whole(&views, &query_for(word), || {
            found.fetch_add(1, Ordering::SeqCst);
            Ok(whole(vec![5; 100_000], 1_000_000))
        });
        assert_eq!(view.unwrap().len(), 100_000);
        found.load(Ordering::SeqCst)
    };
    assert_eq!([get(1), get(1), get(2), get(1)], [1, 1, 2, 2]);
    assert_eq!(views.count(&Filter::EVERYTHING, &Search::new("w2")), Some(100_000));
    assert_eq!(views.count(&Filter::EVERYTHING, &Search::new("w3")), None);
    assert_eq!(get(3), 3, "now 2 is forgotten");
    assert_eq!([get(1), get(3)], [3, 3]);
    assert_eq!(get(2), 4);
}

#[test]
fn a_view_above_the_limit_is_kept_alone() {
    let views = Views::new(0);
    let large = || Ok(whole(vec![5; 1_000_000], 2_000_000));
    get_whole(&views, &query_for(1), large).unwrap();
    let again = get_whole(&views, &query_for(1), || panic!("it is kept"));
    assert_eq!(again.unwrap().len(), 1_000_000);
    get_whole(&views, &query_for(2), || Ok(whole(vec![5], 10))).unwrap();
    let found = std::cell::Cell::new(false);
    get_whole(&views, &query_for(1), || {
        found.set(true);
        large()
    })
    .unwrap();
    assert!(found.get());
}

#[test]
fn long_queries_take_their_share() {
    let views = Views::new(0);
    let long = |word: usize| Query {
        filter: Filter::Field(
            FieldPath::name("x"),
            Test::In(vec![Scalar::Text(format!("{word}{}", "x".repeat(600_000)))]),
        ),
        ..query_for(0)
    };
    let empty = || Ok(whole(vec![], 10));
    get_whole(&views, &long(1), empty).unwrap();
    get_whole(&views, &long(1), || panic!("it is kept")).unwrap();
    get_whole(&views, &long(2), empty).unwrap();
    assert_eq!(views.count(&long(1).filter, &long(1).search), None);
    assert_eq!(views.count(&long(2).filter, &long(2).search), Some(0));
}

#[test]
fn a_view_that_is_not_found_is_tried_again() {
    let views = Views::new(0);
    let failed = get_whole(&views, &query_for(1), || Err(CollectionError::Changed));
    assert!(matches!(failed, Err(CollectionError::Changed)));
    assert!(get_whole(&views, &query_for(1), || Ok(whole(vec![], 0))).is_ok());
}

#[test]
fn who_wants_the_same_view_waits_and_others_do_not() {
    let views = Views::new(0);
    let found = AtomicUsize::new(0);
    let (entered, entering) = std::sync::mpsc::channel();
    let (leave, leaving) = std::sync::mpsc::channel::<()>();
    let leaving = std::sync::Mutex::new(leaving);
    std::thread::scope(|scope| {
        let slow = || {
            get_whole(&views, &query_for(1), || {
                found.fetch_add(1, Ordering::SeqCst);
                entered.send(()).unwrap();
                leaving.lock().unwrap().recv().unwrap();
                Ok(whole(vec![3], 10))
            })
            .unwrap()
            .len()
        };
        let first = scope.spawn(slow);
        entering.recv().unwrap();
        let second = scope.spawn(slow);
        // Another view is found meanwhile.
        get_whole(&views, &query_for(2), || Ok(whole(vec![], 10))).unwrap();
        assert_eq!(views.count(&Filter::EVERYTHING, &Search::new("w1")), None);
        leave.send(()).unwrap();
        assert_eq!((first.join().unwrap(), second.join().unwrap()), (1, 1));
    });
    assert_eq!(found.load(Ordering::SeqCst), 1);
}

#[test]
fn everything_in_its_place_takes_no_memory() {
    let taken = |view: View| {
        let views = Views::new(0);
        let before = {
            get_whole(&views, &query_for(1), || Ok(View::all(0))).unwrap();
            views.memory_bytes()
        };
        get_whole(&views, &query_for(2), || Ok(view)).unwrap();
        views.memory_bytes() - 2 * before
    };
    assert_eq!(taken(whole(vec![0, 1, 2], 3)), 0);
    assert_eq!(taken(whole(vec![0, 2, 1], 3)), 12);
    assert_eq!(taken(whole(vec![0, 1], 3)), 8);
}

#[test]
fn two_stretches_of_a_query_are_kept() {
    let views = Views::new(0);
    let found = AtomicUsize::new(0);
    // Ten items, of which a stretch has four.
    let get = |rank: usize| {
        let serves = |view: &View| Ok((view.first()..view.first() + view.len()).contains(&rank));
        let view = views.get(&query_for(1), serves, |kept| {
            assert!(kept.len() <= 2);
            found.fetch_add(1, Ordering::SeqCst);
            Ok(View::new(vec![9; 4], rank, 10, 100))
        });
        assert_eq!(view.unwrap().total(), 10);
        found.load(Ordering::SeqCst)
    };
    assert_eq!([get(0), get(3), get(4), get(7), get(1)], [1, 1, 2, 2, 2]);
    assert_eq!(get(9), 3, "now the second one is forgotten");
    assert_eq!([get(1), get(4)], [3, 4]);
    assert_eq!(views.count(&Filter::EVERYTHING, &Search::new("w1")), Some(10));
}

#[test]
fn an_item_that_is_too_long_is_counted_and_not_read() {
    let long = format!("[\"{}\"]", "x".repeat(3 << 20));
    let text = format!("[{{\"a\":1}},{long} ,\n {{\"a\":2,\"b\":\"y\"}}]");
    let options = JsonOptions::new().with_longest_item(1 << 20);
    let collection = JsonCollection::open(Copied::new(text), options).unwrap();
    let query = everything(&collection);
    assert_eq!(collection.count(&query).unwrap(), 3);
    let one = |offset| fetch(&collection, &query, Window::Offset { offset, limit: 1 });
    assert_eq!(one(0).unwrap().rows[0].item, r#"{"a":1}"#);
    assert_eq!(one(2).unwrap().rows[0].item, r#"{"a":2,"b":"y"}"#);
    let page = one(1).unwrap();
    let shown = page.rows[0].item.as_long().unwrap();
    assert_eq!((shown.start.kind, shown.start.size_bytes), ("array", long.len() as u64));
    assert!(long.starts_with(shown.text()) && shown.text().len() == 4096);
    let item: serde_json::Value = serde_json::from_str(&page.rows[0].item).unwrap();
    assert_eq!(item["$excerpt"]["text"], shown.text());
    let searched = Query { search: Search::new("y"), ..query.clone() };
    assert_eq!(collection.count(&searched).unwrap(), 1);
    let unread = Unread { count: 1, first: vec![1], limit_bytes: 1 << 20 };
    assert_eq!(collection.unread(Some(&searched)), unread);
    assert_eq!(collection.unread(Some(&sorted(&collection, "a"))), unread);
    assert_eq!(collection.unread(Some(&query)), Unread::default());
    let names: Vec<_> =
        collection.schema().unwrap().columns().iter().map(|c| c.name.clone()).collect();
    assert_eq!(names, ["a", "b"]);
}

#[test]
fn a_value_is_found_by_its_pointer() {
    let text =
        r#" {"items":[{"id":1},[2,"z"],"\u0033"],"total": 3,"x":{"y":null},"x":{"y":[true]}} "#;
    let source = || Copied::new(text);
    let at = |collection: &JsonCollection, pointer: &str| {
        let extent = Extent::Whole { max_bytes: 20 };
        match collection.value_at(&pointer.parse().unwrap(), extent).unwrap() {
            Located::Found(Excerpt { kind, size_bytes, text, .. }) => {
                assert!(text.as_ref().is_none_or(|text| text.len() as u64 == size_bytes));
                Some((kind, text.unwrap_or_else(|| size_bytes.to_string())))
            }
            Located::Nothing => None,
            Located::NotJson => panic!("it is JSON"),
        }
    };
    let items = JsonOptions::new().with_pointer("/items".parse().unwrap());
    let whole = JsonCollection::open(source(), items.clone().with_whole_document()).unwrap();
    for (pointer, expected) in [
        ("/items/0", Some(("object", r#"{"id":1}"#))),
        ("/items/0/id", Some(("number", "1"))),
        ("/items/1/1", Some(("string", r#""z""#))),
        ("/items/2", Some(("string", r#""\u0033""#))),
        ("/items", Some(("array", "27"))),
        ("/items/3", None),
        ("/items/-", None),
        ("/items/00", None),
        ("/items/0/no", None),
        ("/total", Some(("number", "3"))),
        ("/x/y", Some(("array", "[true]"))),
        ("/x/y/0", Some(("boolean", "true"))),
        ("/total/0", None),
        ("", Some(("object", "80"))),
    ] {
        let expected = expected.map(|(kind, text)| (kind, text.to_owned()));
        assert_eq!(at(&whole, pointer), expected, "{pointer}");
    }
    // A part of a document is all there is, unless it is said that the rest may be read.
    let part = JsonCollection::open(source(), items).unwrap();
    assert_eq!(at(&part, "/0/id"), Some(("number", "1".to_owned())));
    assert_eq!(at(&part, ""), Some(("array", "27".to_owned())));
    for pointer in ["/items/0", "/total", "/x"] {
        assert_eq!(at(&part, pointer), None, "{pointer}");
    }
    let options = JsonOptions::new().with_pointer("/x".parse().unwrap());
    let members = JsonCollection::open(source(), options.with_whole_document()).unwrap();
    assert_eq!(at(&members, "/x/y"), Some(("array", "[true]".to_owned())));
}

#[test]
fn many_short_items_beside_long_ones_are_found_by_their_pointers() {
    let item = |number: usize| match number % 5000 {
        4999 => format!("[\"{}\"]", "é".repeat(200_000)),
        _ => number.to_string(),
    };
    let items: Vec<_> = (0..60_000).map(item).collect();
    let text = format!("[{}]", items.join(" , "));
    let options = JsonOptions::new().with_longest_item(64 << 10);
    let collection = JsonCollection::open(Copied::new(text), options).unwrap();
    for number in [0, 1, 4998, 4999, 5000, 5001, 39_999, 40_000, 59_998, 59_999] {
        let pointer = format!("/{number}").parse().unwrap();
        let found = collection.value_at(&pointer, Extent::Whole { max_bytes: 1 << 20 }).unwrap();
        let Located::Found(found) = found else { panic!("{number}: {found:?}") };
        assert!(found.text.unwrap() == item(number), "{number}");
        let pointer = format!("/{number}/0").parse().unwrap();
        let found = collection.value_at(&pointer, Extent::Piece { from: 1, max_bytes: 5 }).unwrap();
        match found {
            Located::Found(found) => assert_eq!(found.text.unwrap(), "éé"),
            other => assert_eq!((other, number % 5000 != 4999), (Located::Nothing, true)),
        }
    }
    // All of them are met, the long ones in part.
    let query = everything(&collection);
    let mut seen = 0;
    collection
        .scan(&query, &mut |row| {
            match row.item.as_long() {
                Some(long) => assert_eq!(long.start.size_bytes, item(seen).len() as u64),
                None => assert!(row.item == item(seen), "{seen}"),
            }
            assert_eq!(row.item.as_long().is_some(), seen % 5000 == 4999);
            seen += 1;
            Ok(())
        })
        .unwrap();
    assert_eq!(seen, 60_000);
    let page = fetch(&collection, &query, Window::Offset { offset: 4998, limit: 3 }).unwrap();
    let long: Vec<_> = page.rows.iter().map(|row| row.item.as_long().is_some()).collect();
    assert_eq!(long, [false, true, false]);
}

#[test]
fn of_a_long_name_a_part_is_shown() {
    let (name, text) = super::locate::named(4 << 20);
    let options = JsonOptions::new().with_longest_item(1 << 20);
    let collection = JsonCollection::open(InMemory::new(text, 0), options).unwrap();
    let window = Window::Offset { offset: 0, limit: 9 };
    let page = fetch(&collection, &everything(&collection), window).unwrap();
    assert_eq!(page.rows.len(), 2);
    let shown = page.rows[0].item.as_long().unwrap();
    let whole = format!(r#"{{"key":{name},"value":[1]}}"#);
    assert!(whole.starts_with(shown.text()) && shown.text().len() > 4000, "{}", shown.text().len());
    assert_eq!(shown.start.size_bytes, whole.len() as u64);
    assert_eq!(shown.read_on, None);
    assert_eq!(page.rows[1].item, r#"{"key":"wanted","value":[7]}"#);
}
