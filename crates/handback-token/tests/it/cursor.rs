//! The cursor issuer of a call.

use handback_token::{
    Caller, Context, Cursor, CursorError, CursorIssuer, CursorPayload, ERR_CURSOR_EXPIRED,
    ERR_CURSOR_INVALID, MAX_CONTEXT_FIELD_BYTES, MAX_CURSOR_BYTES, MAX_OPAQUE_STATE_BYTES,
    Operation, Reason, Sealer, SealerConfig,
};

use crate::support::{ALICE, ARGUMENTS, NOW, at, context, rings, seal, sealer};

fn issuer<'s>(sealer: &'s Sealer, context: &Context<'_>) -> CursorIssuer<'s> {
    CursorIssuer::new(sealer.bind::<Cursor>(context).unwrap(), NOW)
}

#[test]
fn a_walk_counts_its_pages() {
    for ring in rings() {
        let sealer = sealer(&ring);
        let issuer = issuer(&sealer, &context());
        let rng = &mut rand::rng();
        let mut payload = CursorPayload::first(*b"0");
        for page in 1..=600u32 {
            assert_eq!(payload.page_index, page);
            let text = issuer.issue(rng, &payload).unwrap();
            let verified = issuer.verify(&text).unwrap();
            assert_eq!(
                (verified.page_index, &verified.opaque_state),
                (payload.page_index, &payload.opaque_state)
            );
            payload = verified.next(page.to_string());
        }
    }
}

#[test]
fn salts_go_round_along_a_walk() {
    let [ring, _] = rings();
    let sealer = sealer(&ring);
    let issuer = issuer(&sealer, &context());
    let rng = &mut rand::rng();
    let mut payload = CursorPayload::first(*b"same");
    for page in 0..300usize {
        let text = issuer.issue(rng, &payload).unwrap();
        assert_eq!(usize::from(crate::support::decode(&text)[1]), page % 256);
        payload = issuer.verify(&text).unwrap().next(*b"same");
    }
}

#[test]
fn all_256_bytes_of_state_fit_for_every_context() {
    let long = "x".repeat(MAX_CONTEXT_FIELD_BYTES);
    let contexts = [
        context(),
        Context::new(Caller::UNAUTHENTICATED, Operation::Query),
        Context::new(Caller::dangerous_identified(&long, &long), Operation::Duplex)
            .name(&long)
            .arguments(&ARGUMENTS)
            .tenant(&long)
            .upstream(&long)
            .client(&long),
    ];
    for ring in rings() {
        let config = SealerConfig { audience: Some(long.clone()), ..SealerConfig::default() };
        let sealer = Sealer::new(&ring, config).unwrap();
        for context in &contexts {
            let issuer = issuer(&sealer, context);
            let mut payload = CursorPayload::first([0xff; MAX_OPAQUE_STATE_BYTES]);
            payload.page_index = u32::MAX;
            let text = issuer.issue(&mut rand::rng(), &payload).unwrap();
            assert!(text.len() <= MAX_CURSOR_BYTES);
            let verified = issuer.verify(&text).unwrap();
            assert_eq!(verified.opaque_state, payload.opaque_state);
            assert_eq!(verified.next(*b"").page_index, u32::MAX);
            payload.opaque_state.push(0);
            assert_eq!(
                issuer.issue(&mut rand::rng(), &payload),
                Err(CursorError::OpaqueStateTooLarge(257))
            );
        }
    }
}

#[test]
fn codes_tell_expired_from_invalid_and_nothing_else() {
    for ring in rings() {
        let sealer = sealer(&ring);
        let issuer = issuer(&sealer, &context());
        let text = issuer.issue(&mut rand::rng(), &CursorPayload::first(*b"x")).unwrap();
        let late = CursorIssuer::new(sealer.bind(&context()).unwrap(), at(100_000));
        let expired = late.verify(&text).unwrap_err();
        assert_eq!(
            (expired.code(), expired.reason(), expired.to_string().as_str()),
            (ERR_CURSOR_EXPIRED, Some(Reason::Expired), "cursor expired")
        );
        let other = context().name("other");
        for (issuer, text) in [
            (CursorIssuer::new(sealer.bind(&other).unwrap(), NOW), text.as_str()),
            (CursorIssuer::new(sealer.bind(&other).unwrap(), at(100_000)), text.as_str()),
            (CursorIssuer::new(sealer.bind(&other).unwrap(), NOW), "nonsense"),
            (CursorIssuer::new(sealer.bind(&other).unwrap(), NOW), ""),
        ] {
            let invalid = issuer.verify(text).unwrap_err();
            assert_eq!(
                (invalid.code(), invalid.to_string().as_str()),
                (ERR_CURSOR_INVALID, "cursor invalid")
            );
        }
        assert_eq!((ERR_CURSOR_EXPIRED, ERR_CURSOR_INVALID), (1020, 1021));
        assert_eq!(CursorError::OpaqueStateTooLarge(300).code(), 1021);
    }
}

#[test]
fn a_token_that_is_not_a_cursor_of_the_issuer_is_invalid() {
    for ring in rings() {
        let sealer = sealer(&ring);
        for payload in [&b""[..], &[0x80], &[0x80, 0x00], &[1; 258]] {
            let text = seal::<Cursor>(&sealer, &context(), payload);
            let error = issuer(&sealer, &context()).verify(&text).unwrap_err();
            assert_eq!((error.code(), error.reason()), (1021, Some(Reason::Malformed)));
        }
    }
}

#[test]
fn the_standard_cursor_has_at_most_96_characters() {
    let context = Context::new(
        Caller::dangerous_identified(
            "https://identity.example.com/re1",
            "auth0|0123456789abcdef01",
        ),
        Operation::Call,
    )
    .name("warehouse.inventory.list")
    .arguments(&ARGUMENTS);
    for ring in rings() {
        let sealer = sealer(&ring);
        assert!(seal::<Cursor>(&sealer, &context, &[0; 48]).len() <= 94);
        let issued = issuer(&sealer, &context)
            .issue(&mut rand::rng(), &CursorPayload::first([0; 48]))
            .unwrap();
        assert!(issued.len() <= 95, "{}", issued.len());
    }
    assert!(ALICE.is_identified());
}
