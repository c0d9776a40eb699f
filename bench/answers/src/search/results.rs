//! Scripts for search results.

use anyhow::Result;
use serde_json::{Value, json};

use super::{each, no_script, only};
use crate::data::results::PRICE;
use crate::reader::Reader;

pub(super) fn answer(id: &str, reader: &mut Reader<'_>) -> Result<Value> {
    match id {
        // Three of sixty are shown: the best of them need not be the best.
        "results-first" => {
            let best = json!({"field": "score", "order": "desc"});
            let params = json!({"sort": best, "fields": ["title"], "first": 1});
            Ok(only(&reader.items("query_elements", params)?, "/title"))
        }
        "results-one" => {
            let params = json!({"query": "Marlowe", "fields": ["url"]});
            Ok(only(&reader.items("search_elements", params)?, "/url"))
        }
        "results-list" => {
            let params = json!({
                "filter": {"published": {"starts_with": "2026"}},
                "sort": {"field": "published", "order": "desc"},
                "fields": ["title"],
                "first": 100,
            });
            Ok(each(&reader.items("query_elements", params)?, "/title").into())
        }
        // Nothing gives a part of a text: the articles that may have it are read whole.
        "results-quote" => {
            let has = |word: &str| json!({"body": {"contains": word}});
            let filter = json!({"and": [has("launch"), has("tug"), has("cost")]});
            let params = json!({"filter": filter, "fields": ["body"]});
            let bodies = each(&reader.items("query_elements", params)?, "/body");
            let is_there = |body: &Value| body.as_str().is_some_and(|body| body.contains(PRICE));
            Ok(if bodies.iter().any(is_there) { json!(PRICE) } else { Value::Null })
        }
        "results-all" => {
            let items = reader.walk("list_elements", json!({"fields": ["body"]}), |_| false)?;
            let bodies = each(&items, "/body");
            let bodies = bodies.iter().filter_map(Value::as_str);
            Ok(json!(bodies.map(|body| body.split_whitespace().count()).sum::<usize>()))
        }
        other => no_script(other),
    }
}
