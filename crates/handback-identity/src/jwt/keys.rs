use std::{collections::HashSet, fmt};

use jsonwebtoken::{DecodingKey, crypto::aws_lc};
use serde::{Deserialize, de::IgnoredAny};
use thiserror::Error;

use super::{
    Algorithm, JwtError,
    algorithm::KeyKind,
    wire::{self, Object},
};

/// The largest key set document, in bytes.
///
/// Large public issuers publish a few dozen keys with certificate chains, some 60 KiB.
pub const MAX_KEY_SET_BYTES: usize = 256 * 1024;

/// The most keys of a set, the skipped ones included. Issuers rotate among a handful.
pub const MAX_KEYS: usize = 128;

/// The public keys of one issuer, read from a JWK set (RFC 7517).
///
/// Keys that can not be used for signatures here are skipped, as section 5 of the RFC asks: an
/// unknown `kty`, `crv` or `alg`, missing or ill-sized numbers, a `use` other than `sig`, `key_ops`
/// without `verify`. A document that betrays a mistake at the issuer is refused whole; see
/// [`KeySetError`].
#[derive(Clone)]
pub struct KeySet {
    keys: Vec<Key>,
    skipped: usize,
}

impl KeySet {
    /// Reads a JWK set.
    ///
    /// The result may be empty; whoever replaces a set by a newer one should look.
    ///
    /// # Errors
    ///
    /// [`KeySetError`] if the document is too large, malformed, or must not be trusted.
    pub fn parse(json: &[u8]) -> Result<Self, KeySetError> {
        if json.len() > MAX_KEY_SET_BYTES {
            return Err(KeySetError::TooLarge);
        }
        let document: Document = wire::decode_object(json).ok_or(KeySetError::Malformed)?;
        if document.keys.len() > MAX_KEYS {
            return Err(KeySetError::TooManyKeys);
        }
        let mut keys = Vec::new();
        let mut skipped = 0;
        for Object(jwk) in document.keys {
            jwk.refuse_secrets()?;
            match jwk.into_key() {
                Some(key) => keys.push(key),
                None => skipped += 1,
            }
        }
        refuse_duplicates(&keys)?;
        Ok(Self { keys, skipped })
    }

    /// How many keys can be used.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether no key can be used, so that every token is refused.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// How many keys of the document were skipped.
    #[must_use]
    pub const fn skipped(&self) -> usize {
        self.skipped
    }

    /// The one key that a token with this `kid` may be signed by.
    pub(super) fn select(&self, kid: Option<&str>) -> Result<&Key, JwtError> {
        match (kid, self.keys.as_slice()) {
            (Some(kid), keys) => {
                keys.iter().find(|key| key.id.as_deref() == Some(kid)).ok_or(JwtError::UnknownKey)
            }
            (None, [key]) => Ok(key),
            (None, []) => Err(JwtError::UnknownKey),
            (None, _) => Err(JwtError::AmbiguousKey),
        }
    }
}

impl fmt::Debug for KeySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids: Vec<_> = self.keys.iter().map(|key| key.id.as_deref()).collect();
        f.debug_struct("KeySet").field("ids", &ids).field("skipped", &self.skipped).finish()
    }
}

/// Why a key set was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
pub enum KeySetError {
    /// The document exceeds [`MAX_KEY_SET_BYTES`].
    #[error("key set is larger than {MAX_KEY_SET_BYTES} bytes")]
    TooLarge,
    /// The document is not a JWK set, or a member of a key is given twice.
    #[error("key set is malformed")]
    Malformed,
    /// The document lists more than [`MAX_KEYS`] keys.
    #[error("key set has more than {MAX_KEYS} keys")]
    TooManyKeys,
    /// The set has a symmetric key. Published, it is no secret, and whoever has it can sign.
    #[error("key set has a symmetric key")]
    SymmetricKey,
    /// The set has the private half of a key.
    #[error("key set has a private key")]
    PrivateKey,
    /// Two usable keys have the same `kid`, so it would not name one key.
    #[error("key set has two keys of one id")]
    DuplicateKeyId,
}

/// A public key and what it may be used for.
#[derive(Clone)]
pub(super) struct Key {
    id: Option<String>,
    kind: KeyKind,
    /// The only algorithm, if the issuer says so.
    algorithm: Option<Algorithm>,
    decoding: DecodingKey,
}

impl Key {
    /// Checks a signature.
    ///
    /// The cryptographic provider is named and not left to the process-wide default, which another
    /// crate could replace or, by enabling a feature, turn into a panic.
    pub(super) fn verify(
        &self,
        algorithm: Algorithm,
        message: &[u8],
        signature: Vec<u8>,
    ) -> Result<(), JwtError> {
        if !self.fits(algorithm) {
            return Err(JwtError::KeyMismatch);
        }
        let make_verifier = aws_lc::DEFAULT_PROVIDER.verifier_factory;
        let verifier = make_verifier(&algorithm.library(), &self.decoding)
            .map_err(|_| JwtError::KeyMismatch)?;
        verifier.verify(message, &signature).map_err(|_| JwtError::BadSignature)
    }

    fn fits(&self, algorithm: Algorithm) -> bool {
        self.kind == algorithm.key_kind() && self.algorithm.is_none_or(|only| only == algorithm)
    }
}

fn refuse_duplicates(keys: &[Key]) -> Result<(), KeySetError> {
    let mut seen = HashSet::new();
    if keys.iter().filter_map(|key| key.id.as_deref()).all(|id| seen.insert(id)) {
        Ok(())
    } else {
        Err(KeySetError::DuplicateKeyId)
    }
}

#[derive(Deserialize)]
struct Document {
    keys: Vec<Object<Jwk>>,
}

/// A key as published. Members that are `null` count as absent, as some serializers write them.
#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    key_ops: Option<Vec<String>>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
    d: Option<IgnoredAny>,
    k: Option<IgnoredAny>,
}

impl Jwk {
    fn refuse_secrets(&self) -> Result<(), KeySetError> {
        if self.kty == "oct" || self.k.is_some() {
            return Err(KeySetError::SymmetricKey);
        }
        if self.d.is_some() {
            return Err(KeySetError::PrivateKey);
        }
        Ok(())
    }

    /// The key, or nothing if it is to be skipped.
    fn into_key(self) -> Option<Key> {
        if self.usage.as_deref().is_some_and(|usage| usage != "sig") {
            return None;
        }
        if self.key_ops.as_ref().is_some_and(|ops| !ops.iter().any(|op| op == "verify")) {
            return None;
        }
        let algorithm = match &self.alg {
            Some(name) => Some(Algorithm::from_name(name)?),
            None => None,
        };
        let (kind, decoding) = self.public_key()?;
        if algorithm.is_some_and(|algorithm| algorithm.key_kind() != kind) {
            return None;
        }
        Some(Key { id: self.kid, kind, algorithm, decoding })
    }

    fn public_key(&self) -> Option<(KeyKind, DecodingKey)> {
        match (self.kty.as_str(), self.crv.as_deref()) {
            ("RSA", _) => Some((KeyKind::Rsa, self.rsa_key()?)),
            ("EC", Some("P-256")) => Some((KeyKind::P256, self.ec_key(32)?)),
            ("EC", Some("P-384")) => Some((KeyKind::P384, self.ec_key(48)?)),
            ("OKP", Some("Ed25519")) => Some((KeyKind::Ed25519, self.ed25519_key()?)),
            _ => None,
        }
    }

    fn rsa_key(&self) -> Option<DecodingKey> {
        let modulus = integer(self.n.as_deref()?)?;
        let exponent = integer(self.e.as_deref()?)?;
        let strong = RSA_MODULUS_BYTES.contains(&modulus.len());
        // An exponent of one makes every number its own signature.
        let sound = exponent.as_slice() != [1]
            && exponent.len() <= RSA_EXPONENT_BYTES
            && exponent.last().is_some_and(|last| last % 2 == 1);
        (strong && sound).then(|| DecodingKey::from_rsa_raw_components(&modulus, &exponent))
    }

    fn ec_key(&self, coordinate_bytes: usize) -> Option<DecodingKey> {
        let x = wire::base64url(self.x.as_deref()?)?;
        let y = wire::base64url(self.y.as_deref()?)?;
        if x.len() != coordinate_bytes || y.len() != coordinate_bytes {
            return None;
        }
        let point = [[UNCOMPRESSED_POINT].as_slice(), &x, &y].concat();
        Some(DecodingKey::from_ec_der(&point))
    }

    fn ed25519_key(&self) -> Option<DecodingKey> {
        let x = wire::base64url(self.x.as_deref()?)?;
        (x.len() == ED25519_BYTES).then(|| DecodingKey::from_ed_der(&x))
    }
}

/// A big-endian number without leading zeros, which some issuers write although they should not.
fn integer(text: &str) -> Option<Vec<u8>> {
    let bytes = wire::base64url(text)?;
    Some(bytes.into_iter().skip_while(|byte| *byte == 0).collect())
}

/// From 2,048 bits, below which RFC 7518 (section 3.3) forbids RSA, to the 8,192 that AWS-LC takes.
const RSA_MODULUS_BYTES: std::ops::RangeInclusive<usize> = 256..=1_024;

/// Public exponents beyond 32 bits only make verification slow.
const RSA_EXPONENT_BYTES: usize = 4;

/// What an uncompressed point starts with (SEC 1, section 2.3.3).
const UNCOMPRESSED_POINT: u8 = 0x04;

const ED25519_BYTES: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    /// The public key of RFC 8037, appendix A.2.
    const ED25519: &str =
        r#""kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo""#;

    fn parse(keys: &[&str]) -> Result<KeySet, KeySetError> {
        KeySet::parse(format!(r#"{{"keys":[{}]}}"#, keys.join(",")).as_bytes())
    }

    fn check_skipped(jwk: &str) {
        let keys = parse(&[jwk]).unwrap();
        assert_eq!((keys.len(), keys.skipped()), (0, 1), "{jwk}");
    }

    fn check_usable(jwk: &str) {
        let keys = parse(&[jwk]).unwrap();
        assert_eq!((keys.len(), keys.skipped()), (1, 0), "{jwk}");
    }

    fn check_refused(keys: &[&str], expected: KeySetError) {
        assert_eq!(parse(keys).unwrap_err(), expected, "{keys:?}");
    }

    fn rsa(modulus: &[u8], exponent: &[u8]) -> String {
        use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
        let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        format!(r#"{{"kty":"RSA","n":"{}","e":"{}"}}"#, encode(modulus), encode(exponent))
    }

    #[test]
    fn accepts_signature_keys() {
        check_usable(&format!("{{{ED25519}}}"));
        check_usable(&format!(r#"{{{ED25519},"use":"sig","alg":"EdDSA","key_ops":["verify"]}}"#));
        check_usable(&format!(r#"{{{ED25519},"use":null,"alg":null,"kid":null,"d":null}}"#));
        check_usable(&format!(r#"{{{ED25519},"x5c":["AAAA"],"unknown":{{"a":1}}}}"#));
    }

    #[test]
    fn skips_keys_for_other_purposes() {
        check_skipped(&format!(r#"{{{ED25519},"use":"enc"}}"#));
        check_skipped(&format!(r#"{{{ED25519},"use":"SIG"}}"#));
        check_skipped(&format!(r#"{{{ED25519},"key_ops":["sign"]}}"#));
        check_skipped(&format!(r#"{{{ED25519},"key_ops":[]}}"#));
    }

    #[test]
    fn skips_unknown_and_contradicting_keys() {
        check_skipped(r#"{"kty":"AKP","alg":"ML-DSA-44","pub":"AAAA"}"#);
        check_skipped(r#"{"kty":"EC","crv":"secp256k1","x":"AA","y":"AA"}"#);
        check_skipped(r#"{"kty":"OKP","crv":"X25519","x":"AAAA"}"#);
        check_skipped(&format!(r#"{{{ED25519},"alg":"RSA-OAEP"}}"#));
        check_skipped(&format!(r#"{{{ED25519},"alg":"HS256"}}"#));
        check_skipped(&format!(r#"{{{ED25519},"alg":"ES256"}}"#));
    }

    #[test]
    fn skips_incomplete_and_ill_sized_keys() {
        check_skipped(r#"{"kty":"RSA"}"#);
        check_skipped(r#"{"kty":"RSA","n":"!","e":"AQAB"}"#);
        check_skipped(r#"{"kty":"EC","crv":"P-256","x":"AAAA","y":"AAAA"}"#);
        check_skipped(r#"{"kty":"EC","crv":"P-256"}"#);
        check_skipped(r#"{"kty":"OKP","crv":"Ed25519","x":"AAAA"}"#);
        check_skipped(r#"{"kty":"OKP","crv":"Ed25519"}"#);
    }

    #[test]
    fn skips_weak_rsa_keys() {
        check_usable(&rsa(&[0xff; 256], &[1, 0, 1]));
        check_usable(&rsa(&[[0].as_slice(), &[0xff; 256]].concat(), &[0, 1, 0, 1]));
        check_skipped(&rsa(&[0xff; 255], &[1, 0, 1]));
        check_skipped(&rsa(&[[0].as_slice(), &[0xff; 255]].concat(), &[1, 0, 1]));
        check_skipped(&rsa(&[0xff; 1_025], &[1, 0, 1]));
        check_skipped(&rsa(&[0xff; 256], &[1]));
        check_skipped(&rsa(&[0xff; 256], &[]));
        check_skipped(&rsa(&[0xff; 256], &[0]));
        check_skipped(&rsa(&[0xff; 256], &[4]));
        check_skipped(&rsa(&[0xff; 256], &[1, 0, 0, 0, 1]));
    }

    #[test]
    fn refuses_symmetric_keys() {
        check_refused(&[r#"{"kty":"oct","k":"c2VjcmV0"}"#], KeySetError::SymmetricKey);
        check_refused(&[r#"{"kty":"oct","use":"enc"}"#], KeySetError::SymmetricKey);
        let good = format!("{{{ED25519}}}");
        check_refused(&[&good, r#"{"kty":"oct","k":"c2VjcmV0"}"#], KeySetError::SymmetricKey);
    }

    #[test]
    fn refuses_private_keys() {
        check_refused(&[&format!(r#"{{{ED25519},"d":"AAAA"}}"#)], KeySetError::PrivateKey);
    }

    #[test]
    fn refuses_two_keys_of_one_id() {
        let named = |id: &str, more: &str| format!(r#"{{{ED25519},"kid":"{id}"{more}}}"#);
        let (a, b) = (named("a", ""), named("b", ""));
        assert_eq!(parse(&[&a, &b]).unwrap().len(), 2);
        check_refused(&[&a, &b, &a], KeySetError::DuplicateKeyId);
        // A skipped key is never selected, so its id takes no part.
        assert_eq!(parse(&[&a, &named("a", r#","use":"enc""#)]).unwrap().len(), 1);
        // Keys without an id are not selected by one.
        let unnamed = format!("{{{ED25519}}}");
        assert_eq!(parse(&[&unnamed, &unnamed]).unwrap().len(), 2);
    }

    #[test]
    fn refuses_malformed_documents() {
        for json in [
            "",
            "{}",
            "[]",
            "null",
            r#"{"keys":{}}"#,
            r#"{"keys":[1]}"#,
            r#"{"keys":[["RSA"]]}"#,
            r#"{"keys":[{}]}"#,
            r#"{"keys":[{"kty":"RSA","kty":"EC"}]}"#,
            r#"{"keys":[],"keys":[]}"#,
            r#"{"keys":[]} {}"#,
        ] {
            assert_eq!(
                KeySet::parse(json.as_bytes()).unwrap_err(),
                KeySetError::Malformed,
                "{json}"
            );
        }
        assert_eq!(KeySet::parse(b"\xff\xfe").unwrap_err(), KeySetError::Malformed);
    }

    #[test]
    fn size_and_number_are_bounded() {
        let padded = |len: usize| r#"{"keys":[]}"#.to_owned() + &" ".repeat(len - 11);
        assert!(KeySet::parse(padded(MAX_KEY_SET_BYTES).as_bytes()).unwrap().is_empty());
        let refused = KeySet::parse(padded(MAX_KEY_SET_BYTES + 1).as_bytes()).unwrap_err();
        assert_eq!(refused, KeySetError::TooLarge);
        let unknown = r#"{"kty":"x"}"#;
        assert_eq!(parse(&vec![unknown; MAX_KEYS]).unwrap().skipped(), MAX_KEYS);
        check_refused(&vec![unknown; MAX_KEYS + 1], KeySetError::TooManyKeys);
    }

    #[test]
    fn selects_the_named_key_only() {
        let a = format!(r#"{{{ED25519},"kid":"a"}}"#);
        let b = format!(r#"{{{ED25519},"kid":"b"}}"#);
        let unnamed = format!("{{{ED25519}}}");
        let select = |keys: &[&str], kid: Option<&str>| {
            parse(keys).unwrap().select(kid).map(|key| key.id.clone())
        };
        assert_eq!(select(&[&a, &b], Some("b")), Ok(Some("b".to_owned())));
        assert_eq!(select(&[&a], Some("b")), Err(JwtError::UnknownKey));
        assert_eq!(select(&[&a], Some("A")), Err(JwtError::UnknownKey));
        assert_eq!(select(&[&unnamed], Some("a")), Err(JwtError::UnknownKey));
        assert_eq!(select(&[&a], None), Ok(Some("a".to_owned())));
        assert_eq!(select(&[&a, &b], None), Err(JwtError::AmbiguousKey));
        assert_eq!(select(&[], None), Err(JwtError::UnknownKey));
        assert_eq!(select(&[], Some("a")), Err(JwtError::UnknownKey));
    }

    #[test]
    fn debug_shows_ids_only() {
        let keys = parse(&[&format!(r#"{{{ED25519},"kid":"a"}}"#)]).unwrap();
        assert_eq!(format!("{keys:?}"), r#"KeySet { ids: [Some("a")], skipped: 0 }"#);
    }
}
