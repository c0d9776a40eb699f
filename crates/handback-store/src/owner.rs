//! Whose something is: in keys, as a hash; in rows, as a binding.

use handback_identity::VerifiedPrincipal;

use crate::coding::{FieldHash, hex};

/// The hash tag of all that belongs to one principal: 32 hexadecimal digits.
///
/// It is there to find things and to place them. Whose they are is said by the binding in the row.
pub(crate) fn owner_tag(principal: &VerifiedPrincipal) -> String {
    owner_tag_of(&principal.binding())
}

/// The hash tag of the principal with a binding, for keys and logs: it does not say who that is.
#[must_use]
pub fn owner_tag_of(binding: &str) -> String {
    short(&FieldHash::new("handback/v1/owner").field(binding.as_bytes()).finish())
}

/// Half of a hash as a name.
pub(crate) fn short(hash: &[u8; 32]) -> String {
    let mut name = hex(hash);
    name.truncate(32);
    name
}
