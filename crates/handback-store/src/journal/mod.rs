//! The record of calls: a call that was made is not made twice, and a token that was redeemed is not
//! redeemed again.
//!
//! [`Journal::reserve`] is one atomic, synced write. It says what the caller has to do:
//!
//! | [`Reserved`] | what it means |
//! |---|---|
//! | `New` | do it; with `again`, do it once more under the same [`CallId`] |
//! | `InFlight` | somebody is at it: wait for them |
//! | `Committed` | it was done: here is what came out |
//! | `Mismatch` | the idempotency key was used for other arguments |
//! | `Replayed` | the single-use token was redeemed for something else |
//! | `Ambiguous` | it was started, and nobody knows how it ended |
//!
//! ```text
//!            reserve            start            commit
//!  (absent) ────────► reserved ───────► started ────────► committed ─ 24, 49 h ► (absent)
//!     ▲                   │                │ │
//!     └── release ────────┴────────────────┘ ├── abandon ───► ambiguous ── 7 d ──► (absent)
//!                                            └── interrupt ─► by the tool's class:
//!                                                             ambiguous or retryable
//! ```
//!
//! ```
//! # use bytes::Bytes;
//! # use handback_identity::VerifiedPrincipal;
//! # use handback_store::MemoryStore;
//! # use handback_token::{ArgsFingerprint, Operation};
//! use handback_store::journal::{
//!     CallRequest, InstanceId, Journal, JournalScope, Outcome, Reserved, ToolClass,
//! };
//!
//! # let (mut rng, now) = (rand::rng(), 0);
//! # let caller = VerifiedPrincipal::unauthenticated();
//! # let arguments = ArgsFingerprint::from_bytes([0; 32]);
//! let journal = Journal::open(MemoryStore::new(), InstanceId::generate(&mut rng), now)?;
//! while journal.recover(1_000, now)?.has_more {}
//!
//! let scope = JournalScope::new(&caller, Operation::Call, None, "pay", Some("key"), b"");
//! let request = CallRequest::keyed(scope, &arguments, ToolClass::Unknown);
//! for _ in 0..2 {
//!     match journal.reserve(&request, &mut rng, now)? {
//!         Reserved::New(mut call) => {
//!             journal.start(&mut call, now)?;
//!             let outcome = Bytes::from_static(b"paid");
//!             journal.commit(&mut call, Outcome::Bytes(outcome), now)?;
//!         }
//!         Reserved::Committed { outcome, .. } => {
//!             assert_eq!(outcome, Outcome::Bytes(Bytes::from_static(b"paid")));
//!         }
//!         other => panic!("{other:?}"),
//!     }
//! }
//! # Ok::<(), handback_store::journal::JournalError>(())
//! ```
//!
//! # One row for a call
//!
//! A call is filed under its [`Redemption`] if it has one, else under its [`JournalScope`]. There is
//! no second row. The step of a scope is the id of the state that was opened, so whatever has the
//! same id and the same key is in the same scope, and the id alone decides. What is written is
//! therefore one row and one entry of the index of open calls, and no half of a reservation can be
//! left behind. Rejected: a row for the key and a row for the id. They would have to agree in every
//! state, and nothing would be found by the second that is not found by the first.
//!
//! A redemption is found by its id alone: whoever presents the id again, with another principal,
//! name or answers, is [`Reserved::Replayed`].
//!
//! # Who is at it
//!
//! A row that is `reserved` or `started` has no end of life: work may run for long, and a row that
//! vanished under it would let it run twice. It names the instance, and the epoch: the number of this
//! start of the instance, counted in the store by [`Journal::open`]. What an earlier epoch left behind
//! is settled by [`Journal::recover`], and before that by whoever comes across it:
//!
//! - `reserved`: nothing was started. The row is freed.
//! - `started`, [`ToolClass::Unknown`]: `ambiguous`.
//! - `started`, another class: retryable. The next reservation is `New` with `again`, under the same
//!   [`CallId`], so that the tool can be called with the same key.
//!
//! The same happens to a [`Reservation`] that is dropped before its end, and to one that was written
//! while the store broke. A process that is believed dead and still lives finds that its row has
//! changed: [`JournalError::Superseded`], in particular from [`Journal::start`], before it does
//! anything. For an instance that never comes back there is [`Journal::recover_gone`].
//!
//! Rows and keys are defined to the byte in `docs/spec/journal.md`.

mod book;
mod error;
mod long;
mod request;
mod reservation;
mod row;

pub use book::{Journal, Recovered, Reserved, Status};
pub use error::JournalError;
pub use request::{CallRequest, JournalScope, Redemption, ToolClass};
pub use reservation::{CallId, InstanceId, Reservation};
pub use row::{MAX_INLINE_OUTCOME_BYTES, Outcome};

use handback_token::Purpose as _;

use crate::Millis;

/// How long an outcome is kept after its commit: a client that retries for longer than a day is not
/// retrying any more.
pub const COMMITTED_LIFE_MS: Millis = 24 * 60 * 60 * 1_000;

/// How long it is kept that a single-use token was redeemed, with the outcome: longer than any token
/// of the same id can come.
///
/// The call that asked may have had a key. For [`COMMITTED_LIFE_MS`] after *its* commit it is
/// replayed, and each replay seals the same id anew. All rounds that follow live from the birth of
/// the first one's token. So the last token of any round ends the life of a state after the last
/// replay of the question, which was committed before the redemption was: 25 hours. The second day
/// is for clocks: of replicas, and of tokens that are taken a little late.
pub const REDEEMED_LIFE_MS: Millis = COMMITTED_LIFE_MS + STATE_LIFE_MS + COMMITTED_LIFE_MS;

/// How long a state can live, whatever is configured.
const STATE_LIFE_MS: Millis = handback_token::State::MAX_LIFE_S as Millis * 1_000;

/// How long it is remembered that nobody knows: time for a person to look, weekends included.
pub const AMBIGUOUS_LIFE_MS: Millis = 7 * 24 * 60 * 60 * 1_000;

const _: () = assert!(
    AMBIGUOUS_LIFE_MS >= REDEEMED_LIFE_MS,
    "a redemption of which nobody knows is not forgotten before one that is known"
);
