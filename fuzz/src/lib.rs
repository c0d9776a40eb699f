//! What several targets need.

pub mod members;
pub mod pages;
pub mod pieces;

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use handback_token::compat::Acceptance;
use handback_token::{
    ArgsFingerprint, Caller, Context, KeyRing, MasterKey, Mode, Operation, Sealer, SealerConfig,
    UnixTime,
};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

pub const KEY: [u8; 32] = *b"fuzzing-key-fuzzing-key-fuzzing!";
pub const NOW: UnixTime = UnixTime::from_secs(1_800_000_000);
pub const ISSUER: &str = "https://issuer.example";
pub const ARGUMENTS: ArgsFingerprint = ArgsFingerprint::from_bytes([7; 32]);

/// A sealed and a signed sealer.
pub static SEALERS: LazyLock<[Sealer; 2]> = LazyLock::new(|| {
    [Mode::Sealed, Mode::Signed].map(|mode| {
        let secret = MasterKey::from_bytes(&KEY).expect("a key");
        Sealer::new(&KeyRing::from_secret(&secret, mode), SealerConfig::default())
            .expect("a sealer")
    })
});

pub fn context() -> Context<'static> {
    let caller = Caller::dangerous_identified(ISSUER, "alice");
    Context::new(caller, Operation::Call).name("tool").arguments(&ARGUMENTS)
}

pub fn acceptance() -> Acceptance {
    Acceptance { accept_until: UnixTime::from_secs(u64::MAX), issuer: Some(ISSUER.into()) }
}

pub fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// HMAC-SHA256 over all parts, so that a target gets behind the check of a tag.
pub fn mac(parts: &[&[u8]]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(&KEY).expect("a key");
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().to_vec()
}
