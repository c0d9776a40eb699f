//! What a token is bound to but does not carry.
//!
//! A context is hashed into the token's nonce and associated data. Nothing is compared after
//! opening, so no comparison can be forgotten: under another context the token does not open.
//!
//! Every field has its number, a presence byte and a length, so that no two different contexts
//! have the same bytes. An absent field is not an empty one. The layout is in `docs/spec/tokens.md`,
//! section 4.

use crate::encoding;
use crate::fingerprint::ArgsFingerprint;
use crate::hash::Prefix;

/// The longest context field, in bytes: far more than any name or URI needs, little to hash.
pub const MAX_CONTEXT_FIELD_BYTES: usize = 65_536;

/// Who calls: a validated identity, or nobody in particular.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller<'a>(Option<(&'a str, &'a str)>);

impl<'a> Caller<'a> {
    /// A caller without an identity: issuer and subject are absent.
    pub const UNAUTHENTICATED: Self = Self(None);

    /// A caller with an identity.
    ///
    /// # Security
    ///
    /// The pair must come from a credential that was validated for the current request. With
    /// `handback-identity`, use `VerifiedPrincipal::caller`, which cannot hold anything else.
    #[must_use]
    pub const fn dangerous_identified(issuer: &'a str, subject: &'a str) -> Self {
        Self(Some((issuer, subject)))
    }

    /// Whether there is an identity.
    #[must_use]
    pub const fn is_identified(self) -> bool {
        self.0.is_some()
    }
}

/// What the caller asks for. The same on every surface: `tools/call`, `/run` and `run_tool` are
/// [`Call`](Self::Call).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// Run a tool.
    Call,
    /// Get a prompt.
    Prompt,
    /// Read a resource.
    Read,
    /// List tools, prompts or resources.
    List,
    /// Query a collection.
    Query,
    /// Exchange events over two streams.
    Duplex,
}

impl Operation {
    /// All operations.
    pub const ALL: [Self; 6] =
        [Self::Call, Self::Prompt, Self::Read, Self::List, Self::Query, Self::Duplex];

    /// The label in context field 3.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Prompt => "prompt",
            Self::Read => "read",
            Self::List => "list",
            Self::Query => "query",
            Self::Duplex => "duplex",
        }
    }
}

/// The context of one call: fields 3 to 10. The purpose and the audience are added by the
/// [`Sealer`](crate::Sealer) that binds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Context<'a> {
    caller: Caller<'a>,
    operation: Option<Operation>,
    name: Option<&'a str>,
    arguments: Option<&'a ArgsFingerprint>,
    tenant: Option<&'a str>,
    upstream: Option<&'a str>,
    client: Option<&'a str>,
}

impl<'a> Context<'a> {
    /// The context of `operation` by `caller`; the other fields are absent.
    pub const fn new(caller: Caller<'a>, operation: Operation) -> Self {
        Self { operation: Some(operation), ..Self::bare(caller) }
    }

    /// Only the caller: for what is deliberately bound to less, as state of a weaker
    /// [`RequestStateBinding`](crate::RequestStateBinding) is.
    pub const fn bare(caller: Caller<'a>) -> Self {
        Self {
            caller,
            operation: None,
            name: None,
            arguments: None,
            tenant: None,
            upstream: None,
            client: None,
        }
    }

    /// The tool, prompt, URI or collection.
    pub const fn name(mut self, name: &'a str) -> Self {
        self.name = Some(name);
        self
    }

    /// The fingerprint of the arguments, see [`args_fingerprint`](crate::args_fingerprint).
    pub const fn arguments(mut self, arguments: &'a ArgsFingerprint) -> Self {
        self.arguments = Some(arguments);
        self
    }

    /// The tenant, where one server serves several.
    pub const fn tenant(mut self, tenant: &'a str) -> Self {
        self.tenant = Some(tenant);
        self
    }

    /// The upstream server that the call goes to.
    pub const fn upstream(mut self, upstream: &'a str) -> Self {
        self.upstream = Some(upstream);
        self
    }

    /// What the client calls itself. Never an identity.
    pub const fn client(mut self, client: &'a str) -> Self {
        self.client = Some(client);
        self
    }

    pub(crate) const fn is_identified(&self) -> bool {
        self.caller.is_identified()
    }

    #[cfg(feature = "compat")]
    pub(crate) const fn caller(&self) -> Option<(&'a str, &'a str)> {
        self.caller.0
    }

    #[cfg(feature = "compat")]
    pub(crate) const fn operation_field(&self) -> Option<Operation> {
        self.operation
    }

    #[cfg(feature = "compat")]
    pub(crate) const fn name_field(&self) -> Option<&'a str> {
        self.name
    }

    #[cfg(feature = "compat")]
    pub(crate) const fn arguments_field(&self) -> Option<&'a ArgsFingerprint> {
        self.arguments
    }

    /// Whether the context has a field that no foreign format can carry.
    #[cfg(feature = "compat")]
    pub(crate) const fn demands_more_than_foreign_formats_carry(&self) -> bool {
        self.tenant.is_some() || self.upstream.is_some() || self.client.is_some()
    }

    /// Section 4 of the specification.
    pub(crate) fn digest(
        &self,
        purpose: &str,
        audience: &str,
    ) -> Result<ContextDigest, ContextError> {
        self.digest_after(&ContextPrefix::new(purpose, audience)?)
    }

    /// The digest, when fields 1 and 2 were hashed before.
    pub(crate) fn digest_after(
        &self,
        prefix: &ContextPrefix,
    ) -> Result<ContextDigest, ContextError> {
        let (issuer, subject) = self.caller.0.unzip();
        let fields: [Option<&[u8]>; 7] = [
            self.name.map(str::as_bytes),
            issuer.map(str::as_bytes),
            subject.map(str::as_bytes),
            self.arguments.map(|arguments| arguments.as_bytes().as_slice()),
            self.tenant.map(str::as_bytes),
            self.upstream.map(str::as_bytes),
            self.client.map(str::as_bytes),
        ];
        let mut len = 0;
        for (number, field) in (4u8..).zip(fields) {
            len += match field {
                None => 2,
                Some(value) => 6 + checked_len(number, value)?,
            };
        }
        let digest = prefix.after(self.operation).digest(len, |mut writer| {
            for (number, field) in (4u8..).zip(fields) {
                writer = match field {
                    None => writer.put(&start_of_field(number, 0)),
                    Some(value) => writer
                        .put(&start_of_field(number, 1))
                        .put(&encoding::lp_len(value))
                        .put(value),
                };
            }
            writer.done();
        });
        Ok(ContextDigest(digest))
    }
}

/// Number and presence, put together in a register: two single bytes that are stored and at once
/// loaded as a pair would stall, which is measurable at this length.
#[inline]
fn start_of_field(number: u8, presence: u8) -> [u8; 2] {
    ((u16::from(number) << 8) | u16::from(presence)).to_be_bytes()
}

fn checked_len(number: u8, value: &[u8]) -> Result<usize, ContextError> {
    if value.len() > MAX_CONTEXT_FIELD_BYTES {
        return Err(ContextError::FieldTooLong { number, bytes: value.len() });
    }
    Ok(value.len())
}

/// The hash after fields 1 to 3, of which the first two do not change from call to call and the
/// third has few values.
pub(crate) struct ContextPrefix {
    without_operation: Prefix,
    with_operation: [Prefix; Operation::ALL.len()],
}

impl ContextPrefix {
    pub(crate) fn new(purpose: &str, audience: &str) -> Result<Self, ContextError> {
        let mut start = Vec::new();
        encoding::push_lp(&mut start, b"handback/v1/ctx");
        for (number, value) in [(1, purpose), (2, audience)] {
            checked_len(number, value.as_bytes())?;
            start.extend_from_slice(&[number, 1]);
            encoding::push_lp(&mut start, value.as_bytes());
        }
        let with_operation = Operation::ALL.map(|operation| {
            let mut start = start.clone();
            start.extend_from_slice(&[3, 1]);
            encoding::push_lp(&mut start, operation.as_str().as_bytes());
            Prefix::new(&start)
        });
        start.extend_from_slice(&[3, 0]);
        Ok(Self { without_operation: Prefix::new(&start), with_operation })
    }

    fn after(&self, operation: Option<Operation>) -> &Prefix {
        let [call, prompt, read, list, query, duplex] = &self.with_operation;
        match operation {
            None => &self.without_operation,
            Some(Operation::Call) => call,
            Some(Operation::Prompt) => prompt,
            Some(Operation::Read) => read,
            Some(Operation::List) => list,
            Some(Operation::Query) => query,
            Some(Operation::Duplex) => duplex,
        }
    }
}

/// SHA-256 over all ten fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ContextDigest(pub(crate) [u8; 32]);

/// A context that cannot be bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ContextError {
    /// A field is longer than [`MAX_CONTEXT_FIELD_BYTES`].
    #[error("context field {number} has {bytes} bytes, at most 65536 are allowed")]
    FieldTooLong {
        /// The field's number in the specification.
        number: u8,
        /// Its length.
        bytes: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(context: &Context<'_>) -> ContextDigest {
        context.digest("cursor", "audience").unwrap()
    }

    #[test]
    fn absent_is_not_empty_and_boundaries_hold() {
        let bare = Context::new(Caller::UNAUTHENTICATED, Operation::Call);
        let who = |issuer, subject| {
            Context::new(Caller::dangerous_identified(issuer, subject), Operation::Call)
        };
        let fingerprint = ArgsFingerprint::from_bytes([0; 32]);
        let contexts = [
            bare,
            bare.name(""),
            bare.name("a"),
            bare.tenant(""),
            bare.tenant("a"),
            bare.upstream(""),
            bare.upstream("a"),
            bare.client(""),
            bare.client("a"),
            bare.arguments(&fingerprint),
            who("", ""),
            who("ab", "c"),
            who("a", "bc"),
            who("bc", "a"),
            who("abc", ""),
            who("", "abc"),
            Context::new(Caller::UNAUTHENTICATED, Operation::Query),
            Context::bare(Caller::UNAUTHENTICATED),
        ];
        for (i, a) in contexts.iter().enumerate() {
            for (j, b) in contexts.iter().enumerate() {
                assert_eq!(digest(a) == digest(b), i == j, "{a:?} {b:?}");
            }
        }
        assert_ne!(bare.digest("cursor", "x"), bare.digest("state", "x"));
        assert_ne!(bare.digest("cursor", "x"), bare.digest("cursor", "y"));
    }

    #[test]
    fn a_field_at_the_bound_is_bound_and_one_past_it_refused() {
        let long = "a".repeat(MAX_CONTEXT_FIELD_BYTES + 1);
        let bare = Context::new(Caller::UNAUTHENTICATED, Operation::Call);
        assert!(bare.name(&long[1..]).digest("cursor", "x").is_ok());
        assert_eq!(
            bare.name(&long).digest("cursor", "x"),
            Err(ContextError::FieldTooLong { number: 4, bytes: MAX_CONTEXT_FIELD_BYTES + 1 })
        );
    }
}
