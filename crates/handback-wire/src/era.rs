//! Two eras of one protocol, told apart.
//!
//! Up to 2025-11-25 a client begins with `initialize` and then has a session. From 2026-07-28 on
//! every request says in its `_meta` all that is to be known, and there are none. The rules here
//! are those that rmcp goes by, so that a request reaches the service that would have taken it:
//!
//! - `initialize` is of the old era, whatever version it names: the new one has none;
//! - `server/discover` is of the new one;
//! - so is a request whose `_meta` names a version and the client's capabilities;
//! - else the version decides: that of `_meta`, else that of the header, else there is none and it
//!   is an old one. Versions are dates, which compare as texts.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;

/// The first version of the new era.
const FIRST_MODERN: &str = "2026-07-28";

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "whoever serves treats each of them")]
pub enum Era {
    /// 2025-11-25 and earlier: sessions.
    Legacy,
    /// 2026-07-28 and later: none.
    Modern,
}

/// What a message must say for its era to be known.
#[derive(Debug, Default, Deserialize)]
#[must_use]
pub struct Envelope<'a> {
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    params: Option<Params<'a>>,
}

#[derive(Debug, Deserialize)]
struct Params<'a> {
    #[serde(borrow, default, rename = "_meta")]
    meta: Option<Meta<'a>>,
}

#[derive(Debug, Deserialize)]
struct Meta<'a> {
    #[serde(borrow, default, rename = "io.modelcontextprotocol/protocolVersion")]
    version: Option<Cow<'a, str>>,
    #[serde(default, rename = "io.modelcontextprotocol/clientCapabilities")]
    capabilities: Option<IgnoredAny>,
}

impl<'a> Envelope<'a> {
    /// Reads what matters of a message. One that says it in another form says nothing: rmcp will
    /// refuse it in either era.
    pub fn read(message: &'a [u8]) -> Self {
        serde_json::from_slice(message).unwrap_or_default()
    }

    /// The era of a message that came with this version in a header.
    #[must_use]
    pub fn era(&self, header: Option<&str>) -> Era {
        match self.method.as_deref() {
            Some("initialize") => return Era::Legacy,
            Some("server/discover") => return Era::Modern,
            _ => {}
        }
        let meta = self.params.as_ref().and_then(|params| params.meta.as_ref());
        match meta.and_then(|meta| Some((meta.version.as_deref()?, &meta.capabilities))) {
            Some((_, Some(_))) => Era::Modern,
            Some((version, None)) => of_version(Some(version)),
            None => of_version(header),
        }
    }
}

/// The era of a request without a message, by the version that it names.
#[must_use]
pub fn of_version(version: Option<&str>) -> Era {
    match version {
        Some(version) if version >= FIRST_MODERN => Era::Modern,
        _ => Era::Legacy,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(version: Option<&str>, message: &str, expected: Era) {
        assert_eq!(Envelope::read(message.as_bytes()).era(version), expected, "{message}");
    }

    #[test]
    fn the_handshake_is_old_whatever_it_names() {
        let message = r#"{"method": "initialize", "params": {"protocolVersion": "2026-07-28"}}"#;
        check(None, message, Era::Legacy);
        check(Some("2026-07-28"), message, Era::Legacy);
    }

    #[test]
    fn discovery_is_new() {
        check(None, r#"{"method": "server/discover"}"#, Era::Modern);
        check(Some("2025-11-25"), r#"{"method": "server/discover"}"#, Era::Modern);
    }

    #[test]
    fn the_header_decides_where_the_message_does_not() {
        let message = r#"{"method": "tools/list", "params": {"_meta": {"progressToken": 1}}}"#;
        check(None, message, Era::Legacy);
        for version in ["2024-11-05", "2025-06-18", "2025-11-25"] {
            check(Some(version), message, Era::Legacy);
        }
        for version in ["2026-07-28", "2027-01-01", "never"] {
            check(Some(version), message, Era::Modern);
        }
    }

    #[test]
    fn the_message_outranks_the_header() {
        let message = r#"{"method": "x", "params": {"_meta":
            {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}}"#;
        check(Some("2025-11-25"), message, Era::Modern);
        let message = r#"{"method": "x", "params": {"_meta":
            {"io.modelcontextprotocol/protocolVersion": "2025-11-25"}}}"#;
        check(Some("2026-07-28"), message, Era::Legacy);
    }

    #[test]
    fn who_says_everything_has_no_session() {
        let message = r#"{"method": "x", "params": {"_meta": {
            "io.modelcontextprotocol/protocolVersion": "2025-11-25",
            "io.modelcontextprotocol/clientCapabilities": {"roots": {}}}}}"#;
        check(None, message, Era::Modern);
    }

    #[test]
    fn what_cannot_be_read_says_nothing() {
        for message in ["", "[]", "{", r#"{"method": 3}"#, r#"{"params": []}"#] {
            check(None, message, Era::Legacy);
            check(Some("2026-07-28"), message, Era::Modern);
        }
    }

    #[test]
    fn answers_are_of_the_era_of_their_header() {
        check(None, r#"{"id": 1, "result": {}}"#, Era::Legacy);
        check(Some("2026-07-28"), r#"{"id": 1, "result": {}}"#, Era::Modern);
    }

    proptest::proptest! {
        #[test]
        fn whatever_comes_has_an_era(message: Vec<u8>, version: Option<String>) {
            let era = Envelope::read(&message).era(version.as_deref());
            // No random bytes say what they are.
            proptest::prop_assert_eq!(era, of_version(version.as_deref()));
        }
    }
}
