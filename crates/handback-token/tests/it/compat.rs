//! Foreign formats: what they carry is compared, what they cannot carry is refused.

use handback_token::compat::atd::{self, AtdCursors};
use handback_token::compat::rmcp::RmcpState;
use handback_token::compat::v1::{KeySchedule, V1Binding, V1EncodeError, V1Mode, V1State};
use handback_token::compat::{Acceptance, ForeignKey};
use handback_token::{
    ArgsFingerprint, AtdSigningKey, Caller, Context, Operation, Reason, UnixTime,
};
use serde_json::{Value, json};

use crate::support::{NOW, at, decode, encode};

const ISSUER: &str = "https://accounts.example.com";
const ALICE: Caller<'_> = Caller::dangerous_identified(ISSUER, "alice");
const ATD_KEY: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY";

fn acceptance() -> Acceptance {
    Acceptance { accept_until: at(1_000_000), issuer: Some(ISSUER.into()) }
}

fn call<'a>(caller: Caller<'a>, arguments: &'a ArgsFingerprint) -> Context<'a> {
    Context::new(caller, Operation::Call).name("search").arguments(arguments)
}

fn atd() -> AtdCursors {
    AtdCursors::new(AtdSigningKey::from_text(ATD_KEY).unwrap(), *b"session1", acceptance())
}

fn atd_reason(cursors: &AtdCursors, text: &str, context: &Context<'_>, now: UnixTime) -> Reason {
    cursors.open(text, context, now).unwrap_err().reason()
}

#[test]
fn an_atd_cursor_opens_for_its_tool_caller_and_arguments_only() {
    let (arguments, others) =
        (atd::args_fingerprint(&json!({"q": 1})), atd::args_fingerprint(&json!({"q": 2})));
    let cursors = atd();
    for caller in [ALICE, Caller::UNAUTHENTICATED] {
        let good = call(caller, &arguments);
        let text = cursors.issue(&good, 3, b"row 20", NOW).unwrap();
        let opened = cursors.open(&text, &good, NOW).unwrap();
        assert_eq!(
            (opened.page_index, opened.issued_at, opened.opaque_state.as_slice()),
            (3, NOW, &b"row 20"[..])
        );
        let other_caller = if caller == ALICE { Caller::UNAUTHENTICATED } else { ALICE };
        for other in [
            call(other_caller, &arguments),
            call(Caller::dangerous_identified(ISSUER, "bob"), &arguments),
            call(Caller::dangerous_identified("https://evil.example", "alice"), &arguments),
            call(caller, &others),
            call(caller, &arguments).name("other"),
            Context::new(caller, Operation::Call).name("search"),
            Context::new(caller, Operation::Call).arguments(&arguments),
            good.tenant("t"),
            good.upstream("u"),
            good.client("c"),
            Context::new(caller, Operation::Query).name("search").arguments(&arguments),
            Context::bare(caller).name("search").arguments(&arguments),
        ] {
            assert_eq!(atd_reason(&cursors, &text, &other, NOW), Reason::NotOpened, "{other:?}");
        }
    }
}

#[test]
fn an_atd_cursor_is_checked_against_the_clock_in_both_directions() {
    let arguments = atd::args_fingerprint(&Value::Null);
    let (cursors, context) = (atd(), call(ALICE, &arguments));
    let text = cursors.issue(&context, 1, b"", NOW).unwrap();
    assert!(cursors.open(&text, &context, at(300)).is_ok());
    assert_eq!(atd_reason(&cursors, &text, &context, at(301)), Reason::Expired);
    assert!(cursors.open(&text, &context, at(-60)).is_ok());
    assert_eq!(atd_reason(&cursors, &text, &context, at(-61)), Reason::TooFar);
    let late = cursors.issue(&context, 1, b"", at(999_999)).unwrap();
    assert!(cursors.open(&late, &context, at(999_999)).is_ok());
    assert_eq!(
        atd_reason(&cursors, &late, &context, at(1_000_000)),
        Reason::Expired,
        "accept_until"
    );
    let over = cursors.issue(&context, 1, b"", at(1_000_000)).unwrap_err();
    assert_eq!(over, atd::AtdIssueError::Over);
    assert_eq!(atd().ttl_s(0).unwrap_err(), 0);
    assert_eq!(atd().ttl_s(86_401).unwrap_err(), 86_401);
    let longer = atd().ttl_s(86_400).unwrap();
    assert!(longer.open(&text, &context, at(86_400)).is_ok());
}

#[test]
fn an_atd_cursor_of_another_session_is_taken_unless_a_session_is_demanded() {
    let arguments = atd::args_fingerprint(&Value::Null);
    let context = call(ALICE, &arguments);
    let key = || AtdSigningKey::from_text(ATD_KEY).unwrap();
    let text =
        AtdCursors::new(key(), *b"session2", acceptance()).issue(&context, 1, b"", NOW).unwrap();
    assert!(atd().open(&text, &context, NOW).is_ok());
    let strict = atd().demand_session();
    assert_eq!(atd_reason(&strict, &text, &context, NOW), Reason::RetiredKey);
    let own = strict.issue(&context, 1, b"", NOW).unwrap();
    assert!(strict.open(&own, &context, NOW).is_ok());
}

#[test]
fn a_forged_atd_cursor_is_never_expired() {
    // The original answers "expired" to a forgery that names another session.
    let arguments = atd::args_fingerprint(&Value::Null);
    let (cursors, context) = (atd().demand_session(), call(ALICE, &arguments));
    let good = decode(&cursors.issue(&context, 1, b"state", NOW).unwrap());
    for bit in 0..good.len() * 8 {
        let mut edited = good.clone();
        edited[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(atd_reason(&cursors, &encode(&edited), &context, NOW), Reason::NotOpened);
    }
    for len in 0..good.len() {
        let expected = if len < 32 { Reason::Malformed } else { Reason::NotOpened };
        assert_eq!(atd_reason(&cursors, &encode(&good[..len]), &context, NOW), expected);
    }
    assert_eq!(atd_reason(&cursors, &"A".repeat(513), &context, NOW), Reason::TooLong);
    assert_eq!(atd_reason(&cursors, "AA==", &context, NOW), Reason::Malformed);
}

#[test]
fn an_atd_cursor_that_does_not_fit_says_what_would() {
    let arguments = atd::args_fingerprint(&json!({"a": [255, 254]}));
    let (cursors, context) = (atd(), call(ALICE, &arguments));
    let error = cursors.issue(&context, 1, &[0; 250], NOW).unwrap_err();
    let atd::AtdIssueError::Seal(handback_token::SealError::TooLarge { capacity, bytes: 250 }) =
        error
    else {
        panic!("{error:?}");
    };
    assert!(cursors.issue(&context, 1, &vec![0; capacity], NOW).is_ok(), "{capacity}");
    assert!(cursors.issue(&context, 1, &vec![0; capacity + 1], NOW).is_err());
    assert!(cursors.issue(&context, 1, &[0; 257], NOW).is_err());
    assert!(cursors.issue(&context.tenant("t"), 1, b"", NOW).is_err());
}

// ---------------------------------------------------------------- v1. and v1e.

fn v1(
    key: &[u8],
    schedule: KeySchedule,
    mode: V1Mode,
    binding: V1Binding,
    issuer: &str,
) -> V1State {
    let acceptance =
        Acceptance { accept_until: UnixTime::from_secs(u64::MAX), issuer: Some(issuer.into()) };
    let key = ForeignKey::from_bytes(key).unwrap();
    V1State::with_schedule(&key, schedule, mode, binding, acceptance)
}

#[test]
fn v1_tokens_open_for_their_caller_and_tool_only() {
    let key = *b"0123456789abcdef0123456789abcdef0123";
    let arguments = ArgsFingerprint::from_bytes([7; 32]);
    for schedule in [KeySchedule::DangerousRaw, KeySchedule::TwoKeys, KeySchedule::ThreeKeys] {
        for mode in [V1Mode::Signed, V1Mode::Encrypted] {
            for (strictness, binding) in
                [V1Binding::None, V1Binding::AuthSubject, V1Binding::AuthSubjectAndTool]
                    .into_iter()
                    .enumerate()
            {
                let codec = v1(&key, schedule, mode, binding, ISSUER);
                let good = Context::new(ALICE, Operation::Call).name("pay");
                let text = codec.encode(&mut rand::rng(), NOW, &good, 300, "{\"a\":1}").unwrap();
                assert_eq!(codec.open(&text, &good, NOW).unwrap(), "{\"a\":1}");
                assert!(codec.open(&text, &good, at(300)).is_ok(), "through its last second");
                assert_eq!(
                    codec.open(&text, &good, at(301)).unwrap_err().reason(),
                    Reason::Expired
                );
                assert_eq!(
                    codec.open(&text, &good, at(-3400)).unwrap_err().reason(),
                    Reason::TooFar
                );
                let bob =
                    Context::new(Caller::dangerous_identified(ISSUER, "bob"), Operation::Call)
                        .name("pay");
                assert_eq!(codec.open(&text, &bob, NOW).is_err(), strictness >= 1);
                assert_eq!(codec.open(&text, &good.name("x"), NOW).is_err(), strictness >= 2);
                let prompt = Context::new(ALICE, Operation::Prompt).name("pay");
                assert_eq!(codec.open(&text, &prompt, NOW).is_err(), strictness >= 2);
                let made = codec.encode(&mut rand::rng(), NOW, &prompt, 300, "x");
                let carries_the_method = schedule == KeySchedule::ThreeKeys || strictness < 2;
                assert_eq!(made.is_ok(), carries_the_method, "{schedule:?} {binding:?}");
                for never in [
                    Context::new(
                        Caller::dangerous_identified("https://evil.example", "alice"),
                        Operation::Call,
                    )
                    .name("pay"),
                    good.tenant("t"),
                    good.arguments(&arguments),
                ] {
                    assert_eq!(
                        codec.open(&text, &never, NOW).unwrap_err().reason(),
                        Reason::NotOpened
                    );
                }
                let nobody = Context::new(Caller::UNAUTHENTICATED, Operation::Call).name("pay");
                assert_eq!(codec.open(&text, &nobody, NOW).is_err(), strictness >= 1);
                assert_eq!(
                    codec.encode(&mut rand::rng(), NOW, &nobody, 300, "x").is_err(),
                    strictness >= 1
                );
                for ttl_s in [0, 3601] {
                    assert!(codec.encode(&mut rand::rng(), NOW, &good, ttl_s, "x").is_err());
                }
                assert!(
                    codec.encode(&mut rand::rng(), NOW, &good, 300, &"x".repeat(13_000)).is_err()
                );
                assert_eq!(
                    codec.open(&"v1.".repeat(6000), &good, NOW).unwrap_err().reason(),
                    Reason::TooLong
                );
            }
        }
    }
}

#[test]
fn v1_makes_the_three_key_schedule_unless_told_otherwise() {
    let bytes = *b"0123456789abcdef0123456789abcdef";
    let key = ForeignKey::from_bytes(&bytes).unwrap();
    let context = Context::new(ALICE, Operation::Call).name("pay");
    for mode in [V1Mode::Signed, V1Mode::Encrypted] {
        let by_default = V1State::new(&key, mode, V1Binding::default(), acceptance());
        let text = by_default.encode(&mut rand::rng(), NOW, &context, 300, "x").unwrap();
        for schedule in [KeySchedule::DangerousRaw, KeySchedule::TwoKeys, KeySchedule::ThreeKeys] {
            let codec = v1(&bytes, schedule, mode, V1Binding::AuthSubjectAndTool, ISSUER);
            let opened = codec.open(&text, &context, NOW);
            assert_eq!(opened.is_ok(), schedule == KeySchedule::ThreeKeys, "{schedule:?}");
        }
    }
}

#[test]
fn v1_refuses_subjects_that_read_like_payloads() {
    // Where the bind tag and the MAC share a key, the tag of such a subject, which is shown in its
    // signed tokens, is the MAC of a payload. JSON allows white space before it.
    let key = *b"0123456789abcdef0123456789abcdef";
    let payload = r#"{"s":"admin","exp":1800000300,"b":""}"#;
    for space in ["", " ", "\t", "\n", "\r", " \n\t"] {
        let subject = format!("{space}{payload}");
        let oracle = Context::new(Caller::dangerous_identified(ISSUER, &subject), Operation::Call);
        for schedule in [KeySchedule::DangerousRaw, KeySchedule::TwoKeys, KeySchedule::ThreeKeys] {
            let codec = v1(&key, schedule, V1Mode::Signed, V1Binding::AuthSubject, ISSUER);
            let made = codec.encode(&mut rand::rng(), NOW, &oracle, 300, "x");
            assert_eq!(made, Err(V1EncodeError::Context), "{schedule:?} {space:?}");
        }
    }
}

#[test]
fn v1_bind_material_has_one_reading() {
    let key = *b"0123456789abcdef0123456789abcdef";
    for (subject, name) in
        [("alice\0tools/call\0a", "b"), ("alice", "a\0tools/call\0b"), ("a\0", "b")]
    {
        let context =
            Context::new(Caller::dangerous_identified(ISSUER, subject), Operation::Call).name(name);
        let codec =
            v1(&key, KeySchedule::ThreeKeys, V1Mode::Signed, V1Binding::AuthSubjectAndTool, ISSUER);
        let made = codec.encode(&mut rand::rng(), NOW, &context, 300, "x");
        assert_eq!(made, Err(V1EncodeError::Context), "{subject:?} {name:?}");
    }
}

#[test]
fn v1_is_refused_from_its_last_day_on() {
    let acceptance = Acceptance { accept_until: at(100), issuer: None };
    let key = ForeignKey::from_bytes(b"0123456789abcdef0123456789abcdef").unwrap();
    let codec = V1State::new(&key, V1Mode::Signed, V1Binding::None, acceptance);
    let context = Context::new(Caller::UNAUTHENTICATED, Operation::Call);
    let text = codec.encode(&mut rand::rng(), NOW, &context, 300, "x").unwrap();
    assert!(codec.open(&text, &context, at(99)).is_ok());
    assert_eq!(codec.open(&text, &context, at(100)).unwrap_err().reason(), Reason::Expired);
    let late = codec.encode(&mut rand::rng(), at(100), &context, 300, "x");
    assert_eq!(late, Err(V1EncodeError::Over));
}

#[test]
fn foreign_keys_are_long_enough_and_not_constant() {
    assert!(ForeignKey::from_bytes(&[1; 32]).is_err());
    assert!(ForeignKey::from_bytes(b"0123456789abcdef0123456789abcde").is_err());
    assert!(ForeignKey::from_bytes(&[]).is_err());
    let long: Vec<u8> = (0..1025u32).map(|n| (n % 251) as u8).collect();
    assert!(ForeignKey::from_bytes(&long).is_err());
    let key = ForeignKey::from_bytes(&long[..1024]).unwrap();
    assert_eq!(format!("{key:?}"), "ForeignKey(..)");
}

// ---------------------------------------------------------------- rs1 and rs2

const RS1: &str = "rs1.AAABi8_mx5BzdGVwPTI.GQgS0X7mtSz8ZOy_kld2Zjuc4gAMGpBL74EghWI36IQ";
const RS2: &str = "rs2.cm90YXRpb24ta2V5LTIwMjYtMDg.AAABi8_mx5BzdGVwPTI.twv2acu7lKXqebyrmit-JrHHZm-BkKlBQEMMtL3lHk8";
const RMCP_DATA: &[u8] = b"user:alice|request:weather";
const RMCP_NOW: UnixTime = UnixTime::from_secs(1_700_000_000);

fn rmcp() -> RmcpState {
    let key = || ForeignKey::from_bytes(b"0123456789abcdef0123456789abcdef").unwrap();
    let acceptance = Acceptance {
        accept_until: UnixTime::from_secs(1_700_001_000),
        issuer: Some(ISSUER.into()),
    };
    RmcpState::new(acceptance).rs1_key(key()).rs2_key("rotation-key-2026-08", key())
}

#[test]
fn rmcp_known_answers_open() {
    let context = Context::new(ALICE, Operation::Call);
    for text in [RS1, RS2] {
        let open = |data: &[u8], context: &Context<'_>, seconds: u64| {
            let now = UnixTime::from_secs(RMCP_NOW.as_secs() + seconds);
            rmcp().open(text, data, context, now).map_err(|refused| refused.reason())
        };
        assert_eq!(open(RMCP_DATA, &context, 0), Ok(b"step=2".to_vec()));
        assert_eq!(open(RMCP_DATA, &context, 90), Ok(b"step=2".to_vec()));
        assert_eq!(open(RMCP_DATA, &context, 91), Err(Reason::Expired));
        assert_eq!(open(RMCP_DATA, &context, 1000), Err(Reason::Expired), "accept_until");
        assert_eq!(open(b"", &context, 0), Err(Reason::NotOpened));
        assert_eq!(open(b"user:alice|request:weathe", &context, 0), Err(Reason::NotOpened));
        assert_eq!(open(RMCP_DATA, &context.tenant("t"), 0), Err(Reason::NotOpened));
        let elsewhere = Context::new(Caller::dangerous_identified("x", "alice"), Operation::Call);
        assert_eq!(open(RMCP_DATA, &elsewhere, 0), Err(Reason::NotOpened));
        let early = rmcp().open(text, RMCP_DATA, &context, UnixTime::from_secs(1_600_000_000));
        assert_eq!(early.unwrap_err().reason(), Reason::TooFar);
    }
}

#[test]
fn rmcp_tokens_that_were_edited_do_not_open() {
    let context = Context::new(ALICE, Operation::Call);
    for text in [RS1, RS2] {
        for place in 0..text.len() {
            for letter in ['A', 'B', 'z', '.', '='] {
                let mut edited: Vec<char> = text.chars().collect();
                if edited[place] == letter {
                    continue;
                }
                edited[place] = letter;
                let edited: String = edited.into_iter().collect();
                let result = rmcp().open(&edited, RMCP_DATA, &context, RMCP_NOW);
                assert!(result.is_err(), "{edited}");
            }
            assert!(rmcp().open(&text[..place], RMCP_DATA, &context, RMCP_NOW).is_err());
        }
        let none = RmcpState::new(acceptance());
        let refused = none.open(text, RMCP_DATA, &context, RMCP_NOW).unwrap_err();
        assert_eq!(refused.reason(), Reason::UnknownSlot);
        let long = format!("{text}{}", "A".repeat(20_000));
        let refused = rmcp().open(&long, RMCP_DATA, &context, RMCP_NOW).unwrap_err();
        assert_eq!(refused.reason(), Reason::TooLong);
    }
}
