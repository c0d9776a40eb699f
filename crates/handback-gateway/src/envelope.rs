//! Members of requests that only one era knows.

use bytes::Bytes;
use handback_mcp::wire::Object;
use serde_json::value::RawValue;

/// Members of `_meta` that only servers of the newer era know. Servers of both eras take a request that has
/// them for one of the newer era, and refuse it on a connection of the older one.
const ENVELOPE: [&str; 4] = [
    "io.modelcontextprotocol/protocolVersion",
    "io.modelcontextprotocol/clientInfo",
    "io.modelcontextprotocol/clientCapabilities",
    "io.modelcontextprotocol/logLevel",
];

/// Parameters without the members of the newer era; everything else is as it was written.
pub(crate) fn without_envelope(params: Bytes) -> Bytes {
    let read = || {
        let mut all = object(&params)?;
        let meta = all.get("_meta")?.to_owned();
        let mut meta = object(meta.as_bytes())?;
        let mut is_changed = false;
        for name in ENVELOPE {
            is_changed |= meta.remove(name).is_some();
        }
        match (is_changed, meta.names().next()) {
            (false, _) => return None,
            (true, None) => drop(all.remove("_meta")),
            (true, Some(_)) => all.set("_meta", meta.to_json()),
        }
        Some(Bytes::from(all.to_json()))
    };
    read().unwrap_or(params)
}

/// An object whose members can be read.
fn object(json: &[u8]) -> Option<Object<'_>> {
    let raw: &RawValue = serde_json::from_slice(json).ok()?;
    Object::read(raw).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(params: &'static str, expected: &str) {
        assert_eq!(without_envelope(Bytes::from_static(params.as_bytes())), expected, "{params}");
    }

    #[test]
    fn removes_members_of_the_newer_era_and_nothing_else() {
        check(
            r#"{"a":1.50,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#,
            r#"{"a":1.50}"#,
        );
        check(
            r#"{"_meta":{"io.modelcontextprotocol/clientInfo":{},"progressToken":1e2},"a":1}"#,
            r#"{"_meta":{"progressToken":1e2},"a":1}"#,
        );
        // A member of 2025-11-25.
        let related = r#"{"_meta": {"io.modelcontextprotocol/related-task":{"taskId":"x"}}}"#;
        check(related, related);
        for other in [r#"{ "a" : 1 }"#, r#"{"_meta":null}"#, "[]", r#"{"_meta":[]}"#] {
            check(other, other);
        }
    }
}
