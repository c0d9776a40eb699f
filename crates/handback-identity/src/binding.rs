//! The identity binding: how the owner of something is written down.
//!
//! ```text
//! bound            issuer  0x00  subject      exactly one NUL, both halves non-empty
//! unauthenticated  "unauthenticated"          holds no NUL, so it is never a bound value
//! ```
//!
//! NUL is refused in either half. OpenID Connect does not forbid it in a subject, but no issuer is
//! known to send one, and a value with two of them could be split in two ways. A future form of the
//! binding must keep the two sets of values apart.
//!
//! # What a binding is not
//!
//! A binding **identifies; it does not authenticate**. It has no expiry, no nonce and no signature,
//! hence no freshness: knowing one proves nothing about whoever presents it. It is stored in
//! plaintext, which makes it personal data, not a credential. Compare it only with a principal that
//! was validated for the request at hand.
//!
//! The types hold callers to that. [`parse`] gives a [`StoredBinding`], which does not reveal its
//! halves, does not turn into a principal, and can do one thing: say whether it
//! [`matches`](StoredBinding::matches) a [`VerifiedPrincipal`]. Rejected: returning the two halves
//! as strings, since the next step would be to build an identity out of them.

use std::fmt;

use subtle::ConstantTimeEq;
use thiserror::Error;

use crate::principal::VerifiedPrincipal;

/// The stored value for something that was created without an authenticated identity.
pub const UNAUTHENTICATED_SENTINEL: &str = "unauthenticated";

/// Writes an issuer and a subject as a binding.
///
/// Prefer [`VerifiedPrincipal::binding`], which can not fail and also covers the sentinel.
///
/// # Errors
///
/// [`InvalidBinding`] if either half is empty or contains a NUL.
pub fn format(iss: &str, sub: &str) -> Result<String, InvalidBinding> {
    check_half(iss)?;
    check_half(sub)?;
    Ok(join(iss, sub))
}

/// Reads a bound value.
///
/// `None` for the sentinel, for an empty string and for anything else that [`format()`] does not
/// write. To check a stored value whatever its kind, use [`stored_matches`].
#[must_use]
pub fn parse(stored: &str) -> Option<StoredBinding> {
    let (iss, sub) = stored.split_once(SEPARATOR)?;
    check_half(iss).ok()?;
    check_half(sub).ok()?;
    Some(StoredBinding { bound: stored.into() })
}

/// Whether the value is the sentinel for "created without an identity".
#[must_use]
pub fn is_unauthenticated(stored: &str) -> bool {
    stored == UNAUTHENTICATED_SENTINEL
}

/// Whether a stored value, of either kind, belongs to this principal.
///
/// The sentinel belongs to an unauthenticated principal only, and a bound value only to the
/// principal that it names. So a caller who presents a credential can not take over something made
/// anonymously, nor the reverse. A value that can not be read belongs to nobody.
///
/// # Security
///
/// That the sentinel matches says "nobody was identified then, and nobody is now". It does not tell
/// two anonymous callers apart.
#[must_use]
pub fn stored_matches(stored: &str, principal: &VerifiedPrincipal) -> bool {
    if is_unauthenticated(stored) {
        return principal.is_unauthenticated();
    }
    parse(stored).is_some_and(|binding| binding.matches(principal))
}

/// The identity that something was bound to when it was stored.
///
/// See the [module documentation](self) for what this must not be used for.
pub struct StoredBinding {
    bound: Box<str>,
}

impl StoredBinding {
    /// Whether the principal of the current request is the one that was stored.
    ///
    /// An unauthenticated principal never matches. The contents are compared in constant time; the
    /// length is not hidden.
    #[must_use]
    pub fn matches(&self, principal: &VerifiedPrincipal) -> bool {
        principal.bound().is_some_and(|bound| self.bound.as_bytes().ct_eq(bound.as_bytes()).into())
    }
}

impl fmt::Debug for StoredBinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredBinding").finish_non_exhaustive()
    }
}

/// Why an issuer and a subject can not be written as a binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
pub enum InvalidBinding {
    /// The issuer or the subject is the empty string.
    #[error("issuer or subject is empty")]
    Empty,
    /// The issuer or the subject contains the separator.
    #[error("issuer or subject contains a NUL")]
    Nul,
}

/// Refuses what can not be one half of a binding.
pub(crate) fn check_half(half: &str) -> Result<(), InvalidBinding> {
    if half.is_empty() {
        return Err(InvalidBinding::Empty);
    }
    if half.contains(SEPARATOR) {
        return Err(InvalidBinding::Nul);
    }
    Ok(())
}

/// Joins two halves that were checked before.
pub(crate) fn join(iss: &str, sub: &str) -> String {
    let mut bound = String::with_capacity(iss.len() + SEPARATOR.len_utf8() + sub.len());
    bound.push_str(iss);
    bound.push(SEPARATOR);
    bound.push_str(sub);
    bound
}

pub(crate) const SEPARATOR: char = '\0';

#[cfg(test)]
mod tests {
    use super::*;
    use crate::principal::UnixPeers;

    fn check_parse(stored: &str, readable: bool) {
        assert_eq!(parse(stored).is_some(), readable, "{stored:?}");
    }

    #[test]
    fn writes_issuer_nul_subject() {
        assert_eq!(format("https://id.example", "alice").unwrap(), "https://id.example\0alice");
    }

    #[test]
    fn refuses_to_write_empty_halves() {
        assert_eq!(format("", "alice"), Err(InvalidBinding::Empty));
        assert_eq!(format("https://id.example", ""), Err(InvalidBinding::Empty));
        assert_eq!(format("", ""), Err(InvalidBinding::Empty));
    }

    #[test]
    fn refuses_to_write_nul() {
        assert_eq!(format("a\0b", "c"), Err(InvalidBinding::Nul));
        assert_eq!(format("a", "b\0c"), Err(InvalidBinding::Nul));
        assert_eq!(format("\0", "c"), Err(InvalidBinding::Nul));
    }

    #[test]
    fn reads_only_what_is_written() {
        check_parse("iss\0sub", true);
        check_parse("é\0ü", true);
        check_parse("", false);
        check_parse("iss", false);
        check_parse("\0", false);
        check_parse("iss\0", false);
        check_parse("\0sub", false);
        check_parse("iss\0\0sub", false);
        check_parse("iss\0sub\0", false);
        check_parse("a\0b\0c", false);
        check_parse(UNAUTHENTICATED_SENTINEL, false);
    }

    #[test]
    fn sentinel_is_outside_the_bound_values() {
        assert!(!UNAUTHENTICATED_SENTINEL.contains(SEPARATOR));
        assert!(is_unauthenticated("unauthenticated"));
        assert!(!is_unauthenticated("Unauthenticated"));
        assert!(!is_unauthenticated("unauthenticated "));
        assert!(!is_unauthenticated("unauthenticated\0"));
        assert!(!is_unauthenticated(""));
    }

    #[test]
    fn bound_value_matches_its_principal_only() {
        let peers = UnixPeers::new("host").unwrap();
        let stored = parse("unix:host\x001000").unwrap();
        assert!(stored.matches(&peers.principal(1000)));
        assert!(!stored.matches(&peers.principal(100)));
        assert!(!stored.matches(&peers.principal(10_000)));
        assert!(!stored.matches(&UnixPeers::new("other").unwrap().principal(1000)));
        assert!(!stored.matches(&VerifiedPrincipal::unauthenticated()));
    }

    #[test]
    fn refuses_a_credential_on_something_anonymous_and_the_reverse() {
        let alice = UnixPeers::new("host").unwrap().principal(1000);
        let nobody = VerifiedPrincipal::unauthenticated();
        assert!(stored_matches(UNAUTHENTICATED_SENTINEL, &nobody));
        assert!(!stored_matches(UNAUTHENTICATED_SENTINEL, &alice));
        assert!(stored_matches(&alice.binding(), &alice));
        assert!(!stored_matches(&alice.binding(), &nobody));
    }

    #[test]
    fn unreadable_value_belongs_to_nobody() {
        let alice = UnixPeers::new("host").unwrap().principal(1000);
        for stored in ["", "\0", "unix:host", "unix:host\x001000\0", "UNAUTHENTICATED"] {
            assert!(!stored_matches(stored, &alice), "{stored:?}");
            assert!(!stored_matches(stored, &VerifiedPrincipal::unauthenticated()), "{stored:?}");
        }
    }

    #[test]
    fn debug_shows_no_personal_data() {
        let shown = format!("{:?}", parse("https://id.example\0alice").unwrap());
        assert_eq!(shown, "StoredBinding { .. }");
    }
}
