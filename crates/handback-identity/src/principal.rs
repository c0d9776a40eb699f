//! The caller of the current request, checked.
//!
//! A [`VerifiedPrincipal`] is made in four ways and no other: by a token validator
//! ([`JwtValidator`](crate::jwt::JwtValidator)), by a file of bearer tokens
//! ([`Roster`](crate::roster::Roster)), by a listener whose transport names the peer
//! ([`UnixPeers`]), or as [`VerifiedPrincipal::unauthenticated`], the statement that nobody was
//! identified. Its fields are private, and it can not be deserialized, so holding one means that
//! one of these ran in this process.
//!
//! An identified principal always has a binding: what [`binding::format`](crate::binding::format())
//! refuses can not become one. The bounds below are stricter still.

use std::{fmt, sync::Arc};

use thiserror::Error;

use handback_token::Caller;

use crate::binding::{self, InvalidBinding, UNAUTHENTICATED_SENTINEL};
use crate::scopes::Scopes;

/// The longest issuer of a principal, in bytes.
///
/// Issuers are URLs, and 2,048 is what deployed software has long taken for the length of a URL.
pub const MAX_ISSUER_BYTES: usize = 2_048;

/// The longest subject of a principal, in bytes.
///
/// OpenID Connect Core (section 2) stops at 255 ASCII characters. Workload identities and
/// distinguished names run longer, and every stored item repeats the subject, so it stays small.
pub const MAX_SUBJECT_BYTES: usize = 1_024;

/// Who presented the current request: an issuer and a subject, or nobody.
///
/// Equality is equality of issuer and subject. Nothing of the credential takes part: a refreshed
/// token gives an equal principal. To compare with something stored, use
/// [`binding::stored_matches`](crate::binding::stored_matches()).
///
/// `Debug` prints neither half, as both are personal data.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct VerifiedPrincipal {
    /// The binding, or nothing if unauthenticated.
    bound: Option<Arc<str>>,
}

impl VerifiedPrincipal {
    /// The principal of a request that presented no credential.
    ///
    /// # Security
    ///
    /// Only for a listener that was told to admit anonymous callers, and never as the fallback
    /// after a credential was refused.
    #[must_use]
    pub const fn unauthenticated() -> Self {
        Self { bound: None }
    }

    /// Whether nobody was identified.
    #[must_use]
    pub const fn is_unauthenticated(&self) -> bool {
        self.bound.is_none()
    }

    /// Who vouches for the subject.
    #[must_use]
    pub fn issuer(&self) -> Option<&str> {
        self.halves().map(|(issuer, _)| issuer)
    }

    /// The name of the caller, unique within the issuer.
    #[must_use]
    pub fn subject(&self) -> Option<&str> {
        self.halves().map(|(_, subject)| subject)
    }

    /// This principal as a token is bound to it.
    #[must_use]
    pub fn caller(&self) -> Caller<'_> {
        self.halves().map_or(Caller::UNAUTHENTICATED, |(issuer, subject)| {
            Caller::dangerous_identified(issuer, subject)
        })
    }

    /// The text under which this principal is stored; see [`binding`].
    #[must_use]
    pub fn binding(&self) -> String {
        self.bound().unwrap_or(UNAUTHENTICATED_SENTINEL).to_owned()
    }

    pub(crate) fn identified(issuer: &Issuer, subject: &Subject<'_>) -> Self {
        Self { bound: Some(binding::join(&issuer.0, subject.0).into()) }
    }

    pub(crate) fn bound(&self) -> Option<&str> {
        self.bound.as_deref()
    }

    fn halves(&self) -> Option<(&str, &str)> {
        self.bound()?.split_once(binding::SEPARATOR)
    }
}

impl fmt::Debug for VerifiedPrincipal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_unauthenticated() { "unauthenticated" } else { "identified" };
        f.debug_tuple("VerifiedPrincipal").field(&format_args!("{kind}")).finish()
    }
}

/// The identity mode of a UNIX socket or of stdio: the operating system names the peer.
///
/// The principal of a peer is `unix:` and the server id as the issuer, and the user id in decimal
/// as the subject. The server id is part of it because user ids mean nothing on another machine.
#[derive(Clone, Debug)]
#[must_use]
pub struct UnixPeers {
    issuer: Issuer,
}

impl UnixPeers {
    /// The mode for the server of this id.
    ///
    /// # Errors
    ///
    /// [`InvalidIdentity`] if the id is empty, contains a NUL or makes the issuer longer than
    /// [`MAX_ISSUER_BYTES`].
    pub fn new(server_id: &str) -> Result<Self, InvalidIdentity> {
        binding::check_half(server_id)?;
        Ok(Self { issuer: Issuer::new(&format!("{UNIX_ISSUER_PREFIX}{server_id}"))? })
    }

    /// The principal of a peer with this user id.
    ///
    /// # Security
    ///
    /// `uid` must come from the kernel (the peer credentials of the socket, or the process's own
    /// user id), never from anything that the peer wrote.
    #[must_use]
    pub fn principal(&self, uid: u32) -> VerifiedPrincipal {
        VerifiedPrincipal::identified(&self.issuer, &Subject(&uid.to_string()))
    }

    /// The same as the caller of a request. All scopes are granted: the operating system has none
    /// to give, and the mode of the socket says who may connect.
    pub fn caller(&self, uid: u32) -> crate::Caller {
        crate::Caller::new(self.principal(uid), Scopes::all(), None)
    }
}

/// Why an issuer or a subject can not belong to a principal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
pub enum InvalidIdentity {
    /// It could not be stored as a binding.
    #[error(transparent)]
    Binding(#[from] InvalidBinding),
    /// The issuer exceeds [`MAX_ISSUER_BYTES`].
    #[error("issuer is longer than {MAX_ISSUER_BYTES} bytes")]
    IssuerTooLong,
    /// The subject exceeds [`MAX_SUBJECT_BYTES`].
    #[error("subject is longer than {MAX_SUBJECT_BYTES} bytes")]
    SubjectTooLong,
}

/// What marks an issuer that is the operating system; token issuers may not start with it.
pub(crate) const UNIX_ISSUER_PREFIX: &str = "unix:";

/// What marks an issuer that is a file of bearer tokens; token issuers may not start with it.
pub(crate) const STATIC_ISSUER_PREFIX: &str = "static:";

/// An issuer that may be half of a principal.
#[derive(Clone, Debug)]
pub(crate) struct Issuer(Arc<str>);

impl Issuer {
    pub(crate) fn new(issuer: &str) -> Result<Self, InvalidIdentity> {
        binding::check_half(issuer)?;
        if issuer.len() > MAX_ISSUER_BYTES {
            return Err(InvalidIdentity::IssuerTooLong);
        }
        Ok(Self(issuer.into()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// A subject that may be half of a principal.
pub(crate) struct Subject<'a>(&'a str);

impl<'a> Subject<'a> {
    pub(crate) fn new(subject: &'a str) -> Result<Self, InvalidIdentity> {
        binding::check_half(subject)?;
        if subject.len() > MAX_SUBJECT_BYTES {
            return Err(InvalidIdentity::SubjectTooLong);
        }
        Ok(Self(subject))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn unix_peer_is_named_by_server_and_uid() {
        let principal = UnixPeers::new("3f2a").unwrap().principal(0);
        assert_eq!(principal.issuer(), Some("unix:3f2a"));
        assert_eq!(principal.subject(), Some("0"));
        assert_eq!(principal.binding(), "unix:3f2a\x000");
        assert!(!principal.is_unauthenticated());
    }

    #[test]
    fn largest_uid_is_written_in_decimal() {
        let principal = UnixPeers::new("h").unwrap().principal(u32::MAX);
        assert_eq!(principal.subject(), Some("4294967295"));
    }

    #[test]
    fn unauthenticated_has_no_halves() {
        let nobody = VerifiedPrincipal::unauthenticated();
        assert!(nobody.is_unauthenticated());
        assert_eq!(nobody.issuer(), None);
        assert_eq!(nobody.subject(), None);
        assert_eq!(nobody.binding(), UNAUTHENTICATED_SENTINEL);
    }

    #[test]
    fn refuses_server_ids_that_can_not_be_bound() {
        let check = |id: &str, expected| assert_eq!(UnixPeers::new(id).unwrap_err(), expected);
        check("", InvalidBinding::Empty.into());
        check("a\0b", InvalidBinding::Nul.into());
        check(&"x".repeat(MAX_ISSUER_BYTES), InvalidIdentity::IssuerTooLong);
    }

    #[test]
    fn bounds_are_inclusive() {
        assert!(Issuer::new(&"x".repeat(MAX_ISSUER_BYTES)).is_ok());
        assert!(Issuer::new(&"x".repeat(MAX_ISSUER_BYTES + 1)).is_err());
        assert!(Subject::new(&"x".repeat(MAX_SUBJECT_BYTES)).is_ok());
        assert!(Subject::new(&"x".repeat(MAX_SUBJECT_BYTES + 1)).is_err());
    }

    #[test]
    fn equality_and_hash_follow_issuer_and_subject() {
        let peers = UnixPeers::new("h").unwrap();
        let mut seen = HashSet::from([peers.principal(1), VerifiedPrincipal::unauthenticated()]);
        assert!(!seen.insert(UnixPeers::new("h").unwrap().principal(1)));
        assert!(!seen.insert(VerifiedPrincipal::unauthenticated()));
        assert!(seen.insert(peers.principal(2)));
        assert!(seen.insert(UnixPeers::new("g").unwrap().principal(1)));
    }

    #[test]
    fn debug_shows_no_personal_data() {
        let shown = format!("{:?}", UnixPeers::new("secret-host").unwrap().principal(1000));
        assert_eq!(shown, "VerifiedPrincipal(identified)");
        let shown = format!("{:?}", VerifiedPrincipal::unauthenticated());
        assert_eq!(shown, "VerifiedPrincipal(unauthenticated)");
    }
}
