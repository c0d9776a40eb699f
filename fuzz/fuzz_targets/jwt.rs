//! No text is a valid access token without the issuer's key, and with it only what the policy allows.
#![no_main]

use std::sync::LazyLock;

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use handback_fuzz::{ISSUER, KEY, NOW, encode};
use handback_identity::jwt::{JwtPolicy, JwtValidator, KeySet};
use libfuzzer_sys::fuzz_target;

static VALIDATOR: LazyLock<JwtValidator> =
    LazyLock::new(|| JwtValidator::new(JwtPolicy::new(ISSUER, ["handback"]).unwrap()));

static PAIR: LazyLock<Ed25519KeyPair> =
    LazyLock::new(|| Ed25519KeyPair::from_seed_unchecked(&KEY).unwrap());

static KEYS: LazyLock<KeySet> = LazyLock::new(|| {
    let public = encode(PAIR.public_key().as_ref());
    let keys = format!(
        r#"{{"keys":[{{"kty":"OKP","crv":"Ed25519","alg":"EdDSA","kid":"k","x":"{public}"}}]}}"#
    );
    KeySet::parse(keys.as_bytes()).unwrap()
});

fuzz_target!(|data: &[u8]| {
    let now = NOW.as_secs();
    assert!(VALIDATOR.validate(&String::from_utf8_lossy(data), &KEYS, now).is_err());
    let (header, claims) = data.split_at(data.len() / 2);
    let unsigned = format!("{}.{}.{}", encode(header), encode(claims), "A".repeat(86));
    assert!(VALIDATOR.validate(&unsigned, &KEYS, now).is_err());
    // Any claims behind a signature that verifies.
    let signed = format!("{}.{}", encode(br#"{"alg":"EdDSA","kid":"k"}"#), encode(data));
    let signature = encode(PAIR.sign(signed.as_bytes()).as_ref());
    if let Ok(token) = VALIDATOR.validate(&format!("{signed}.{signature}"), &KEYS, now) {
        assert_eq!(token.principal().issuer(), Some(ISSUER));
        assert!(token.expires_at() + 60 > now);
    }
});
