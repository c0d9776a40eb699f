//! Pages that are cut because the answer would be too large.

use std::sync::Arc;

use handback_page::aql::{Call, Catalog, Endpoint, Engine, Limits, Settings};
use handback_page::shelf::NoShelf;
use handback_token::{Caller, KeyRing, Mode, Sealer, SealerConfig, UnixTime};
use serde_json::{Value, json};

use super::support::TestDb;

const NOW: UnixTime = UnixTime::from_secs(1_800_000_000);

#[test]
fn a_walk_goes_on_where_a_page_was_cut() {
    let db = TestDb::new(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, v);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30)
         INSERT INTO t SELECT i, printf('%.*c', 99000, 'x') FROM n;",
    );
    let mut catalog = Catalog::new();
    catalog.add("t", "", Arc::new(db.open("t"))).unwrap();
    let limits = Limits { response_bytes: 1_000_000, ..Limits::default() };
    let settings = Settings { limits, ..Settings::default() };
    let engine = Engine::new(catalog, settings, Arc::new(NoShelf)).unwrap();
    let ring = KeyRing::generate(&mut rand::rng(), Mode::Sealed, NOW);
    let sealer = Sealer::new(&ring, SealerConfig::default()).unwrap();
    let page = |params: &Value| {
        let request = json!({"operation": "list_elements", "element_type": "t", "params": params});
        let caller = Caller::dangerous_identified("https://id.example", "alice");
        let call = Call { endpoint: Endpoint::Read, caller, sealer: &sealer, now: NOW };
        let answer = engine.answer(&call, &request, &mut rand::rng()).answer().unwrap();
        let text = answer.to_json();
        assert!(text.len() <= 1_000_000);
        let answer: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(answer["success"], true);
        answer["data"].clone()
    };
    for (size, cursor, end, more) in [
        ("first", "after", "endCursor", "hasNextPage"),
        ("last", "before", "startCursor", "hasPreviousPage"),
    ] {
        let mut params = json!({size: 30});
        let mut seen = Vec::new();
        loop {
            let page = page(&params);
            let items = page["items"].as_array().unwrap();
            assert!(items.len() < 10);
            seen.extend(items.iter().map(|item| item["id"].as_i64().unwrap()));
            if page["pageInfo"][more] == false {
                break;
            }
            params[cursor] = page["pageInfo"][end].clone();
        }
        seen.sort_unstable();
        assert_eq!(seen, (1..=30).collect::<Vec<_>>());
    }
}
