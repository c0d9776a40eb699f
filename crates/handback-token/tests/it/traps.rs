//! Traps that real projects fell into, each as a test. `docs/threat-model.md` lists them all.

use handback_token::ring::source::ATD_KEY_VARIABLE;
use handback_token::{
    Caller, Context, Cursor, KeyError, KeyRing, MasterKey, Mode, Operation, Reason, Retire, Sealer,
    SealerConfig, SlotNumber, State, args_fingerprint, signing_key_from_env_or_random,
};
use serde_json::json;

use crate::support::{
    ARGUMENTS, NOW, at, context, decode, encode, open, ring, rings, seal, sealer,
};

#[test]
fn trap_01_an_empty_or_short_tag_is_refused() {
    for ring in rings() {
        let sealer = sealer(&ring);
        let good = decode(&seal::<Cursor>(&sealer, &context(), b"position"));
        for tag_bytes in 0..16 {
            let cut = &good[..good.len() - 16 + tag_bytes];
            assert!(open::<Cursor>(&sealer, &context(), &encode(cut), NOW).is_err());
        }
    }
}

#[test]
fn trap_02_no_key_serves_two_purposes() {
    // A signed token's whole MAC input can be read; it is worthless under any other purpose.
    let sealer = sealer(&ring(Mode::Signed));
    let cursor = seal::<Cursor>(&sealer, &context(), &[0; 64]);
    assert_eq!(open::<State>(&sealer, &context(), &cursor, NOW), Err(Reason::NotOpened));
    // Nor does one master key give the same bytes in two modes.
    let secret = MasterKey::generate(&mut rand::rng());
    let signed = Sealer::new(&KeyRing::from_secret(&secret, Mode::Signed), SealerConfig::default());
    let sealed = Sealer::new(&KeyRing::from_secret(&secret, Mode::Sealed), SealerConfig::default());
    let text = seal::<Cursor>(&signed.unwrap(), &context(), &[0; 64]);
    assert_eq!(open::<Cursor>(&sealed.unwrap(), &context(), &text, NOW), Err(Reason::Malformed));
}

#[test]
fn trap_03_the_attacker_does_not_choose_the_answer() {
    // Whatever is changed in a token that does not verify, the answer is `invalid`, also long after
    // it expired and also under a retired key.
    for mut ring in rings() {
        let active = sealer(&ring);
        let good = decode(&seal::<Cursor>(&active, &context(), b"position"));
        ring.rotate(&mut rand::rng(), Mode::Sealed, NOW).unwrap();
        ring.retire(SlotNumber::FIRST, Retire::Immediately, NOW).unwrap();
        let retired = sealer(&ring);
        for place in 0..good.len() {
            for now in [NOW, at(1_000_000)] {
                let mut edited = good.clone();
                edited[place] ^= 0x80;
                let edited = encode(&edited);
                for sealer in [&active, &retired] {
                    let reason = open::<Cursor>(sealer, &context(), &edited, now).unwrap_err();
                    assert_eq!(reason.outside().as_str(), "invalid", "byte {place}");
                }
            }
        }
    }
}

#[test]
fn trap_04_no_zero_or_constant_key_is_reachable() {
    assert!(MasterKey::from_bytes(&[0; 32]).is_err());
    let zero = "A".repeat(43);
    assert!(MasterKey::from_text(&zero).is_err());
    let from_env = |value: &str| {
        let value = value.to_owned();
        signing_key_from_env_or_random(
            move |name| (name == ATD_KEY_VARIABLE).then(|| value.clone().into()),
            &mut rand::rng(),
        )
    };
    for bad in ["", " ", "short", &zero, &format!("{zero}="), "!!!!", &"A".repeat(1000)] {
        assert!(from_env(bad).is_err(), "{bad:?} must refuse to start");
    }
    let refused = |blocks| from_env(&"AbCd".repeat(blocks)).unwrap_err();
    assert_eq!(refused(64), KeyError::WrongLength { bytes: 192 });
    assert_eq!(refused(65), KeyError::NotBase64, "a long text is not decoded");
    assert!(from_env("MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY").is_ok());
    assert!(from_env(" MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\n").is_ok());
    let unset = |_: &str| None;
    let (one, other) = (
        signing_key_from_env_or_random(unset, &mut rand::rng()).unwrap(),
        signing_key_from_env_or_random(unset, &mut rand::rng()).unwrap(),
    );
    let (one, other) = (one.into_ring(Mode::Sealed), other.into_ring(Mode::Sealed));
    assert_ne!(one.id(), other.id());
}

#[test]
fn trap_05_replicas_that_share_a_key_share_tokens() {
    let text = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY";
    let replica = || {
        let key = signing_key_from_env_or_random(|_| Some(text.into()), &mut rand::rng()).unwrap();
        sealer(&key.into_ring(Mode::Sealed))
    };
    let token = seal::<Cursor>(&replica(), &context(), b"position");
    assert_eq!(open::<Cursor>(&replica(), &context(), &token, NOW), Ok(b"position".to_vec()));
}

#[test]
fn trap_06_caller_and_arguments_are_bound_not_documented() {
    let sealer = sealer(&ring(Mode::Sealed));
    let token = seal::<Cursor>(&sealer, &context(), b"position");
    let mallory = Caller::dangerous_identified("https://accounts.example.com", "mallory");
    for caller in [mallory, Caller::UNAUTHENTICATED] {
        let other =
            Context::new(caller, Operation::Call).name("orders.search").arguments(&ARGUMENTS);
        assert_eq!(open::<Cursor>(&sealer, &other, &token, NOW), Err(Reason::NotOpened));
    }
    let arguments = args_fingerprint(&json!({"limit": 1}));
    let token = seal::<Cursor>(&sealer, &context().arguments(&arguments), b"position");
    for (same, value) in [
        (true, json!({"limit": 1.0})),
        (false, json!({"limit": 2})),
        (false, json!({"limit": "1"})),
        (false, json!({"limit": 1, "page": null})),
    ] {
        let other = args_fingerprint(&value);
        let opened = open::<Cursor>(&sealer, &context().arguments(&other), &token, NOW);
        assert_eq!(opened.is_ok(), same, "{value}");
    }
}

#[test]
fn trap_06_key_order_is_the_same_and_large_integers_stay_apart() {
    let parse = |text: &str| args_fingerprint(&serde_json::from_str(text).unwrap());
    assert_eq!(
        parse(r#"{"a":1,"b":[2,{"c":3,"d":4}]}"#),
        parse(r#"{ "b":[2.0,{"d":4,"c":3e0}], "a":1}"#)
    );
    assert_ne!(parse("9007199254740993"), parse("9007199254740992"));
    assert_ne!(parse("18446744073709551615"), parse("18446744073709551614"));
}

#[test]
fn trap_07_a_token_from_the_future_is_refused() {
    for ring in rings() {
        let sealer = sealer(&ring);
        let ten_years_ahead = at(10 * 365 * 86_400);
        let bound = sealer.bind::<State>(&context()).unwrap();
        let token = bound.seal(&mut rand::rng(), ten_years_ahead, b"x").unwrap();
        assert_eq!(open::<State>(&sealer, &context(), token.as_str(), NOW), Err(Reason::TooFar));
    }
}

#[test]
fn trap_08_a_ttl_of_zero_is_refused() {
    let config = SealerConfig { cursor_ttl_s: 0, ..SealerConfig::default() };
    assert!(Sealer::new(&ring(Mode::Sealed), config).is_err());
}

#[test]
fn trap_09_key_bytes_changed_later_change_nothing() {
    let mut bytes = *b"0123456789abcdef0123456789abcdef";
    let key = MasterKey::from_bytes(&bytes).unwrap();
    let sealer = sealer(&KeyRing::from_secret(&key, Mode::Sealed));
    let token = seal::<Cursor>(&sealer, &context(), b"x");
    bytes.fill(0);
    drop(key);
    assert!(open::<Cursor>(&sealer, &context(), &token, NOW).is_ok());
}

#[test]
fn trap_10_a_token_has_exactly_one_text() {
    for ring in rings() {
        let sealer = sealer(&ring);
        // 70 bytes: the last character has four unused bits.
        let text = seal::<Cursor>(&sealer, &context(), &[3; 48]);
        let (front, last) = text.split_at(text.len() - 1);
        let opens =
            ('A'..='Z').chain('a'..='z').chain('0'..='9').chain(['-', '_']).filter(|letter| {
                open::<Cursor>(&sealer, &context(), &format!("{front}{letter}"), NOW).is_ok()
            });
        assert_eq!(opens.collect::<String>(), last);
    }
}

#[test]
fn trap_11_a_replica_that_is_configured_differently_refuses() {
    let ring = ring(Mode::Sealed);
    let with = |audience: &str| {
        let config = SealerConfig { audience: Some(audience.into()), ..SealerConfig::default() };
        Sealer::new(&ring, config).unwrap()
    };
    let token = seal::<Cursor>(&with("a"), &context(), b"x");
    assert!(open::<Cursor>(&with("a"), &context(), &token, NOW).is_ok());
    assert_eq!(open::<Cursor>(&with("b"), &context(), &token, NOW), Err(Reason::NotOpened));
    assert_eq!(open::<Cursor>(&sealer(&ring), &context(), &token, NOW), Err(Reason::NotOpened));
    let loose = Context::new(Caller::UNAUTHENTICATED, Operation::Call).name("orders.search");
    assert_eq!(open::<Cursor>(&with("a"), &loose, &token, NOW), Err(Reason::NotOpened));
}

#[test]
fn trap_12_an_id_comes_only_out_of_a_token_that_opened() {
    // `TokenId` has no constructor: what a store marks as used was verified before.
    let sealer = sealer(&ring(Mode::Sealed));
    let bound = sealer.bind::<State>(&context()).unwrap();
    let token = bound.seal(&mut rand::rng(), NOW, b"x").unwrap();
    let id = bound.open(token.as_str(), NOW).unwrap().head().id();
    assert_eq!(id, bound.open(token.as_str(), NOW).unwrap().head().id());
    let mut forged = decode(token.as_str());
    *forged.last_mut().unwrap() ^= 1;
    assert!(bound.open(&encode(&forged), NOW).is_err());
}

#[test]
fn trap_16_an_empty_text_is_invalid_and_never_an_end_marker() {
    let sealer = sealer(&ring(Mode::Sealed));
    assert_eq!(open::<Cursor>(&sealer, &context(), "", NOW), Err(Reason::Malformed));
}

#[test]
fn trap_18_a_cursor_of_another_endpoint_is_an_error() {
    let sealer = sealer(&ring(Mode::Sealed));
    let orders = Context::new(Caller::UNAUTHENTICATED, Operation::Query).name("orders");
    let users = Context::new(Caller::UNAUTHENTICATED, Operation::Query).name("users");
    let token = seal::<Cursor>(&sealer, &orders, b"row 20");
    assert_eq!(open::<Cursor>(&sealer, &users, &token, NOW), Err(Reason::NotOpened));
}

#[test]
fn trap_19_refusals_look_alike_from_outside() {
    let sealer = sealer(&ring(Mode::Sealed));
    let bound = sealer.bind::<Cursor>(&context()).unwrap();
    let good = seal::<Cursor>(&sealer, &context(), b"x");
    let mut edited = decode(&good);
    *edited.last_mut().unwrap() ^= 1;
    let mut unknown_slot = decode(&good);
    unknown_slot[0] |= 5;
    let answers: Vec<String> =
        ["", "x", "====", &encode(&edited), &encode(&unknown_slot), &"A".repeat(9999)]
            .iter()
            .map(|text| bound.open(text, NOW).unwrap_err().to_string())
            .chain([bound.open(&good, at(-1_000_000)).unwrap_err().to_string()])
            .collect();
    assert!(answers.iter().all(|answer| answer == "invalid"), "{answers:?}");
}

#[test]
fn trap_20_an_oversized_token_is_refused_by_its_length() {
    let sealer = sealer(&ring(Mode::Sealed));
    let huge = "A".repeat(10_000_000);
    assert_eq!(open::<Cursor>(&sealer, &context(), &huge, NOW), Err(Reason::TooLong));
    assert_eq!(open::<State>(&sealer, &context(), &huge, NOW), Err(Reason::TooLong));
}
