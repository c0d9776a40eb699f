//! What a server with the demo says when it starts.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::generate::{CUSTOMERS, ORDERS, PRODUCTS};

/// Where a server is, and how it is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the server writes it as a literal")]
pub struct Endpoints {
    /// The address for HTTP, without a slash at its end: `http://127.0.0.1:8420`.
    pub http: String,
    /// The UNIX socket, if there is one.
    pub socket: Option<PathBuf>,
    /// How the `handback` command is called, as a shell takes it.
    pub program: String,
    /// The name of the identity mode.
    pub identity: &'static str,
}

/// The endpoints, a configuration for MCP clients, and three commands to try.
#[must_use]
pub fn intro(endpoints: &Endpoints) -> String {
    let Endpoints { http, socket, identity, .. } = endpoints;
    let mut text = format!(
        "This is a demo shop with {CUSTOMERS} customers, {PRODUCTS} products \
         and {ORDERS} orders. `--no-demo` leaves it out.\n\n  \
         MCP      {http}/mcp\n  \
         tools    {http}/v1/tools\n  \
         streams  {http}/v1/stream/\n"
    );
    if let Some(socket) = socket {
        let _ = writeln!(text, "  socket   {}", socket.display());
    }
    let client =
        json!({"mcpServers": {"handback": {"type": "http", "url": format!("{http}/mcp")}}});
    let credential = match *identity {
        "none" => "",
        _ => ", with your bearer token in HANDBACK_TOKEN",
    };
    let _ = write!(
        text,
        "\nFor an MCP client:\n\n{}\n\n{TO_TRY}{credential}:\n\n{}\n\n\
         Interrupt it with Ctrl-C: a restart goes on where it stopped.\n",
        indented(&format!("{client:#}")),
        indented(&commands(endpoints).join("\n")),
    );
    text
}

/// What stands before the commands.
const TO_TRY: &str = "To try, in another window";

/// Commands that work while the server runs: pages, a query over MCP, and a tool that asks back.
pub(super) fn commands(endpoints: &Endpoints) -> [String; 3] {
    let Endpoints { http, program, .. } = endpoints;
    let query = json!({
        "operation": "list_elements",
        "element_type": "orders",
        "params": {
            "filter": {"status": "paid"},
            "sort": {"field": "total_cents", "order": "desc"},
            "first": 3,
        },
    });
    let call = |tool: &str, arguments: &Value, url: &str, more: &str| {
        format!("{program} call {tool} '{arguments}' --url {http}{url}{more}")
    };
    [
        call("shop_orders", &json!({"customer": 7}), "", " --all --merge lines"),
        call("mcp_aql_read", &query, "/mcp", ""),
        call("shop_refund", &json!({"order": 17}), "", " --idempotency-key refund-17"),
    ]
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_and_the_commands_can_be_pasted() {
        let http = "http://127.0.0.1:8420".to_owned();
        let endpoints = Endpoints {
            http,
            socket: Some("/run/handback.sock".into()),
            program: "/opt/handback".to_owned(),
            identity: "none",
        };
        let text = intro(&endpoints);
        let start = text.find('{').unwrap();
        let end = text[start..].find("\n\n").unwrap() + start;
        let client: Value = serde_json::from_str(&text[start..end]).unwrap();
        assert_eq!(client["mcpServers"]["handback"]["url"], "http://127.0.0.1:8420/mcp");
        for line in commands(&endpoints) {
            assert!(text.contains(&line), "{line}");
            let json = line.split('\'').find(|part| part.starts_with('{')).unwrap();
            assert!(serde_json::from_str::<Value>(json).unwrap().is_object(), "{line}");
        }
        assert!(text.contains("/run/handback.sock"));
    }
}
