//! Request state that was really sealed, with any payload, and any text.
#![no_main]

use std::sync::LazyLock;

use handback_fuzz::{ARGUMENTS, ISSUER, KEY, NOW, SEALERS, context};
use handback_token::{
    Caller, MasterKey, Operation, RequestState, RequestStateCodec, RequestStateKey,
    RequestStateScope, RequestStateSecurity, State, secure_request_state,
};
use libfuzzer_sys::fuzz_target;

static CODEC: LazyLock<RequestStateCodec> = LazyLock::new(|| {
    let key = RequestStateKey::Secret(MasterKey::from_bytes(&KEY).unwrap());
    secure_request_state(RequestStateSecurity::new(key), &mut rand::rng(), NOW).unwrap()
});

fuzz_target!(|data: &[u8]| {
    let scope = RequestStateScope {
        caller: Caller::dangerous_identified(ISSUER, "alice"),
        operation: Operation::Call,
        name: "tool",
        arguments: &ARGUMENTS,
    };
    let raw = String::from_utf8_lossy(data);
    assert!(!matches!(CODEC.decode(Some(&raw), &scope, NOW), RequestState::Opened(_)));
    // The sealed sealer has the codec's ring and audience.
    let bound = SEALERS[0].bind::<State>(&context()).unwrap();
    let Ok(token) = bound.seal(&mut rand::rng(), NOW, data) else { return };
    match CODEC.decode(Some(token.as_str()), &scope, NOW) {
        RequestState::Opened(opened) => assert_eq!(opened.state(), &data[1..]),
        _ => assert_ne!(data.first(), Some(&3)),
    }
});
