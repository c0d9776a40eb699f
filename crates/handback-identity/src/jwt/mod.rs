//! Signed access tokens (JWT) of one issuer, checked against a key set.
//!
//! A [`JwtValidator`] is built once from a [`JwtPolicy`]. For every request it takes the token, the
//! issuer's current [`KeySet`] and the time, and returns a [`ValidatedToken`], whose principal is
//! the only way in which text from a caller becomes an identity.
//!
//! # Order of the checks
//!
//! 1. length, before anything is decoded;
//! 2. three parts; the header is one JSON object whose known members appear once;
//! 3. `alg` is on the allow-list, `crit` is absent, `typ` is the required one;
//! 4. the key that `kid` names, and only that one; it must be made for `alg`;
//! 5. the signature;
//! 6. only now the claims: `iss`, `aud`, `exp`, `nbf`, `iat`, `sub`, scopes.
//!
//! # Design
//!
//! * **The allow-list can not hold a symmetric algorithm.** [`Algorithm`] has none, and a key set
//!   with a symmetric key is refused whole, so a public key is never taken for a shared secret.
//! * **The token does not choose its key.** `jwk`, `jku`, `x5c` and `x5u` in a header are not even
//!   parsed. A `kid` selects one key from the given set; there is no trial of the others.
//! * **Unverified claims decide nothing.** The claims are decoded after the signature has held, by
//!   type: the undecoded part is handed on by the verifying function alone.
//! * **All failures look alike.** A [`JwtError`] displays one frozen sentence; the exact
//!   [`reason`](JwtError::reason) is for the audit. [`JwtError::UnknownKey`] can be told apart in
//!   code, because the answer to it is a key refresh, which the caller must limit in rate: anyone
//!   can invent a key id.
//! * **The time is an argument.** `jsonwebtoken` reads the system clock when it checks claims, so it
//!   is used for signatures only.
//!
//! # Example
//!
//! ```
//! use handback_identity::jwt::{JwtPolicy, JwtValidator, KeySet};
//!
//! let policy = JwtPolicy::new("https://id.example", ["https://tools.example"])?;
//! let validator = JwtValidator::new(policy);
//! let keys = KeySet::parse(br#"{"keys": []}"#)?;
//!
//! let refused = validator.validate("not.a.token", &keys, 1_800_000_000).unwrap_err();
//! assert_eq!(refused.to_string(), "invalid access token");
//! assert_eq!(refused.reason(), "malformed_header");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod algorithm;
mod error;
mod keys;
mod policy;
mod scopes;
mod validator;
mod wire;

pub use algorithm::{Algorithm, UnknownAlgorithm};
pub use error::JwtError;
pub use keys::{KeySet, KeySetError, MAX_KEY_SET_BYTES, MAX_KEYS};
pub use policy::{
    DEFAULT_ALGORITHMS, DEFAULT_SKEW_SECONDS, JwtPolicy, MAX_SKEW_SECONDS, PolicyError,
};
pub use validator::{JwtValidator, MAX_TOKEN_BYTES, ValidatedToken};
pub use wire::{MAX_AUDIENCES, MAX_NUMERIC_DATE};
