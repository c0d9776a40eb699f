//! `v1.` and `v1e.` request state: any text, and any payload behind a MAC that verifies.
#![no_main]

use std::sync::LazyLock;

use handback_fuzz::{KEY, NOW, acceptance, context, encode, mac};
use handback_token::compat::ForeignKey;
use handback_token::compat::v1::{KeySchedule, V1Binding, V1Mode, V1State};
use libfuzzer_sys::fuzz_target;

static CODECS: LazyLock<[V1State; 2]> = LazyLock::new(|| {
    [V1Mode::Signed, V1Mode::Encrypted].map(|mode| {
        let key = ForeignKey::from_bytes(&KEY).unwrap();
        V1State::with_schedule(&key, KeySchedule::DangerousRaw, mode, V1Binding::AuthSubject, acceptance())
    })
});

fuzz_target!(|data: &[u8]| {
    for codec in CODECS.iter() {
        assert!(codec.open(&String::from_utf8_lossy(data), &context(), NOW).is_err());
        assert!(codec.open(&format!("v1e.{}", encode(data)), &context(), NOW).is_err());
    }
    let signed = format!("v1.{}.{}", encode(data), encode(&mac(&[data])));
    let _ = CODECS[0].open(&signed, &context(), NOW);
});
