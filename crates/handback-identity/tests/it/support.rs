//! An issuer with real keys, made when the tests start.

use std::sync::LazyLock;

use aws_lc_rs::{
    rand::SystemRandom,
    rsa::KeySize,
    signature::{
        self, ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair,
        EcdsaSigningAlgorithm, Ed25519KeyPair, KeyPair as _, RsaEncoding, RsaKeyPair,
    },
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use handback_identity::jwt::{JwtError, JwtPolicy, JwtValidator, KeySet, ValidatedToken};
use serde_json::{Value, json};

pub(crate) const NOW: u64 = 1_800_000_000;
pub(crate) const ISSUER: &str = "https://id.example";
pub(crate) const AUDIENCE: &str = "https://tools.example";
pub(crate) const SUBJECT: &str = "alice";

pub(crate) static RSA: LazyLock<RsaKeyPair> = LazyLock::new(rsa_key);
pub(crate) static OTHER_RSA: LazyLock<RsaKeyPair> = LazyLock::new(rsa_key);
pub(crate) static P256: LazyLock<EcdsaKeyPair> =
    LazyLock::new(|| ec_key(&ECDSA_P256_SHA256_FIXED_SIGNING));
pub(crate) static P384: LazyLock<EcdsaKeyPair> =
    LazyLock::new(|| ec_key(&ECDSA_P384_SHA384_FIXED_SIGNING));
pub(crate) static ED25519: LazyLock<Ed25519KeyPair> =
    LazyLock::new(|| Ed25519KeyPair::generate().expect("a key is made"));

/// The keys that the issuer publishes, under the ids `rsa`, `p256`, `p384` and `ed25519`.
pub(crate) static PUBLISHED: LazyLock<KeySet> = LazyLock::new(|| {
    key_set([
        with_id(rsa_jwk(&RSA), "rsa"),
        with_id(ec_jwk(&P256, "P-256"), "p256"),
        with_id(ec_jwk(&P384, "P-384"), "p384"),
        with_id(ed25519_jwk(), "ed25519"),
    ])
});

pub(crate) fn key_set<const N: usize>(keys: [Value; N]) -> KeySet {
    let keys = json!({ "keys": keys.as_slice() });
    KeySet::parse(keys.to_string().as_bytes()).expect("the key set is well formed")
}

pub(crate) fn with_id(mut jwk: Value, id: &str) -> Value {
    jwk["kid"] = json!(id);
    jwk
}

pub(crate) fn rsa_jwk(key: &RsaKeyPair) -> Value {
    let public = key.public_key();
    json!({
        "kty": "RSA",
        "use": "sig",
        "n": encode(public.modulus().big_endian_without_leading_zero()),
        "e": encode(public.exponent().big_endian_without_leading_zero()),
    })
}

pub(crate) fn ec_jwk(key: &EcdsaKeyPair, curve: &str) -> Value {
    let point = key.public_key().as_ref();
    let (x, y) = point[1..].split_at(point.len() / 2);
    json!({ "kty": "EC", "crv": curve, "x": encode(x), "y": encode(y) })
}

pub(crate) fn ed25519_jwk() -> Value {
    json!({ "kty": "OKP", "crv": "Ed25519", "x": encode(ED25519.public_key().as_ref()) })
}

/// Claims that pass every check.
pub(crate) fn claims() -> Value {
    json!({
        "iss": ISSUER,
        "sub": SUBJECT,
        "aud": AUDIENCE,
        "iat": NOW - 10,
        "nbf": NOW - 10,
        "exp": NOW + 3_600,
        "jti": "first",
        "scope": "read write",
    })
}

/// [`claims`] with one of them replaced, or removed by `null`.
pub(crate) fn claims_with(name: &str, value: Value) -> Value {
    let mut claims = claims();
    let members = claims.as_object_mut().expect("claims are an object");
    if value.is_null() {
        members.remove(name);
    } else {
        members.insert(name.to_owned(), value);
    }
    claims
}

pub(crate) type Sign = fn(&[u8]) -> Vec<u8>;

/// A token with this header and these claims, as text, signed by `sign`.
pub(crate) fn compact(header: &str, claims: &str, sign: impl FnOnce(&[u8]) -> Vec<u8>) -> String {
    let signing_input = format!("{}.{}", encode(header.as_bytes()), encode(claims.as_bytes()));
    let signature = sign(signing_input.as_bytes());
    format!("{signing_input}.{}", encode(&signature))
}

/// A token signed with ES256 by the published key `p256`.
pub(crate) fn es256_token(claims: &Value) -> String {
    compact(r#"{"alg":"ES256","kid":"p256"}"#, &claims.to_string(), sign_es256)
}

pub(crate) fn sign_rs256(message: &[u8]) -> Vec<u8> {
    sign_rsa(&RSA, &signature::RSA_PKCS1_SHA256, message)
}

pub(crate) fn sign_rs384(message: &[u8]) -> Vec<u8> {
    sign_rsa(&RSA, &signature::RSA_PKCS1_SHA384, message)
}

pub(crate) fn sign_ps256(message: &[u8]) -> Vec<u8> {
    sign_rsa(&RSA, &signature::RSA_PSS_SHA256, message)
}

pub(crate) fn sign_rsa(
    key: &RsaKeyPair,
    encoding: &'static dyn RsaEncoding,
    message: &[u8],
) -> Vec<u8> {
    let mut signature = vec![0; key.public_modulus_len()];
    key.sign(encoding, &SystemRandom::new(), message, &mut signature).expect("RSA signs");
    signature
}

pub(crate) fn sign_es256(message: &[u8]) -> Vec<u8> {
    P256.sign(&SystemRandom::new(), message).expect("P-256 signs").as_ref().to_vec()
}

pub(crate) fn sign_es384(message: &[u8]) -> Vec<u8> {
    P384.sign(&SystemRandom::new(), message).expect("P-384 signs").as_ref().to_vec()
}

pub(crate) fn sign_eddsa(message: &[u8]) -> Vec<u8> {
    ED25519.sign(message).as_ref().to_vec()
}

pub(crate) fn policy() -> JwtPolicy {
    JwtPolicy::new(ISSUER, [AUDIENCE]).expect("the policy is sound")
}

/// Validates with the default policy, the published keys and the time [`NOW`].
pub(crate) fn validate(token: &str) -> Result<ValidatedToken, JwtError> {
    JwtValidator::new(policy()).validate(token, &PUBLISHED, NOW)
}

#[track_caller]
pub(crate) fn check_refused(token: &str, expected: JwtError) {
    assert_eq!(validate(token).expect_err("the token must be refused"), expected);
}

pub(crate) fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn rsa_key() -> RsaKeyPair {
    RsaKeyPair::generate(KeySize::Rsa2048).expect("a key is made")
}

fn ec_key(algorithm: &'static EcdsaSigningAlgorithm) -> EcdsaKeyPair {
    EcdsaKeyPair::generate(algorithm).expect("a key is made")
}
