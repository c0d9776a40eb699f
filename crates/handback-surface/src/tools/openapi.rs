//! The tools as an OpenAPI document.

use std::collections::BTreeSet;

use handback_tool::Definition;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value, json};

/// What is written as it is in a segment of a path: all that names have, but the slash.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'_').remove(b'-').remove(b'.');

/// Members of a schema that are values, whatever they look like.
const VALUES: [&str; 4] = ["const", "default", "enum", "examples"];

/// Members of a schema that have schemas under names of their own.
const NAMED: [&str; 5] =
    ["$defs", "definitions", "dependentSchemas", "patternProperties", "properties"];

/// The document about these tools.
pub(super) fn document(tools: &[&Definition]) -> Value {
    let mut paths = fixed_paths();
    let mut schemas = fixed_schemas();
    let mut taken = BTreeSet::new();
    for tool in tools {
        let mut word = tool.name().replace('/', "-");
        while !taken.insert(word.clone()) {
            word.push('-');
        }
        add(&mut paths, &mut schemas, tool, &word);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Handback tools",
            "version": "1",
            "description": "The tools of this server that the caller may use.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "parameters": {"IdempotencyKey": {
                "name": "Idempotency-Key",
                "in": "header",
                "description": "Makes a retry the same call: 1 to 255 printable ASCII characters.",
                "schema": {"type": "string", "minLength": 1, "maxLength": 255},
            }},
            "responses": {
                "Refused": {
                    "description": "There is no answer; the code says why.",
                    "content": {"application/json": {"schema": reference("Error")}},
                },
            },
        },
    })
}

/// The paths of one tool.
fn add(
    paths: &mut Map<String, Value>,
    schemas: &mut Map<String, Value>,
    tool: &Definition,
    word: &str,
) {
    let path = format!("/v1/tools/{}", utf8_percent_encode(tool.name(), SEGMENT));
    let arguments = format!("arguments.{word}");
    let mut body = json!({
        "type": "object",
        "properties": {
            "arguments": reference(&arguments),
            "requestState": {"type": "string", "description": "What a question came with."},
            "inputResponses": {"type": "object", "description": "Answers, by question."},
        },
        "additionalProperties": false,
    });
    if tool
        .schema()
        .get("required")
        .and_then(Value::as_array)
        .is_some_and(|names| !names.is_empty())
        && let Some(body) = body.as_object_mut()
    {
        body.insert("required".to_owned(), json!(["arguments"]));
    }
    schemas.insert(arguments.clone(), moved(tool.schema(), &arguments));
    let result = match tool.result_schema() {
        Some(schema) => {
            let name = format!("result.{word}");
            schemas.insert(name.clone(), moved(schema, &name));
            reference(&name)
        }
        None if tool.is_paginated() => json!({"type": "array"}),
        None => json!({}),
    };
    let title = tool.shown_title().unwrap_or_else(|| tool.name());
    let run = operation(&format!("run.{word}"), title, tool.description(), &body, &result);
    paths.insert(format!("{path}/run"), json!({ "post": run }));
    if tool.is_paginated() {
        let id = format!("continue.{word}");
        let text = "The next page.";
        let go_on = operation(&id, title, text, &reference("Continue"), &result);
        paths.insert(format!("{path}/continue"), json!({ "post": go_on }));
    }
}

fn operation(id: &str, title: &str, description: &str, body: &Value, result: &Value) -> Value {
    let given = json!({
        "allOf": [reference("Answer")],
        "type": "object",
        "properties": {"result": result},
    });
    json!({
        "operationId": id,
        "summary": title,
        "description": description,
        "parameters": [{"$ref": "#/components/parameters/IdempotencyKey"}],
        "requestBody": {
            "required": true,
            "content": {"application/json": {"schema": body}},
        },
        "responses": {
            "200": {
                "description": "What it gave, what it asks, or that it failed.",
                "content": {
                    "application/json": {"schema": given},
                    "text/event-stream": {"schema": {"type": "string"}},
                },
            },
            "default": {"$ref": "#/components/responses/Refused"},
        },
    })
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// A schema at its place in the document: what it says of its own parts is said of them there.
fn moved(schema: &Value, name: &str) -> Value {
    let mut schema = schema.clone();
    if let Some(members) = schema.as_object_mut() {
        members.remove("$schema");
        // With an id, it is a document of its own.
        if !members.contains_key("$id") {
            move_references(&mut schema, &format!("#/components/schemas/{name}"));
        }
    }
    schema
}

fn move_references(schema: &mut Value, to: &str) {
    match schema {
        Value::Array(schemas) => {
            schemas.iter_mut().for_each(|schema| move_references(schema, to));
        }
        Value::Object(members) => {
            for (name, value) in members {
                match value {
                    Value::String(text) if name == "$ref" => {
                        if let Some(rest) = text.strip_prefix('#') {
                            *text = format!("{to}{rest}");
                        }
                    }
                    Value::Object(named) if NAMED.contains(&name.as_str()) => {
                        named.values_mut().for_each(|schema| move_references(schema, to));
                    }
                    value if !VALUES.contains(&name.as_str()) => move_references(value, to),
                    _ => {}
                }
            }
        }
        _ => {}
    }
}

/// What is there whatever the tools are.
fn fixed_paths() -> Map<String, Value> {
    let answers = |schema: Value| {
        json!({
            "200": {"description": "OK", "content": {"application/json": {"schema": schema}}},
            "default": {"$ref": "#/components/responses/Refused"},
        })
    };
    let list = json!({
        "operationId": "tools",
        "summary": "The tools that the caller may use",
        "parameters": [
            {"name": "cursor", "in": "query", "schema": {"type": "string", "maxLength": 512}},
            {"name": "limit", "in": "query", "schema": {"type": "integer", "minimum": 1}},
        ],
        "responses": answers(json!({
            "type": "object",
            "required": ["tools"],
            "properties": {
                "tools": {"type": "array", "items": reference("Tool")},
                "nextCursor": {"type": "string"},
            },
        })),
    });
    let one = json!({
        "operationId": "tool",
        "summary": "One tool",
        "parameters": [
            {"name": "id", "in": "path", "required": true, "schema": {"type": "string"}},
        ],
        "responses": answers(reference("Tool")),
    });
    Map::from_iter([
        ("/v1/tools".to_owned(), json!({ "get": list })),
        ("/v1/tools/{id}".to_owned(), json!({ "get": one })),
    ])
}

fn fixed_schemas() -> Map<String, Value> {
    let error = json!({
        "type": "object",
        "required": ["error"],
        "properties": {"error": {
            "type": "object",
            "required": ["code", "message"],
            "properties": {"code": {"type": "string"}, "message": {"type": "string"}, "data": {}},
        }},
    });
    let answer = json!({
        "type": "object",
        "properties": {
            "nextCursor": {"type": "string", "maxLength": 512},
            "inputRequests": {"type": "object"},
            "requestState": {"type": "string"},
            "isError": {"type": "boolean"},
            "error": {"type": "object"},
            "replayed": {"type": "boolean"},
        },
    });
    let tool = json!({
        "type": "object",
        "required": ["id", "description", "inputSchema", "paginated", "class"],
        "properties": {
            "id": {"type": "string"},
            "title": {"type": "string"},
            "description": {"type": "string"},
            "inputSchema": {"type": "object"},
            "outputSchema": {"type": "object"},
            "paginated": {"type": "boolean"},
            "class": {"enum": ["transactional", "takes_key", "read_only", "unknown"]},
            "scopes": {"type": "array", "items": {"type": "string"}},
        },
    });
    let go_on = json!({
        "type": "object",
        "required": ["cursor"],
        "properties": {"cursor": {"type": "string", "maxLength": 512}},
        "additionalProperties": false,
    });
    [("Answer", answer), ("Continue", go_on), ("Error", error), ("Tool", tool)]
        .map(|(name, schema)| (name.to_owned(), schema))
        .into_iter()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_of_a_schema_lead_into_the_document() {
        let schema = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "properties": {
                "a": {"$ref": "#/$defs/A"},
                "default": {"$ref": "#"},
                "$ref": {"type": "string"},
                "c": {"default": {"$ref": "#/x"}, "enum": [{"$ref": "#/x"}]},
                "d": {"$ref": "https://elsewhere.example/#/x"},
            },
            "$defs": {"A": {"anyOf": [{"$ref": "#/$defs/A"}, {"type": "null"}]}},
        });
        let expected = json!({
            "properties": {
                "a": {"$ref": "#/components/schemas/n/$defs/A"},
                "default": {"$ref": "#/components/schemas/n"},
                "$ref": {"type": "string"},
                "c": {"default": {"$ref": "#/x"}, "enum": [{"$ref": "#/x"}]},
                "d": {"$ref": "https://elsewhere.example/#/x"},
            },
            "$defs": {
                "A": {"anyOf": [{"$ref": "#/components/schemas/n/$defs/A"}, {"type": "null"}]},
            },
        });
        assert_eq!(moved(&schema, "n"), expected);
        let own = json!({"$id": "https://own.example/", "$ref": "#/$defs/A"});
        assert_eq!(moved(&own, "n"), own);
        assert_eq!(moved(&json!(true), "n"), json!(true));
    }
}
