//! `rs1` and `rs2` request state: what rmcp 3.8 seals opens here.

use std::time::Duration;

use handback_interop::clock::now;
use handback_token::compat::rmcp::RmcpState;
use handback_token::compat::{Acceptance, ForeignKey};
use handback_token::{Caller, Context, Operation, Reason, UnixTime};
use rmcp::model::{RequestStateCodec, SealOptions};

const KEY: &[u8] = b"interop-key-interop-key-interop!interop";
const ISSUER: &str = "https://accounts.example.com";

fn ours() -> RmcpState {
    let key = || ForeignKey::from_bytes(KEY).unwrap();
    let acceptance =
        Acceptance { accept_until: UnixTime::from_secs(u64::MAX), issuer: Some(ISSUER.into()) };
    RmcpState::new(acceptance).rs1_key(key()).rs2_key("k1", key()).rs2_key("küche", key())
}

fn theirs() -> Vec<RequestStateCodec> {
    vec![
        RequestStateCodec::try_new(KEY).unwrap(),
        RequestStateCodec::new_with_keyring("k1", [("k1", KEY)]).unwrap(),
        RequestStateCodec::new_with_keyring("küche", [("küche", KEY)]).unwrap(),
    ]
}

#[test]
fn what_rmcp_seals_opens_here_with_the_same_associated_data() {
    let alice = Context::new(Caller::dangerous_identified(ISSUER, "alice"), Operation::Call);
    for codec in theirs() {
        for payload in [&b""[..], b"x", b"step=2", &[0xff; 5000]] {
            for data in [&b"a"[..], b"user:alice|tool:pay", &[0; 300]] {
                let options = SealOptions::new().associated_data(data).ttl(Duration::from_secs(90));
                let sealed = codec.seal_with(payload, &options);
                assert_eq!(ours().open(&sealed, data, &alice, now()).unwrap(), payload);
                assert_eq!(codec.open_with(&sealed, data).unwrap(), payload);
                let refused = ours().open(&sealed, b"other", &alice, now()).unwrap_err();
                assert_eq!(refused.reason(), Reason::NotOpened);
                let later = UnixTime::from_secs(now().as_secs() + 120);
                let refused = ours().open(&sealed, data, &alice, later).unwrap_err();
                assert_eq!(refused.reason(), Reason::Expired);
            }
        }
    }
}

#[test]
fn state_without_expiry_or_without_binding_is_refused_unless_it_is_asked_for() {
    let alice = Context::new(Caller::dangerous_identified(ISSUER, "alice"), Operation::Call);
    let nobody = Context::new(Caller::UNAUTHENTICATED, Operation::Call);
    for codec in theirs() {
        let for_ever = codec.seal(b"x");
        let refused = ours().open(&for_ever, b"", &nobody, now()).unwrap_err();
        assert_eq!(refused.reason(), Reason::TooFar);
        let lenient = ours().dangerous_allow_unexpiring();
        assert_eq!(lenient.open(&for_ever, b"", &nobody, now()).unwrap(), b"x");
        let refused = lenient.open(&for_ever, b"", &alice, now()).unwrap_err();
        assert_eq!(refused.reason(), Reason::NotOpened, "nothing binds it to the caller");
        let day = SealOptions::new().associated_data(b"a").ttl(Duration::from_secs(86_400));
        let refused = ours().open(&codec.seal_with(b"x", &day), b"a", &alice, now()).unwrap_err();
        assert_eq!(refused.reason(), Reason::TooFar, "longer than request state lives here");
    }
}

#[test]
fn foreign_keys_and_key_ids_are_refused() {
    let nobody = Context::new(Caller::UNAUTHENTICATED, Operation::Call);
    let options = SealOptions::new().ttl(Duration::from_secs(60));
    let other_key = RequestStateCodec::try_new(&b"another-key-another-key-another!"[..]).unwrap();
    let refused =
        ours().open(&other_key.seal_with(b"x", &options), b"", &nobody, now()).unwrap_err();
    assert_eq!(refused.reason(), Reason::NotOpened);
    let other_id = RequestStateCodec::new_with_keyring("k2", [("k2", KEY)]).unwrap();
    let refused =
        ours().open(&other_id.seal_with(b"x", &options), b"", &nobody, now()).unwrap_err();
    assert_eq!(refused.reason(), Reason::UnknownSlot);
}
