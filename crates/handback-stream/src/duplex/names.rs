//! Where the two streams of a duplex are.

use super::is_idempotency_key;
use crate::name::StreamName;

/// The first segment of the paths of all duplexes.
pub const FIRST_SEGMENT: &str = "__duplex";

/// Whether a path is that of a duplex, or reserved for them.
#[must_use]
pub fn is_path(path: &str) -> bool {
    path.split('/').next() == Some(FIRST_SEGMENT)
}

const HANDLER_CHARS_MAX: usize = 64;

/// The name of a duplex: of which handler, and under which idempotency key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DuplexName {
    handler: String,
    key: String,
}

impl DuplexName {
    /// The name, if both can be segments of a path.
    #[must_use]
    pub fn new(handler: &str, key: &str) -> Option<Self> {
        let fits = handler.len() <= HANDLER_CHARS_MAX
            && is_idempotency_key(handler)
            && is_idempotency_key(key);
        fits.then(|| Self { handler: handler.to_owned(), key: key.to_owned() })
    }

    /// The name of the duplex whose chunks are at this path.
    #[must_use]
    pub fn of_input(path: &str) -> Option<Self> {
        let rest = path.strip_prefix(FIRST_SEGMENT)?.strip_prefix('/')?;
        let (handler, key) = rest.strip_suffix("/in")?.split_once('/')?;
        Self::new(handler, key)
    }

    /// Which handler.
    #[must_use]
    pub fn handler(&self) -> &str {
        &self.handler
    }

    /// Under which key.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// What resume tokens are bound to.
    #[must_use]
    pub fn bound(&self) -> String {
        format!("{}/{}", self.handler, self.key)
    }

    /// The stream of chunks of an owner.
    #[must_use]
    pub fn input(&self, owner: &str) -> Option<StreamName> {
        self.stream(owner, "in")
    }

    /// The stream of events of an owner.
    #[must_use]
    pub fn output(&self, owner: &str) -> Option<StreamName> {
        self.stream(owner, "out")
    }

    fn stream(&self, owner: &str, side: &str) -> Option<StreamName> {
        let path = format!("{FIRST_SEGMENT}/{}/{}/{side}", self.handler, self.key);
        StreamName::new(owner, &path).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_segment_tells() {
        assert!(is_path("__duplex") && is_path("__duplex/echo/k/in"));
        assert!(!is_path("__duplexes") && !is_path("x/__duplex") && !is_path(""));
    }

    #[test]
    fn names_are_segments_of_paths() {
        let name = DuplexName::new("echo", "k-1").unwrap();
        assert_eq!(name.input("o").unwrap().path(), "__duplex/echo/k-1/in");
        assert_eq!(name.output("o").unwrap().path(), "__duplex/echo/k-1/out");
        assert_eq!(DuplexName::of_input("__duplex/echo/k-1/in"), Some(name));
        for (handler, key) in [("", "k"), ("e", ""), ("..", "k"), ("e", "a/b"), ("e", "a b")] {
            assert_eq!(DuplexName::new(handler, key), None);
        }
        for path in ["__duplex/echo/k/out", "x/echo/k/in", "__duplex/k/in", "__duplex/a/b/c/in"] {
            assert_eq!(DuplexName::of_input(path), None, "{path}");
        }
    }
}
