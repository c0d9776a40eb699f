//! Upstreams that are Handbacks themselves.
//!
//! Such an upstream has reading tools and bounds its results. The gateway in front of it adds no reading
//! tools of its own, if all upstreams are Handbacks, and does not hold what they answer. A server says by an
//! [extension](EXTENSION) that it is one. Nobody can prove it, so the word is worth little:
//!
//! - A result over 256 KiB is held all the same.
//! - Marks in `_meta` are moved like those of every upstream.
//! - The first word counts. A server that said nothing at first is none for as long as this process runs,
//!   and a server that stops saying it is none from then on.
//! - What this gateway holds is read with its own tools, whoever has their names.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use handback_mcp::server::HELD_RESULTS_EXTENSION as EXTENSION;
use serde_json::Value;

/// Bytes of a result that an upstream may give past the budget because it says that it is a Handback: over
/// six times the default budget, which such a server keeps to itself.
const RESULT_BYTES_MAX: u64 = 256 << 10;

/// How the names of the tools begin that held values are read and changed with.
const READING: &str = "mcp_aql";

/// The upstreams that said whether they are Handbacks, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct Handbacks(RwLock<HashMap<usize, bool>>);

impl Handbacks {
    /// Notes what an upstream says of itself, in the result of `initialize` or `server/discover`.
    pub(crate) fn note(&self, which: usize, hello: &[u8]) {
        let declares = declares(hello);
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let is_one = known.entry(which).or_insert(declares);
        *is_one &= declares;
    }

    /// Returns `true` if a tool of the gateway is not offered: all upstreams have such tools. Upstreams are
    /// numbered from 0 to `count`.
    pub(crate) fn hide(&self, name: &str, count: usize) -> bool {
        name.starts_with(READING) && count > 0 && (0..count).all(|which| self.has(which))
    }

    /// Returns `true` if a result of this size is passed on whatever the budget of its client.
    pub(crate) fn exempt(&self, which: usize, size_bytes: u64) -> bool {
        size_bytes <= RESULT_BYTES_MAX && self.has(which)
    }

    fn has(&self, which: usize) -> bool {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        known.get(&which).copied().unwrap_or(false)
    }

    /// The upstream that is a Handback, if exactly one is.
    pub(crate) fn only(&self, count: usize) -> Option<usize> {
        let mut all = (0..count).filter(|which| self.has(*which));
        all.next().filter(|_| all.next().is_none())
    }
}

/// Whether a server says that it is a Handback: newer ones among their extensions, older ones among what is
/// experimental.
fn declares(hello: &[u8]) -> bool {
    if memchr::memmem::find(hello, b"held-results").is_none() {
        return false;
    }
    let hello: Value = serde_json::from_slice(hello).unwrap_or_default();
    let has = |kind: &str| {
        hello
            .pointer(&format!("/capabilities/{kind}"))
            .is_some_and(|it| it.get(EXTENSION).is_some())
    };
    has("extensions") || has("experimental")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn hello(is_handback: bool) -> Vec<u8> {
        let extensions = if is_handback { json!({EXTENSION: {}}) } else { json!({}) };
        json!({"capabilities": {"extensions": extensions}}).to_string().into_bytes()
    }

    #[test]
    fn the_first_word_counts_and_can_be_taken_back() {
        let handbacks = Handbacks::default();
        assert!(!handbacks.has(0));
        handbacks.note(0, &hello(true));
        handbacks.note(1, &hello(false));
        assert!(handbacks.has(0) && !handbacks.has(1));
        handbacks.note(1, &hello(true));
        assert!(!handbacks.has(1), "it said otherwise before");
        assert_eq!((handbacks.only(2), handbacks.only(0)), (Some(0), None));
        handbacks.note(2, &hello(true));
        assert_eq!(handbacks.only(3), None, "there are two");
        for says in [false, true] {
            handbacks.note(0, &hello(says));
            assert!(!handbacks.has(0));
        }
    }

    #[test]
    fn servers_of_both_eras_can_say_it() {
        let older = json!({"capabilities": {"experimental": {EXTENSION: {}}}}).to_string();
        assert!(declares(older.as_bytes()) && declares(&hello(true)));
        for other in [
            json!({"capabilities": {EXTENSION: {}}}),
            json!({"capabilities": {"extensions": [EXTENSION]}}),
            json!({"instructions": EXTENSION}),
        ] {
            assert!(!declares(other.to_string().as_bytes()), "{other}");
        }
    }
}
