//! Scripts for the issue tracker.

use std::collections::BTreeMap;

use anyhow::Result;
use serde_json::{Value, json};

use super::{each, no_script, only};
use crate::data::issues::PAID_DOUBLE;
use crate::reader::Reader;

pub(super) fn answer(id: &str, reader: &mut Reader<'_>) -> Result<Value> {
    match id {
        // The first of those shown need not be the newest.
        "issues-first" => {
            let newest = json!({"field": "created_at", "order": "desc"});
            let params = json!({"sort": newest, "fields": ["title"], "first": 1});
            Ok(only(&reader.items("query_elements", params)?, "/title"))
        }
        "issues-one" => {
            let filter = json!({"number": 18_204});
            let params = json!({"filter": filter, "fields": ["assignee.login"]});
            Ok(only(&reader.items("query_elements", params)?, "/assignee/login"))
        }
        "issues-count" => {
            let filter = json!({"state": "open", "labels": {"contains": "regression"}});
            Ok(json!(reader.count(json!({"filter": filter}))?))
        }
        "issues-top" => {
            let params = json!({
                "filter": {"state": "open"},
                "sort": [{"field": "comments", "order": "desc"}, {"field": "number", "order": "desc"}],
                "fields": ["number"],
                "first": 10,
            });
            Ok(each(&reader.items("query_elements", params)?, "/number").into())
        }
        "issues-stale" => {
            let filter = json!({"state": "open", "updated_at": {"lt": "2025-12-01"}});
            Ok(json!(reader.count(json!({"filter": filter}))?))
        }
        "issues-code" => {
            let params = json!({"query": "E-7731", "fields": ["number"]});
            Ok(only(&reader.items("search_elements", params)?, "/number"))
        }
        "issues-fuzzy" => paid_double(reader),
        "issues-groups" => by_assignee(reader),
        other => no_script(other),
    }
}

/// More hits are not read one by one.
const FEW: u64 = 20;

/// Tries the phrases that come to mind, then words in combination, and reads what is left.
fn paid_double(reader: &mut Reader<'_>) -> Result<Value> {
    let has = |phrase: &str| json!({"body": {"contains": phrase}});
    let any =
        |phrases: &[&str]| json!({"or": phrases.iter().copied().map(has).collect::<Vec<_>>()});
    let often = ["twice", "double", "two times"];
    for filter in [
        any(&["pay double", "paid double", "paid twice", "charged twice", "billed twice"]),
        any(&["double payment", "double charge", "duplicate payment", "duplicate charge"]),
        json!({"and": [any(&["paid", "payment", "charged"]), any(&often)]}),
        json!({"and": [any(&["billed", "debited", "deducted", "amount"]), any(&often)]}),
    ] {
        if !(1..=FEW).contains(&reader.count(json!({"filter": filter}))?) {
            continue;
        }
        let params = json!({"filter": filter, "fields": ["number", "body"]});
        let hits = reader.items("query_elements", params)?;
        let is_it = |hit: &&Value| hit["body"].as_str().is_some_and(|b| b.contains(PAID_DOUBLE));
        if let Some(hit) = hits.iter().find(is_it) {
            return Ok(hit["number"].clone());
        }
    }
    Ok(Value::Null)
}

/// Nothing groups: the one member of every open issue is read, and counted.
fn by_assignee(reader: &mut Reader<'_>) -> Result<Value> {
    let filter = json!({"state": "open", "assignee": {"is_null": false}});
    let params = json!({"filter": filter, "fields": ["assignee.login"]});
    let items = reader.walk("query_elements", params, |_| false)?;
    let mut counts = BTreeMap::<String, u64>::new();
    for item in &items {
        let login = item.pointer("/assignee/login").and_then(Value::as_str).unwrap_or_default();
        *counts.entry(login.to_owned()).or_default() += 1;
    }
    Ok(json!(counts))
}
