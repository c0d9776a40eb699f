//! What several tests need.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use handback_token::{
    ArgsFingerprint, Caller, Context, Cursor, KeyRing, KeyedPurpose, Mode, Operation, Purpose,
    Reason, Resume, Sealer, SealerConfig, State, UnixTime,
};

pub(crate) const NOW: UnixTime = UnixTime::from_secs(1_800_000_000);

pub(crate) const ALICE: Caller<'_> =
    Caller::dangerous_identified("https://accounts.example.com", "248289761001");

pub(crate) const ARGUMENTS: ArgsFingerprint = ArgsFingerprint::from_bytes([7; 32]);

pub(crate) fn at(seconds_from_now: i64) -> UnixTime {
    UnixTime::from_secs(NOW.as_secs().checked_add_signed(seconds_from_now).unwrap())
}

pub(crate) fn ring(mode: Mode) -> KeyRing {
    KeyRing::generate(&mut rand::rng(), mode, NOW)
}

pub(crate) fn sealer(ring: &KeyRing) -> Sealer {
    Sealer::new(ring, SealerConfig::default()).unwrap()
}

pub(crate) fn context<'a>() -> Context<'a> {
    Context::new(ALICE, Operation::Call).name("orders.search").arguments(&ARGUMENTS)
}

pub(crate) fn seal<P: KeyedPurpose>(
    sealer: &Sealer,
    context: &Context<'_>,
    payload: &[u8],
) -> String {
    sealer.bind::<P>(context).unwrap().seal(&mut rand::rng(), NOW, payload).unwrap().into_string()
}

/// Opens it and gives the payload, or the reason why not.
pub(crate) fn open<P: KeyedPurpose>(
    sealer: &Sealer,
    context: &Context<'_>,
    text: &str,
    now: UnixTime,
) -> Result<Vec<u8>, Reason> {
    sealer
        .bind::<P>(context)
        .unwrap()
        .open(text, now)
        .map(|opened| opened.payload().to_vec())
        .map_err(|refused| {
            assert_eq!(refused.to_string(), refused.reason().outside().as_str());
            refused.reason()
        })
}

pub(crate) fn decode(text: &str) -> Vec<u8> {
    URL_SAFE_NO_PAD.decode(text).unwrap()
}

pub(crate) fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// A sealed and a signed ring.
pub(crate) fn rings() -> [KeyRing; 2] {
    [ring(Mode::Sealed), ring(Mode::Signed)]
}

/// Runs the same test for every purpose.
pub(crate) trait ForPurpose {
    fn run<P: KeyedPurpose>(&mut self);

    fn run_all(&mut self) {
        self.run::<Cursor>();
        self.run::<State>();
        self.run::<Resume>();
    }
}

pub(crate) fn max_life_s<P: Purpose>() -> i64 {
    i64::from(P::MAX_LIFE_S)
}
