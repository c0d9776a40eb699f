//! The index takes what `serde_json` takes, and finds the same items.
#![no_main]

use handback_page::json::{InMemory, JsonCollection, JsonOptions};
use handback_page::{Collection, Fetch, Filter, Places, Query, Search, Window};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|data: &[u8]| {
    let parsed = serde_json::from_slice::<Value>(data);
    let bytes: Vec<u8> = data.into();
    let opened = JsonCollection::open(InMemory::new(bytes, 0), JsonOptions::new());
    let collection = match (opened, &parsed) {
        (Ok(collection), _) => collection,
        // `serde_json` has numbers that it does not hold, and half of a surrogate pair, refused
        // only when they are read; nothing that it takes is refused here, but for depth.
        (Err(error), Ok(_)) => {
            assert!(error.to_string().contains("deep"), "{error}");
            return;
        }
        (Err(_), Err(_)) => return,
    };
    let schema = collection.schema().unwrap();
    let query = Query {
        filter: Filter::EVERYTHING,
        search: Search::default(),
        order: schema.total_order(vec![]),
    };
    let count = collection.count(&query).unwrap();
    let fetch = Fetch {
        query: &query,
        window: Window::Forward { after: None, limit: 1000 },
        columns: None,
        budget_bytes: usize::MAX,
        places: Places::All,
        total: false,
    };
    let fetched = collection.fetch(&fetch).unwrap();
    assert_eq!(fetched.rows.len() as u64, count.min(1000));
    if let Ok(Value::Array(values)) = parsed {
        assert_eq!(count, values.len() as u64);
        for (row, value) in fetched.rows.iter().zip(&values) {
            assert_eq!(serde_json::from_str::<Value>(&row.item).as_ref().ok(), Some(value));
        }
    }
});
