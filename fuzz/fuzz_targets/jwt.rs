//! No text is a valid access token without the issuer's key.
#![no_main]

use std::sync::LazyLock;

use handback_fuzz::{ISSUER, NOW, encode};
use handback_identity::jwt::{JwtPolicy, JwtValidator, KeySet};
use libfuzzer_sys::fuzz_target;

static VALIDATOR: LazyLock<JwtValidator> =
    LazyLock::new(|| JwtValidator::new(JwtPolicy::new(ISSUER, ["handback"]).unwrap()));

/// The public key of RFC 8037, appendix A.2.
static KEYS: LazyLock<KeySet> = LazyLock::new(|| {
    let keys = br#"{"keys":[{"kty":"OKP","crv":"Ed25519","alg":"EdDSA","kid":"k",
        "x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;
    KeySet::parse(keys).unwrap()
});

fuzz_target!(|data: &[u8]| {
    let now = NOW.as_secs();
    assert!(VALIDATOR.validate(&String::from_utf8_lossy(data), &KEYS, now).is_err());
    let (header, claims) = data.split_at(data.len() / 2);
    let parts = format!("{}.{}.{}", encode(header), encode(claims), "A".repeat(86));
    assert!(VALIDATOR.validate(&parts, &KEYS, now).is_err());
    let signed =
        format!("{}.{}.{}", encode(br#"{"alg":"EdDSA","kid":"k"}"#), encode(data), "A".repeat(86));
    assert!(VALIDATOR.validate(&signed, &KEYS, now).is_err());
});
