//! `vectors/pagination-v1.json`, through the tools on the pipeline.

mod cases;

use std::sync::Arc;

use handback_page::aql::{Catalog, Mode, Settings};
use handback_page::json::{InMemory, JsonCollection, JsonOptions};
use handback_page::{Collection, FieldPath};
use handback_store::held::HeldOptions;
use handback_tool::Registry;
use serde_json::{Value, json};

use self::cases::Run;
use crate::bench::{Bench, alice};

fn collection(value: &Value, key: Option<&str>) -> Arc<dyn Collection> {
    let options =
        key.map_or_else(JsonOptions::new, |key| JsonOptions::new().with_key(FieldPath::name(key)));
    Arc::new(JsonCollection::open(InMemory::hashed(value.to_string()), options).unwrap())
}

/// The collections that the vectors are about.
fn catalog() -> Catalog {
    let mut catalog = Catalog::new();
    catalog.add("items", "", collection(&cases::items(), Some("id"))).unwrap();
    catalog.add("people", "", collection(&cases::people(), None)).unwrap();
    catalog.add("empty", "", collection(&json!([]), None)).unwrap();
    catalog
}

#[tokio::test]
async fn every_vector_holds_through_both_tools() {
    let settings = Settings { mode: Mode::All, ..Settings::default() };
    let bench = Bench::with(Registry::new(), catalog(), settings, HeldOptions::new());
    for tool in ["mcp_aql_read", "mcp_aql"] {
        let mut run = Run::default();
        for case in cases::cases() {
            let text = bench.text(alice(), tool, run.request(&case)).await;
            run.judge(tool, &case, serde_json::from_str(&text).unwrap());
        }
    }
}
