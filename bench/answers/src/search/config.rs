//! Scripts for the configuration. Its members are the items; what is inside of them is reached by
//! dotted paths, which follow the shape that the first page shows.

use anyhow::Result;
use serde_json::{Map, Value, json};

use super::{no_script, only, write_held};
use crate::data::DataSet;
use crate::reader::Reader;

pub(super) fn answer(id: &str, reader: &mut Reader<'_>) -> Result<Value> {
    match id {
        "config-one" => {
            let service = "production.regions.eu-west-1.services.payments-api";
            at(reader, &format!("{service}.probes.readiness.timeoutSeconds"))
        }
        "config-many" => {
            let services = services(reader, "production", "us-east-1")?;
            let many = services.iter().filter(|(_, one)| one["replicas"].as_u64() > Some(8));
            Ok(many.map(|(name, _)| name.as_str()).collect())
        }
        "config-flags" => {
            let params = json!({"filter": {"key": "flags"}});
            let flags = only(&reader.items("query_elements", params)?, "/value");
            let flags = flags.as_array().map(Vec::as_slice).unwrap_or_default();
            let full = flags.iter().filter(|flag| flag["owner"] == "growth");
            let full = full.filter(|flag| flag["percent"].as_u64() >= Some(90));
            Ok(full.map(|flag| flag["name"].clone()).collect())
        }
        "config-compare" => {
            let here = services(reader, "production", "eu-west-1")?;
            let there = services(reader, "staging", "eu-west-1")?;
            let tag = |service: &Value| service.pointer("/image/tag").cloned();
            let differ = here
                .iter()
                .filter(|(name, one)| there.get(*name).is_some_and(|other| tag(other) != tag(one)));
            Ok(differ.map(|(name, _)| name.as_str()).collect())
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

/// The services of a region, all of them: no operation looks inside of one item.
fn services(
    reader: &mut Reader<'_>,
    environment: &str,
    region: &str,
) -> Result<Map<String, Value>> {
    let services = at(reader, &format!("{environment}.regions.{region}.services"))?;
    Ok(services.as_object().cloned().unwrap_or_default())
}

/// What is at a path in the environments.
fn at(reader: &mut Reader<'_>, path: &str) -> Result<Value> {
    let params = json!({"filter": {"key": "environments"}, "fields": [format!("value.{path}")]});
    let items = reader.items("query_elements", params)?;
    Ok(only(&items, &format!("/value/{}", path.replace('.', "/"))))
}
