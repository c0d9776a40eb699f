//! Members that are long: they are tested and sorted by without being in memory a second time.

use handback_page::{
    Collection, Direction, Fetch, Filter, InMemory, JsonCollection, JsonOptions, Nulls, Places,
    Query, Search, SortKey, Window,
};
use serde_json::{Value, json};

/// Elements of a list: as values they take fifty times as much as here.
const ELEMENTS: usize = 2 << 20;

/// What may be taken beside the source: a few copies of an item.
const SPARE_BYTES: u64 = 48 << 20;

/// The most memory that this process has had at once, where the system says so.
fn peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib << 10)
}

#[test]
fn a_long_member_is_tested_and_sorted_by_as_it_is_written() {
    let long = format!("[{}1]", "0,".repeat(ELEMENTS));
    let text = format!(r#"[{{"a":{{"b":{long}}}}},{{"a":{long}}},{{"a":2}}]"#);
    let items = JsonCollection::open(InMemory::new(text, 0), JsonOptions::new()).unwrap();
    let schema = items.schema().unwrap();
    let query = |filter: &Value, sort: Option<SortKey>| Query {
        filter: Filter::parse(filter, &schema).unwrap(),
        search: Search::default(),
        order: schema.total_order(sort.into_iter().collect()),
    };
    let before = peak_bytes();
    let check_memory = || {
        if let (Some(before), Some(after)) = (before, peak_bytes()) {
            assert!(after - before < SPARE_BYTES, "{} bytes more", after - before);
        }
    };
    let many: Vec<_> = (3..200).map(|n| json!({"a": {"contains": n}})).collect();
    for (filter, expected) in [
        (json!({"a": {"is_null": true}}), 0),
        (json!({"a": 2}), 1),
        (json!({"a": {"contains": 1}}), 1),
        (json!({"a.b": {"contains": 1}, "a": {"ne": 1}}), 1),
        (json!({"or": many}), 0),
        (json!({"not": {"or": many}}), 3),
    ] {
        assert_eq!(items.count(&query(&filter, None)).unwrap(), expected, "{filter}");
        check_memory();
    }
    let (direction, nulls) = (Direction::Ascending, Nulls::Last);
    let field = schema.resolve("a").unwrap();
    let query = query(&json!({}), Some(SortKey { field, direction, nulls, nullable: true }));
    let window = Window::Forward { after: None, limit: 3 };
    let (columns, places) = (None, Places::All);
    let fetch = Fetch { query: &query, window, columns, budget_bytes: 1, places, total: true };
    let page = items.fetch(&fetch).unwrap();
    assert_eq!((page.rows.len(), page.total), (1, Some(3)));
    assert_eq!(page.rows[0].item, r#"{"a":2}"#);
    let place = page.rows[0].place.clone();
    let window = Window::Forward { after: Some(&place), limit: 3 };
    let page = items.fetch(&Fetch { window, ..fetch }).unwrap();
    assert!(page.rows[0].item.starts_with(r#"{"a":[0,0"#), "arrays are before objects");
    check_memory();
}
