//! Scripts for the orders.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use anyhow::Result;
use serde_json::{Value, json};

use super::{each, no_script, only};
use crate::reader::Reader;

pub(super) fn answer(id: &str, reader: &mut Reader<'_>) -> Result<Value> {
    match id {
        "orders-one" => {
            let params = json!({"filter": {"id": "ORD-104233"}, "fields": ["status"]});
            Ok(only(&reader.items("query_elements", params)?, "/status"))
        }
        "orders-count" => {
            let filter = json!({"status": "refunded", "customer.country": "DE"});
            Ok(json!(reader.count(json!({"filter": filter}))?))
        }
        "orders-top" => {
            let params = json!({
                "sort": [{"field": "total_cents", "order": "desc"}, {"field": "id", "order": "desc"}],
                "fields": ["id"],
                "first": 10,
            });
            Ok(each(&reader.items("query_elements", params)?, "/id").into())
        }
        "orders-part" => Ok(json!(reader.count(json!({"query": "KE-036"}))?)),
        "orders-latest" => {
            let params = json!({
                "filter": {"customer.id": "C10511"},
                "sort": {"field": "created_at", "order": "desc"},
                "fields": ["id"],
                "first": 1,
            });
            Ok(only(&reader.items("query_elements", params)?, "/id"))
        }
        "orders-sum" => sum(reader),
        "orders-median" => median(reader),
        "orders-groups" => by_country(reader),
        "orders-most" => most(reader),
        other => no_script(other),
    }
}

fn sum(reader: &mut Reader<'_>) -> Result<Value> {
    let filter = json!({"status": "refunded", "created_at": {"starts_with": "2026-06"}});
    let params = json!({"filter": filter, "fields": ["total_cents"]});
    let items = reader.walk("query_elements", params, |_| false)?;
    Ok(json!(items.iter().map(total).sum::<u64>()))
}

/// The one in the middle of the order.
fn median(reader: &mut Reader<'_>) -> Result<Value> {
    let count = reader.count(json!({}))?;
    let params = json!({
        "sort": {"field": "total_cents"},
        "fields": ["total_cents"],
        "offset": count.saturating_sub(1) / 2,
        "limit": 1,
    });
    Ok(only(&reader.items("list_elements", params)?, "/total_cents"))
}

/// Two members of every row.
fn by_country(reader: &mut Reader<'_>) -> Result<Value> {
    let params = json!({"fields": ["customer.country", "total_cents"]});
    let mut sums = BTreeMap::<String, u64>::new();
    for item in reader.walk("list_elements", params, |_| false)? {
        *sums.entry(text(&item, "/customer/country")).or_default() += total(&item);
    }
    Ok(json!(sums))
}

/// One member of every row.
fn most(reader: &mut Reader<'_>) -> Result<Value> {
    let params = json!({"fields": ["customer.id"]});
    let mut counts = BTreeMap::<String, u64>::new();
    for item in reader.walk("list_elements", params, |_| false)? {
        *counts.entry(text(&item, "/customer/id")).or_default() += 1;
    }
    let most = counts.iter().max_by_key(|&(id, count)| (count, Reverse(id)));
    Ok(json!(most.map(|(id, _)| id)))
}

fn total(item: &Value) -> u64 {
    item["total_cents"].as_u64().unwrap_or_default()
}

fn text(item: &Value, pointer: &str) -> String {
    item.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}
