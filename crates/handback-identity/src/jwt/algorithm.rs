use jsonwebtoken::Algorithm as LibraryAlgorithm;

/// A signature algorithm with a public key.
///
/// There is no variant for HMAC or for `none`, so neither can be put on an allow-list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// `RS256`: RSASSA-PKCS1-v1_5 with SHA-256.
    Rs256,
    /// `RS384`: RSASSA-PKCS1-v1_5 with SHA-384.
    Rs384,
    /// `RS512`: RSASSA-PKCS1-v1_5 with SHA-512.
    Rs512,
    /// `PS256`: RSASSA-PSS with SHA-256.
    Ps256,
    /// `PS384`: RSASSA-PSS with SHA-384.
    Ps384,
    /// `PS512`: RSASSA-PSS with SHA-512.
    Ps512,
    /// `ES256`: ECDSA on P-256 with SHA-256.
    Es256,
    /// `ES384`: ECDSA on P-384 with SHA-384.
    Es384,
    /// `EdDSA`, on Ed25519.
    EdDsa,
}

impl Algorithm {
    /// The algorithm of this name, as registered for the `alg` parameter.
    ///
    /// Names are case-sensitive (RFC 7515, section 4.1.1). `None` for symmetric algorithms, for
    /// `none` and for everything unknown.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "RS256" => Some(Self::Rs256),
            "RS384" => Some(Self::Rs384),
            "RS512" => Some(Self::Rs512),
            "PS256" => Some(Self::Ps256),
            "PS384" => Some(Self::Ps384),
            "PS512" => Some(Self::Ps512),
            "ES256" => Some(Self::Es256),
            "ES384" => Some(Self::Es384),
            "EdDSA" => Some(Self::EdDsa),
            _ => None,
        }
    }

    /// The registered name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Rs384 => "RS384",
            Self::Rs512 => "RS512",
            Self::Ps256 => "PS256",
            Self::Ps384 => "PS384",
            Self::Ps512 => "PS512",
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::EdDsa => "EdDSA",
        }
    }

    /// The only kind of key that may be used with it.
    pub(super) const fn key_kind(self) -> KeyKind {
        match self {
            Self::Rs256 | Self::Rs384 | Self::Rs512 | Self::Ps256 | Self::Ps384 | Self::Ps512 => {
                KeyKind::Rsa
            }
            Self::Es256 => KeyKind::P256,
            Self::Es384 => KeyKind::P384,
            Self::EdDsa => KeyKind::Ed25519,
        }
    }

    pub(super) const fn library(self) -> LibraryAlgorithm {
        match self {
            Self::Rs256 => LibraryAlgorithm::RS256,
            Self::Rs384 => LibraryAlgorithm::RS384,
            Self::Rs512 => LibraryAlgorithm::RS512,
            Self::Ps256 => LibraryAlgorithm::PS256,
            Self::Ps384 => LibraryAlgorithm::PS384,
            Self::Ps512 => LibraryAlgorithm::PS512,
            Self::Es256 => LibraryAlgorithm::ES256,
            Self::Es384 => LibraryAlgorithm::ES384,
            Self::EdDsa => LibraryAlgorithm::EdDSA,
        }
    }
}

/// A name that is no algorithm's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("it is not an algorithm with a public key")]
#[non_exhaustive]
pub struct UnknownAlgorithm;

impl std::str::FromStr for Algorithm {
    type Err = UnknownAlgorithm;

    fn from_str(name: &str) -> Result<Self, UnknownAlgorithm> {
        Self::from_name(name).ok_or(UnknownAlgorithm)
    }
}

impl std::fmt::Display for Algorithm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// What a public key is: its type, and its curve if it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyKind {
    Rsa,
    P256,
    P384,
    Ed25519,
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Algorithm; 9] = [
        Algorithm::Rs256,
        Algorithm::Rs384,
        Algorithm::Rs512,
        Algorithm::Ps256,
        Algorithm::Ps384,
        Algorithm::Ps512,
        Algorithm::Es256,
        Algorithm::Es384,
        Algorithm::EdDsa,
    ];

    #[test]
    fn names_round_trip() {
        for algorithm in ALL {
            assert_eq!(Algorithm::from_name(algorithm.name()), Some(algorithm));
            assert_eq!(format!("{:?}", algorithm.library()), algorithm.name());
        }
    }

    #[test]
    fn knows_no_symmetric_or_absent_algorithm() {
        for name in ["none", "None", "NONE", "HS256", "HS384", "HS512", "", "rs256", "RS256 "] {
            assert_eq!(Algorithm::from_name(name), None, "{name:?}");
        }
    }
}
