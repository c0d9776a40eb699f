//! Damaged and arbitrary tokens: refused every time, and never a panic.

use std::sync::LazyLock;

use handback_identity::jwt::{JwtValidator, KeySet};
use proptest::prelude::*;

use crate::support::*;

static VALID: LazyLock<String> = LazyLock::new(|| es256_token(&claims()));

fn check_every_flip(token: &str) {
    assert!(validate(token).is_ok());
    for at in 0..token.len() {
        for bit in 0..7 {
            let mut damaged = token.as_bytes().to_vec();
            damaged[at] ^= 1 << bit;
            let damaged = String::from_utf8(damaged).expect("ASCII stays ASCII");
            assert!(validate(&damaged).is_err(), "bit {bit} of byte {at}");
        }
    }
}

#[test]
fn refuses_every_truncation() {
    for len in 0..VALID.len() {
        assert!(validate(&VALID[..len]).is_err(), "{len}");
        assert!(validate(&VALID[VALID.len() - len..]).is_err(), "last {len}");
    }
}

#[test]
fn refuses_every_flip_of_an_es256_token() {
    check_every_flip(&VALID);
}

#[test]
fn refuses_every_flip_of_an_rs256_token() {
    let header = r#"{"alg":"RS256","kid":"rsa"}"#;
    check_every_flip(&compact(header, &claims().to_string(), sign_rs256));
}

#[test]
fn refuses_every_flip_of_an_eddsa_token() {
    let header = r#"{"alg":"EdDSA","kid":"ed25519"}"#;
    check_every_flip(&compact(header, &claims().to_string(), sign_eddsa));
}

#[test]
fn refuses_parts_of_two_valid_tokens() {
    let other = es256_token(&claims_with("sub", serde_json::json!("bob")));
    let (ours, theirs): (Vec<_>, Vec<_>) = (VALID.split('.').collect(), other.split('.').collect());
    assert!(validate(&[ours[0], theirs[1], ours[2]].join(".")).is_err());
    assert!(validate(&[ours[0], ours[1], theirs[2]].join(".")).is_err());
}

proptest! {
    #[test]
    fn arbitrary_text_is_refused(token in any::<String>()) {
        prop_assert!(validate(&token).is_err());
    }

    #[test]
    fn token_shaped_text_is_refused(token in "[A-Za-z0-9_-]{0,40}\\.[A-Za-z0-9_-]{0,40}\\.[A-Za-z0-9_-]{0,90}") {
        prop_assert!(validate(&token).is_err());
    }

    #[test]
    fn arbitrary_header_without_our_signature_is_refused(
        header in any::<Vec<u8>>(),
        alg in "[A-Za-z0-9]{0,6}",
    ) {
        let signature = encode(&[1; 64]);
        let claims = encode(claims().to_string().as_bytes());
        let token = format!("{}.{claims}.{signature}", encode(&header));
        prop_assert!(validate(&token).is_err());
        let header = format!(r#"{{"alg":"{alg}","kid":"p256"}}"#);
        let token = format!("{}.{claims}.{signature}", encode(header.as_bytes()));
        prop_assert!(validate(&token).is_err());
    }

    #[test]
    fn spliced_token_is_refused_unless_nothing_changed(
        at in any::<prop::sample::Index>(),
        removed in 0_usize..8,
        inserted in "[A-Za-z0-9_.=-]{0,8}",
    ) {
        let at = at.index(VALID.len());
        let end = (at + removed).min(VALID.len());
        let token = format!("{}{inserted}{}", &VALID[..at], &VALID[end..]);
        prop_assert_eq!(validate(&token).is_ok(), token == *VALID);
    }

    #[test]
    fn signed_claims_never_panic(claims in any::<Vec<u8>>(), now in any::<u64>()) {
        let header = encode(br#"{"alg":"EdDSA","kid":"ed25519"}"#);
        let message = format!("{header}.{}", encode(&claims));
        let token = format!("{message}.{}", encode(&sign_eddsa(message.as_bytes())));
        prop_assert!(JwtValidator::new(policy()).validate(&token, &PUBLISHED, now).is_err());
    }

    #[test]
    fn accepted_token_is_in_time(exp in any::<u32>(), nbf in any::<u32>(), now in any::<u32>()) {
        let (exp, nbf, now) = (u64::from(exp), u64::from(nbf), u64::from(now));
        let claims = serde_json::json!({
            "iss": ISSUER, "sub": SUBJECT, "aud": AUDIENCE, "exp": exp, "nbf": nbf, "iat": nbf,
        });
        let token = compact(r#"{"alg":"EdDSA","kid":"ed25519"}"#, &claims.to_string(), sign_eddsa);
        let accepted = JwtValidator::new(policy()).validate(&token, &PUBLISHED, now).is_ok();
        prop_assert_eq!(accepted, nbf <= now + 60 && now < exp + 60);
    }

    #[test]
    fn arbitrary_key_sets_never_panic(json in any::<Vec<u8>>(), text in any::<String>()) {
        let _ = KeySet::parse(&json);
        let _ = KeySet::parse(text.as_bytes());
        let _ = KeySet::parse(format!(r#"{{"keys":[{text}]}}"#).as_bytes());
    }
}
