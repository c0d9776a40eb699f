//! Who is calling: principals, their stored form, and the tokens that prove them.
//!
//! A continuation is worth nothing if anyone who learns its text may redeem it. This crate answers
//! two questions for the layers above: *who presented this request* and *is that who we gave it to*.
//!
//! | module | what it owns |
//! |---|---|
//! | [`principal`] | [`VerifiedPrincipal`]: an identity that this process checked a moment ago |
//! | [`binding`] | the text under which an identity is stored, and the comparison against it |
//! | [`jwt`] | signed access tokens of an OpenID Connect or OAuth issuer |
//! | [`discovery`] | where an issuer publishes its keys, and when to fetch them again |
//! | [`roster`] | bearer tokens from a file, hashed at rest |
//! | [`bearer`] | the credential of a request |
//! | [`caller`] | [`Caller`]: a principal and what it was granted; [`Refusal`]: why there is none |
//! | [`permissions`] | which caller may use which tool |
//! | [`scopes`], [`glob`](mod@glob) | what can be granted; patterns for names |
//!
//! # Design
//!
//! * **Checked and stored identities are different types.** A [`VerifiedPrincipal`] comes from a
//!   validator or from a listener that knows its peer. A stored binding can only be compared with
//!   one. Nothing turns text into a principal.
//! * **No IO.** There is no clock, no socket and no environment in here: `now` is an argument, and
//!   key sets arrive as bytes that somebody else fetched. Every decision can be replayed in a test.
//! * **Identity, not credential.** A principal is the pair of issuer and subject. The bytes of a
//!   token never take part, so a refreshed token is still the same caller.
//!
//! # Example
//!
//! ```
//! use handback_identity::{UnixPeers, VerifiedPrincipal, binding};
//!
//! let peers = UnixPeers::new("build-host")?;
//! let owner = peers.principal(1000);
//! let stored = owner.binding();
//!
//! assert!(binding::stored_matches(&stored, &peers.principal(1000)));
//! assert!(!binding::stored_matches(&stored, &peers.principal(1001)));
//! assert!(!binding::stored_matches(&stored, &VerifiedPrincipal::unauthenticated()));
//! # Ok::<(), handback_identity::InvalidIdentity>(())
//! ```

pub mod bearer;
pub mod binding;
pub mod caller;
pub mod discovery;
pub mod glob;
pub mod jwt;
pub mod permissions;
pub mod principal;
pub mod roster;
pub mod scopes;

pub use bearer::Bearer;
pub use binding::StoredBinding;
pub use caller::{Caller, Refusal};
pub use glob::Glob;
pub use permissions::Permissions;
pub use principal::{InvalidIdentity, UnixPeers, VerifiedPrincipal};
pub use roster::Roster;
pub use scopes::Scopes;
