//! `v1.` and `v1e.` request state: any text, and any payload behind a MAC that verifies.
#![no_main]

use std::sync::LazyLock;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use handback_fuzz::{ISSUER, KEY, NOW, acceptance, encode, mac};
use handback_token::compat::ForeignKey;
use handback_token::compat::v1::{KeySchedule, V1Binding, V1Mode, V1State};
use handback_token::{Caller, Context};
use libfuzzer_sys::fuzz_target;

/// The format cannot carry arguments.
fn bound_to_subject() -> Context<'static> {
    Context::bare(Caller::dangerous_identified(ISSUER, "alice"))
}

static CODECS: LazyLock<[V1State; 2]> = LazyLock::new(|| {
    [V1Mode::Signed, V1Mode::Encrypted].map(|mode| {
        let key = ForeignKey::from_bytes(&KEY).unwrap();
        V1State::with_schedule(
            &key,
            KeySchedule::DangerousRaw,
            mode,
            V1Binding::AuthSubject,
            acceptance(),
        )
    })
});

fuzz_target!(|data: &[u8]| {
    for codec in CODECS.iter() {
        assert!(codec.open(&String::from_utf8_lossy(data), &bound_to_subject(), NOW).is_err());
        assert!(codec.open(&format!("v1e.{}", encode(data)), &bound_to_subject(), NOW).is_err());
    }
    let signed = format!("v1.{}.{}", encode(data), encode(&mac(&[data])));
    let _ = CODECS[0].open(&signed, &bound_to_subject(), NOW);
    let aes = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &KEY).unwrap());
    let bind_tag: String = mac(&[b"alice"]).iter().map(|byte| format!("{byte:02x}")).collect();
    let mut sealed = data.to_vec();
    let nonce = Nonce::assume_unique_for_key([0; 12]);
    aes.seal_in_place_append_tag(nonce, Aad::from(bind_tag.as_bytes()), &mut sealed).unwrap();
    let encrypted = format!("v1e.{}", encode(&[&[0; 12], sealed.as_slice()].concat()));
    let _ = CODECS[1].open(&encrypted, &bound_to_subject(), NOW);
});
