//! Scripts for the log.

use anyhow::Result;
use serde_json::{Value, json};

use super::{each, no_script, only};
use crate::reader::Reader;

pub(super) fn answer(id: &str, reader: &mut Reader<'_>) -> Result<Value> {
    match id {
        // The level comes after the time: the word alone is in other lines as well.
        "log-count" => {
            let filter = json!({"text": {"contains": "Z ERROR "}});
            Ok(json!(reader.count(json!({"filter": filter}))?))
        }
        "log-before" => {
            let hits = reader.items("search_elements", json!({"query": "panic"}))?;
            let Some(line) = only(&hits, "/line").as_u64() else { return Ok(Value::Null) };
            let filter = json!({"line": {"gte": line.saturating_sub(3), "lt": line}});
            let before = reader.items("query_elements", json!({"filter": filter}))?;
            Ok(each(&before, "/text").into())
        }
        "log-trace" => {
            let hits = reader.items("search_elements", json!({"query": "c0ffee5a"}))?;
            let texts = each(&hits, "/text");
            let lines = texts.iter().filter_map(Value::as_str);
            Ok(lines.filter_map(|line| line.split_whitespace().nth(2)).collect())
        }
        "log-hour" => {
            let warnings = |hour: u64| {
                let start = format!("2026-05-04T{hour:02}");
                json!({"filter": {"text": {"starts_with": start, "contains": "Z WARN "}}})
            };
            let hours: Vec<_> = (0..24).map(warnings).collect();
            let counts = reader.ask_all("count_elements", &hours)?;
            let most = (0..).zip(&counts).max_by_key(|(_, data)| data["count"].as_u64());
            Ok(json!(most.map(|(hour, _): (u64, _)| format!("{hour:02}"))))
        }
        other => no_script(other),
    }
}
