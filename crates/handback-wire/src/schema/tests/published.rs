//! Schemas like those of published servers, which have to work.

use super::*;

/// A large tool: hundreds of members, definitions that are referred to from many places, unions.
fn large_api() -> Value {
    let entity = |number: usize| {
        let other =
            |step: usize| json!({"$ref": format!("#/$defs/entity{}", (number + step) % 120)});
        json!({
            "type": "object",
            "description": "An entity of a large API. ".repeat(8),
            "properties": {
                "id": {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"},
                "state": {"enum": ["open", "closed", "all"]},
                "created_at": {"type": "string", "format": "date-time"},
                "parent": {"anyOf": [other(1), {"type": "null"}]},
                "children": {"type": "array", "items": other(0), "maxItems": 100},
                "labels": {"type": "array", "items": {"type": "string"}, "uniqueItems": true},
                "target": {"oneOf": [
                    {"allOf": [{"properties": {"kind": {"const": "a"}}, "required": ["kind"]}, other(2)]},
                    {"allOf": [{"properties": {"kind": {"const": "b"}}, "required": ["kind"]}, other(3)]},
                ]},
            },
            "required": ["id"],
            "unevaluatedProperties": true,
        })
    };
    let definitions: serde_json::Map<_, _> =
        (0..120).map(|number| (format!("entity{number}"), entity(number))).collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": definitions,
        "properties": {"entity": {"$ref": "#/$defs/entity0"}},
        "required": ["entity"],
        "additionalProperties": false,
    })
}

#[test]
fn wound_a1_a_large_schema_of_a_published_kind_works() {
    let schema = large_api();
    assert!(schema.to_string().len() > 100_000);
    let mut entity = json!({"id": "leaf", "labels": ["a", "b"]});
    for number in 0..20 {
        let kind = if number % 2 == 0 { "a" } else { "b" };
        let target = json!({"kind": kind, "id": "t", "state": "open"});
        entity = json!({"id": format!("e{number}"), "children": [entity], "target": target});
    }
    let validator = validator(&schema);
    assert!(validator.fits(&json!({"entity": entity})));
    assert!(validator.steps() < 20_000, "{}", validator.steps());
    let Verdict::Misfit(misfit) = validator.check(&json!({"entity": {"id": "no spaces"}})) else {
        panic!("it does not fit");
    };
    assert_eq!(misfit.pointer, "/entity/id");
}

#[test]
fn wound_a1_many_rows_are_checked_within_the_budget() {
    let rows: Value =
        (0..20_000).map(|id| json!({"id": id, "name": format!("row {id}")})).collect();
    let schema = json!({
        "type": "object",
        "properties": {"rows": {"type": "array", "items": {
            "type": "object",
            "properties": {"id": {"type": "integer"}, "name": {"type": "string", "maxLength": 80}},
            "required": ["id", "name"],
            "additionalProperties": false,
        }}},
    });
    let validator = validator(&schema);
    assert!(validator.fits(&json!({"rows": rows})));
    assert!(validator.steps() < 500_000, "{}", validator.steps());
}

#[test]
fn wound_a1_meta_schemas_work_as_schemas_and_as_targets() {
    let tool = json!({"type": "object", "properties": {"a": {"items": {"minimum": 1}}}});
    let broken = json!({"type": "object", "properties": {"a": {"items": {"minimum": "1"}}}});
    for name in [
        "http://json-schema.org/draft-04/schema#",
        "http://json-schema.org/draft-06/schema#",
        "http://json-schema.org/draft-07/schema#",
        "https://json-schema.org/draft/2019-09/schema",
        "https://json-schema.org/draft/2020-12/schema",
    ] {
        let schema = json!({"properties": {"schema": {"$ref": name}}});
        let validator = validator(&schema);
        assert!(validator.fits(&json!({"schema": tool})), "{name}");
        assert!(!validator.fits(&json!({"schema": broken})), "{name}");
        assert!(!validator.is_over());
    }
    let anchor = json!({"$ref": "https://json-schema.org/draft/2020-12/schema#meta"});
    assert!(validator(&anchor).fits(&tool) && !validator(&anchor).fits(&broken));
    // A deep value, which takes several levels of the recursive schema for each of its own.
    let deep =
        (0..40).fold(json!({"type": "string"}), |inner, _| json!({"properties": {"a": inner}}));
    let schema = json!({"$ref": "https://json-schema.org/draft/2020-12/schema"});
    assert!(validator(&schema).fits(&deep));
}

#[test]
fn wound_a1_generators_of_schemas_are_understood() {
    // zod and older libraries write draft 7, with definitions beside a reference.
    let draft_7 = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$ref": "#/definitions/Args",
        "definitions": {"Args": {
            "type": "object",
            "properties": {"tree": {"$ref": "#/definitions/Args"}, "n": {"type": "integer"}},
            "additionalProperties": false,
        }},
    });
    let validator = validator(&draft_7);
    assert!(validator.fits(&json!({"tree": {"tree": {"n": 1.0}}})));
    assert!(!validator.fits(&json!({"tree": {"tree": {"n": 1.5}}})));
    // pydantic and schemars.
    let newer = json!({
        "$defs": {"Kind": {"enum": ["a", "b"], "title": "Kind", "type": "string"}},
        "properties": {
            "kind": {"$ref": "#/$defs/Kind", "default": "a"},
            "limit": {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "null"}], "default": null},
        },
        "title": "search_arguments",
        "type": "object",
    });
    let validator = self::validator(&newer);
    assert!(validator.fits(&json!({"kind": "b", "limit": null})));
    assert!(!validator.fits(&json!({"kind": "c"})));
    // A bundle with names and anchors.
    let bundle = json!({
        "$id": "https://example.com/root.json",
        "properties": {
            "a": {"$ref": "item.json"}, "b": {"$ref": "item.json#part"}, "c": {"$ref": "#own"},
        },
        "$defs": {
            "item": {"$id": "item.json", "type": "string", "$defs": {"p": {"$anchor": "part", "type": "integer"}}},
            "own": {"$anchor": "own", "type": "null"},
        },
    });
    let validator = self::validator(&bundle);
    assert!(validator.fits(&json!({"a": "x", "b": 1, "c": null})));
    assert!(!validator.fits(&json!({"b": "x"})) && !validator.fits(&json!({"c": 1})));
}
