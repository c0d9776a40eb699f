//! The contenders, on the standard cursor: a tool id of 24 characters, an issuer of 32, a subject of
//! 24, and 48, 128 or 256 bytes of position.

use std::hint::black_box;
use std::time::Duration;

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, LessSafeKey, Nonce, UnboundKey};
use hmac::{Hmac, KeyInit as _, Mac as _};
use rmcp::model::{RequestStateCodec, SealOptions};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::measure::Contender;
use handback_interop::clock::now;
use handback_token::{
    ArgsFingerprint, Caller, Context, Cursor, KeyRing, MasterKey, Mode, Operation, Sealer,
    SealerConfig, State,
};

pub const PAYLOADS: [usize; 3] = [48, 128, 256];

pub const SEALED: &str = "handback, sealed";
pub const SIGNED: &str = "handback, signed";
pub const RMCP: &str = "rmcp 3.8 rs2";
pub const ATD: &str = "atd-runtime 1.2.1";
pub const JWT: &str = "jsonwebtoken 11 HS256";
pub const COOKIE: &str = "cookie 0.18 private";
pub const BARE_SEALED: &str = "bare AES-256-GCM-SIV";
pub const BARE_SIGNED: &str = "bare HMAC-SHA256";

const TOOL: &str = "warehouse.inventory.list";
const ISSUER: &str = "https://identity.example.com/re1";
const SUBJECT: &str = "auth0|0123456789abcdef01";
const AUDIENCE: &str = "Zm9vYmFyYmF6cXV4MTIzNA";
const FINGERPRINT: [u8; 32] = *b"fingerprint-fingerprint-fingerpr";
const KEY: [u8; 32] = *b"0123456789abcdef0123456789abcdef";

const _: () = assert!(TOOL.len() == 24 && ISSUER.len() == 32 && SUBJECT.len() == 24);

pub fn contenders(payload: usize) -> Vec<Contender> {
    let mut all = vec![
        handback(SEALED, Mode::Sealed, payload),
        handback(SIGNED, Mode::Signed, payload),
        rmcp(payload),
    ];
    all.extend(atd(payload));
    all.push(jwt(payload));
    all.push(cookie(payload));
    all.push(bare_sealed(payload));
    all.push(bare_signed(payload));
    all
}

/// What a server does per call: all of them read the clock.
fn unix_now() -> u64 {
    now().as_secs()
}

fn handback(name: &'static str, mode: Mode, payload: usize) -> Contender {
    let secret = MasterKey::from_bytes(&KEY).expect("a key");
    let sealer = Sealer::new(&KeyRing::from_secret(&secret, mode), SealerConfig::default())
        .expect("a sealer");
    let arguments = ArgsFingerprint::from_bytes(FINGERPRINT);
    let position = vec![0xa5; payload];
    let mut rng = rand::rng();
    let caller = Caller::dangerous_identified(ISSUER, SUBJECT);
    let context = Context::new(caller, Operation::Call).name(TOOL).arguments(&arguments);
    let bound = sealer.bind::<Cursor>(&context).expect("a context that can be bound");
    let text = bound.seal(&mut rng, now(), &position).expect("it fits").into_string();
    Contender::new(name, move || {
        let context = Context::new(black_box(caller), Operation::Call)
            .name(black_box(TOOL))
            .arguments(&arguments);
        let bound = sealer.bind::<Cursor>(&context).expect("a context that can be bound");
        let now = now();
        let opened = bound.open(black_box(&text), now).expect("it opens");
        let next = bound.seal_after(&opened, &mut rng, now, opened.payload()).expect("it fits");
        next.as_str().len()
    })
}

fn rmcp(payload: usize) -> Contender {
    let codec = RequestStateCodec::new_with_keyring("0", [("0", KEY)]).expect("a ring");
    let position = vec![0xa5; payload];
    let ttl = Duration::from_secs(900);
    let text = codec
        .seal_with(&position, &SealOptions::new().associated_data(&associated_data()).ttl(ttl));
    Contender::new(RMCP, move || {
        let data = associated_data();
        let opened = codec.open_with(black_box(&text), &data).expect("it opens");
        codec.seal_with(&opened, &SealOptions::new().associated_data(&data).ttl(ttl)).len()
    })
}

/// The same fields as our context, each with its length: what a careful server would pass to rmcp.
fn associated_data() -> Vec<u8> {
    let fields: [&[u8]; 7] = [
        b"cursor",
        AUDIENCE.as_bytes(),
        b"call",
        black_box(TOOL).as_bytes(),
        black_box(ISSUER).as_bytes(),
        black_box(SUBJECT).as_bytes(),
        black_box(&FINGERPRINT),
    ];
    let mut data = Vec::with_capacity(256);
    for field in fields {
        data.extend_from_slice(&(field.len() as u32).to_be_bytes());
        data.extend_from_slice(field);
    }
    data
}

fn atd(payload: usize) -> Option<Contender> {
    use atd_runtime::cursor::{CursorIssuer, CursorPayload};
    let issuer = CursorIssuer::new(KEY);
    let make = |opaque_state| CursorPayload {
        tool_id: TOOL.into(),
        caller_id: Some(SUBJECT.into()),
        args_fingerprint: FINGERPRINT,
        page_index: 1,
        issued_at_unix: unix_now(),
        server_session: issuer.session_nonce(),
        opaque_state,
    };
    let text = issuer.issue(make(vec![0xa5; payload])).ok()?;
    Some(Contender::new(ATD, move || {
        let opened = issuer.verify(black_box(&text), 900).expect("it verifies");
        assert!(opened.tool_id == TOOL && opened.args_fingerprint == FINGERPRINT);
        let next = CursorPayload {
            page_index: opened.page_index + 1,
            issued_at_unix: unix_now(),
            ..opened
        };
        issuer.issue(next).expect("it fits").len()
    }))
}

#[derive(Serialize, Deserialize)]
struct Claims {
    iss: String,
    sub: String,
    aud: String,
    exp: u64,
    tool: String,
    args: String,
    state: String,
}

fn jwt(payload: usize) -> Contender {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation, decode, encode};
    let (encoding, decoding) = (EncodingKey::from_secret(&KEY), DecodingKey::from_secret(&KEY));
    let header = Header::new(Algorithm::HS256);
    let mut validation = Validation::new(Algorithm::HS256);
    validation.set_audience(&[AUDIENCE]);
    validation.set_issuer(&[ISSUER]);
    let claims = Claims {
        iss: ISSUER.into(),
        sub: SUBJECT.into(),
        aud: AUDIENCE.into(),
        exp: unix_now() + 900,
        tool: TOOL.into(),
        args: URL_SAFE_NO_PAD.encode(FINGERPRINT),
        state: URL_SAFE_NO_PAD.encode(vec![0xa5; payload]),
    };
    let text = encode(&header, &claims, &encoding).expect("it encodes");
    Contender::new(JWT, move || {
        let opened = decode::<Claims>(black_box(&text), &decoding, &validation).expect("it opens");
        let mut claims = opened.claims;
        assert!(claims.sub == SUBJECT && claims.tool == TOOL);
        claims.exp = unix_now() + 900;
        encode(&header, &claims, &encoding).expect("it encodes").len()
    })
}

fn cookie(payload: usize) -> Contender {
    use cookie::{Cookie, CookieJar, Key};
    let key = Key::generate();
    let value = |state: &[u8]| {
        let mut value = associated_data();
        value.extend_from_slice(&(unix_now() + 900).to_be_bytes());
        value.extend_from_slice(state);
        // A cookie's value is text.
        value.iter().map(|&byte| char::from(byte & 0x7f)).collect::<String>()
    };
    let state = vec![0xa5; payload];
    let mut jar = CookieJar::new();
    jar.private_mut(&key).add(Cookie::new("c", value(&state)));
    let text = jar.get("c").expect("it is there").value().to_owned();
    Contender::new(COOKIE, move || {
        let mut jar = CookieJar::new();
        let opened =
            jar.private(&key).decrypt(Cookie::new("c", black_box(text.clone()))).expect("it opens");
        black_box(opened.value());
        jar.private_mut(&key).add(Cookie::new("c", value(&state)));
        jar.get("c").expect("it is there").value().len()
    })
}

/// The two AEAD calls alone, without context digest, clock, text or allocation.
fn bare_sealed(payload: usize) -> Contender {
    let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM_SIV, &KEY).expect("a key"));
    let (nonce, aad) = ([7; 12], [9; 34]);
    let mut buffer = vec![0xa5; payload + 4];
    let tag = key
        .seal_in_place_separate_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(aad),
            &mut buffer,
        )
        .expect("it seals");
    buffer.extend_from_slice(tag.as_ref());
    let mut work = buffer.clone();
    Contender::new(BARE_SEALED, move || {
        work.copy_from_slice(black_box(&buffer));
        let plain = key
            .open_in_place(Nonce::assume_unique_for_key(nonce), Aad::from(aad), &mut work)
            .expect("it opens");
        let tag = key
            .seal_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), Aad::from(aad), plain)
            .expect("it seals");
        let _used = black_box(tag);
        (work.len() * 4).div_ceil(3)
    })
}

/// The two MACs alone, with the key already absorbed.
fn bare_signed(payload: usize) -> Contender {
    let key = Hmac::<Sha256>::new_from_slice(&KEY).expect("a key");
    let signed = vec![0xa5; 19 + 32 + 5 + payload];
    let mac = move |bytes: &[u8]| {
        let mut mac = key.clone();
        mac.update(bytes);
        mac.finalize().into_bytes()
    };
    Contender::new(BARE_SIGNED, move || {
        black_box(mac(black_box(&signed)));
        black_box(mac(black_box(&signed)));
        ((5 + payload + 16) * 4).div_ceil(3)
    })
}

/// What it costs to refuse.
pub fn refusals() -> Vec<Contender> {
    let secret = MasterKey::from_bytes(&KEY).expect("a key");
    let sealer = || {
        Sealer::new(&KeyRing::from_secret(&secret, Mode::Sealed), SealerConfig::default())
            .expect("a sealer")
    };
    let refuse = |name, text: String| {
        let sealer = sealer();
        Contender::new(name, move || {
            let context = Context::new(Caller::UNAUTHENTICATED, Operation::Call).name(TOOL);
            let bound = sealer.bind::<State>(&context).expect("a context that can be bound");
            usize::from(bound.open(black_box(&text), now()).is_ok())
        })
    };
    let codec = RequestStateCodec::new_with_keyring("0", [("0", KEY)]).expect("a ring");
    let data = associated_data();
    let refuse_rmcp = |name, text: String| {
        let (codec, data) = (codec.clone(), data.clone());
        Contender::new(name, move || usize::from(codec.open_with(black_box(&text), &data).is_ok()))
    };
    let forged_rmcp = |bytes: usize| format!("rs2.MA.{}.{}", "A".repeat(bytes), "A".repeat(43));
    vec![
        refuse("handback, 10 MB of text", "M".repeat(10_000_000)),
        refuse("handback, not base64", "!".repeat(94)),
        refuse("handback, unknown slot", format!("P{}", "A".repeat(93))),
        refuse("handback, forged, 94 characters", format!("M{}", "A".repeat(93))),
        refuse("handback, forged, 16 KiB", format!("M{}", "A".repeat(16_383))),
        refuse_rmcp("rmcp 3.8 rs2, forged, 96 characters", forged_rmcp(96)),
        refuse_rmcp("rmcp 3.8 rs2, forged, 16 KiB", forged_rmcp(16_384)),
    ]
}
