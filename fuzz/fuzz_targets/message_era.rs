//! The era and the depth of a message are what its tree says.
#![no_main]

use handback_wire::depth::depth;
use handback_wire::era::{Envelope, Era, of_version};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

/// Deeper texts are no trees to serde_json.
const TREE_DEPTH_MAX: usize = 120;

const HEADER: Option<&str> = Some("2025-11-25");

fuzz_target!(|data: &[u8]| {
    let deep = depth(data);
    assert!(deep <= data.len());
    let (without, with) = (Envelope::read(data).era(None), Envelope::read(data).era(HEADER));
    // Both headers are of the older era.
    assert_eq!(without, with);
    let Ok(tree) = serde_json::from_slice::<Value>(data) else { return };
    if deep < TREE_DEPTH_MAX {
        assert_eq!(deep, depth_of(&tree));
    }
    let meta = tree.get("params").and_then(|params| params.get("_meta"));
    let says =
        |name: &str| meta.and_then(|meta| meta.get(format!("io.modelcontextprotocol/{name}")));
    if without == Era::Modern {
        let by_method = tree.get("method").and_then(Value::as_str) == Some("server/discover");
        let version = says("protocolVersion").and_then(Value::as_str);
        let by_meta = version.is_some_and(|version| {
            of_version(Some(version)) == Era::Modern || says("clientCapabilities").is_some()
        });
        assert!(by_method || by_meta, "{tree}");
    }
});

fn depth_of(tree: &Value) -> usize {
    match tree {
        Value::Array(items) => 1 + items.iter().map(depth_of).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(depth_of).max().unwrap_or(0),
        _ => 0,
    }
}
