//! Introspection, from the operation table and the schemas of the collections.
//!
//! The objects of the specification's schema are closed: nothing is added to operations,
//! parameters and types. What it says about pagination on each operation goes under `_protocol`,
//! which is open, unless the settings want it where the text of the specification has it.

use serde_json::{Map, Value, json};

use super::engine::{Call, Endpoint, Engine};
use super::failure::Failure;
use super::params::Params;
use super::settings::Settings;
use super::table::{Operation, Parameter, ParameterKind};
use crate::schema::{Kind, Schema, Shape};

/// The version of the specification that is spoken.
const SPEC_VERSION: &str = "1.0.0-draft";

pub(crate) fn answer(engine: &Engine, call: &Call<'_>, params: &Params) -> Result<Value, Failure> {
    let name = params.text("name");
    Ok(match (params.text("query"), name) {
        (Some("operations"), None) => operations(&engine.settings),
        (Some("operations"), Some(name)) => {
            let operation = Operation::named(name).map(|op| details(op, &engine.settings));
            json!({"operation": operation})
        }
        (_, None) => types(engine),
        (_, Some(name)) => json!({"type": type_named(engine, call, name)?}),
    })
}

fn operations(settings: &Settings) -> Value {
    let operations: Vec<_> = Operation::ALL.into_iter().map(|op| summary(op, settings)).collect();
    json!({"_protocol": protocol(settings), "operations": operations})
}

fn protocol(settings: &Settings) -> Value {
    let limits = &settings.limits;
    let paged: Vec<_> = Operation::ALL
        .into_iter()
        .filter(|operation| operation.is_paged())
        .map(|operation| {
            let mut block = json!({"name": operation.name()});
            add_pagination(&mut block, settings);
            block
        })
        .collect();
    json!({
        "version": SPEC_VERSION,
        "conformance": "level-1",
        "mode": settings.mode.name(),
        "capabilities": {
            "batch": true,
            "field_selection": true,
            "pagination": true,
            "warnings": true,
        },
        "limits": {
            "max_request_size": limits.request_bytes,
            "max_response_size": limits.response_bytes,
            "max_string_length": limits.string_bytes,
            "max_array_elements": limits.array_elements,
            "max_nesting_depth": limits.nesting_depth,
        },
        "concurrency": "read-concurrent",
        "null_semantics": "null stands for an absent parameter; in a filter it asks for null",
        "pagination": paged,
        "pagination_styles": styles(settings),
        "page_presets": settings.presets.keys().collect::<Vec<_>>(),
    })
}

fn styles(settings: &Settings) -> Vec<&'static str> {
    let mut styles = vec!["cursor"];
    if settings.page_style {
        styles.push("page");
    }
    if settings.offset_style {
        styles.push("offset");
    }
    styles
}

fn add_pagination(block: &mut Value, settings: &Settings) {
    let Value::Object(members) = block else { return };
    members.insert("supports_pagination".to_owned(), true.into());
    members.insert(
        "pagination".to_owned(),
        json!({
            "default_page_size": settings.default_page_size,
            "max_page_size": settings.max_page_size,
            "supports_total_count": true,
        }),
    );
}

fn summary(operation: Operation, settings: &Settings) -> Value {
    let mut summary = json!({
        "name": operation.name(),
        "semantic_category": operation.endpoint().name().to_ascii_uppercase(),
        "endpoint": operation.endpoint().name(),
        "description": operation.description(),
    });
    if settings.literal_pagination_block && operation.is_paged() {
        add_pagination(&mut summary, settings);
    }
    summary
}

fn details(operation: Operation, settings: &Settings) -> Value {
    let parameters: Vec<_> = operation
        .parameters(settings)
        .iter()
        .map(|parameter| parameter_info(parameter, settings))
        .collect();
    let (returns, kind) = operation.returns();
    let mut details = summary(operation, settings);
    if let Value::Object(members) = &mut details {
        let endpoint = operation.endpoint();
        members.insert("mcpTool".to_owned(), format!("mcp_aql_{}", endpoint.name()).into());
        let read_only = endpoint == Endpoint::Read;
        let permissions = json!({"readOnly": read_only, "destructive": false});
        members.insert("permissions".to_owned(), permissions);
        members.insert("parameters".to_owned(), parameters.into());
        members.insert("returns".to_owned(), json!({"name": returns, "kind": kind}));
        members.insert("examples".to_owned(), operation.examples());
    }
    details
}

fn parameter_info(parameter: &Parameter, settings: &Settings) -> Value {
    let mut info = Map::new();
    let mut put = |name: &str, value: Value| info.insert(name.to_owned(), value);
    put("name", parameter.name.into());
    put("required", parameter.required.into());
    put("description", parameter.description.into());
    match parameter.kind {
        ParameterKind::Size { minimum } => {
            put("type", "integer".into());
            put("minimum", minimum.into());
            match parameter.name {
                "page" | "offset" => {}
                _ => {
                    put("maximum", settings.max_page_size.into());
                }
            }
            if matches!(parameter.name, "first" | "page_size" | "limit") {
                put("default", settings.default_page_size.into());
            }
        }
        ParameterKind::Range { minimum, maximum } => {
            put("type", "integer".into());
            put("minimum", minimum.into());
            put("maximum", maximum.into());
            put("default", super::table::DEFAULT_POLL_MS.into());
        }
        ParameterKind::OneOf(names) => {
            put("type", "string".into());
            put("enum", json!(names));
        }
        ParameterKind::Text => {
            put("type", "string".into());
            if parameter.name == "page_preset" {
                put("enum", json!(settings.presets.keys().collect::<Vec<_>>()));
            }
        }
        ParameterKind::Boolean => {
            put("type", "boolean".into());
        }
        ParameterKind::Object => {
            put("type", "object".into());
        }
        ParameterKind::Objects => {
            put("type", "object | object[]".into());
        }
        ParameterKind::Texts => {
            put("type", "string | string[]".into());
        }
        ParameterKind::Any => {
            put("type", "any".into());
        }
    }
    Value::Object(info)
}

/// Name, kind, what it is, and what it has: names, types, and whether they are always there.
type ProtocolType =
    (&'static str, &'static str, &'static str, &'static [(&'static str, &'static str, bool)]);

/// Types of the protocol itself.
const PROTOCOL_TYPES: [ProtocolType; 14] = [
    ("SemanticCategory", "enum", "What an operation does.", &[]),
    (
        "OperationInput",
        "object",
        "A request.",
        &[("operation", "string", true), ("params", "object", false)],
    ),
    ("OperationResult", "union", "An answer.", &[]),
    (
        "OperationSuccess",
        "object",
        "An answer with data.",
        &[("success", "boolean", true), ("data", "any", true), ("warnings", "object[]", false)],
    ),
    (
        "OperationFailure",
        "object",
        "An answer that says what went wrong.",
        &[("success", "boolean", true), ("error", "object", true)],
    ),
    (
        "EndpointPermissions",
        "object",
        "What an operation may do.",
        &[("readOnly", "boolean", true), ("destructive", "boolean", true)],
    ),
    (
        "IntrospectionResult",
        "object",
        "What introspect answers.",
        &[
            ("_protocol", "object", false),
            ("operations", "object[]", false),
            ("operation", "object", false),
            ("types", "object[]", false),
            ("type", "object", false),
        ],
    ),
    (
        "ElementConnection",
        "object",
        "A page: items or edges, with pageInfo; with page numbers or offsets, pagination instead.",
        &[
            ("items", "object[]", false),
            ("edges", "object[]", false),
            ("pageInfo", "object", false),
            ("pagination", "object", false),
        ],
    ),
    (
        "PageInfo",
        "object",
        "What is around a page.",
        &[
            ("hasNextPage", "boolean", true),
            ("hasPreviousPage", "boolean", true),
            ("startCursor", "string", false),
            ("endCursor", "string", false),
            ("totalCount", "integer", false),
        ],
    ),
    ("Element", "object", "An element of a collection; its type has the collection's name.", &[]),
    ("ElementCount", "object", "How many elements match.", &[("count", "integer", true)]),
    (
        "DerivedElement",
        "object",
        "A held value made of another one.",
        &[
            ("handle", "string", true),
            ("kind", "string", true),
            ("bytes", "integer", true),
            ("expires_at", "integer", true),
        ],
    ),
    ("Filter", "object", "Conditions by column; see query_elements.", &[]),
    (
        "Sort",
        "object",
        "One key of an order.",
        &[("field", "string", true), ("order", "string", false), ("nulls", "string", false)],
    ),
];

fn types(engine: &Engine) -> Value {
    let protocol = PROTOCOL_TYPES.iter().map(|(name, kind, description, _)| {
        json!({"name": name, "kind": kind, "description": description})
    });
    let collections = engine.catalog.entries().map(|(name, entry)| {
        let description = match entry.description.as_str() {
            "" => format!("An element of the collection '{name}'."),
            description => description.to_owned(),
        };
        json!({"name": name, "kind": "object", "description": description})
    });
    json!({"types": protocol.chain(collections).collect::<Vec<_>>()})
}

fn type_named(engine: &Engine, call: &Call<'_>, name: &str) -> Result<Value, Failure> {
    let protocol = PROTOCOL_TYPES.iter().find(|(known, ..)| *known == name);
    if let Some((name, kind, _, fields)) = protocol {
        let mut described = json!({"name": name, "kind": kind});
        let (key, value) = match *kind {
            "enum" => ("values", json!(["CREATE", "READ", "UPDATE", "DELETE", "EXECUTE"])),
            "union" => ("members", json!(["OperationSuccess", "OperationFailure"])),
            _ => ("fields", fields.iter().copied().map(protocol_field).collect()),
        };
        if let Value::Object(members) = &mut described {
            members.insert(key.to_owned(), value);
        }
        return Ok(described);
    }
    // Whatever is wrong with a handle: there is no such type.
    let Ok(collection) = engine.named(call, name) else { return Ok(Value::Null) };
    let schema = collection.schema().map_err(|error| Failure::collection(error, name, None))?;
    Ok(json!({"name": name, "kind": "object", "fields": column_fields(&schema)}))
}

fn protocol_field((name, kind, required): (&str, &str, bool)) -> Value {
    json!({"name": name, "type": kind, "required": required})
}

fn column_fields(schema: &Schema) -> Vec<Value> {
    schema
        .columns()
        .iter()
        .map(|column| {
            let required = !column.nullable && schema.shape() == Shape::Closed;
            let is_key = schema.key().contains(&column.name);
            let mut words = vec![];
            if is_key {
                words.push("Part of the key.");
            }
            words.push(match column.kind {
                Kind::Json => "Tested for null only.",
                _ => "Filter and sort by it.",
            });
            json!({
                "name": column.name,
                "type": column.kind.name(),
                "required": required,
                "description": words.join(" "),
            })
        })
        .collect()
}
