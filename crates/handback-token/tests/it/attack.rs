//! What somebody without the key, or with somebody else's token, can try.

use handback_token::{
    ArgsFingerprint, Caller, Context, Cursor, KeyRing, KeyedPurpose, Mode, Operation, Reason,
    Resume, Retire, Sealer, SealerConfig, SlotNumber, State, UnixTime,
};
use proptest::prelude::*;

use crate::support::{
    ALICE, ARGUMENTS, ForPurpose, NOW, at, context, decode, encode, max_life_s, open, ring, rings,
    seal, sealer,
};

#[test]
fn opens_for_the_same_caller_tool_and_arguments() {
    struct Case;
    impl ForPurpose for Case {
        fn run<P: KeyedPurpose>(&mut self) {
            for ring in rings() {
                let sealer = sealer(&ring);
                for context in [context(), Context::new(Caller::UNAUTHENTICATED, Operation::List)] {
                    let text = seal::<P>(&sealer, &context, b"position");
                    let opened = open::<P>(&sealer, &context, &text, NOW);
                    assert_eq!(opened.as_deref(), Ok(b"position".as_slice()));
                }
            }
        }
    }
    Case.run_all();
}

#[test]
fn refuses_every_other_context_with_one_reason() {
    struct Case;
    impl ForPurpose for Case {
        fn run<P: KeyedPurpose>(&mut self) {
            let other_arguments = ArgsFingerprint::from_bytes([8; 32]);
            let base = |caller| {
                Context::new(caller, Operation::Call)
                    .name("orders.search")
                    .arguments(&ARGUMENTS)
                    .tenant("t")
                    .upstream("u")
                    .client("c")
            };
            let good = base(ALICE);
            let others = [
                (
                    "another caller",
                    base(Caller::dangerous_identified("https://accounts.example.com", "2")),
                ),
                (
                    "the same subject elsewhere",
                    base(Caller::dangerous_identified("https://evil.example", "248289761001")),
                ),
                (
                    "shifted boundary",
                    base(Caller::dangerous_identified(
                        "https://accounts.example.com2",
                        "48289761001",
                    )),
                ),
                (
                    "swapped halves",
                    base(Caller::dangerous_identified(
                        "248289761001",
                        "https://accounts.example.com",
                    )),
                ),
                ("unauthenticated", base(Caller::UNAUTHENTICATED)),
                ("another tool", good.name("orders.delete")),
                ("an empty name", good.name("")),
                ("other arguments", good.arguments(&other_arguments)),
                ("another tenant", good.tenant("x")),
                ("another upstream", good.upstream("x")),
                ("another client", good.client("x")),
                (
                    "another operation",
                    Context::new(ALICE, Operation::Query)
                        .name("orders.search")
                        .arguments(&ARGUMENTS)
                        .tenant("t")
                        .upstream("u")
                        .client("c"),
                ),
                (
                    "no name",
                    Context::new(ALICE, Operation::Call)
                        .arguments(&ARGUMENTS)
                        .tenant("t")
                        .upstream("u")
                        .client("c"),
                ),
                (
                    "no arguments",
                    Context::new(ALICE, Operation::Call)
                        .name("orders.search")
                        .tenant("t")
                        .upstream("u")
                        .client("c"),
                ),
                (
                    "tenant moved to upstream",
                    Context::new(ALICE, Operation::Call)
                        .name("orders.search")
                        .arguments(&ARGUMENTS)
                        .upstream("t")
                        .client("c"),
                ),
            ];
            for ring in rings() {
                let sealer = sealer(&ring);
                let text = seal::<P>(&sealer, &good, b"position");
                assert!(open::<P>(&sealer, &good, &text, NOW).is_ok());
                for (what, other) in &others {
                    assert_eq!(
                        open::<P>(&sealer, other, &text, NOW),
                        Err(Reason::NotOpened),
                        "{what}"
                    );
                }
                let config =
                    SealerConfig { audience: Some("elsewhere".into()), ..SealerConfig::default() };
                let elsewhere = Sealer::new(&ring, config).unwrap();
                assert_eq!(open::<P>(&elsewhere, &good, &text, NOW), Err(Reason::NotOpened));
            }
        }
    }
    Case.run_all();
}

#[test]
fn refuses_tokens_of_another_purpose() {
    for ring in rings() {
        let (sealer, context) = (sealer(&ring), context());
        let cursor = seal::<Cursor>(&sealer, &context, &[1; 40]);
        let state = seal::<State>(&sealer, &context, &[1; 40]);
        let resume = seal::<Resume>(&sealer, &context, &[1; 40]);
        for foreign in [&state, &resume] {
            assert_eq!(open::<Cursor>(&sealer, &context, foreign, NOW), Err(Reason::NotOpened));
        }
        for foreign in [&cursor, &resume] {
            assert_eq!(open::<State>(&sealer, &context, foreign, NOW), Err(Reason::NotOpened));
        }
        for foreign in [&cursor, &state] {
            assert_eq!(open::<Resume>(&sealer, &context, foreign, NOW), Err(Reason::NotOpened));
        }
    }
}

#[test]
fn refuses_every_flipped_bit() {
    struct Case;
    impl ForPurpose for Case {
        fn run<P: KeyedPurpose>(&mut self) {
            for ring in rings() {
                let sealer = sealer(&ring);
                let good = decode(&seal::<P>(&sealer, &context(), b"position"));
                for bit in 0..good.len() * 8 {
                    let mut edited = good.clone();
                    edited[bit / 8] ^= 1 << (bit % 8);
                    let reason = open::<P>(&sealer, &context(), &encode(&edited), NOW).unwrap_err();
                    if bit >= 8 {
                        assert_eq!(reason, Reason::NotOpened, "bit {bit}");
                    }
                }
            }
        }
    }
    Case.run_all();
}

#[test]
fn refuses_every_truncation_and_every_extension() {
    struct Case;
    impl ForPurpose for Case {
        fn run<P: KeyedPurpose>(&mut self) {
            for ring in rings() {
                let sealer = sealer(&ring);
                let text = seal::<P>(&sealer, &context(), b"position");
                let good = decode(&text);
                for len in 0..text.len() {
                    assert!(open::<P>(&sealer, &context(), &text[..len], NOW).is_err());
                }
                for len in 0..good.len() {
                    let reason = open::<P>(&sealer, &context(), &encode(&good[..len]), NOW);
                    let short = if good[0] >> 4 == 1 {
                        21
                    } else if good[0] >> 4 == 2 {
                        22
                    } else {
                        25
                    };
                    let expected = if len < short { Reason::Malformed } else { Reason::NotOpened };
                    assert_eq!(reason, Err(expected), "{len} bytes");
                }
                for extra in 0..=255 {
                    let mut longer = good.clone();
                    longer.push(extra);
                    let reason = open::<P>(&sealer, &context(), &encode(&longer), NOW);
                    assert_eq!(reason, Err(Reason::NotOpened));
                }
            }
        }
    }
    Case.run_all();
}

#[test]
fn refuses_every_other_spelling_of_the_same_bytes() {
    for ring in rings() {
        let sealer = sealer(&ring);
        for payload in [&b""[..], b"1", b"12", b"123"] {
            let text = seal::<Cursor>(&sealer, &context(), payload);
            let spellings = [
                format!("{text}="),
                format!("{text}=="),
                format!(" {text}"),
                format!("{text} "),
                format!("{text}\n"),
                format!("{text}\0"),
                text.replace('-', "+").replace('_', "/") + "+/",
            ];
            for other in spellings {
                let reason = open::<Cursor>(&sealer, &context(), &other, NOW);
                assert_eq!(reason, Err(Reason::Malformed), "{other}");
            }
            // All 63 other last characters: those with other tail bits are not canonical.
            let (front, last) = text.split_at(text.len() - 1);
            for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".chars()
            {
                let other = format!("{front}{letter}");
                let result = open::<Cursor>(&sealer, &context(), &other, NOW);
                assert_eq!(result.is_ok(), last == letter.to_string(), "{other}");
            }
        }
    }
}

#[test]
fn a_header_that_does_not_fit_its_slot_is_malformed() {
    let [sealed, signed] = rings();
    for (ring, wrong_forms) in [(&sealed, vec![1]), (&signed, vec![2, 3])] {
        let sealer = sealer(ring);
        let good = decode(&seal::<Cursor>(&sealer, &context(), &[9; 60]));
        for form in 0..16u8 {
            let mut edited = good.clone();
            edited[0] = (form << 4) | (good[0] & 15);
            let reason = open::<Cursor>(&sealer, &context(), &encode(&edited), NOW);
            if form == good[0] >> 4 {
                assert!(reason.is_ok());
            } else if matches!(form, 1..=3) && !wrong_forms.contains(&form) {
                assert_eq!(reason, Err(Reason::NotOpened), "form {form}: the other salt");
            } else {
                assert_eq!(reason, Err(Reason::Malformed), "form {form}");
            }
        }
        for slot in 1..16u8 {
            let mut edited = good.clone();
            edited[0] = (good[0] & 0xf0) | slot;
            let reason = open::<Cursor>(&sealer, &context(), &encode(&edited), NOW);
            assert_eq!(reason, Err(Reason::UnknownSlot));
        }
    }
}

#[test]
fn a_token_of_a_retired_key_is_expired_and_an_edited_one_is_not() {
    for mode in [Mode::Sealed, Mode::Signed] {
        let mut ring = ring(mode);
        let text = seal::<Cursor>(&sealer(&ring), &context(), b"x");
        ring.rotate(&mut rand::rng(), mode, NOW).unwrap();
        assert!(open::<Cursor>(&sealer(&ring), &context(), &text, NOW).is_ok());
        ring.retire(SlotNumber::FIRST, Retire::Immediately, NOW).unwrap();
        let retired = sealer(&ring);
        assert_eq!(open::<Cursor>(&retired, &context(), &text, NOW), Err(Reason::RetiredKey));
        assert_eq!(
            open::<Cursor>(&retired, &context(), &text, at(1_000_000)),
            Err(Reason::RetiredKey),
            "before the time is looked at"
        );
        let mut edited = decode(&text);
        *edited.last_mut().unwrap() ^= 1;
        assert_eq!(
            open::<Cursor>(&retired, &context(), &encode(&edited), NOW),
            Err(Reason::NotOpened)
        );
        ring.drop_slot(SlotNumber::FIRST, []).unwrap();
        assert_eq!(
            open::<Cursor>(&sealer(&ring), &context(), &text, NOW),
            Err(Reason::UnknownSlot)
        );
    }
}

#[test]
fn a_key_can_be_retired_only_when_no_token_of_it_opens_any_more() {
    let mut ring = ring(Mode::Sealed);
    let config = SealerConfig { cursor_ttl_s: 86_400, ..SealerConfig::default() };
    let sealer = Sealer::new(&ring, config).unwrap();
    let bound = sealer.bind::<Cursor>(&context()).unwrap();
    ring.rotate(&mut rand::rng(), Mode::Sealed, NOW).unwrap();
    // Minted in the second of the promotion, by a replica whose clock is a minute ahead.
    let token = bound.seal(&mut rand::rng(), at(60), b"x").unwrap();
    for seconds in (86_000..90_000).step_by(30) {
        let opens = bound.open(token.as_str(), at(seconds)).is_ok();
        let retires =
            ring.clone().retire(SlotNumber::FIRST, Retire::AfterLongestLife, at(seconds)).is_ok();
        assert!(!(opens && retires), "{seconds} s after the promotion");
    }
    ring.retire(SlotNumber::FIRST, Retire::AfterLongestLife, at(90_000)).unwrap();
}

#[test]
fn expiry_is_exact_to_the_second() {
    struct Case;
    impl ForPurpose for Case {
        fn run<P: KeyedPurpose>(&mut self) {
            for ring in rings() {
                let sealer = sealer(&ring);
                let text = seal::<P>(&sealer, &context(), b"x");
                let bound = sealer.bind::<P>(&context()).unwrap();
                let exp = bound.open(&text, NOW).unwrap().expires_at().as_secs();
                let open_at =
                    |second| open::<P>(&sealer, &context(), &text, UnixTime::from_secs(second));
                assert!(open_at(exp - 1).is_ok() && open_at(exp).is_ok());
                assert!(open_at(exp + 59).is_ok(), "60 s of skew");
                assert_eq!(open_at(exp + 60), Err(Reason::Expired));
                assert_eq!(open_at(u64::MAX), Err(Reason::Expired));
                assert_eq!(open_at(0), Err(Reason::TooFar), "made in the future");
            }
        }
    }
    Case.run_all();
}

#[test]
fn what_is_dated_too_far_ahead_is_refused_however_the_ttl_is_configured() {
    struct Case;
    impl ForPurpose for Case {
        fn run<P: KeyedPurpose>(&mut self) {
            let ring = ring(Mode::Sealed);
            let longest = SealerConfig {
                cursor_ttl_s: Cursor::MAX_LIFE_S,
                state_ttl_s: State::MAX_LIFE_S,
                resume_ttl_s: Resume::MAX_LIFE_S,
                audience: None,
            };
            let generous = Sealer::new(&ring, longest).unwrap();
            let strict =
                SealerConfig { cursor_ttl_s: 1, state_ttl_s: 1, resume_ttl_s: 1, audience: None };
            let strict = Sealer::new(&ring, strict).unwrap();
            let text = seal::<P>(&generous, &context(), b"x");
            for sealer in [&generous, &strict] {
                assert!(open::<P>(sealer, &context(), &text, NOW).is_ok());
                assert!(open::<P>(sealer, &context(), &text, at(-60)).is_ok(), "60 s of skew");
                assert_eq!(open::<P>(sealer, &context(), &text, at(-121)), Err(Reason::TooFar));
                let late = at(max_life_s::<P>() + 61);
                assert_eq!(open::<P>(sealer, &context(), &text, late), Err(Reason::Expired));
            }
        }
    }
    use handback_token::Purpose as _;
    Case.run_all();
}

#[test]
fn the_same_page_minted_again_is_the_same_text() {
    let ring = ring(Mode::Sealed);
    let sealer = sealer(&ring);
    let minute = UnixTime::from_secs(1_800_000_000 / 60 * 60 + 1);
    let bound = sealer.bind::<Cursor>(&context()).unwrap();
    let rng = &mut rand::rng();
    let first = bound.seal(rng, minute, b"x").unwrap();
    let again = bound.seal(rng, UnixTime::from_secs(minute.as_secs() + 58), b"x").unwrap();
    assert_eq!(first, again);
    let later = bound.seal(rng, UnixTime::from_secs(minute.as_secs() + 60), b"x").unwrap();
    assert_ne!(first, later);
    let opened = bound.open(first.as_str(), minute).unwrap();
    let second = bound.seal_after(&opened, rng, minute, b"x").unwrap();
    assert_ne!(first, second, "the salt goes on");
    assert_eq!(decode(first.as_str())[1], 0);
    assert_eq!(decode(second.as_str())[1], 1);
}

#[test]
fn an_unauthenticated_cursor_has_a_random_salt() {
    let ring = ring(Mode::Sealed);
    let sealer = sealer(&ring);
    let nobody = Context::new(Caller::UNAUTHENTICATED, Operation::Call).name("t");
    let (a, b) = (seal::<Cursor>(&sealer, &nobody, b"x"), seal::<Cursor>(&sealer, &nobody, b"x"));
    assert_ne!(a, b);
    assert_eq!(decode(&a)[0] >> 4, 3);
}

#[test]
fn sealed_tokens_show_nothing_of_their_payload() {
    let sealer = sealer(&ring(Mode::Sealed));
    let secret = b"patient 4711, born 1980-02-03";
    let token = decode(&seal::<Cursor>(&sealer, &context(), secret));
    assert!(!token.windows(8).any(|window| secret.windows(8).any(|part| part == window)));
}

#[test]
fn debug_shows_neither_token_nor_payload() {
    let sealer = sealer(&ring(Mode::Sealed));
    let bound = sealer.bind::<State>(&context()).unwrap();
    let token = bound.seal(&mut rand::rng(), NOW, b"payload").unwrap();
    let opened = bound.open(token.as_str(), NOW).unwrap();
    let shown = format!("{token:?} {opened:?} {bound:?} {sealer:?}");
    assert!(!shown.contains(token.as_str()) && !shown.contains("payload\""));
    assert!(shown.contains(&token.fingerprint().to_string()));
    for part in ["Opened {", "Bound {", "Sealer {", sealer.audience()] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
}

proptest! {
    #[test]
    fn what_was_sealed_opens(
        payload in proptest::collection::vec(any::<u8>(), 0..300),
        issuer in ".{0,40}", subject in ".{0,40}", name in ".{0,40}",
        arguments: [u8; 32], identified: bool, signed: bool, now in 100_000u64..4_000_000_000,
    ) {
        let now = UnixTime::from_secs(now);
        let rng = &mut rand::rng();
        let mode = if signed { Mode::Signed } else { Mode::Sealed };
        let sealer = sealer(&KeyRing::generate(rng, mode, now));
        let caller = if identified {
            Caller::dangerous_identified(&issuer, &subject)
        } else {
            Caller::UNAUTHENTICATED
        };
        let arguments = ArgsFingerprint::from_bytes(arguments);
        let context = Context::new(caller, Operation::Read).name(&name).arguments(&arguments);
        let bound = sealer.bind::<Cursor>(&context).unwrap();
        let token = bound.seal(rng, now, &payload).unwrap();
        prop_assert!(token.as_str().len() <= 512);
        let opened = bound.open(token.as_str(), now).unwrap();
        prop_assert_eq!(opened.payload(), payload.as_slice());
        let other = Context::new(caller, Operation::Call).name(&name).arguments(&arguments);
        prop_assert!(sealer.bind::<Cursor>(&other).unwrap().open(token.as_str(), now).is_err());
    }

    #[test]
    fn no_text_opens_or_panics(text in "[A-Za-z0-9_-]{0,200}") {
        let sealer = sealer(&ring(Mode::Sealed));
        prop_assert!(open::<State>(&sealer, &context(), &text, NOW).is_err());
    }

    #[test]
    fn no_bytes_open_or_panic(mut bytes in proptest::collection::vec(any::<u8>(), 1..200), form in 1u8..4) {
        bytes[0] = form << 4;
        for ring in rings() {
            prop_assert!(open::<Resume>(&sealer(&ring), &context(), &encode(&bytes), NOW).is_err());
        }
    }
}
