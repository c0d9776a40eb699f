//! The parameters `sort` and `fields`, checked against a schema.

use serde_json::Value;

use super::answer::Warning;
use super::failure::{Failure, shortened};
use super::params::Params;
use crate::collection::Search;
use crate::filter::{Filter, json_type};
use crate::order::{Direction, Nulls, Order, SortKey};
use crate::project::Selection;
use crate::schema::{FieldPath, Preset, Schema};

/// How many keys `sort` may have.
pub const MAX_SORT_KEYS: usize = 8;

/// How many paths `fields` may have, and how many members a path may have.
pub const MAX_FIELDS: usize = 256;
const MAX_PATH_PARTS: usize = 16;

/// How many words a search may have: each is looked for in every text column.
const MAX_SEARCH_WORDS: usize = 32;

/// Whether a parameter is small enough, whatever it says.
pub(crate) fn check_size(name: &str, value: &Value) -> Result<(), Failure> {
    let (limit_type, limit, actual) = match (name, value) {
        ("filter", filter) => {
            return Filter::check_size(filter).map_err(|error| Failure::filter(error, &[]));
        }
        ("sort", Value::Array(keys)) => ("sort_keys", MAX_SORT_KEYS, keys.len()),
        ("fields", Value::Array(paths)) => ("array_elements", MAX_FIELDS, paths.len()),
        ("query", Value::String(text)) => {
            ("search_words", MAX_SEARCH_WORDS, Search::new(text).words().len())
        }
        _ => return Ok(()),
    };
    if actual > limit {
        let (limit, actual) = (limit as u64, actual as u64);
        return Err(Failure::too_large(limit_type, limit, Some(actual), "elements"));
    }
    Ok(())
}

/// A sort key as it is asked for.
pub(crate) struct Asked<'a> {
    field: &'a str,
    direction: Direction,
    nulls: Nulls,
}

/// The sort keys that are asked for, whatever columns there are.
pub(crate) fn keys(params: &Params) -> Result<Vec<Asked<'_>>, Failure> {
    match params.get("sort") {
        None => Ok(vec![]),
        Some(Value::Array(keys)) => keys.iter().map(sort_key).collect(),
        Some(key) => Ok(vec![sort_key(key)?]),
    }
}

/// The total order that is asked for.
pub(crate) fn order(params: &Params, schema: &Schema) -> Result<Order, Failure> {
    let mut keys: Vec<SortKey> = Vec::new();
    for Asked { field: name, direction, nulls } in self::keys(params)? {
        let field = sort_field(name, schema)?;
        let column = field.column().and_then(|name| schema.column(name));
        let nullable = column.is_none_or(|column| column.nullable);
        keys.push(SortKey { field, direction, nulls, nullable });
    }
    for (number, key) in keys.iter().enumerate() {
        if keys.iter().take(number).any(|earlier| earlier.field == key.field) {
            let name = shortened(&key.field.to_string());
            let actual = format!("'{name}' twice");
            return Err(Failure::invalid_type("sort.field", "each column once", &actual));
        }
    }
    Ok(schema.total_order(keys))
}

fn sort_key(value: &Value) -> Result<Asked<'_>, Failure> {
    let Value::Object(members) = value else {
        return Err(Failure::invalid_type("sort", "object", json_type(value)));
    };
    let mut field = None;
    let mut direction = Direction::Ascending;
    let mut nulls = Nulls::Last;
    for (name, value) in members {
        match (name.as_str(), value) {
            ("field", Value::String(name)) => field = Some(name),
            ("order" | "nulls", Value::Null) => {}
            ("order", Value::String(text)) if text == "asc" => direction = Direction::Ascending,
            ("order", Value::String(text)) if text == "desc" => direction = Direction::Descending,
            ("nulls", Value::String(text)) if text == "first" => nulls = Nulls::First,
            ("nulls", Value::String(text)) if text == "last" => nulls = Nulls::Last,
            ("field", other) => {
                return Err(Failure::invalid_type("sort.field", "string", json_type(other)));
            }
            ("order", other) => return Err(wrong_word("sort.order", "asc or desc", other)),
            ("nulls", other) => return Err(wrong_word("sort.nulls", "first or last", other)),
            (name, _) => {
                let param_name = format!("sort.{}", shortened(name));
                return Err(Failure::invalid_type(
                    &param_name,
                    "field, order or nulls",
                    "unknown member",
                ));
            }
        }
    }
    match field {
        Some(field) => Ok(Asked { field, direction, nulls }),
        None => Err(Failure::invalid_type("sort.field", "string", "nothing")),
    }
}

fn sort_field(name: &str, schema: &Schema) -> Result<FieldPath, Failure> {
    let comparable = schema.columns().iter().filter(|column| column.is_comparable());
    let valid = || comparable.map(|column| column.name.as_str()).collect::<Vec<_>>();
    let known = schema.resolve(name).filter(|field| field.parts().len() <= MAX_PATH_PARTS);
    let Some(field) = known else {
        return Err(Failure::unknown_field("sort.field", name, &valid()));
    };
    match field.column().and_then(|name| schema.column(name)) {
        Some(column) if !column.is_comparable() => {
            Err(Failure::unordered_field("sort.field", column, &valid()))
        }
        _ => Ok(field),
    }
}

fn wrong_word(param_name: &str, expected: &str, value: &Value) -> Failure {
    let actual = if value.is_string() { "other text" } else { json_type(value) };
    Failure::invalid_type(param_name, expected, actual)
}

/// The members that are asked for, and a warning if they were asked for in the old way.
pub(crate) fn selection(
    params: &Params,
    schema: &Schema,
) -> Result<(Selection, Option<Warning>), Failure> {
    let old = params.text("preset").and_then(preset_named);
    let warning = old.map(|_| Warning::deprecated("preset", "fields"));
    let old = old.map(|preset| Selection::preset(preset, schema));
    let new = match params.get("fields") {
        None => None,
        Some(Value::Array(paths)) => Some(fields(paths, schema)?),
        Some(name) => {
            let preset = name.as_str().and_then(preset_named).ok_or_else(|| {
                let expected = "minimal, standard, full or an array of names";
                Failure::invalid_type("fields", expected, "other text")
            })?;
            Some(Selection::preset(preset, schema))
        }
    };
    let selection = match (old, new) {
        (Some(old), Some(new)) => old.union(new),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => Selection::preset(params.operation.default_preset(), schema),
    };
    Ok((selection, warning))
}

fn fields(paths: &[Value], schema: &Schema) -> Result<Selection, Failure> {
    let paths = paths
        .iter()
        .filter_map(Value::as_str)
        .map(|path| {
            // A column by its whole name, else a path into one; what is not there is not shown.
            let parts = || path.split('.').map(str::to_owned).collect();
            match schema.resolve(path) {
                Some(path) => match path.column() {
                    Some(name) => schema.member_path(name),
                    None => path,
                },
                None => FieldPath::from_parts(parts()),
            }
        })
        .collect::<Vec<_>>();
    if paths.iter().any(|path| path.parts().len() > MAX_PATH_PARTS) {
        return Err(Failure::invalid_type("fields", "paths of up to 16 members", "longer path"));
    }
    Ok(Selection::Paths(paths))
}

fn preset_named(name: &str) -> Option<Preset> {
    match name {
        "minimal" => Some(Preset::Minimal),
        "standard" => Some(Preset::Standard),
        "full" => Some(Preset::Full),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{Column, Kind, Shape};

    #[test]
    fn a_column_without_an_order_is_not_called_unknown() {
        let column = |name: &str, kind| Column {
            name: name.into(),
            kind,
            nullable: true,
            preset: Preset::Standard,
        };
        let columns = vec![column("id", Kind::Integer), column("doc", Kind::Json)];
        let schema = Schema::new(columns, vec!["id".into()], Shape::Closed);
        let told = |name: &str| {
            let error = sort_field(name, &schema).unwrap_err().to_value(true);
            assert_eq!(error["details"]["valid_names"], serde_json::json!(["id"]), "{error}");
            (error["message"].clone(), error["details"]["actual_type"].clone())
        };
        assert_eq!(sort_field("id", &schema).unwrap(), FieldPath::name("id"));
        let (message, actual) = told("doc");
        assert_eq!(message, "Parameter 'sort.field' names the column 'doc', which has no order");
        assert_eq!(actual, "column of type object");
        let (message, actual) = told("nope");
        assert_eq!(message, "Parameter 'sort.field' names an unknown column 'nope'");
        assert_eq!(actual, "unknown name");
    }
}
