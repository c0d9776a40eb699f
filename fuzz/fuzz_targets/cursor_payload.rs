//! A payload that was really sealed reads as a cursor in one way or not at all.
#![no_main]

use handback_fuzz::{NOW, SEALERS, context};
use handback_token::{Cursor, CursorIssuer, CursorPayload};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let rng = &mut rand::rng();
    for sealer in SEALERS.iter() {
        let bound = sealer.bind::<Cursor>(&context()).unwrap();
        let Ok(token) = bound.seal(rng, NOW, data) else { continue };
        let issuer = CursorIssuer::new(bound, NOW);
        if let Ok(payload) = issuer.verify(token.as_str()) {
            let mut again = CursorPayload::first(payload.opaque_state);
            again.page_index = payload.page_index;
            assert_eq!(issuer.issue(rng, &again).unwrap(), token.as_str());
        }
    }
});
