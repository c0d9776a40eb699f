//! Scripts for the configuration. What is inside of it is reached by pointers, which follow the shape
//! that the first page shows.

use anyhow::Result;
use serde_json::{Value, json};

use super::{each, no_script, write_held};
use crate::data::DataSet;
use crate::reader::Reader;

pub(super) fn answer(id: &str, reader: &mut Reader<'_>) -> Result<Value> {
    match id {
        "config-one" => {
            let service = format!("{}/payments-api", services("production", "eu-west-1"));
            reader.value(&format!("{service}/probes/readiness/timeoutSeconds"))
        }
        "config-many" => {
            let place = services("production", "us-east-1");
            let params = json!({
                "filter": {"value.replicas": {"gt": 8}},
                "fields": ["key"],
                "first": 100,
            });
            Ok(each(&reader.items_at(&place, "query_elements", params)?, "/key").into())
        }
        "config-flags" => {
            let filter = json!({"owner": "growth", "percent": {"gte": 90}});
            let params = json!({"filter": filter, "fields": ["name"], "first": 100});
            Ok(each(&reader.items_at("/flags", "query_elements", params)?, "/name").into())
        }
        "config-compare" => {
            let here = tags(reader, "production")?;
            let there = tags(reader, "staging")?;
            let tag = |service: &Value| service.pointer("/value/image/tag").cloned();
            let differs = |one: &&Value| {
                let other = there.iter().find(|other| other["key"] == one["key"]);
                other.is_some_and(|other| tag(other) != tag(one))
            };
            Ok(here.iter().filter(differs).map(|one| one["key"].clone()).collect())
        }
        "config-edit" => {
            let path = "/environments/production/regions/eu-west-1/services/checkout-api/replicas";
            let patch = json!([{"op": "replace", "path": path, "value": 12}]);
            let edited = reader.derive(json!({"patch": patch}))?;
            write_held(DataSet::Config, &edited, reader)
        }
        other => no_script(other),
    }
}

/// Where the services of a region are.
fn services(environment: &str, region: &str) -> String {
    format!("/environments/{environment}/regions/{region}/services")
}

/// The services of a region, with their tags.
fn tags(reader: &mut Reader<'_>, environment: &str) -> Result<Vec<Value>> {
    let place = services(environment, "eu-west-1");
    let params = json!({"fields": ["key", "value.image.tag"], "first": 100});
    reader.items_at(&place, "list_elements", params)
}
