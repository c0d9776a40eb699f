//! `handback serve --stdio`: MCP with a real process, over its standard streams, in both eras.

#[path = "../../../../handback-server/tests/it/vectors/cases.rs"]
mod cases;

use serde_json::{Value, json};

use self::cases::Run;
use crate::mcp_client::{Client, ERRORS, Era};
use crate::support::{Sandbox, read};

/// Those that read.
const TOOLS: [&str; 2] = ["mcp_aql_read", "mcp_aql"];

/// A folder with the collections of the vectors and a configuration that shows them.
fn with_collections() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("items.json", &cases::items().to_string());
    sandbox.write("people.json", &cases::people().to_string());
    sandbox.write("empty.json", "[]");
    sandbox.write(
        "handback.toml",
        "[collections]\n\
         items = \"json:items.json#?key=id\"\n\
         people = \"json:people.json\"\n\
         empty = \"json:empty.json\"\n\
         [mcp]\n\
         tools = \"all\"\n",
    );
    sandbox
}

fn start(sandbox: &Sandbox, era: Era) -> Client {
    Client::start(sandbox, &["--config", "handback.toml"], era, json!({}))
}

/// The envelope that a tool of MCP-AQL answers with: the only content, and never an error of MCP.
#[track_caller]
fn envelope(client: &mut Client, tool: &str, arguments: &Value) -> Value {
    let result = client.call(tool, arguments);
    assert_ne!(result["isError"], true, "{result}");
    let content = result["content"].as_array().unwrap();
    assert_eq!((content.len(), &content[0]["type"]), (1, &json!("text")), "{result}");
    serde_json::from_str(content[0]["text"].as_str().unwrap()).unwrap()
}

#[track_caller]
fn introspect(client: &mut Client, tool: &str, params: &Value) -> Value {
    let arguments = json!({"operation": "introspect", "params": params});
    let envelope = envelope(client, tool, &arguments);
    assert_eq!(envelope["success"], true, "{envelope}");
    envelope["data"].clone()
}

fn check_vectors(era: Era) {
    let sandbox = with_collections();
    let mut client = start(&sandbox, era);
    for tool in TOOLS {
        let mut run = Run::default();
        for case in cases::cases() {
            let answer = envelope(&mut client, tool, &run.request(&case));
            run.judge(tool, &case, answer);
        }
    }
    assert!(client.close().success());
}

#[test]
fn every_vector_holds_for_a_client_of_today() {
    check_vectors(Era::Newest);
}

#[test]
fn every_vector_holds_for_an_older_client() {
    check_vectors(Era::Older);
}

/// What introspection says of one operation must be what the operation does.
#[track_caller]
fn check_operation(client: &mut Client, tool: &str, name: &str) {
    let data = introspect(client, tool, &json!({"query": "operations", "name": name}));
    let operation = &data["operation"];
    assert_eq!(operation["name"], name);
    // Where all tools are offered, the one that can do less is named.
    let reads = name != "derive_element";
    assert_eq!(operation["mcpTool"], if reads { "mcp_aql_read" } else { "mcp_aql_create" });
    assert_eq!(operation["permissions"], json!({"readOnly": reads, "destructive": false}));
    for example in operation["examples"].as_array().unwrap() {
        assert_eq!(example["request"]["operation"], name);
    }
    let parameters = operation["parameters"].as_array().unwrap();
    let named: Vec<_> = parameters.iter().map(|one| one["name"].as_str().unwrap()).collect();
    // What is not listed is refused.
    let mut params = json!({"zz_unknown": 1});
    for parameter in parameters.iter().filter(|one| one["required"] == true) {
        params[parameter["name"].as_str().unwrap()] = "items".into();
    }
    if name == "get_element" {
        // One of two is required, which no single flag says.
        params["id"] = 1.into();
    }
    let answer = envelope(client, tool, &json!({"operation": name, "params": params}));
    assert_eq!(answer["error"]["code"], "VALIDATION_UNKNOWN_PARAM", "{answer}");
    if name == "list_elements" {
        for parameter in ["first", "after", "last", "before"] {
            assert!(named.contains(&parameter), "{parameter} is not in {named:?}");
        }
    }
}

fn check_introspection(era: Era) {
    let sandbox = with_collections();
    let mut client = start(&sandbox, era);
    let listed = client.ask("tools/list", json!({}))["tools"].clone();
    let names: Vec<_> = listed.as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["mcp_aql_read", "mcp_aql_create", "mcp_aql"]);
    let reading = listed.as_array().unwrap().iter().filter(|one| one["name"] != "mcp_aql_create");
    for (tool, listed) in TOOLS.into_iter().zip(reading) {
        assert!(listed["description"].as_str().unwrap().contains("introspect"), "{listed}");
        let schema = &listed["inputSchema"];
        assert_eq!(schema["type"], "object", "{listed}");
        assert_eq!(schema["properties"]["operation"]["type"], "string", "{listed}");
        assert_eq!(schema["properties"]["params"]["additionalProperties"], true, "{listed}");
        let data = introspect(&mut client, tool, &json!({"query": "operations"}));
        assert_eq!(data["_protocol"]["version"], "1.0.0-draft");
        assert_eq!(data["_protocol"]["mode"], "all");
        let operations = data["operations"].as_array().unwrap();
        assert_eq!(operations[0]["name"], "introspect");
        assert!(operations.iter().any(|operation| operation["name"] == "list_elements"));
        for operation in operations {
            check_operation(&mut client, tool, operation["name"].as_str().unwrap());
        }
        let unknown = introspect(&mut client, tool, &json!({"query": "operations", "name": "no"}));
        assert_eq!(unknown, json!({"operation": null}));
        let types = introspect(&mut client, tool, &json!({"query": "types"}));
        let types = types["types"].as_array().unwrap();
        for one in types {
            let name = &one["name"];
            let data = introspect(&mut client, tool, &json!({"query": "types", "name": name}));
            assert_eq!((&data["type"]["name"], &data["type"]["kind"]), (name, &one["kind"]));
        }
        let unknown = introspect(&mut client, tool, &json!({"query": "types", "name": "no"}));
        assert_eq!(unknown, json!({"type": null}));
    }
    assert!(client.close().success());
}

#[test]
fn collections_describe_themselves_to_a_client_of_today() {
    check_introspection(Era::Newest);
}

#[test]
fn collections_describe_themselves_to_an_older_client() {
    check_introspection(Era::Older);
}

/// The Tasks extension and questions inside of results came with 2026-07-28.
#[test]
fn an_older_client_that_names_tasks_gets_none() {
    let sandbox = Sandbox::new();
    let capabilities =
        json!({"elicitation": {"form": {}}, "extensions": {"io.modelcontextprotocol/tasks": {}}});
    let mut client = Client::start(&sandbox, &["--demo"], Era::Older, capabilities);
    let report = client.call("shop_report", &json!({"pause_ms": 0}));
    assert_eq!(report["structuredContent"]["categories"].as_array().unwrap().len(), 10);

    let refund = json!({"name": "shop_refund", "arguments": {"order": 17}});
    let id = client.send("tools/call", refund);
    let question = client.receive();
    assert_eq!(question["method"], "elicitation/create", "{question}");
    let answer = json!({"action": "decline"});
    client.write(&json!({"jsonrpc": "2.0", "id": question["id"], "result": answer}));
    let answer = client.receive();
    assert_eq!(answer["id"], id, "{answer}");
    let declined = json!({"refunded": false, "order": 17});
    assert_eq!(answer["result"]["structuredContent"], declined, "{answer}");
    assert!(client.close().success());
}

/// A client that probes, and one that changes its mind.
#[test]
fn who_asks_for_nothing_is_no_error() {
    let sandbox = Sandbox::new();
    assert!(Client::silent(&sandbox, &[], Era::Newest, json!({})).close().success());
    let mut client = Client::silent(&sandbox, &[], Era::Newest, json!({}));
    let found = client.ask("server/discover", json!({}));
    assert!(found["supportedVersions"].as_array().unwrap().contains(&json!("2026-07-28")));
    assert!(client.close().success());
}

/// Who is refused is told so. The operator's terminal is not where clients write.
#[test]
fn refusals_are_not_repeated_on_stderr() {
    let sandbox = Sandbox::with_ring();
    let mut client = Client::start(&sandbox, &[], Era::Older, json!({}));
    client.send("resources/read", json!({"uri": "file:///secret"}));
    let refused = client.receive();
    assert_eq!(refused["error"]["data"]["uri"], "file:///secret", "{refused}");
    assert!(client.close().success());
    assert_eq!(read(&sandbox.path(ERRORS)), "");
}
