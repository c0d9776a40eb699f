//! How the operations are offered to MCP clients.

use serde_json::{Value, json};

use super::engine::Endpoint;
use super::settings::Mode;

/// A tool to offer to MCP clients.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Tool {
    /// Its name.
    pub name: &'static str,
    /// Which operations it takes.
    pub endpoint: Endpoint,
    /// What it says of itself.
    pub description: &'static str,
    /// What it takes.
    pub input_schema: Value,
    /// Annotation `readOnlyHint`.
    pub read_only: bool,
    /// Annotation `destructiveHint`.
    pub destructive: bool,
}

pub(crate) fn tools(mode: Mode) -> Vec<Tool> {
    let read = Tool {
        name: "mcp_aql_read",
        endpoint: Endpoint::Read,
        description: "Read collections: list, search, query, get and count their elements, page by \
                      page. Call {\"operation\": \"introspect\", \"params\": {\"query\": \
                      \"operations\"}} first to see every operation and its parameters.",
        input_schema: input_schema(),
        read_only: true,
        destructive: false,
    };
    let create = Tool {
        name: "mcp_aql_create",
        endpoint: Endpoint::Create,
        description: "Make new held values: 'derive_element' copies a held result with text edits \
                      or a JSON Patch applied, and answers with the handle of the copy. For its \
                      parameters, call mcp_aql_read with {\"operation\": \"introspect\", \
                      \"params\": {\"query\": \"operations\", \"name\": \"derive_element\"}}.",
        input_schema: input_schema(),
        read_only: false,
        destructive: false,
    };
    let single = Tool {
        name: "mcp_aql",
        endpoint: Endpoint::Single,
        description: "All operations of this server in one tool. Call {\"operation\": \
                      \"introspect\", \"params\": {\"query\": \"operations\"}} first to see every \
                      operation and its parameters.",
        input_schema: input_schema(),
        read_only: false,
        destructive: true,
    };
    match mode {
        Mode::Semantic => vec![read, create],
        Mode::Single => vec![single],
        Mode::All => vec![read, create, single],
    }
}

fn input_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "operation": {"type": "string", "description": "What to do; see introspect."},
            "element_type": {"type": "string", "description": "The collection."},
            "params": {
                "type": "object",
                "additionalProperties": true,
                "description": "The parameters of the operation.",
            },
            "operations": {
                "type": "array",
                "items": {"type": "object"},
                "description": "Instead of 'operation': a batch of {operation, params}.",
            },
        },
        "anyOf": [{"required": ["operation"]}, {"required": ["operations"]}],
    })
}
