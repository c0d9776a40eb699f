//! Request state: bindings, rounds, and what a handler can tell apart.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use handback_token::{
    ArgsFingerprint, Caller, EncodeStateError, MasterKey, Mode, Operation, Reason, RequestState,
    RequestStateBinding as Binding, RequestStateCodec, RequestStateConfigError, RequestStateKey,
    RequestStateMode, RequestStateScope, RequestStateSecurity, Retire, SealError, SlotNumber,
    UnixTime, generate_ephemeral_key, secure_request_state,
};

use crate::support::{ALICE, ARGUMENTS, NOW, at, ring};

const BINDINGS: [Binding; 4] =
    [Binding::None, Binding::Subject, Binding::SubjectAndTool, Binding::SubjectToolAndArguments];
const MODES: [RequestStateMode; 2] = [RequestStateMode::Signed, RequestStateMode::Encrypted];

fn scope<'a>() -> RequestStateScope<'a> {
    RequestStateScope {
        caller: ALICE,
        operation: Operation::Call,
        name: "pay",
        arguments: &ARGUMENTS,
    }
}

fn codec(secret: &MasterKey, mode: RequestStateMode, bind_to: Binding) -> RequestStateCodec {
    let key = RequestStateKey::Secret(secret.clone());
    let security = RequestStateSecurity { key, mode, ttl: Duration::from_secs(300), bind_to };
    secure_request_state(security, &mut rand::rng(), NOW).unwrap()
}

fn reason(state: RequestState) -> Option<Reason> {
    match state {
        RequestState::First => panic!("state was sent"),
        RequestState::Opened(_) => None,
        RequestState::Expired(refused) => {
            assert_eq!(refused.to_string(), "expired");
            Some(refused.reason())
        }
        RequestState::Refused(refused) => {
            assert_eq!(refused.to_string(), "invalid");
            Some(refused.reason())
        }
    }
}

#[test]
fn the_default_is_the_strictest() {
    let security = RequestStateSecurity::new(RequestStateKey::Ephemeral);
    assert_eq!(security.bind_to, Binding::SubjectToolAndArguments);
    assert_eq!(security.bind_to, Binding::default());
    assert_eq!(security.mode, RequestStateMode::Encrypted);
    assert_eq!(security.mode, RequestStateMode::default());
    assert_eq!(security.ttl, Duration::from_secs(300));
}

#[test]
fn each_binding_opens_where_it_should_and_nowhere_else() {
    let secret = generate_ephemeral_key(&mut rand::rng());
    let other_arguments = ArgsFingerprint::from_bytes([8; 32]);
    for mode in MODES {
        for (strictness, bind_to) in BINDINGS.into_iter().enumerate() {
            let codec = codec(&secret, mode, bind_to);
            let text = codec.encode(&mut rand::rng(), NOW, &scope(), b"asked").unwrap();
            let RequestState::Opened(opened) = codec.decode(Some(&text), &scope(), NOW) else {
                panic!("its own state opens");
            };
            assert_eq!((opened.state(), opened.head().born_at()), (&b"asked"[..], NOW));
            let bob = Caller::dangerous_identified("https://accounts.example.com", "bob");
            let others = [
                (1, RequestStateScope { caller: bob, ..scope() }),
                (1, RequestStateScope { caller: Caller::UNAUTHENTICATED, ..scope() }),
                (2, RequestStateScope { name: "refund", ..scope() }),
                (2, RequestStateScope { operation: Operation::Prompt, ..scope() }),
                (3, RequestStateScope { arguments: &other_arguments, ..scope() }),
            ];
            for (refused_from, other) in others {
                let expected = (strictness >= refused_from).then_some(Reason::NotOpened);
                assert_eq!(reason(codec.decode(Some(&text), &other, NOW)), expected, "{other:?}");
            }
        }
    }
}

#[test]
fn an_instance_with_another_binding_or_mode_refuses() {
    let secret = generate_ephemeral_key(&mut rand::rng());
    let nobody = RequestStateScope { caller: Caller::UNAUTHENTICATED, ..scope() };
    for mode in MODES {
        for made in BINDINGS {
            for scope in [scope(), nobody] {
                let text =
                    codec(&secret, mode, made).encode(&mut rand::rng(), NOW, &scope, b"x").unwrap();
                for opens in BINDINGS {
                    let result = codec(&secret, mode, opens).decode(Some(&text), &scope, NOW);
                    let expected = (made != opens).then_some(Reason::NotOpened);
                    assert_eq!(reason(result), expected, "{made:?} by {opens:?}");
                }
            }
        }
    }
    let text = codec(&secret, MODES[0], Binding::None)
        .encode(&mut rand::rng(), NOW, &scope(), b"x")
        .unwrap();
    let result = codec(&secret, MODES[1], Binding::None).decode(Some(&text), &scope(), NOW);
    assert_eq!(reason(result), Some(Reason::Malformed));
}

#[test]
fn none_sent_expired_and_refused_are_told_apart() {
    let secret = generate_ephemeral_key(&mut rand::rng());
    let codec = codec(&secret, RequestStateMode::Encrypted, Binding::default());
    assert!(matches!(codec.decode(None, &scope(), NOW), RequestState::First));
    let text = codec.encode(&mut rand::rng(), NOW, &scope(), b"x").unwrap();
    assert!(matches!(codec.decode(Some(&text), &scope(), at(300 + 60)), RequestState::Expired(_)));
    assert!(matches!(codec.decode(Some(""), &scope(), NOW), RequestState::Refused(_)));
    assert!(matches!(codec.decode(Some("v1.a.b"), &scope(), NOW), RequestState::Refused(_)));
}

#[test]
fn an_ephemeral_key_is_of_this_process_only() {
    let make = || {
        let security = RequestStateSecurity::new(RequestStateKey::Ephemeral);
        secure_request_state(security, &mut rand::rng(), NOW).unwrap()
    };
    let (one, other) = (make(), make());
    assert!(one.is_ephemeral());
    let text = one.encode(&mut rand::rng(), NOW, &scope(), b"x").unwrap();
    assert_eq!(reason(one.decode(Some(&text), &scope(), NOW)), None);
    assert_eq!(reason(other.decode(Some(&text), &scope(), NOW)), Some(Reason::NotOpened));
    let secret = generate_ephemeral_key(&mut rand::rng());
    assert!(!codec(&secret, MODES[0], Binding::None).is_ephemeral());
}

#[test]
fn replicas_with_one_secret_open_each_others_state() {
    let secret = generate_ephemeral_key(&mut rand::rng());
    for mode in MODES {
        let (one, other) =
            (codec(&secret, mode, Binding::default()), codec(&secret, mode, Binding::default()));
        let text = one.encode(&mut rand::rng(), NOW, &scope(), b"x").unwrap();
        assert_eq!(reason(other.decode(Some(&text), &scope(), NOW)), None);
    }
}

#[test]
fn an_exchange_ends_an_hour_after_it_began_however_often_it_goes_round() {
    let secret = generate_ephemeral_key(&mut rand::rng());
    let codec = codec(&secret, RequestStateMode::Encrypted, Binding::default());
    let rng = &mut rand::rng();
    let mut text = codec.encode(rng, NOW, &scope(), b"0").unwrap();
    let mut ids = Vec::new();
    for round in 1..100 {
        let now = at(round * 200);
        let RequestState::Opened(opened) = codec.decode(Some(&text), &scope(), now) else {
            panic!("round {round}");
        };
        assert_eq!(opened.head().born_at(), NOW);
        assert!(!ids.contains(&opened.head().id()), "every round has a new id");
        ids.push(opened.head().id());
        match codec.encode_after(&opened, rng, now, &scope(), b"again") {
            Ok(next) => text = next,
            Err(error) => {
                assert_eq!(error, EncodeStateError::Seal(SealError::LifeOver));
                assert_eq!(round, 18, "200 s × 18 is an hour");
                return;
            }
        }
    }
    panic!("the exchange never ended");
}

#[test]
fn the_last_round_expires_with_the_exchange() {
    let secret = generate_ephemeral_key(&mut rand::rng());
    let codec = codec(&secret, RequestStateMode::Signed, Binding::default());
    let rng = &mut rand::rng();
    let mut text = codec.encode(rng, NOW, &scope(), b"0").unwrap();
    for now in (240..3600).step_by(240).chain([3599]) {
        let RequestState::Opened(opened) = codec.decode(Some(&text), &scope(), at(now)) else {
            panic!("{now} s");
        };
        text = codec.encode_after(&opened, rng, at(now), &scope(), b"again").unwrap();
    }
    assert_eq!(reason(codec.decode(Some(&text), &scope(), at(3659))), None);
    assert_eq!(reason(codec.decode(Some(&text), &scope(), at(3660))), Some(Reason::Expired));
}

#[test]
fn ttls_of_zero_fractions_and_more_than_an_hour_are_refused() {
    for ttl in [
        Duration::ZERO,
        Duration::from_millis(500),
        Duration::from_millis(1_500),
        Duration::from_secs(3601),
        Duration::from_nanos(3_600_000_000_001),
        Duration::MAX,
    ] {
        let security =
            RequestStateSecurity { ttl, ..RequestStateSecurity::new(RequestStateKey::Ephemeral) };
        let error = secure_request_state(security, &mut rand::rng(), NOW).unwrap_err();
        assert_eq!(error, RequestStateConfigError::Ttl, "{ttl:?}");
    }
    for ttl in [Duration::from_secs(1), Duration::from_secs(3600)] {
        let security =
            RequestStateSecurity { ttl, ..RequestStateSecurity::new(RequestStateKey::Ephemeral) };
        assert!(secure_request_state(security, &mut rand::rng(), NOW).is_ok());
    }
}

#[test]
fn a_ring_rotates_under_request_state() {
    let mut ring = ring(Mode::Sealed);
    let make = |ring: &handback_token::KeyRing| {
        let key = RequestStateKey::Ring(Box::new(ring.clone()));
        secure_request_state(RequestStateSecurity::new(key), &mut rand::rng(), NOW)
    };
    let text = make(&ring).unwrap().encode(&mut rand::rng(), NOW, &scope(), b"x").unwrap();
    ring.rotate(&mut rand::rng(), Mode::Sealed, NOW).unwrap();
    assert_eq!(reason(make(&ring).unwrap().decode(Some(&text), &scope(), NOW)), None);
    ring.retire(SlotNumber::FIRST, Retire::Immediately, NOW).unwrap();
    assert_eq!(
        reason(make(&ring).unwrap().decode(Some(&text), &scope(), NOW)),
        Some(Reason::RetiredKey)
    );
    ring.rotate(&mut rand::rng(), Mode::Signed, NOW).unwrap();
    assert_eq!(make(&ring).unwrap_err(), RequestStateConfigError::Mode);
}

#[test]
fn the_largest_state_fits_and_one_byte_more_does_not() {
    let secret = generate_ephemeral_key(&mut rand::rng());
    for mode in MODES {
        let codec = codec(&secret, mode, Binding::default());
        let rng = &mut rand::rng();
        let too_large = codec.encode(rng, NOW, &scope(), &[0; 16 * 1024]).unwrap_err();
        let EncodeStateError::Seal(SealError::TooLarge { capacity, .. }) = too_large else {
            panic!("{too_large}");
        };
        let most = vec![1; capacity - 1];
        let text = codec.encode(rng, NOW, &scope(), &most).unwrap();
        assert!(text.len() > 16 * 1024 - 4 && text.len() <= 16 * 1024);
        let RequestState::Opened(opened) = codec.decode(Some(&text), &scope(), NOW) else {
            panic!("the largest opens");
        };
        assert_eq!(opened.state(), most);
        assert!(codec.encode(rng, NOW, &scope(), &vec![1; capacity]).is_err());
    }
}

#[test]
fn a_name_that_cannot_be_bound_is_refused_both_ways() {
    let secret = generate_ephemeral_key(&mut rand::rng());
    let codec = codec(&secret, RequestStateMode::Signed, Binding::default());
    let name = "x".repeat(70_000);
    let long = RequestStateScope { name: &name, ..scope() };
    let error = codec.encode(&mut rand::rng(), NOW, &long, b"x").unwrap_err();
    assert!(matches!(error, EncodeStateError::Context(_)));
    let text = codec.encode(&mut rand::rng(), NOW, &scope(), b"x").unwrap();
    assert_eq!(reason(codec.decode(Some(&text), &long, NOW)), Some(Reason::NotOpened));
}

#[test]
fn a_clock_outside_of_32_bits_mints_nothing() {
    let secret = generate_ephemeral_key(&mut rand::rng());
    let codec = codec(&secret, RequestStateMode::Signed, Binding::default());
    for now in [u64::from(u32::MAX) - 299, u64::from(u32::MAX) + 1, u64::MAX] {
        let error =
            codec.encode(&mut rand::rng(), UnixTime::from_secs(now), &scope(), b"x").unwrap_err();
        assert_eq!(error, EncodeStateError::Seal(SealError::Clock));
    }
    let last = UnixTime::from_secs(u64::from(u32::MAX) - 300);
    codec.encode(&mut rand::rng(), last, &scope(), b"x").unwrap();
}

/// Counts warnings that mention the process.
#[derive(Clone, Default)]
struct Warnings(Arc<AtomicUsize>);

impl tracing::Subscriber for Warnings {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN
    }

    fn event(&self, event: &tracing::Event<'_>) {
        struct Message<'a>(&'a AtomicUsize);
        impl tracing::field::Visit for Message<'_> {
            fn record_debug(&mut self, _: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                let text = format!("{value:?}");
                if text.contains("dies with this process") {
                    self.0.fetch_add(1, Ordering::SeqCst);
                }
            }
        }
        event.record(&mut Message(&self.0));
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn only_an_ephemeral_key_warns() {
    let warnings = Warnings::default();
    tracing::subscriber::with_default(warnings.clone(), || {
        let secret = generate_ephemeral_key(&mut rand::rng());
        for (key, expected) in [
            (RequestStateKey::Secret(secret), 0),
            (RequestStateKey::Ring(Box::new(ring(Mode::Sealed))), 0),
            (RequestStateKey::Ephemeral, 1),
        ] {
            let security = RequestStateSecurity::new(key);
            secure_request_state(security, &mut rand::rng(), NOW).unwrap();
            assert_eq!(warnings.0.load(Ordering::SeqCst), expected);
        }
    });
}
