//! What can be done with held values.

use std::fmt;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use handback_identity::{VerifiedPrincipal, binding};
use handback_token::Handle;
use rand_core::CryptoRng;

use super::error::HeldError;
use super::options::{Allowance, HeldOptions, NewValue};
use super::reader::HeldReader;
use super::row::{MAX_KIND_BYTES, Name, Place, Row, Space, State, chunks, rows};
use super::sweep::Progress;
use super::tally::Taken;
use super::usage::RowChange;
use super::writer::HeldWriter;
use super::{MAX_NOTE_BYTES, TOMBSTONE_LIFE_MS, file};
use crate::encrypted::key::Keys;
use crate::owner::owner_tag;
use crate::{Change, Kv, KvBatch, Millis, StoreError};

/// How long anything is held, whatever the options say: what is counted is counted for longer.
pub(super) const MAX_LIFE_MS: Millis = 8 * 24 * 60 * 60 * 1_000;

/// Which part of the idle life passes before it is written down that a value was used.
const USED_PART: Millis = 8;

/// Chunks that are removed at once.
const REMOVED_PER_WRITE: u64 = 256;

/// The name of a value that only tokens and rows refer to. `Debug` does not show it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpillId([u8; 16]);

impl SpillId {
    /// The one with these bytes, which a token or a row carried.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The 16 bytes.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0
    }
}

impl fmt::Debug for SpillId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SpillId(..)")
    }
}

/// Values that are held. Cheap to clone.
#[derive(Debug)]
pub struct HeldStore<S> {
    pub(super) shared: Arc<Shared<S>>,
}

impl<S> Clone for HeldStore<S> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

#[derive(Debug)]
pub(super) struct Shared<S> {
    pub(super) kv: S,
    pub(super) options: HeldOptions,
    pub(super) progress: Mutex<Progress>,
    pub(super) taken: Taken,
}

/// A value that is held for whoever asked.
#[derive(Clone)]
pub struct Held {
    pub(super) name: Name,
    pub(super) row: Row,
}

/// What is known of a name.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_enums, reason = "each is another answer outside")]
pub enum LookUp {
    /// It is held.
    Found(Held),
    /// It was held for this caller, until some time within the last 24 hours.
    Expired,
    /// Everything else: unknown, long gone, or somebody else's.
    Unknown,
}

impl LookUp {
    /// What was found.
    #[must_use]
    pub fn found(self) -> Option<Held> {
        match self {
            Self::Found(held) => Some(held),
            Self::Expired | Self::Unknown => None,
        }
    }
}

impl Held {
    /// Its handle. `None` if it is spilled.
    #[must_use]
    pub fn handle(&self) -> Option<Handle> {
        self.name.handle()
    }

    /// Its name, if it is spilled.
    #[must_use]
    pub fn spill_id(&self) -> Option<SpillId> {
        self.handle().is_none().then_some(SpillId(self.name.id))
    }

    /// How many bytes it has.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.row.size
    }

    /// Whether it has none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.row.size == 0
    }

    /// What kind of value it is.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.row.kind
    }

    /// What else is known of it.
    #[must_use]
    pub const fn note(&self) -> &Bytes {
        &self.row.note
    }

    /// When it was made.
    #[must_use]
    pub const fn created(&self) -> Millis {
        self.row.created
    }

    /// When it ends, if it is not used before.
    #[must_use]
    pub const fn until(&self) -> Millis {
        self.row.end
    }

    /// When it ends, however often it is used.
    #[must_use]
    pub const fn until_at_most(&self) -> Millis {
        if self.row.idle_ms == 0 { self.row.end } else { self.row.last_end }
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held")
            .field("handle", &self.handle())
            .field("len", &self.len())
            .field("kind", &self.kind())
            .field("until", &self.until())
            .finish_non_exhaustive()
    }
}

impl<S: Kv> HeldStore<S> {
    /// Values in this store. The folder for files, if there is one, is made if it is not there.
    ///
    /// # Errors
    ///
    /// [`HeldError::File`] if the folder cannot be made.
    pub fn new(kv: S, options: HeldOptions) -> Result<Self, HeldError> {
        if let Some(folder) = &options.folder {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let shared = Shared { kv, options, progress: Mutex::default(), taken: Taken::default() };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Holds a value under a new handle.
    ///
    /// # Errors
    ///
    /// [`HeldError`]; then nothing is held.
    pub fn put<R: CryptoRng + ?Sized>(
        &self,
        principal: &VerifiedPrincipal,
        new: NewValue,
        bytes: &[u8],
        rng: &mut R,
        now: Millis,
    ) -> Result<Held, HeldError> {
        let mut writer = self.writer(principal, new, rng, now)?;
        writer.write(bytes, now)?;
        writer.finish(now)
    }

    /// Writes a value that will be held under a new handle.
    ///
    /// # Errors
    ///
    /// [`HeldError::Description`].
    pub fn writer<R: CryptoRng + ?Sized>(
        &self,
        principal: &VerifiedPrincipal,
        new: NewValue,
        rng: &mut R,
        now: Millis,
    ) -> Result<HeldWriter<S>, HeldError> {
        self.new_writer(principal, Space::Handle, Handle::generate(rng).to_bytes(), new, now)
    }

    /// Holds what does not fit into a token or a row.
    ///
    /// # Errors
    ///
    /// [`HeldError`]; then nothing is held.
    pub fn spill<R: CryptoRng + ?Sized>(
        &self,
        principal: &VerifiedPrincipal,
        new: NewValue,
        bytes: &[u8],
        rng: &mut R,
        now: Millis,
    ) -> Result<SpillId, HeldError> {
        let mut writer = self.spill_writer(principal, new, rng, now)?;
        writer.write(bytes, now)?;
        Ok(SpillId(writer.finish(now)?.name.id))
    }

    /// Writes what does not fit into a token or a row.
    ///
    /// # Errors
    ///
    /// [`HeldError::Description`].
    pub fn spill_writer<R: CryptoRng + ?Sized>(
        &self,
        principal: &VerifiedPrincipal,
        new: NewValue,
        rng: &mut R,
        now: Millis,
    ) -> Result<HeldWriter<S>, HeldError> {
        let mut id = [0; 16];
        rng.fill_bytes(&mut id);
        self.new_writer(principal, Space::Spill, id, new, now)
    }

    /// Writes what does not fit into a token or a row, under an id that stands for these bytes and no
    /// others: random, or a digest of them. Ids of one principal are no ids of another.
    ///
    /// [`HeldWriter::finish`] is [`HeldError::Gone`] if something is, or was lately, under this id.
    ///
    /// # Errors
    ///
    /// [`HeldError::Description`].
    pub fn spill_writer_under(
        &self,
        principal: &VerifiedPrincipal,
        id: SpillId,
        new: NewValue,
        now: Millis,
    ) -> Result<HeldWriter<S>, HeldError> {
        self.new_writer(principal, Space::Spill, id.0, new, now)
    }

    /// What a handle names for this caller. Looking is using.
    ///
    /// # Errors
    ///
    /// [`HeldError::Store`].
    pub fn look_up(
        &self,
        handle: Handle,
        principal: &VerifiedPrincipal,
        now: Millis,
    ) -> Result<LookUp, HeldError> {
        self.find(Space::Handle, handle.to_bytes(), principal, now)
    }

    /// What was spilled under an id for this caller. Looking is using.
    ///
    /// # Errors
    ///
    /// [`HeldError::Store`].
    pub fn look_up_spill(
        &self,
        id: SpillId,
        principal: &VerifiedPrincipal,
        now: Millis,
    ) -> Result<LookUp, HeldError> {
        self.find(Space::Spill, id.0, principal, now)
    }

    /// Reads a value that was found.
    ///
    /// # Errors
    ///
    /// [`HeldError::Gone`] if it is a file that is not here.
    pub fn read(&self, held: &Held, now: Millis) -> Result<HeldReader<S>, HeldError> {
        HeldReader::open(Arc::clone(&self.shared), held, now)
    }

    /// The handles of a caller, in the order of their random bytes, after one of them or from the
    /// first on; at most `limit`. Listing is not using.
    ///
    /// # Errors
    ///
    /// [`HeldError::Store`].
    pub fn list(
        &self,
        principal: &VerifiedPrincipal,
        after: Option<Handle>,
        limit: usize,
        now: Millis,
    ) -> Result<Vec<Held>, HeldError> {
        let owner = owner_tag(principal);
        let prefix = rows(&owner, Space::Handle);
        let name = |handle: Handle| Name::new(owner.clone(), Space::Handle, handle.to_bytes());
        let mut after = after.map(|handle| name(handle).row());
        let mut found = Vec::new();
        while found.len() < limit {
            let page = (limit - found.len()).min(super::usage::PAGE);
            let entries = self.shared.kv.scan(prefix.as_bytes(), after.as_deref(), page, now)?;
            let is_last = entries.len() < page;
            after = entries.last().map(|(key, _)| key.clone());
            for (key, stored) in entries {
                let name = Name::parse_row(&key).ok_or(HeldError::Damaged)?;
                let row = Row::decode(stored)?;
                let is_theirs = binding::stored_matches(&row.binding, principal);
                if is_theirs && row.state == State::Held && now < row.end {
                    found.push(Held { name, row });
                }
            }
            if is_last {
                break;
            }
        }
        Ok(found)
    }

    /// Ends what a handle names. Gives whether it was held for this caller.
    ///
    /// # Errors
    ///
    /// [`HeldError`].
    pub fn remove(
        &self,
        handle: Handle,
        principal: &VerifiedPrincipal,
        now: Millis,
    ) -> Result<bool, HeldError> {
        self.remove_named(Space::Handle, handle.to_bytes(), principal, now)
    }

    /// Ends what was spilled under an id. Gives whether it was held for this caller.
    ///
    /// # Errors
    ///
    /// [`HeldError`].
    pub fn remove_spill(
        &self,
        id: SpillId,
        principal: &VerifiedPrincipal,
        now: Millis,
    ) -> Result<bool, HeldError> {
        self.remove_named(Space::Spill, id.0, principal, now)
    }

    /// The longest life of a value, however often it is used.
    #[must_use]
    pub fn longest_ms(&self) -> Millis {
        self.shared.options.longest_ms
    }

    /// How many bytes count for a principal, at most.
    ///
    /// # Errors
    ///
    /// [`HeldError::Store`].
    pub fn used_bytes(&self, principal: &VerifiedPrincipal, now: Millis) -> Result<u64, HeldError> {
        Ok(self.shared.used(&owner_tag(principal), now)?)
    }

    /// Whether more may be [owed](NewValue::owed) by a principal: together with what is held, twice as
    /// much as may be held. So who holds all that it may has as much room again for what it calls.
    ///
    /// # Errors
    ///
    /// [`HeldError::Store`].
    pub fn may_owe(&self, principal: &VerifiedPrincipal, now: Millis) -> Result<bool, HeldError> {
        self.shared.may_owe(&owner_tag(principal), now)
    }

    fn new_writer(
        &self,
        principal: &VerifiedPrincipal,
        space: Space,
        id: [u8; 16],
        new: NewValue,
        now: Millis,
    ) -> Result<HeldWriter<S>, HeldError> {
        if new.kind.len() > MAX_KIND_BYTES || new.note.len() > MAX_NOTE_BYTES {
            return Err(HeldError::Description);
        }
        let options = &self.shared.options;
        let longest =
            new.life.unwrap_or_else(|| options.longest_ms.max(new.least_ms)).min(MAX_LIFE_MS);
        let row = Row {
            state: State::Writing,
            place: Place::Store,
            is_metered: true,
            size: 0,
            charged: 0,
            created: now,
            end: now,
            last_end: now.saturating_add(longest),
            idle_ms: if new.life.is_some() { 0 } else { options.idle_ms },
            binding: principal.binding(),
            kind: new.kind,
            note: new.note,
        };
        let name = Name::new(owner_tag(principal), space, id);
        let (least_ms, allowance) = (new.least_ms, new.allowance);
        Ok(HeldWriter::new(Arc::clone(&self.shared), name, row, (least_ms, allowance), now))
    }

    fn find(
        &self,
        space: Space,
        id: [u8; 16],
        principal: &VerifiedPrincipal,
        now: Millis,
    ) -> Result<LookUp, HeldError> {
        let name = Name::new(owner_tag(principal), space, id);
        let Some((stored, mut row)) = self.shared.row(&name, now)? else {
            return Ok(LookUp::Unknown);
        };
        if row.state == State::Writing || !binding::stored_matches(&row.binding, principal) {
            return Ok(LookUp::Unknown);
        }
        if row.state == State::Ended || row.end <= now {
            return Ok(LookUp::Expired);
        }
        let end = now.saturating_add(row.idle_ms).min(row.last_end);
        let gained = end.saturating_sub(row.end);
        if gained > 0 && gained >= row.idle_ms / USED_PART {
            row.end = end;
            let change = RowChange {
                name: &name,
                old: Some(&stored),
                change: put(&row),
                charged: (0, 0),
                allowance: Allowance::Quota,
                beside: Vec::new(),
            };
            match self.shared.change_row(change, false, now) {
                // Whoever changed it has used it, or ended it after it was read.
                Ok(()) | Err(HeldError::Gone) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(LookUp::Found(Held { name, row }))
    }

    fn remove_named(
        &self,
        space: Space,
        id: [u8; 16],
        principal: &VerifiedPrincipal,
        now: Millis,
    ) -> Result<bool, HeldError> {
        let name = Name::new(owner_tag(principal), space, id);
        loop {
            let Some((stored, row)) = self.shared.row(&name, now)? else { return Ok(false) };
            let is_held = row.state == State::Held && now < row.end;
            if !is_held || !binding::stored_matches(&row.binding, principal) {
                return Ok(false);
            }
            match self.shared.end(&name, &stored, &row, now) {
                Ok(()) => return Ok(true),
                // It was used meanwhile, which happens seldom: an eighth of its life must pass.
                Err(HeldError::Gone) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl<S: Kv> Shared<S> {
    pub(super) fn row(&self, name: &Name, now: Millis) -> Result<Option<(Bytes, Row)>, StoreError> {
        let Some(stored) = self.kv.get(&name.row(), now)? else { return Ok(None) };
        let row = Row::decode(stored.clone())?;
        Ok(Some((stored, row)))
    }

    pub(super) fn keys(&self) -> Option<&Keys> {
        self.options.keys.as_deref()
    }

    pub(super) fn folder(&self) -> Option<&Path> {
        self.options.folder.as_deref()
    }

    /// Ends a value: it is a tombstone, or nothing if it was never whole, and gives its bytes back.
    pub(super) fn end(
        &self,
        name: &Name,
        stored: &Bytes,
        row: &Row,
        now: Millis,
    ) -> Result<(), HeldError> {
        let change = match row.state {
            State::Held => put(&Row {
                state: State::Ended,
                charged: 0,
                end: row.end.min(now),
                note: Bytes::new(),
                ..row.clone()
            }),
            State::Writing | State::Ended => Change::Remove,
        };
        let change = RowChange {
            name,
            old: Some(stored),
            change,
            charged: (row.charged, 0),
            allowance: Allowance::Quota,
            beside: Vec::new(),
        };
        self.change_row(change, row.is_metered, now)?;
        self.remove_contents(name, row, now)
    }

    /// Removes what a row named. A crash before the end leaves chunks, which end with their time,
    /// or a file without a row, which is swept.
    pub(super) fn remove_contents(
        &self,
        name: &Name,
        row: &Row,
        now: Millis,
    ) -> Result<(), HeldError> {
        if let Some(folder) = self.folder()
            && (row.place != Place::Store || row.state == State::Writing)
        {
            file::remove(folder, name)?;
        }
        if row.place != Place::Store {
            return Ok(());
        }
        // A row that is being written says how much was granted, which is not less than was written.
        let count = chunks(row.size.max(row.charged));
        let mut number = 0;
        while number < count {
            let next = count.min(number + REMOVED_PER_WRITE);
            let changes =
                (number..next).map(|number| (name.chunk(number), Change::Remove)).collect();
            let batch = KvBatch { conditions: Vec::new(), changes };
            self.kv.write(&batch, now).map_err(HeldError::of_write)?;
            number = next;
        }
        Ok(())
    }
}

/// A row, for as long as it is of use to somebody.
pub(super) fn put(row: &Row) -> Change {
    let until = Some(row.end.saturating_add(TOMBSTONE_LIFE_MS));
    Change::Put { value: row.encode(), until }
}
