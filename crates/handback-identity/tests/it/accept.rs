//! What must be accepted, and what is then known.

use handback_identity::{
    binding,
    jwt::{Algorithm, JwtPolicy, JwtValidator},
};
use serde_json::json;

use crate::support::*;

fn check_accepted(header: &str, sign: Sign) {
    let token = compact(header, &claims().to_string(), sign);
    let principal = validate(&token).expect(header).principal().clone();
    assert_eq!(principal.issuer(), Some(ISSUER));
    assert_eq!(principal.subject(), Some(SUBJECT));
}

#[test]
fn accepts_every_default_algorithm() {
    check_accepted(r#"{"alg":"RS256","kid":"rsa"}"#, sign_rs256);
    check_accepted(r#"{"alg":"PS256","kid":"rsa"}"#, sign_ps256);
    check_accepted(r#"{"alg":"ES256","kid":"p256"}"#, sign_es256);
    check_accepted(r#"{"alg":"ES384","kid":"p384"}"#, sign_es384);
    check_accepted(r#"{"alg":"EdDSA","kid":"ed25519"}"#, sign_eddsa);
}

#[test]
fn accepts_an_algorithm_that_the_policy_adds() {
    let token = compact(r#"{"alg":"RS384","kid":"rsa"}"#, &claims().to_string(), sign_rs384);
    assert!(validate(&token).is_err());
    let policy = policy().with_algorithms([Algorithm::Rs384]).unwrap();
    assert!(JwtValidator::new(policy).validate(&token, &PUBLISHED, NOW).is_ok());
}

#[test]
fn refreshed_token_is_the_same_principal() {
    let first = es256_token(&claims());
    let mut later = claims();
    later["iat"] = json!(NOW + 1_800);
    later["nbf"] = json!(NOW + 1_800);
    later["exp"] = json!(NOW + 7_200);
    later["jti"] = json!("second");
    let second = compact(r#"{"alg":"RS256","kid":"rsa"}"#, &later.to_string(), sign_rs256);

    let validator = JwtValidator::new(policy());
    let before = validator.validate(&first, &PUBLISHED, NOW).unwrap();
    let after = validator.validate(&second, &PUBLISHED, NOW + 2_000).unwrap();
    assert_ne!(first, second);
    assert_eq!(before.principal(), after.principal());
    assert!(binding::stored_matches(&before.principal().binding(), after.principal()));
    assert!(after.expires_at() > before.expires_at());
}

#[test]
fn other_subject_is_another_principal() {
    let alice = validate(&es256_token(&claims())).unwrap();
    let bob = validate(&es256_token(&claims_with("sub", json!("bob")))).unwrap();
    assert_ne!(alice.principal(), bob.principal());
    assert!(!binding::stored_matches(&alice.principal().binding(), bob.principal()));
}

#[test]
fn tells_scopes_and_expiry() {
    let token = validate(&es256_token(&claims())).unwrap();
    assert!(token.scopes().iter().eq(["read", "write"]));
    assert_eq!(token.expires_at(), NOW + 3_600);
}

#[test]
fn reads_scopes_in_the_forms_that_issuers_use() {
    let scopes = |name: &str, value| {
        let mut claims = claims_with("scope", json!(null));
        claims[name] = value;
        validate(&es256_token(&claims)).unwrap().scopes().iter().cloned().collect::<Vec<_>>()
    };
    assert_eq!(scopes("scp", json!("read write")), ["read", "write"]);
    assert_eq!(scopes("scp", json!(["write", "read"])), ["read", "write"]);
    assert_eq!(scopes("unrelated", json!(1)), Vec::<String>::new());
}

#[test]
fn accepts_one_of_several_audiences() {
    let listed = claims_with("aud", json!(["https://other.example", AUDIENCE]));
    assert!(validate(&es256_token(&listed)).is_ok());

    let policy = JwtPolicy::new(ISSUER, ["urn:a", AUDIENCE]).unwrap();
    let token = es256_token(&claims());
    assert!(JwtValidator::new(policy).validate(&token, &PUBLISHED, NOW).is_ok());
}

#[test]
fn accepts_a_token_without_key_id_if_the_set_has_one_key() {
    let token = compact(r#"{"alg":"ES256"}"#, &claims().to_string(), sign_es256);
    let alone = key_set([with_id(ec_jwk(&P256, "P-256"), "p256")]);
    assert!(JwtValidator::new(policy()).validate(&token, &alone, NOW).is_ok());
}

#[test]
fn accepts_the_required_type() {
    let policy = policy().with_required_type("at+jwt").unwrap();
    let validator = JwtValidator::new(policy);
    let header = r#"{"alg":"ES256","kid":"p256","typ":"application/at+jwt"}"#;
    let token = compact(header, &claims().to_string(), sign_es256);
    assert!(validator.validate(&token, &PUBLISHED, NOW).is_ok());
}

#[test]
fn accepts_dates_with_fractions() {
    let claims = claims_with("exp", json!(NOW as f64 + 10.75));
    assert_eq!(validate(&es256_token(&claims)).unwrap().expires_at(), NOW + 10);
}

#[test]
fn debug_of_a_validated_token_shows_no_personal_data() {
    let shown = format!("{:?}", validate(&es256_token(&claims())).unwrap());
    assert!(!shown.contains(SUBJECT) && !shown.contains(ISSUER), "{shown}");
}
