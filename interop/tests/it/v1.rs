//! `v1.` and `v1e.` request state against the vectors of a second implementation, both ways.

use std::convert::Infallible;

use handback_token::compat::v1::{KeySchedule, V1Binding, V1Mode, V1State};
use handback_token::compat::{Acceptance, ForeignKey};
use handback_token::{Caller, Context, Operation, Reason, UnixTime};
use rand::rand_core::{TryCryptoRng, TryRng};
use serde_json::Value;

/// Gives out the nonce of a vector.
struct Nonce(Vec<u8>);

impl TryRng for Nonce {
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

impl TryCryptoRng for Nonce {}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
        .collect()
}

/// The codec and the call of a vector.
fn with_codec<T>(case: &Value, work: impl FnOnce(&V1State, &Context<'_>, V1Mode) -> T) -> T {
    let member = |name: &str| case[name].as_str();
    let schedule = match member("schedule").unwrap() {
        "raw" => KeySchedule::DangerousRaw,
        "two" => KeySchedule::TwoKeys,
        _ => KeySchedule::ThreeKeys,
    };
    let mode = if case["mode"] == "signed" { V1Mode::Signed } else { V1Mode::Encrypted };
    let binding = match member("binding").unwrap() {
        "none" => V1Binding::None,
        "authSubject" => V1Binding::AuthSubject,
        _ => V1Binding::AuthSubjectAndTool,
    };
    let operation = match member("method") {
        Some("prompts/get") => Operation::Prompt,
        Some("resources/read") => Operation::Read,
        _ => Operation::Call,
    };
    let caller = Caller::dangerous_identified("i", member("subject").unwrap());
    let mut context = Context::new(caller, operation);
    if let Some(name) = member("target_name") {
        context = context.name(name);
    }
    let key = ForeignKey::from_bytes(&unhex(member("key").unwrap())).unwrap();
    let acceptance =
        Acceptance { accept_until: UnixTime::from_secs(u64::MAX), issuer: Some("i".into()) };
    work(&V1State::with_schedule(&key, schedule, mode, binding, acceptance), &context, mode)
}

fn cases() -> Vec<Value> {
    let text = include_str!("../../../vectors/request-state-foreign.json");
    let vectors: Value = serde_json::from_str(text).unwrap();
    vectors["cases"].as_array().unwrap().clone()
}

fn seconds(case: &Value, member: &str) -> u64 {
    case[member].as_u64().unwrap()
}

#[test]
fn what_the_second_implementation_made_opens_or_is_refused_as_it_says() {
    let mut opened = 0;
    for case in cases() {
        let now = UnixTime::from_secs(seconds(&case, "now"));
        let told = with_codec(&case, |codec, context, _| {
            match codec.open(case["text"].as_str().unwrap(), context, now) {
                Ok(state) => {
                    assert_eq!(Some(state.as_str()), case["state"].as_str(), "{case}");
                    opened += 1;
                    "opens"
                }
                Err(refused) if refused.reason() == Reason::Expired => "expired",
                // Stricter than the format, which has no longest life.
                Err(refused) if refused.reason() == Reason::TooFar => {
                    assert!(seconds(&case, "exp") > now.as_secs() + 3660, "{case}");
                    "opens"
                }
                Err(_) => "refused",
            }
        });
        assert_eq!(Some(told), case["expect"].as_str(), "{case}");
    }
    assert!(opened > 50, "{opened}");
}

#[test]
fn what_is_made_here_is_what_the_second_implementation_made() {
    let mut made = [0, 0];
    for case in cases() {
        let (now, exp) = (seconds(&case, "now"), case["exp"].as_u64().unwrap_or(0));
        // The format leaves the order of members and white space free; ours is one of them.
        let tag = case["payload"].as_str().unwrap().split("\"b\":\"").nth(1);
        let tag = tag.and_then(|rest| rest.get(..64)).unwrap_or_default();
        let ours = format!(r#"{{"s":{},"exp":{exp},"b":"{tag}"}}"#, case["state"]);
        if case["expect"] != "opens"
            || case["payload"] != ours
            || !(now + 1..=now + 3600).contains(&exp)
        {
            continue;
        }
        with_codec(&case, |codec, context, mode| {
            let mut nonce = Nonce(case["nonce"].as_str().map(unhex).unwrap_or_default());
            let ttl_s = u32::try_from(exp - now).unwrap();
            let (now, state) = (UnixTime::from_secs(now), case["state"].as_str().unwrap());
            let text = codec.encode(&mut nonce, now, context, ttl_s, state).unwrap();
            assert_eq!(Some(text.as_str()), case["text"].as_str(), "{case}");
            made[usize::from(mode == V1Mode::Encrypted)] += 1;
        });
    }
    assert!(made[0] >= 15 && made[1] >= 15, "{made:?}");
}
