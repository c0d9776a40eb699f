//! Reasons why a schema cannot be used.

/// A schema that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unusable {
    /// Not a JSON Schema: a keyword has a wrong type, or a pattern is invalid.
    #[error("it is not a JSON Schema")]
    Malformed,
    /// A schema of an unknown draft.
    #[error("its `$schema` is unknown")]
    UnknownDraft,
    /// A reference to a schema elsewhere, or to nothing.
    #[error("it refers to a schema that is not in it")]
    Elsewhere,
    /// Too many bytes, subschemas or patterns.
    #[error("it is too large")]
    TooLarge,
    /// The reading took too long, or its caller left.
    #[error("it could not be read in time")]
    Stopped,
}
