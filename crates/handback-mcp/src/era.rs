//! The era of a request over HTTP. The rules are in [`handback_wire::era`].

use handback_wire::era;
use hyper::header::HeaderMap;

pub use handback_wire::era::Era;

/// The header with the version of the protocol.
pub const VERSION_HEADER: &str = "mcp-protocol-version";

/// What a message must say for its era to be known.
#[derive(Debug, Default)]
#[must_use]
pub struct Envelope<'a>(era::Envelope<'a>);

impl<'a> Envelope<'a> {
    /// Reads what matters of a message.
    pub fn read(message: &'a [u8]) -> Self {
        Self(era::Envelope::read(message))
    }

    /// The era of a message with these headers.
    #[must_use]
    pub fn era(&self, headers: &HeaderMap) -> Era {
        self.0.era(version(headers))
    }
}

/// The era of a request without a message: GET and DELETE.
#[must_use]
pub fn of_headers(headers: &HeaderMap) -> Era {
    era::of_version(version(headers))
}

/// What is no text says nothing.
fn version(headers: &HeaderMap) -> Option<&str> {
    headers.get(VERSION_HEADER).and_then(|version| version.to_str().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_is_read_and_one_that_is_no_text_says_nothing() {
        let mut headers = HeaderMap::new();
        assert_eq!(of_headers(&headers), Era::Legacy);
        headers.insert(VERSION_HEADER, "2026-07-28".parse().unwrap());
        assert_eq!(of_headers(&headers), Era::Modern);
        assert_eq!(Envelope::read(b"{}").era(&headers), Era::Modern);
        headers.insert(VERSION_HEADER, hyper::header::HeaderValue::from_bytes(b"\xff").unwrap());
        assert_eq!(of_headers(&headers), Era::Legacy);
    }
}
