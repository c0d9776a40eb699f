//! `vectors/token-v1.json`, which an independent implementation made from the specification.

use std::convert::Infallible;

use rand_core::{TryCryptoRng, TryRng};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::cursor::{CursorIssuer, CursorPayload};
use crate::ring::Wrappable;
use crate::*;

/// Gives out the bytes that a vector says were drawn, and no more.
struct Drawn(Vec<u8>);

impl TryRng for Drawn {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        unreachable!("only bytes are drawn")
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        unreachable!("only bytes are drawn")
    }

    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), Infallible> {
        out.copy_from_slice(&self.0.drain(..out.len()).collect::<Vec<_>>());
        Ok(())
    }
}

impl TryCryptoRng for Drawn {}

fn vectors() -> Value {
    let text = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/token-v1.json"));
    serde_json::from_str(text).unwrap()
}

/// Runs a check over a section, and says which case failed.
fn each(section: &str, at_least: usize, check: impl Fn(&Value, &Value)) {
    let vectors = vectors();
    let cases = vectors[section].as_array().unwrap();
    assert!(cases.len() >= at_least, "{section} has {} cases", cases.len());
    for case in cases {
        let name =
            case["name"].as_str().or_else(|| case["text"].as_str()).unwrap_or_default().to_owned();
        let checked =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(&vectors, case)));
        assert!(checked.is_ok(), "{section}: {name}");
    }
}

fn text<'v>(case: &'v Value, member: &str) -> &'v str {
    case[member].as_str().unwrap_or_else(|| panic!("{member} is no text in {case}"))
}

fn bytes(case: &Value, member: &str) -> Vec<u8> {
    let digits = text(case, member);
    (0..digits.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap())
        .collect()
}

fn array<const N: usize>(case: &Value, member: &str) -> [u8; N] {
    bytes(case, member).try_into().unwrap()
}

fn time(case: &Value, member: &str) -> UnixTime {
    UnixTime::from_secs(case[member].as_u64().unwrap())
}

fn mode(name: &str) -> Mode {
    if name == "signed" { Mode::Signed } else { Mode::Sealed }
}

fn operation(case: &Value) -> Option<Operation> {
    let name = case["operation"].as_str()?;
    Operation::ALL.into_iter().find(|operation| operation.as_str() == name)
}

fn with_context<T>(case: &Value, work: impl FnOnce(&Context<'_>) -> T) -> T {
    let caller = match (case["issuer"].as_str(), case["subject"].as_str()) {
        (Some(issuer), Some(subject)) => Caller::dangerous_identified(issuer, subject),
        _ => Caller::UNAUTHENTICATED,
    };
    let arguments =
        case["arguments"].as_str().map(|_| ArgsFingerprint::from_bytes(array(case, "arguments")));
    let mut context = match operation(case) {
        Some(operation) => Context::new(caller, operation),
        None => Context::bare(caller),
    };
    if let Some(name) = case["name_field"].as_str() {
        context = context.name(name);
    }
    if let Some(arguments) = &arguments {
        context = context.arguments(arguments);
    }
    if let Some(tenant) = case["tenant"].as_str() {
        context = context.tenant(tenant);
    }
    if let Some(upstream) = case["upstream"].as_str() {
        context = context.upstream(upstream);
    }
    if let Some(client) = case["client"].as_str() {
        context = context.client(client);
    }
    work(&context)
}

fn ring(vectors: &Value, case: &Value) -> KeyRing {
    KeyRing::parse(text(&vectors["rings"][text(case, "ring")], "file")).unwrap()
}

/// A sealer with the case's audience, and with its TTL for all purposes that allow it.
fn sealer(vectors: &Value, case: &Value) -> Result<Sealer, SealerError> {
    let mut config = SealerConfig {
        audience: case["context"]["audience"].as_str().map(str::to_owned),
        ..SealerConfig::default()
    };
    if let Some(ttl_s) = case["ttl"].as_u64() {
        let ttl_s = u32::try_from(ttl_s).unwrap_or(u32::MAX);
        match text(case, "purpose") {
            "cursor" => config.cursor_ttl_s = ttl_s,
            "state" => config.state_ttl_s = ttl_s,
            _ => config.resume_ttl_s = ttl_s,
        }
    }
    Sealer::new(&ring(vectors, case), config)
}

macro_rules! for_purpose {
    ($case:expr, $function:ident $arguments:tt) => {
        match text($case, "purpose") {
            "cursor" => $function::<Cursor> $arguments,
            "state" => $function::<State> $arguments,
            "resume" => $function::<Resume> $arguments,
            other => panic!("no purpose {other}"),
        }
    };
}

#[test]
fn derived_keys() {
    each("derive", 20, |_, case| {
        let master = MasterKey::from_bytes(&bytes(case, "master")).unwrap();
        assert_eq!(*master.derive(text(case, "a"), text(case, "b")), array(case, "key"));
    });
}

#[test]
fn rings() {
    let vectors = vectors();
    for (name, case) in vectors["rings"].as_object().unwrap() {
        let ring = KeyRing::parse(text(case, "file")).unwrap();
        assert_eq!(ring.id().as_bytes(), &array(case, "id"), "{name}");
        assert_eq!(ring.generation(), case["generation"].as_u64().unwrap());
        assert_eq!(ring.fingerprint(), text(case, "fingerprint"), "{name}");
        let slots = case["slots"].as_array().unwrap();
        assert_eq!(ring.slots().count(), slots.len());
        for (info, slot) in ring.slots().zip(slots) {
            assert_eq!(u64::from(info.number.get()), slot["slot"].as_u64().unwrap());
            assert_eq!(info.state.as_str(), text(slot, "state"));
            assert_eq!(info.mode.as_str(), text(slot, "mode"));
            assert_eq!(info.since, time(slot, "since"));
        }
        let again = KeyRing::parse(&ring.dangerous_to_text()).unwrap();
        assert_eq!(again.fingerprint(), ring.fingerprint());
        let written: Value = serde_json::from_str(&ring.dangerous_to_text()).unwrap();
        let expected: Value = serde_json::from_str(text(case, "file")).unwrap();
        assert_eq!(written, expected, "{name}");
    }
    each("ring_files_accepted", 5, |_, case| {
        let ring = KeyRing::parse(text(case, "text")).unwrap();
        assert_eq!(ring.fingerprint(), text(case, "fingerprint"));
    });
    each("ring_files_refused", 50, |_, case| {
        KeyRing::parse(text(case, "text")).unwrap_err();
    });
}

#[test]
fn rings_of_one_secret() {
    each("secret_rings", 8, |_, case| {
        let secret = MasterKey::from_bytes(&bytes(case, "secret")).unwrap();
        let mode = mode(text(case, "mode"));
        let ring = KeyRing::from_secret_of(&secret, text(case, "origin"), mode);
        assert_eq!(ring.id().as_bytes(), &array(case, "id"));
        assert_eq!(ring.fingerprint(), text(case, "fingerprint"));
        let master = MasterKey::from_bytes(&bytes(case, "master")).unwrap();
        assert_eq!(ring.dangerous_reveal(SlotNumber::FIRST), Some(master.dangerous_reveal()));
    });
}

#[test]
fn contexts() {
    each("contexts", 80, |_, case| {
        let digest = with_context(case, |context| {
            context.digest(text(case, "purpose"), text(case, "audience")).unwrap()
        });
        assert_eq!(digest.0, array(case, "ctx"));
    });
}

fn mint<P: KeyedPurpose>(vectors: &Value, case: &Value) -> Result<Token, SealError> {
    let sealer = sealer(vectors, case).unwrap();
    let mut drawn = Drawn(bytes(case, "random"));
    let token = with_context(&case["context"], |context| {
        let bound = sealer.bind::<P>(context).unwrap();
        let (now, payload) = (time(case, "now"), bytes(case, "payload"));
        if case["after"].is_null() {
            return bound.seal(&mut drawn, now, &payload);
        }
        let after = &case["after"];
        let opened = bound.open(text(after, "text"), time(after, "now")).unwrap();
        bound.seal_after(&opened, &mut drawn, now, &payload)
    })?;
    assert!(drawn.0.is_empty(), "as many bytes are drawn as the specification says");
    Ok(token)
}

#[test]
fn minted_tokens() {
    each("mint", 200, |vectors, case| {
        let token = for_purpose!(case, mint(vectors, case)).unwrap();
        assert_eq!(token.as_str(), text(case, "text"));
    });
}

#[test]
fn tokens_that_are_not_minted() {
    each("mint_refused", 40, |vectors, case| {
        let why = text(case, "why");
        if why == "ttl" {
            let error = sealer(vectors, case).unwrap_err();
            assert!(matches!(error, SealerError::Ttl { .. }));
            return;
        }
        let error = for_purpose!(case, mint(vectors, case)).unwrap_err();
        let told = match error {
            SealError::TooLarge { .. } => "too_large",
            SealError::LifeOver => "life_over",
            SealError::Clock => "clock",
        };
        assert_eq!(told, why);
    });
}

fn open<P: KeyedPurpose>(vectors: &Value, case: &Value) -> Result<Value, Refused> {
    let sealer = sealer(vectors, case).unwrap();
    let opened = with_context(&case["context"], |context| {
        sealer.bind::<P>(context).unwrap().open(text(case, "text"), time(case, "now"))
    })?;
    let mut head = vec![0; P::Head::BYTES];
    opened.head().write(encoding::Writer(&mut head)).done();
    let mut told = serde_json::json!({
        "payload": encoding::hex(opened.payload()),
        "exp": opened.expires_at().as_secs(),
        "slot": opened.slot().get(),
        "salt": encoding::hex(opened.salt().as_slice()),
    });
    if let Some((id, rest)) = head.split_first_chunk::<16>() {
        let number = |at: usize| u32::from_be_bytes(rest[at..at + 4].try_into().unwrap());
        told["id"] = encoding::hex(id).into();
        told["born"] = number(0).into();
        if rest.len() > 4 {
            told["generation"] = number(4).into();
        }
    }
    Ok(told)
}

#[test]
fn opened_tokens() {
    each("open", 1000, |vectors, case| match for_purpose!(case, open(vectors, case)) {
        Ok(told) => assert_eq!(told, case["expect"]),
        Err(refused) => {
            assert_eq!(refused.reason().as_str(), text(&case["expect"], "reason"));
            assert_eq!(refused.to_string(), text(&case["expect"], "outside"));
        }
    });
}

#[test]
fn payloads_of_the_cursor_issuer() {
    let ring = KeyRing::generate(&mut rand::rng(), Mode::Signed, UnixTime::from_secs(0));
    let sealer = Sealer::new(&ring, SealerConfig::default()).unwrap();
    let context = Context::bare(Caller::UNAUTHENTICATED);
    let now = UnixTime::from_secs(1_800_000_000);
    each("cursor_issuer", 40, |_, case| {
        let bound = sealer.bind::<Cursor>(&context).unwrap();
        let token = match bound.seal(&mut rand::rng(), now, &bytes(case, "payload")) {
            Err(SealError::TooLarge { .. }) => return assert_eq!(case["refused"], true),
            token => token.unwrap(),
        };
        let issuer = CursorIssuer::new(bound, now);
        match issuer.verify(token.as_str()) {
            Err(error) => assert_eq!((error.code(), &case["refused"]), (1021, &Value::Bool(true))),
            Ok(payload) => {
                assert_eq!(u64::from(payload.page_index), case["page_index"].as_u64().unwrap());
                assert_eq!(payload.opaque_state, bytes(case, "opaque_state"));
                let mut again = CursorPayload::first(payload.opaque_state);
                again.page_index = payload.page_index;
                let issued = issuer.issue(&mut rand::rng(), &again).unwrap();
                assert_eq!(issued, token.as_str());
            }
        }
    });
}

fn codec(vectors: &Value, case: &Value) -> RequestStateCodec {
    let ring = ring(vectors, case);
    let mode = match ring.slot(ring.active()).unwrap().mode {
        Mode::Sealed => RequestStateMode::Encrypted,
        Mode::Signed => RequestStateMode::Signed,
    };
    let bind_to = match case["binding"].as_u64().unwrap() {
        0 => RequestStateBinding::None,
        1 => RequestStateBinding::Subject,
        2 => RequestStateBinding::SubjectAndTool,
        _ => RequestStateBinding::SubjectToolAndArguments,
    };
    let ttl = std::time::Duration::from_secs(case["ttl"].as_u64().unwrap_or(300));
    let key = RequestStateKey::Ring(Box::new(ring));
    let security = RequestStateSecurity { key, mode, ttl, bind_to };
    secure_request_state(security, &mut rand::rng(), time(case, "now")).unwrap()
}

fn with_scope<T>(case: &Value, work: impl FnOnce(&RequestStateScope<'_>) -> T) -> T {
    let arguments = match case["arguments"].as_str() {
        Some(_) => ArgsFingerprint::from_bytes(array(case, "arguments")),
        None => ArgsFingerprint::from_bytes([0; 32]),
    };
    let caller = match (case["issuer"].as_str(), case["subject"].as_str()) {
        (Some(issuer), Some(subject)) => Caller::dangerous_identified(issuer, subject),
        _ => Caller::UNAUTHENTICATED,
    };
    work(&RequestStateScope {
        caller,
        operation: operation(case).unwrap_or(Operation::Call),
        name: case["name_field"].as_str().unwrap_or_default(),
        arguments: &arguments,
    })
}

#[test]
fn payloads_of_the_request_state_codec() {
    each("request_state_codec", 40, |vectors, case| {
        let codec = codec(vectors, case);
        let (now, state) = (time(case, "now"), bytes(case, "state"));
        let mut drawn = Drawn(bytes(case, "random"));
        with_scope(case, |scope| {
            let made = codec.encode(&mut drawn, now, scope, &state).unwrap();
            assert_eq!(made, text(case, "text"));
            let RequestState::Opened(opened) = codec.decode(Some(&made), scope, now) else {
                panic!("refused");
            };
            assert_eq!(opened.state(), state);
        });
    });
    each("request_state_refused", 60, |vectors, case| {
        let (codec, now) = (codec(vectors, case), time(case, "now"));
        let refused =
            with_scope(case, |scope| match codec.decode(Some(text(case, "text")), scope, now) {
                RequestState::Expired(refused) | RequestState::Refused(refused) => refused,
                RequestState::First | RequestState::Opened(_) => panic!("opened"),
            });
        assert_eq!(refused.reason().as_str(), text(case, "reason"));
    });
}

fn excluded(case: &Value) -> Vec<&str> {
    case["exclude"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect()
}

#[test]
fn fingerprints_of_texts() {
    each("fingerprints_text", 200, |_, case| {
        let input = match case["text_hex"].as_str() {
            Some(_) => bytes(case, "text_hex"),
            None => text(case, "text").as_bytes().to_vec(),
        };
        let made = canonical_json_of_text(&input, &excluded(case));
        if case["refused"] == true {
            made.unwrap_err();
            return;
        }
        let made = made.unwrap();
        assert_eq!(std::str::from_utf8(&made).unwrap(), text(case, "canonical"));
        let fingerprint = args_fingerprint_of_text(&input, &excluded(case)).unwrap();
        assert_eq!(fingerprint.to_string(), text(case, "fingerprint"));
    });
}

#[test]
fn fingerprints_of_values() {
    each("fingerprints_value", 100, |_, case| {
        let value: Value = serde_json::from_str(text(case, "text")).unwrap();
        let made = canonical_json(&value, &excluded(case));
        assert_eq!(std::str::from_utf8(&made).unwrap(), text(case, "canonical"));
        let fingerprint = args_fingerprint_without(&value, &excluded(case));
        assert_eq!(fingerprint.to_string(), text(case, "fingerprint"));
    });
}

#[test]
fn handles() {
    each("handles", 20, |_, case| {
        let handle = Handle::from_bytes(array(case, "bytes"));
        assert_eq!(handle.to_string(), text(case, "text"));
        assert_eq!(Handle::parse(text(case, "text")), Ok(handle));
    });
    each("handles_refused", 50, |_, case| {
        let why = match Handle::parse(text(case, "text")).unwrap_err() {
            HandleError::Malformed => "malformed",
            HandleError::Mistyped => "mistyped",
        };
        assert_eq!(why, text(case, "why"));
    });
}

fn unwrap_as<K: Wrappable>(vectors: &Value, case: &Value) -> Result<[u8; 32], UnwrapError> {
    let wrapped = WrappedKey::parse(text(case, "text"))?;
    let key: K = ring(vectors, case).unwrap_key(text(case, "name_field"), &wrapped)?;
    Ok(*key.bytes())
}

fn unwrap_case(vectors: &Value, case: &Value) -> Result<[u8; 32], UnwrapError> {
    match text(case, "purpose") {
        "wrap-data" => unwrap_as::<DataKey>(vectors, case),
        _ => unwrap_as::<SigningSeed>(vectors, case),
    }
}

#[test]
fn wrapped_keys() {
    each("wrapped", 30, |vectors, case| {
        let (ring, name) = (ring(vectors, case), text(case, "name_field"));
        let mut drawn = Drawn(bytes(case, "random"));
        let wrapped = match text(case, "purpose") {
            "wrap-data" => ring.wrap(&mut drawn, name, &DataKey::from_wrapped(array(case, "key"))),
            _ => ring.wrap(&mut drawn, name, &SigningSeed::from_wrapped(array(case, "key"))),
        };
        assert_eq!(wrapped.unwrap().to_text(), text(case, "text"));
        assert_eq!(unwrap_case(vectors, case), Ok(array(case, "key")));
    });
    each("unwrapped", 16, |vectors, case| {
        assert_eq!(unwrap_case(vectors, case), Ok(array(case, "key")));
    });
    each("wrapped_refused", 50, |vectors, case| {
        unwrap_case(vectors, case).unwrap_err();
    });
}

#[test]
fn token_fingerprints() {
    each("token_fingerprints", 10, |_, case| {
        let shown = TokenFingerprint::of(text(case, "text")).to_string();
        assert_eq!(shown, text(case, "fingerprint"));
        assert_eq!(shown, encoding::hex(&Sha256::digest(text(case, "text"))[..8]));
    });
}
