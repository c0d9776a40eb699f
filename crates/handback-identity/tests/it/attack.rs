//! What must be refused, one test per attack.

use aws_lc_rs::{
    encoding::{AsDer as _, PublicKeyX509Der},
    hmac,
    signature::{self, KeyPair as _},
};
use handback_identity::{
    binding,
    jwt::{JwtError, JwtPolicy, JwtValidator, KeySet, MAX_TOKEN_BYTES},
};
use serde_json::{Value, json};

use crate::support::*;

fn check_claim(name: &str, value: Value, expected: JwtError) {
    let shown = value.to_string();
    let refused = validate(&es256_token(&claims_with(name, value))).expect_err(&shown);
    assert_eq!(refused, expected, "{name}: {shown}");
}

#[test]
fn refuses_alg_none() {
    for alg in ["none", "None", "NONE", "nOnE", "none ", "", "null"] {
        let header = json!({ "alg": alg }).to_string();
        let unsigned = compact(&header, &claims().to_string(), |_| vec![]);
        check_refused(&unsigned, JwtError::AlgorithmNotAllowed);
        let signed = compact(&header, &claims().to_string(), sign_es256);
        check_refused(&signed, JwtError::AlgorithmNotAllowed);
    }
}

#[test]
fn refuses_a_header_without_alg() {
    for header in ["{}", r#"{"kid":"p256"}"#, r#"{"alg":null}"#, r#"{"alg":["ES256"]}"#] {
        check_refused(
            &compact(header, &claims().to_string(), sign_es256),
            JwtError::MalformedHeader,
        );
    }
}

#[test]
fn refuses_hs256_signed_with_rsa_public_key() {
    let public = RSA.public_key();
    let x509: PublicKeyX509Der<'_> = public.as_der().unwrap();
    let jwk = rsa_jwk(&RSA).to_string();
    let secrets: [&[u8]; 4] = [
        public.as_ref(),
        x509.as_ref(),
        public.modulus().big_endian_without_leading_zero(),
        jwk.as_bytes(),
    ];
    for secret in secrets {
        for (name, algorithm) in [
            ("HS256", hmac::HMAC_SHA256),
            ("HS384", hmac::HMAC_SHA384),
            ("HS512", hmac::HMAC_SHA512),
        ] {
            let header = json!({ "alg": name, "kid": "rsa" }).to_string();
            let token = compact(&header, &claims().to_string(), |message| {
                hmac::sign(&hmac::Key::new(algorithm, secret), message).as_ref().to_vec()
            });
            check_refused(&token, JwtError::AlgorithmNotAllowed);
        }
    }
}

#[test]
fn refuses_a_key_of_another_type() {
    let check = |header: &str, sign: Sign| {
        check_refused(&compact(header, &claims().to_string(), sign), JwtError::KeyMismatch);
    };
    check(r#"{"alg":"ES256","kid":"rsa"}"#, sign_rs256);
    check(r#"{"alg":"RS256","kid":"p256"}"#, sign_es256);
    check(r#"{"alg":"EdDSA","kid":"p256"}"#, sign_es256);
    check(r#"{"alg":"ES256","kid":"ed25519"}"#, sign_eddsa);
    check(r#"{"alg":"ES256","kid":"p384"}"#, sign_es384);
    check(r#"{"alg":"ES384","kid":"p256"}"#, sign_es256);
}

#[test]
fn refuses_an_algorithm_that_the_key_is_not_for() {
    let mut jwk = with_id(rsa_jwk(&RSA), "rsa");
    jwk["alg"] = json!("PS256");
    let keys = key_set([jwk]);
    let validator = JwtValidator::new(policy());
    let token = compact(r#"{"alg":"RS256","kid":"rsa"}"#, &claims().to_string(), sign_rs256);
    let refused = validator.validate(&token, &keys, NOW).unwrap_err();
    assert_eq!(refused, JwtError::KeyMismatch);
    let token = compact(r#"{"alg":"PS256","kid":"rsa"}"#, &claims().to_string(), sign_ps256);
    assert!(validator.validate(&token, &keys, NOW).is_ok());
}

#[test]
fn refuses_one_rsa_padding_under_the_name_of_the_other() {
    let check = |header: &str, sign: Sign| {
        check_refused(&compact(header, &claims().to_string(), sign), JwtError::BadSignature);
    };
    check(r#"{"alg":"RS256","kid":"rsa"}"#, sign_ps256);
    check(r#"{"alg":"PS256","kid":"rsa"}"#, sign_rs256);
}

#[test]
fn refuses_a_foreign_key_under_a_known_id() {
    let token = compact(r#"{"alg":"RS256","kid":"rsa"}"#, &claims().to_string(), |message| {
        sign_rsa(&OTHER_RSA, &signature::RSA_PKCS1_SHA256, message)
    });
    check_refused(&token, JwtError::BadSignature);
}

#[test]
fn never_tries_the_keys_that_are_not_named() {
    let keys = key_set([with_id(rsa_jwk(&OTHER_RSA), "a"), with_id(rsa_jwk(&RSA), "b")]);
    let validate = |header: &str| {
        let token = compact(header, &claims().to_string(), sign_rs256);
        JwtValidator::new(policy()).validate(&token, &keys, NOW).map(|_| ())
    };
    assert_eq!(validate(r#"{"alg":"RS256","kid":"b"}"#), Ok(()));
    assert_eq!(validate(r#"{"alg":"RS256","kid":"a"}"#), Err(JwtError::BadSignature));
    assert_eq!(validate(r#"{"alg":"RS256"}"#), Err(JwtError::AmbiguousKey));
}

#[test]
fn unknown_key_is_told_apart() {
    for kid in ["rotated", "", "RSA", "rsa ", "../rsa", "rsa\0"] {
        let header = json!({ "alg": "RS256", "kid": kid }).to_string();
        check_refused(&compact(&header, &claims().to_string(), sign_rs256), JwtError::UnknownKey);
    }
    let none = KeySet::parse(br#"{"keys":[]}"#).unwrap();
    let validator = JwtValidator::new(policy());
    let refused = validator.validate(&es256_token(&claims()), &none, NOW).unwrap_err();
    assert_eq!(refused, JwtError::UnknownKey);
}

#[test]
fn never_uses_a_key_that_the_token_brings() {
    let foreign = |message: &[u8]| sign_rsa(&OTHER_RSA, &signature::RSA_PKCS1_SHA256, message);
    let mut header = json!({
        "alg": "RS256",
        "jwk": with_id(rsa_jwk(&OTHER_RSA), "rsa"),
        "jku": "https://attacker.example/keys",
        "x5u": "https://attacker.example/chain",
        "x5c": ["AAAA"],
    });
    check_refused(
        &compact(&header.to_string(), &claims().to_string(), foreign),
        JwtError::AmbiguousKey,
    );
    header["kid"] = json!("rsa");
    check_refused(
        &compact(&header.to_string(), &claims().to_string(), foreign),
        JwtError::BadSignature,
    );
    // They are ignored, not refused: with the right signature the token is as good as without.
    let token = compact(&header.to_string(), &claims().to_string(), sign_rs256);
    assert!(validate(&token).is_ok());
}

#[test]
fn refuses_critical_extensions() {
    for crit in [json!(["b64"]), json!(["exp"]), json!([]), json!(null), json!("b64")] {
        let header =
            json!({ "alg": "ES256", "kid": "p256", "b64": false, "crit": crit }).to_string();
        let token = compact(&header, &claims().to_string(), sign_es256);
        check_refused(&token, JwtError::CriticalExtension);
    }
}

#[test]
fn refuses_another_type_when_one_is_required() {
    let validator = JwtValidator::new(policy().with_required_type("at+jwt").unwrap());
    for header in [
        r#"{"alg":"ES256","kid":"p256"}"#,
        r#"{"alg":"ES256","kid":"p256","typ":"JWT"}"#,
        r#"{"alg":"ES256","kid":"p256","typ":"dpop+jwt"}"#,
        r#"{"alg":"ES256","kid":"p256","typ":""}"#,
    ] {
        let token = compact(header, &claims().to_string(), sign_es256);
        let refused = validator.validate(&token, &PUBLISHED, NOW).unwrap_err();
        assert_eq!(refused, JwtError::WrongType, "{header}");
    }
}

#[test]
fn refuses_members_given_twice() {
    let claims = claims().to_string();
    for header in [
        r#"{"alg":"none","alg":"ES256","kid":"p256"}"#,
        r#"{"alg":"ES256","kid":"x","kid":"p256"}"#,
    ] {
        check_refused(&compact(header, &claims, sign_es256), JwtError::MalformedHeader);
    }
    let header = r#"{"alg":"ES256","kid":"p256"}"#;
    for member in [r#""sub":"bob""#, r#""exp":9999999999"#, r#""s\u0075b":"bob""#] {
        let doubled = claims.replacen('{', &format!("{{{member},"), 1);
        check_refused(&compact(header, &doubled, sign_es256), JwtError::MalformedClaims);
    }
}

#[test]
fn refuses_wrong_issuer() {
    for iss in [
        json!("https://id.example/"),
        json!("https://ID.example"),
        json!("https://id.example:443"),
        json!("http://id.example"),
        json!("https://id.example.attacker.example"),
        json!("https://id.example\0"),
        json!(""),
        json!(null),
    ] {
        check_claim("iss", iss, JwtError::WrongIssuer);
    }
    check_claim("iss", json!([ISSUER]), JwtError::MalformedClaims);
}

#[test]
fn refuses_foreign_audience() {
    for aud in [
        json!("https://other.example"),
        json!(["https://other.example", "https://third.example"]),
        json!("https://tools.example/"),
        json!("https://tools.example https://other.example"),
        json!([]),
        json!(""),
        json!(null),
    ] {
        check_claim("aud", aud, JwtError::ForeignAudience);
    }
    check_claim("aud", json!({ "aud": AUDIENCE }), JwtError::MalformedClaims);
    check_claim("aud", json!([AUDIENCE, 7]), JwtError::MalformedClaims);
}

#[test]
fn refuses_expired() {
    check_claim("exp", json!(NOW - 60), JwtError::Expired);
    check_claim("exp", json!(NOW - 3_600), JwtError::Expired);
    check_claim("exp", json!(0), JwtError::Expired);
    assert!(validate(&es256_token(&claims_with("exp", json!(NOW - 59)))).is_ok());
}

#[test]
fn token_expires_as_time_passes() {
    let token = es256_token(&claims());
    let validator = JwtValidator::new(policy().with_skew(0).unwrap());
    assert!(validator.validate(&token, &PUBLISHED, NOW + 3_599).is_ok());
    let refused = validator.validate(&token, &PUBLISHED, NOW + 3_600).unwrap_err();
    assert_eq!(refused, JwtError::Expired);
    let refused = validator.validate(&token, &PUBLISHED, u64::MAX).unwrap_err();
    assert_eq!(refused, JwtError::Expired);
}

#[test]
fn refuses_missing_exp() {
    check_claim("exp", json!(null), JwtError::MissingExpiry);
}

#[test]
fn refuses_senseless_dates() {
    let exp_is = |exp: &str| {
        let claims = claims_with("exp", json!(null)).to_string();
        let claims = claims.replacen('{', &format!("{{\"exp\":{exp},"), 1);
        compact(r#"{"alg":"ES256","kid":"p256"}"#, &claims, sign_es256)
    };
    for exp in [
        "-1",
        "1e300",
        "1e400",
        "18446744073709551615",
        "99999999999999999999999",
        "1800003600000",
        "\"1800003600\"",
        "true",
        "null",
        "NaN",
        "Infinity",
        "[1800003600]",
    ] {
        check_refused(&exp_is(exp), JwtError::MalformedClaims);
    }
    assert!(validate(&exp_is("1.8000036e9")).is_ok());
}

#[test]
fn refuses_far_future_iat() {
    check_claim("iat", json!(NOW + 61), JwtError::IssuedInFuture);
    check_claim("iat", json!(NOW + 86_400 * 365), JwtError::IssuedInFuture);
    check_claim("iat", json!(-5), JwtError::MalformedClaims);
    assert!(validate(&es256_token(&claims_with("iat", json!(NOW + 60)))).is_ok());
    assert!(validate(&es256_token(&claims_with("iat", json!(null)))).is_ok());
}

#[test]
fn refuses_future_nbf() {
    check_claim("nbf", json!(NOW + 61), JwtError::NotYetValid);
    assert!(validate(&es256_token(&claims_with("nbf", json!(NOW + 60)))).is_ok());
    assert!(validate(&es256_token(&claims_with("nbf", json!(null)))).is_ok());
}

#[test]
fn refuses_unusable_subject() {
    for sub in [json!(null), json!(""), json!("a\0b"), json!("\0"), json!("x".repeat(1_025))] {
        check_claim("sub", sub, JwtError::InvalidSubject);
    }
    check_claim("sub", json!(7), JwtError::MalformedClaims);
    let longest = es256_token(&claims_with("sub", json!("x".repeat(1_024))));
    assert!(validate(&longest).is_ok());
}

#[test]
fn subject_can_not_pose_as_the_sentinel_or_as_a_socket_peer() {
    let token = es256_token(&claims_with("sub", json!("unauthenticated")));
    let principal = validate(&token).unwrap().principal().clone();
    assert!(!principal.is_unauthenticated());
    assert!(!binding::is_unauthenticated(&principal.binding()));
    assert!(JwtPolicy::new("unix:host", [AUDIENCE]).is_err());
}

#[test]
fn refuses_malformed_scopes() {
    check_claim("scope", json!("read\twrite"), JwtError::InvalidScopes);
    check_claim("scp", json!(["read write"]), JwtError::InvalidScopes);
    check_claim("scope", json!("x".repeat(257)), JwtError::InvalidScopes);
    check_claim("scope", json!({ "read": true }), JwtError::MalformedClaims);
    check_claim("scp", json!([true]), JwtError::MalformedClaims);
}

#[test]
fn refuses_huge_token_before_decoding() {
    // With a valid token in front, and in one part: neither is looked at.
    let valid = es256_token(&claims());
    let huge = valid.clone() + &"A".repeat(10_000_000);
    check_refused(&huge, JwtError::TooLong);
    check_refused(&"A".repeat(10_000_000), JwtError::TooLong);
    check_refused(&".".repeat(10_000_000), JwtError::TooLong);
}

#[test]
fn length_bound_is_inclusive() {
    let padded = |pad: usize| es256_token(&claims_with("pad", json!("x".repeat(pad))));
    // Three bytes of claims are four characters of the token.
    let short = padded(0).len();
    let pad = (MAX_TOKEN_BYTES - short) / 4 * 3;
    let longest = (0..).map(|more| padded(pad - 8 + more)).find(|t| t.len() >= MAX_TOKEN_BYTES - 1);
    let longest = longest.unwrap();
    assert!(longest.len() <= MAX_TOKEN_BYTES);
    assert!(validate(&longest).is_ok());
    check_refused(&padded(pad + 8), JwtError::TooLong);
}

#[test]
fn refuses_other_numbers_of_parts() {
    let token = es256_token(&claims());
    let (signing_input, signature) = token.rsplit_once('.').unwrap();
    for token in [
        String::new(),
        ".".to_owned(),
        signing_input.to_owned(),
        format!("{token}."),
        format!(".{token}"),
        format!("{token}.{signature}"),
        format!("{signing_input}..{signature}"),
        format!("{token}.AAAA.AAAA"),
    ] {
        check_refused(&token, JwtError::Malformed);
    }
}

#[test]
fn refuses_empty_and_padded_parts() {
    let token = es256_token(&claims());
    let parts: Vec<_> = token.split('.').collect();
    let join =
        |header: &str, claims: &str, signature: &str| format!("{header}.{claims}.{signature}");
    check_refused(&join("", parts[1], parts[2]), JwtError::MalformedHeader);
    check_refused(&join(parts[0], "", parts[2]), JwtError::BadSignature);
    check_refused(&join(parts[0], parts[1], ""), JwtError::BadSignature);
    check_refused(&join(parts[0], parts[1], &format!("{}=", parts[2])), JwtError::Malformed);
    check_refused(&format!(" {token}"), JwtError::MalformedHeader);
    check_refused(&format!("{token}\n"), JwtError::Malformed);
    check_refused(&format!("Bearer {token}"), JwtError::MalformedHeader);
}

#[test]
fn signed_claims_that_are_not_an_object_are_refused() {
    for claims in ["", "null", "[]", "\"alice\"", "{", "{} {}", "\u{feff}{}"] {
        let token = compact(r#"{"alg":"ES256","kid":"p256"}"#, claims, sign_es256);
        check_refused(&token, JwtError::MalformedClaims);
    }
}

#[test]
fn claims_are_not_read_before_the_signature_holds() {
    // Expired, foreign and not even JSON: the answer is the same for all.
    for claims in [r#"{"exp":1}"#, r#"{"iss":"x"}"#, "nonsense"] {
        let token = compact(r#"{"alg":"ES256","kid":"p256"}"#, claims, |_| vec![7; 64]);
        check_refused(&token, JwtError::BadSignature);
    }
}

#[test]
fn verifies_the_published_example_of_rfc_8037() {
    // Appendix A.4, signed with the key of A.2. Its payload is no JSON, so that the outcome tells
    // whether the signature held.
    let keys = key_set([json!({
        "kty": "OKP",
        "crv": "Ed25519",
        "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
    })]);
    let validator = JwtValidator::new(policy());
    let good = "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc.\
        hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg";
    assert_eq!(validator.validate(good, &keys, NOW).unwrap_err(), JwtError::MalformedClaims);
    let bad = good.replace(".hgy", ".igy");
    assert_eq!(validator.validate(&bad, &keys, NOW).unwrap_err(), JwtError::BadSignature);
}

#[test]
fn failures_look_alike_from_outside() {
    let refused = [
        validate("").unwrap_err(),
        validate(&es256_token(&claims_with("exp", json!(1)))).unwrap_err(),
        validate(&es256_token(&claims_with("iss", json!("x")))).unwrap_err(),
        validate(&compact(r#"{"alg":"none"}"#, "{}", |_| vec![])).unwrap_err(),
    ];
    let mut reasons: Vec<_> = refused.iter().map(|error| error.reason()).collect();
    for error in refused {
        assert_eq!(error.to_string(), "invalid access token");
        assert!(std::error::Error::source(&error).is_none());
    }
    reasons.dedup();
    assert_eq!(reasons, ["malformed", "expired", "wrong_issuer", "algorithm_not_allowed"]);
}

#[test]
fn debug_of_an_error_shows_nothing_of_the_token() {
    let token = es256_token(&claims_with("exp", json!(1)));
    assert_eq!(format!("{:?}", validate(&token).unwrap_err()), "Expired");
}
