//! Short words for queries, walks and what they find.

use handback_page::{
    Collection, CollectionError, Direction, Fetch, Fetched, FieldPath, Filter, Nulls, Places,
    Query, Row, Schema, Search, SortKey, Window,
};
use serde_json::Value;

/// A sort key: `name` ascending, `-name` descending, with `!` at the end nulls first.
pub(crate) fn sort_key(schema: &Schema, text: &str) -> SortKey {
    let (text, nulls) =
        text.strip_suffix('!').map_or((text, Nulls::Last), |text| (text, Nulls::First));
    let (name, direction) = text
        .strip_prefix('-')
        .map_or((text, Direction::Ascending), |name| (name, Direction::Descending));
    let nullable = schema.column(name).unwrap().nullable;
    SortKey { field: FieldPath::name(name), direction, nulls, nullable }
}

pub(crate) fn query(collection: &dyn Collection, filter: &Value, sort: &[&str]) -> Query {
    let schema = collection.schema().unwrap();
    Query {
        filter: Filter::parse(filter, &schema).unwrap(),
        search: Search::default(),
        order: schema.total_order(sort.iter().map(|text| sort_key(&schema, text)).collect()),
    }
}

pub(crate) fn sorted(collection: &dyn Collection, sort: &[&str]) -> Query {
    query(collection, &serde_json::json!({}), sort)
}

pub(crate) fn fetch(
    collection: &dyn Collection,
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

/// All rows, in pages of `limit`, with every page's flags checked on the way.
#[track_caller]
pub(crate) fn walk(collection: &dyn Collection, query: &Query, limit: usize) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    loop {
        let after = rows.last().map(|row| row.place.clone());
        let window = Window::Forward { after: after.as_deref(), limit };
        let page = fetch(collection, query, window).unwrap();
        assert_eq!(page.more_before, !rows.is_empty());
        assert!(page.rows.len() == limit || !page.more_after);
        rows.extend(page.rows);
        if !page.more_after {
            return rows;
        }
    }
}

/// The same from the end; in forward order.
#[track_caller]
pub(crate) fn walk_back(collection: &dyn Collection, query: &Query, limit: usize) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    loop {
        let before = rows.first().map(|row| row.place.clone());
        let window = Window::Backward { before: before.as_deref(), limit };
        let mut page = fetch(collection, query, window).unwrap();
        assert_eq!(page.more_after, !rows.is_empty());
        assert!(page.rows.len() == limit || !page.more_before);
        page.rows.append(&mut rows);
        rows = page.rows;
        if !page.more_before {
            return rows;
        }
    }
}

/// The values of one member of each item.
pub(crate) fn member(rows: &[Row], name: &str) -> Vec<Value> {
    let value = |row: &Row| serde_json::from_str::<Value>(&row.item).unwrap()[name].clone();
    rows.iter().map(value).collect()
}

/// One member of all items that a filter leaves, in the order of the key.
#[track_caller]
pub(crate) fn found(collection: &dyn Collection, filter: &Value, name: &str) -> Vec<Value> {
    let query = query(collection, filter, &[]);
    let rows = walk(collection, &query, 100);
    assert_eq!(collection.count(&query).unwrap(), rows.len() as u64, "{filter}");
    member(&rows, name)
}
