//! What a server hands out to a client that it cannot trust, and takes back later.
//!
//! A token made here is **intact, in time, and from the caller it was given to**, or it does not
//! open: it is bound to caller, operation, name, arguments and audience by cryptography, and carries
//! none of them. That it is acted on once is the business of a store, by the id that request state
//! and resume tokens carry.
//!
//! - [`KeyRing`]: master keys in numbered slots, and how they rotate.
//! - [`Context`]: what a token is bound to.
//! - [`Sealer`]: binds a context once per call, then opens and seals.
//! - [`CursorIssuer`], [`RequestStateCodec`]: for tools that page and servers that ask back.
//! - [`Handle`]: the name of something held at the server.
//! - [`args_fingerprint`]: what a token knows of a call's arguments.
//! - `compat` (feature of that name): formats of other systems.
//!
//! Nothing here reads a clock, a random source or the environment: `now`, `rng` and look-ups are
//! arguments. Only [`ring::file`] touches the file system. The formats are defined to the byte in
//! `docs/spec/tokens.md`, with vectors in `vectors/`.

mod context;
mod crypto;
mod cursor;
mod encoding;
mod fingerprint;
mod handle;
mod hash;
mod inspect;
mod key;
mod purpose;
mod refusal;
pub mod ring;
mod sealer;
mod state;
mod time;

#[cfg(feature = "compat")]
pub mod compat;

#[cfg(test)]
mod vector_tests;

pub use context::{Caller, Context, ContextError, MAX_CONTEXT_FIELD_BYTES, Operation};
pub use cursor::{
    CursorError, CursorIssuer, CursorPayload, ERR_CURSOR_EXPIRED, ERR_CURSOR_INVALID,
    MAX_CURSOR_BYTES, MAX_OPAQUE_STATE_BYTES,
};
pub use fingerprint::{
    ArgsFingerprint, FingerprintError, MAX_JSON_DEPTH, TokenFingerprint, args_fingerprint,
    args_fingerprint_of_text, args_fingerprint_without, canonical_json, canonical_json_of_text,
    is_unambiguous,
};
pub use handle::{HANDLE_CHARS, Handle, HandleError};
pub use inspect::{Visible, inspect};
pub use key::{KEY_BYTES, KeyError, MasterKey};
pub use purpose::{
    Cursor, Head, LONGEST_LIFE_S, NoHead, Purpose, RETIRE_AFTER_S, Resume, ResumeHead, State,
    StateHead, TokenId,
};
pub use refusal::{Outside, Reason, Refused};
pub use ring::source::{AtdSigningKey, random_signing_key, signing_key_from_env_or_random};
pub use ring::{
    DataKey, KeyRing, Mode, Retire, RingError, RingId, SigningSeed, SlotInfo, SlotNumber,
    SlotState, UnwrapError, WrappedKey,
};
pub use sealer::{
    Bound, KeyedPurpose, Opened, SealError, Sealer, SealerConfig, SealerError, Tallied, Token,
};
pub use state::{
    EncodeStateError, OpenedState, RequestState, RequestStateBinding, RequestStateCodec,
    RequestStateConfigError, RequestStateKey, RequestStateMode, RequestStateScope,
    RequestStateSecurity, generate_ephemeral_key, secure_request_state,
};
pub use time::{CLOCK_SKEW_S, UnixTime};
