//! `v1.` and `v1e.` request state against the vectors of a second implementation, both ways.

use std::convert::Infallible;

use handback_token::compat::v1::{KeySchedule, V1Binding, V1Mode, V1State};
use handback_token::compat::{Acceptance, ForeignKey};
use handback_token::{Caller, Context, Operation, UnixTime};
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

#[test]
fn what_is_made_here_is_what_the_second_implementation_made() {
    let text = include_str!("../../../vectors/request-state-foreign.json");
    let vectors: Value = serde_json::from_str(text).unwrap();
    let mut made = [0, 0];
    for case in vectors["cases"].as_array().unwrap() {
        let member = |name: &str| case[name].as_str();
        if case["expect"] != "opens" {
            continue;
        }
        // The format leaves the order of members and white space free; ours is one of them.
        let tag =
            case["payload"].as_str().unwrap().split("\"b\":\"").nth(1).map(|rest| &rest[..64]);
        let ours = format!(
            r#"{{"s":{},"exp":{},"b":"{}"}}"#,
            case["state"],
            case["exp"],
            tag.unwrap_or_default()
        );
        let (now, exp) = (case["now"].as_u64().unwrap(), case["exp"].as_u64().unwrap());
        if member("payload") != Some(ours.as_str()) || !(1..=3600).contains(&(exp - now)) {
            continue;
        }
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
        let codec = V1State::with_schedule(&key, schedule, mode, binding, acceptance);
        let mut nonce = Nonce(member("nonce").map(unhex).unwrap_or_default());
        let ttl_s = u32::try_from(exp - now).unwrap();
        let text = codec
            .encode(&mut nonce, UnixTime::from_secs(now), &context, ttl_s, member("state").unwrap())
            .unwrap();
        assert_eq!(Some(text.as_str()), member("text"), "{case}");
        assert_eq!(
            codec.open(&text, &context, UnixTime::from_secs(now)).ok().as_deref(),
            member("state")
        );
        made[usize::from(mode == V1Mode::Encrypted)] += 1;
    }
    assert!(made[0] >= 15 && made[1] >= 15, "{made:?}");
}
