//! What readers see of a stream.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::chain::Head;
use crate::duplex::Mark;
use crate::hub::Refusal;
use crate::key::{RecordKey, StreamKey};
use crate::name::StreamId;
use crate::record::{Genesis, Life};
use crate::state::Standing;

/// A stream as of its last commit.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct View {
    /// What does not change.
    pub meta: Arc<Meta>,
    /// The number of the last record that readers read.
    pub number: u64,
    /// The number of the last record, which may be an end without data.
    pub last: u64,
    /// The head after it.
    pub head: Head,
    /// Whether no more will come.
    pub closed: bool,
    /// Whether it is kept for its forks only.
    pub deleted: bool,
    /// How the producer stands that speaks for the client of a duplex.
    pub client: Option<Standing>,
    /// Which chunk the handler of a duplex has consumed last.
    pub consumed: Option<Mark>,
}

/// What does not change about a stream, but for when it was last used.
#[derive(Debug)]
pub struct Meta {
    id: StreamId,
    owner: String,
    path: String,
    content_type: String,
    life: Life,
    key_commitment: Option<[u8; 32]>,
    created: u64,
    touched: AtomicU64,
    /// When it may have been used last, although nobody noted it.
    unnoted: AtomicU64,
    segments: Vec<Segment>,
    is_json: bool,
    is_text: bool,
}

/// Records that a stream shows: its own, or some that it shares with what it was forked from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "readers take it apart")]
pub struct Segment {
    /// In which log they are.
    pub id: StreamId,
    /// The records after this number.
    pub after: u64,
    /// Up to this one, or to the end.
    pub upto: Option<u64>,
}

/// What decrypts what a stream shows: made by [`Meta::unlock`]; an empty one decrypts nothing.
#[derive(Debug, Default)]
pub struct RecordKeys(Vec<RecordKey>);

impl RecordKeys {
    /// The key of the records of one log.
    #[must_use]
    pub fn of(&self, log: StreamId) -> Option<&RecordKey> {
        self.0.iter().find(|key| key.stream() == log)
    }

    /// The key under which is appended: that of the last segment.
    #[must_use]
    pub fn into_own(mut self) -> Option<RecordKey> {
        self.0.pop()
    }
}

impl Segment {
    pub(crate) const fn own(id: StreamId, start: u64) -> Self {
        Self { id, after: start, upto: None }
    }
}

impl Meta {
    pub(crate) fn new(
        id: StreamId,
        genesis: &Genesis,
        created: u64,
        touched: u64,
        segments: Vec<Segment>,
    ) -> Self {
        let is_json = crate::state::same_type(&genesis.content_type, "application/json");
        let kind = genesis.content_type.trim_start().get(..5);
        let is_text = kind.is_some_and(|kind| kind.eq_ignore_ascii_case("text/"));
        Self {
            id,
            owner: genesis.owner.clone(),
            path: genesis.path.clone(),
            content_type: genesis.content_type.clone(),
            life: genesis.life,
            key_commitment: genesis.key_commitment,
            created,
            touched: AtomicU64::new(touched),
            unnoted: AtomicU64::new(0),
            segments,
            is_json,
            is_text: is_json || is_text,
        }
    }

    /// What a fork at a number shares with it.
    pub(crate) fn shared_upto(&self, number: u64) -> Vec<Segment> {
        let shared = self.segments.iter().filter(|segment| segment.after < number);
        let cut = |upto: Option<u64>| Some(upto.map_or(number, |upto| upto.min(number)));
        shared.map(|segment| Segment { upto: cut(segment.upto), ..*segment }).collect()
    }

    /// Which stream.
    #[must_use]
    pub const fn id(&self) -> StreamId {
        self.id
    }

    /// In whose namespace it is.
    #[must_use]
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// What was asked for when it was created.
    #[must_use]
    pub fn content_type(&self) -> &str {
        &self.content_type
    }

    /// Whether its appends are JSON messages.
    #[must_use]
    pub const fn is_json(&self) -> bool {
        self.is_json
    }

    /// Whether its bytes are text: JSON, or `text/…`.
    #[must_use]
    pub const fn is_text(&self) -> bool {
        self.is_text
    }

    /// How long it lives.
    #[must_use]
    pub const fn life(&self) -> Life {
        self.life
    }

    /// What its own key is known by, if it is encrypted.
    #[must_use]
    pub const fn key_commitment(&self) -> Option<&[u8; 32]> {
        self.key_commitment.as_ref()
    }

    /// What decrypts the records of its own, and of what it was forked from: nothing, if it is not
    /// encrypted.
    ///
    /// # Errors
    ///
    /// [`Refusal::Key`] if this is not its key, or it has none, or needs one.
    pub fn unlock(&self, key: Option<&StreamKey>) -> Result<RecordKeys, Refusal> {
        match (&self.key_commitment, key) {
            (None, None) => Ok(RecordKeys(Vec::new())),
            (Some(commitment), Some(key)) if key.is_committed(self.id, commitment) => {
                let keys = self.segments.iter().map(|segment| key.records(segment.id));
                Ok(RecordKeys(keys.collect()))
            }
            _ => Err(Refusal::Key),
        }
    }

    /// When it was created, in milliseconds since 1970.
    #[must_use]
    pub const fn created(&self) -> u64 {
        self.created
    }

    /// When it was last read or written.
    #[must_use]
    pub fn touched(&self) -> u64 {
        self.touched.load(Ordering::Relaxed)
    }

    /// It was read or written now.
    pub fn touch(&self, now: u64) {
        self.touched.fetch_max(now, Ordering::Relaxed);
    }

    /// It may have been used until then, although nobody noted it.
    pub(crate) fn allow_for_use_until(&self, time: u64) {
        self.unnoted.store(time, Ordering::Relaxed);
    }

    pub(crate) fn unnoted(&self) -> u64 {
        self.unnoted.load(Ordering::Relaxed)
    }

    /// When it ends if nobody reads or writes it any more.
    #[must_use]
    pub fn ends_at(&self) -> Option<u64> {
        match self.life {
            Life::Unlimited => None,
            Life::Sliding { ttl_s } => {
                let used = self.touched().max(self.unnoted());
                Some(used.saturating_add(ttl_s.saturating_mul(1000)))
            }
            Life::Until(until) => Some(until),
        }
    }

    /// Whether its life is over.
    #[must_use]
    pub fn is_over(&self, now: u64) -> bool {
        self.ends_at().is_some_and(|end| now >= end)
    }

    /// What it shows, in order: the last one is its own.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The records after a number, of one log: as far as that one goes.
    #[must_use]
    pub fn segment_after(&self, number: u64) -> Segment {
        let found =
            self.segments.iter().find(|segment| segment.upto.is_none_or(|upto| number < upto));
        let found = found.copied().unwrap_or_else(|| Segment::own(self.id, number));
        Segment { after: found.after.max(number), ..found }
    }
}
