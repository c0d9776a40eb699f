//! What a caller was granted: scopes as OAuth writes them.
//!
//! ```text
//! scope = 1*( %x21 / %x23-5B / %x5D-7E )      RFC 6749, section 3.3
//! ```
//!
//! A scope that is written otherwise could be read as two, or as another, by the rules that map
//! scopes to tools. So it is refused wherever scopes come in.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use thiserror::Error;

/// The most scopes of one caller. Real tokens have a few dozen.
pub const MAX_SCOPES: usize = 256;

/// The longest scope, in bytes. Some issuers write them as URLs.
pub const MAX_SCOPE_BYTES: usize = 256;

/// Whether a text is one scope.
#[must_use]
pub fn is_scope(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= MAX_SCOPE_BYTES
        && text.bytes().all(|byte| matches!(byte, 0x21 | 0x23..=0x5B | 0x5D..=0x7E))
}

/// What a caller was granted: some scopes, or all where nobody grants any.
///
/// Where callers are not identified, or by the operating system, there is nobody who could grant
/// scopes. Such callers have all of them, and rules tell them apart by who they are.
#[derive(Clone, PartialEq, Eq)]
pub struct Scopes(Granted);

#[derive(Clone, PartialEq, Eq)]
enum Granted {
    All,
    Only(Arc<BTreeSet<String>>),
}

/// A list of scopes that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
pub enum InvalidScopes {
    /// One of them is not written as OAuth demands, or is longer than [`MAX_SCOPE_BYTES`].
    #[error("a scope is not written as RFC 6749 demands, or has more than {MAX_SCOPE_BYTES} bytes")]
    Malformed,
    /// There are more than [`MAX_SCOPES`].
    #[error("there are more than {MAX_SCOPES} scopes")]
    TooMany,
}

impl Scopes {
    /// These scopes and no others.
    ///
    /// # Errors
    ///
    /// [`InvalidScopes`] if one is not a scope, or there are too many.
    pub fn new<S>(scopes: impl IntoIterator<Item = S>) -> Result<Self, InvalidScopes>
    where
        S: AsRef<str>,
    {
        let mut set = BTreeSet::new();
        for scope in scopes {
            add(&mut set, scope.as_ref())?;
        }
        Ok(Self::from_set(set))
    }

    /// No scope at all.
    #[must_use]
    pub fn none() -> Self {
        Self::from_set(BTreeSet::new())
    }

    /// Whether this scope was granted, by name or with all others.
    #[must_use]
    pub fn grant(&self, scope: &str) -> bool {
        match &self.0 {
            Granted::All => true,
            Granted::Only(scopes) => scopes.contains(scope),
        }
    }

    /// Whether this scope was granted by its name.
    #[must_use]
    pub fn name(&self, scope: &str) -> bool {
        self.iter().any(|named| named == scope)
    }

    /// Whether all scopes were granted, without names.
    #[must_use]
    pub const fn are_all(&self) -> bool {
        matches!(self.0, Granted::All)
    }

    /// The scopes that were granted by name, in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        let named = match &self.0 {
            Granted::All => None,
            Granted::Only(scopes) => Some(scopes.iter().map(String::as_str)),
        };
        named.into_iter().flatten()
    }

    /// All of them. Only for callers whom nobody could grant scopes.
    pub(crate) const fn all() -> Self {
        Self(Granted::All)
    }

    pub(crate) fn from_set(set: BTreeSet<String>) -> Self {
        Self(Granted::Only(Arc::new(set)))
    }
}

impl fmt::Debug for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Granted::All => f.write_str("Scopes(all)"),
            Granted::Only(scopes) => f.debug_set().entries(scopes.iter()).finish(),
        }
    }
}

/// Adds one scope to a bounded set.
pub(crate) fn add(scopes: &mut BTreeSet<String>, scope: &str) -> Result<(), InvalidScopes> {
    if !is_scope(scope) {
        return Err(InvalidScopes::Malformed);
    }
    if !scopes.contains(scope) {
        if scopes.len() >= MAX_SCOPES {
            return Err(InvalidScopes::TooMany);
        }
        scopes.insert(scope.to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_scopes_are_those_and_all_are_any() {
        let some = Scopes::new(["write", "read", "read"]).unwrap();
        assert!(some.iter().eq(["read", "write"]));
        assert!(some.grant("read") && some.name("read") && !some.are_all());
        assert!(!some.grant("rea") && !some.grant("") && !some.grant("READ"));
        let all = Scopes::all();
        assert!(all.grant("anything") && !all.name("anything") && all.are_all());
        assert_eq!(all.iter().count(), 0);
        assert!(!Scopes::none().grant("read"));
    }

    #[test]
    fn what_is_no_scope_is_refused() {
        for text in ["", "a b", "a\"", "a\\", "é", "a\n", &"x".repeat(MAX_SCOPE_BYTES + 1)] {
            assert_eq!(Scopes::new([text]), Err(InvalidScopes::Malformed), "{text:?}");
        }
        let many = |count: usize| Scopes::new((0..count).map(|n| format!("s{n}")));
        assert!(many(MAX_SCOPES).is_ok());
        assert_eq!(many(MAX_SCOPES + 1), Err(InvalidScopes::TooMany));
    }
}
