//! Introspection against the rules of the specification's schema: closed objects, known words.

use handback_page::aql::{Mode, Operation, Settings};
use serde_json::{Value, json};

use crate::harness::Harness;

#[track_caller]
fn closed(object: &Value, required: &[&str], optional: &[&str]) {
    let members = object.as_object().unwrap_or_else(|| panic!("no object: {object}"));
    for name in required {
        assert!(members.contains_key(*name), "{name} is missing in {object}");
    }
    for name in members.keys() {
        let known = required.contains(&name.as_str()) || optional.contains(&name.as_str());
        assert!(known, "{name} is unknown in {object}");
    }
}

fn is_snake_case(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

fn introspect(harness: &Harness, params: Value) -> Value {
    let answer = harness.ask(&json!({"operation": "introspect", "params": params}));
    closed(&answer, &["success", "data"], &[]);
    answer["data"].clone()
}

#[test]
fn the_list_of_operations_is_schema_clean() {
    let harness = Harness::new();
    let data = introspect(&harness, json!({"query": "operations"}));
    closed(&data, &["_protocol", "operations"], &[]);
    let protocol = &data["_protocol"];
    assert_eq!(protocol["version"], "1.0.0-draft");
    assert!(["level-1", "level-2"].contains(&protocol["conformance"].as_str().unwrap()));
    assert_eq!(protocol["mode"], "semantic");
    for limit in [
        "max_request_size",
        "max_response_size",
        "max_string_length",
        "max_array_elements",
        "max_nesting_depth",
    ] {
        assert!(protocol["limits"][limit].is_u64(), "{limit}");
    }
    let operations = data["operations"].as_array().unwrap();
    assert_eq!(operations.len(), Operation::ALL.len());
    for operation in operations {
        closed(operation, &["name", "semantic_category", "endpoint", "description"], &[]);
        assert!(is_snake_case(operation["name"].as_str().unwrap()));
        let derives = operation["name"] == "derive_element";
        assert_eq!(operation["semantic_category"], if derives { "CREATE" } else { "READ" });
        assert_eq!(operation["endpoint"], if derives { "create" } else { "read" });
    }
    assert_eq!(operations[0]["name"], "introspect");
}

#[test]
fn the_details_of_every_operation_are_schema_clean() {
    let harness = Harness::new();
    for operation in Operation::ALL {
        let data = introspect(&harness, json!({"query": "operations", "name": operation.name()}));
        closed(&data, &["operation"], &[]);
        let details = &data["operation"];
        closed(
            details,
            &[
                "name",
                "semantic_category",
                "endpoint",
                "mcpTool",
                "description",
                "permissions",
                "parameters",
                "returns",
            ],
            &["examples", "computed_fields", "aggregation_support", "lifecycle"],
        );
        let reads = operation != Operation::DeriveElement;
        assert_eq!(details["mcpTool"], if reads { "mcp_aql_read" } else { "mcp_aql_create" });
        assert_eq!(details["permissions"], json!({"readOnly": reads, "destructive": false}));
        closed(&details["returns"], &["name", "kind"], &["description"]);
        for parameter in details["parameters"].as_array().unwrap() {
            check_parameter(parameter);
            assert!(is_snake_case(parameter["name"].as_str().unwrap()));
        }
        for example in details["examples"].as_array().unwrap() {
            closed(example, &["request"], &["description"]);
            assert_eq!(example["request"]["operation"], operation.name());
        }
    }
}

#[track_caller]
fn check_parameter(parameter: &Value) {
    closed(
        parameter,
        &["name", "type", "required"],
        &[
            "description",
            "default",
            "enum",
            "minimum",
            "maximum",
            "minLength",
            "maxLength",
            "pattern",
            "format",
            "items",
            "sensitive",
        ],
    );
    assert!(parameter["type"].is_string() && parameter["required"].is_boolean());
}

#[test]
fn types_are_schema_clean_and_name_every_collection() {
    let harness = Harness::new();
    let data = introspect(&harness, json!({"query": "types"}));
    closed(&data, &["types"], &[]);
    for listed in data["types"].as_array().unwrap() {
        closed(listed, &["name", "kind"], &["description"]);
        let kind = listed["kind"].as_str().unwrap();
        let data = introspect(&harness, json!({"query": "types", "name": listed["name"]}));
        closed(&data, &["type"], &[]);
        let (member, allowed) = match kind {
            "enum" => ("values", "enum"),
            "union" => ("members", "union"),
            _ => ("fields", "object"),
        };
        assert_eq!(kind, allowed);
        closed(&data["type"], &["name", "kind", member], &[]);
        if member == "fields" {
            data["type"]["fields"].as_array().unwrap().iter().for_each(check_parameter);
        }
    }
    let fields = introspect(&harness, json!({"query": "types", "name": "text"}));
    let names: Vec<_> =
        fields["type"]["fields"].as_array().unwrap().iter().map(|f| f["name"].clone()).collect();
    assert_eq!(names, ["line", "text"]);
}

#[test]
fn an_unknown_name_is_null_and_no_error() {
    let harness = Harness::new();
    let data = introspect(&harness, json!({"query": "operations", "name": "nope"}));
    assert_eq!(data, json!({"operation": null}));
    let data = introspect(&harness, json!({"query": "types", "name": "nope"}));
    assert_eq!(data, json!({"type": null}));
}

#[test]
fn failures_of_introspect_have_no_details() {
    let harness = Harness::new();
    for params in [json!({}), json!({"query": "everything"}), json!({"query": 1}), json!({"zz": 1})]
    {
        let answer = harness.ask(&json!({"operation": "introspect", "params": params}));
        closed(&answer, &["success", "error"], &[]);
        closed(&answer["error"], &["code", "message"], &[]);
    }
    let missing = harness.ask(&json!({"operation": "introspect"}));
    assert_eq!(missing["error"]["code"], "VALIDATION_MISSING_PARAM");
    let wrong = harness.ask(&json!({"operation": "introspect", "params": {"query": "x"}}));
    assert_eq!(
        wrong["error"]["message"],
        "Parameter 'query' expected 'one of operations, types', got 'other text'"
    );
}

#[test]
fn what_is_listed_is_taken_and_nothing_else() {
    let harness = Harness::new();
    for operation in Operation::ALL {
        let name = operation.name();
        let data = introspect(&harness, json!({"query": "operations", "name": name}));
        for parameter in data["operation"]["parameters"].as_array().unwrap() {
            let parameter_name = parameter["name"].as_str().unwrap();
            // A value of no type at all: known parameters complain of the type, not of the name.
            let mut params = json!({"element_type": "items", "query": "operations", "id": 1});
            for other in ["element_type", "query", "id"] {
                let listed = data["operation"]["parameters"].as_array().unwrap();
                if listed.iter().all(|parameter| parameter["name"] != other) {
                    params.as_object_mut().unwrap().remove(other);
                }
            }
            params[parameter_name] = json!([[1]]);
            let answer = harness.ask(&json!({"operation": name, "params": params}));
            let error = &answer["error"];
            assert_eq!(error["code"], "VALIDATION_INVALID_TYPE", "{name} {parameter_name}");
            assert!(error["message"].as_str().unwrap().contains(parameter_name));
            if parameter["required"] == true {
                params[parameter_name] = Value::Null;
                let answer = harness.ask(&json!({"operation": name, "params": params}));
                assert_eq!(answer["error"]["code"], "VALIDATION_MISSING_PARAM");
                assert!(answer["error"]["message"].as_str().unwrap().contains(parameter_name));
            }
        }
    }
}

#[test]
fn the_tools_of_each_mode_mention_introspect() {
    for (mode, names) in [
        (Mode::Semantic, vec!["mcp_aql_read", "mcp_aql_create"]),
        (Mode::Single, vec!["mcp_aql"]),
        (Mode::All, vec!["mcp_aql_read", "mcp_aql_create", "mcp_aql"]),
    ] {
        let harness = Harness::with(Settings { mode, ..Settings::default() });
        let tools = harness.engine.tools();
        assert_eq!(tools.iter().map(|tool| tool.name).collect::<Vec<_>>(), names);
        for tool in tools {
            assert!(tool.description.contains("introspect"));
            assert_eq!(tool.read_only, tool.name == "mcp_aql_read");
            assert_eq!(tool.destructive, tool.name == "mcp_aql");
        }
    }
}
