//! Scripts for the handbook.

use anyhow::Result;
use serde_json::{Value, json};

use super::{each, no_script, only, write_held};
use crate::data::DataSet;
use crate::data::handbook::{ANIMALS, NEW_NOTICE, NOTICE};
use crate::reader::Reader;

pub(super) fn answer(id: &str, reader: &mut Reader<'_>) -> Result<Value> {
    match id {
        "handbook-one" => {
            let text = notice(reader)?;
            let rule = text.split_once("is asked for ").map(|(_, rest)| rest);
            let days = rule.and_then(|rest| rest.split(' ').next());
            Ok(json!(days.and_then(|days| days.parse::<u64>().ok())))
        }
        "handbook-outline" => {
            let params = json!({"filter": {"text": {"starts_with": "## "}}, "first": 100});
            let headings = each(&reader.items("query_elements", params)?, "/text");
            let headings = headings.iter().filter_map(Value::as_str);
            Ok(headings.filter_map(|line| line.strip_prefix("## ")).collect())
        }
        "handbook-fuzzy" => animals(reader),
        "handbook-edit" => {
            notice(reader)?;
            let edited = reader.derive(json!({"edits": [{"old": NOTICE, "new": NEW_NOTICE}]}))?;
            write_held(DataSet::Handbook, &edited, reader)
        }
        other => no_script(other),
    }
}

/// The paragraph with the rule.
fn notice(reader: &mut Reader<'_>) -> Result<String> {
    let params = json!({"filter": {"text": {"contains": "more than ten working days"}}});
    let hits = reader.items("query_elements", params)?;
    Ok(only(&hits, "/text").as_str().unwrap_or_default().to_owned())
}

/// More hits are not read one by one.
const FEW: u64 = 20;

/// Tries the word of the question, then others, and goes back from the hit to its heading.
fn animals(reader: &mut Reader<'_>) -> Result<Value> {
    for words in ["dog", "pets animals puppy", "companion four-legged leash"] {
        if !(1..=FEW).contains(&reader.count(json!({"query": words}))?) {
            continue;
        }
        let hits = reader.items("search_elements", json!({"query": words}))?;
        let is_it = |hit: &&Value| hit["text"].as_str().is_some_and(|text| text.contains(ANIMALS));
        let Some(hit) = hits.iter().find(is_it) else { continue };
        let filter = json!({"line": {"lt": hit["line"]}, "text": {"starts_with": "### "}});
        let heading = reader.items("query_elements", json!({"filter": filter, "last": 1}))?;
        let heading = only(&heading, "/text");
        let number = heading.as_str().and_then(|text| text.split_whitespace().nth(1));
        return Ok(json!(number));
    }
    Ok(Value::Null)
}
