//! Requests of the gateway itself.

use bytes::Bytes;
use handback_mcp::Era;
use serde_json::{Map, Value, json};

use super::OWN;

/// The revision of requests of the gateway itself, in the newer era.
pub(crate) const REVISION: &str = "2026-07-28";

/// Parameters of a request of the gateway itself.
pub(crate) fn own_params(era: Era, cursor: Option<&str>) -> Bytes {
    let mut params = Map::new();
    if let Some(cursor) = cursor {
        params.insert("cursor".to_owned(), cursor.into());
    }
    if era == Era::Modern {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": REVISION,
            "io.modelcontextprotocol/clientInfo":
                {"name": OWN, "version": env!("CARGO_PKG_VERSION")},
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        params.insert("_meta".to_owned(), meta);
    }
    Value::Object(params).to_string().into()
}
