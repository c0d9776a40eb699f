//! Names of streams, and what they are filed under.

use std::fmt;

use sha2::{Digest, Sha256};

/// Bytes of a path at most.
pub const MAX_PATH_BYTES: usize = 1024;

/// Bytes of a name's digest.
const NAME_BYTES: usize = 16;

/// Bytes of a stream's identity.
pub const STREAM_ID_BYTES: usize = NAME_BYTES + 8;

/// The name of a stream: who owns it, and its path in the owner's namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StreamName {
    owner: String,
    path: String,
}

/// Why a text is not a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// Nothing.
    #[error("the path is empty")]
    Empty,
    /// More than [`MAX_PATH_BYTES`].
    #[error("the path has more than {MAX_PATH_BYTES} bytes")]
    TooLong,
    /// A control character, or a segment that is empty, `.` or `..`.
    #[error("the path has a segment that is not allowed")]
    BadSegment,
}

impl StreamName {
    /// The stream at `path`, decoded, without a slash in front, in the namespace of `owner`.
    ///
    /// # Errors
    ///
    /// [`NameError`] if it is not a path.
    pub fn new(owner: impl Into<String>, path: &str) -> Result<Self, NameError> {
        check_path(path)?;
        Ok(Self { owner: owner.into(), path: path.to_owned() })
    }

    /// Whose namespace it is in.
    #[must_use]
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// The path.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// What it is filed under.
    #[must_use]
    pub fn id(&self) -> NameId {
        let mut hash = Sha256::new();
        hash.update(b"handback/v1/stream");
        for part in [&self.owner, &self.path] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        let digest: [u8; 32] = hash.finalize().into();
        NameId(digest.first_chunk().copied().unwrap_or_default())
    }
}

/// Checks a path, or a pattern over paths, which has the same bounds.
pub(crate) fn check_path(path: &str) -> Result<(), NameError> {
    if path.is_empty() {
        return Err(NameError::Empty);
    }
    if path.len() > MAX_PATH_BYTES {
        return Err(NameError::TooLong);
    }
    let is_bad = |segment: &str| matches!(segment, "" | "." | "..");
    if path.chars().any(char::is_control) || path.split('/').any(is_bad) {
        return Err(NameError::BadSegment);
    }
    Ok(())
}

impl fmt::Display for StreamName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)
    }
}

/// The digest of a name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NameId([u8; NAME_BYTES]);

/// One stream from its creation to its end: a name may have another one later.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId([u8; STREAM_ID_BYTES]);

impl StreamId {
    /// Where the commits are told: no stream.
    pub const COMMITS: Self = Self([0xff; STREAM_ID_BYTES]);

    /// Where their signatures are: no stream.
    pub const SIGNATURES: Self = {
        let mut bytes = [0xff; STREAM_ID_BYTES];
        bytes[STREAM_ID_BYTES - 1] = 0xfe;
        Self(bytes)
    };

    /// The stream of this name and incarnation. No stream has the identity of a log that is none.
    #[must_use]
    pub fn new(name: NameId, incarnation: u64) -> Self {
        let mut bytes = [0; STREAM_ID_BYTES];
        let (first, last) = bytes.split_at_mut(NAME_BYTES);
        first.copy_from_slice(&name.0);
        // The first bit of an incarnation is never set.
        last.copy_from_slice(&(incarnation & (u64::MAX >> 1)).to_be_bytes());
        Self(bytes)
    }

    /// From stored bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; STREAM_ID_BYTES]) -> Self {
        Self(bytes)
    }

    /// Whether it is a stream's, and not one of commits or signatures.
    #[must_use]
    pub fn is_of_a_stream(&self) -> bool {
        *self != Self::COMMITS && *self != Self::SIGNATURES
    }

    /// The bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; STREAM_ID_BYTES] {
        &self.0
    }

    /// The name that it was given.
    #[must_use]
    pub fn name(&self) -> NameId {
        NameId(self.0.first_chunk().copied().unwrap_or_default())
    }
}

impl fmt::Debug for NameId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_go_elsewhere_are_refused() {
        for path in ["", "/", "a//b", "../a", "a/..", "a/./b", "a\0b", "a\n", &"x".repeat(1025)] {
            assert!(StreamName::new("", path).is_err(), "{path:?}");
        }
        for path in ["a", "a/b", "a b", "é", "...", "a..b"] {
            assert_eq!(StreamName::new("", path).unwrap().path(), path);
        }
    }

    #[test]
    fn owner_and_path_do_not_run_into_each_other() {
        let id = |owner: &str, path: &str| StreamName::new(owner, path).unwrap().id();
        assert_ne!(id("a", "bc"), id("ab", "c"));
        assert_ne!(id("", "a"), id("a", "a"));
    }
}
