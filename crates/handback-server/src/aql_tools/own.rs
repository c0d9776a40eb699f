//! What belongs to the caller of a request.

use std::sync::Arc;

use handback_gateway::bound::HeldMedia;
use handback_gateway::note::HeldNote;
use handback_page::aql::{NewOwn, Own, OwnEntry, OwnError, OwnList, OwnValue};
use handback_page::json::{self, InMemory, Pointer};
use handback_page::shelf::Shelf;
use handback_page::{Collection, CollectionError};
use handback_store::held::{Held, HeldError, LookUp, NewValue};
use handback_store::revocations::{Revocations, Subject};
use handback_token::{Handle, Sealer, SlotNumber, UnixTime};
use rand::CryptoRng;

use super::held::{HeldBytes, Opened, failure};
use super::shelf::HeldShelf;

/// Held values that a list of collections has at most.
const LISTED_MAX: usize = 1_000;

/// What belongs to a caller, at the time of one look.
#[derive(Debug)]
pub(super) struct Belongings<'a> {
    pub(super) shelf: HeldShelf,
    pub(super) opened: &'a Opened,
    pub(super) revocations: Revocations,
    pub(super) sealer: &'a Sealer,
    pub(super) now_ms: u64,
}

impl Belongings<'_> {
    fn is_good(&self, value: &Held) -> bool {
        let subject = Subject::of(&self.shelf.principal).born(value.created());
        !self.revocations.is_revoked(&subject)
    }

    /// The value that a handle names for the caller.
    pub(super) fn found(&self, handle: Handle) -> Result<Held, OwnError> {
        let HeldShelf { held, principal } = &self.shelf;
        let found = held.look_up(handle, principal, self.now_ms).map_err(failure)?;
        match found {
            LookUp::Found(value) if self.is_good(&value) => Ok(value),
            LookUp::Expired => {
                self.opened.forget(handle);
                Err(OwnError::Expired)
            }
            LookUp::Found(_) => Err(OwnError::Revoked),
            LookUp::Unknown => Err(OwnError::Unknown),
        }
    }
}

impl Own for Belongings<'_> {
    fn shelf(&self) -> &dyn Shelf {
        &self.shelf
    }

    fn collection(
        &self,
        handle: Handle,
        part: Option<&Pointer>,
    ) -> Result<Arc<dyn Collection>, OwnError> {
        let value = self.found(handle)?;
        Ok(self.opened.collection(handle, part, &self.shelf.held, &value, self.now_ms)?)
    }

    fn value(&self, handle: Handle) -> Result<OwnValue, OwnError> {
        let value = self.found(handle)?;
        let bytes = HeldBytes::open(&self.shelf.held, &value, self.now_ms).map_err(failure)?;
        let (kind, note) = (value.kind().to_owned(), value.note().to_vec());
        Ok(OwnValue { kind, note, bytes: Arc::new(bytes) })
    }

    fn hold(&self, new: NewOwn<'_>, rng: &mut dyn CryptoRng) -> Result<OwnEntry, CollectionError> {
        let HeldShelf { held, principal } = &self.shelf;
        let value = NewValue::new(new.kind).note(derived_note(&new));
        let value = held.put(principal, value, new.bytes, rng, self.now_ms);
        let value = value.map_err(|error| match error {
            HeldError::Quota { limit } => {
                let (what, unit) = ("held value", "bytes held for one caller");
                CollectionError::TooLarge { what, unit, limit }
            }
            error => failure(error),
        })?;
        entry(&value).ok_or_else(|| failure(HeldError::Damaged))
    }

    fn list(&self) -> Result<OwnList, CollectionError> {
        let HeldShelf { held, principal } = &self.shelf;
        let found = held.list(principal, None, LISTED_MAX + 1, self.now_ms).map_err(failure)?;
        let more = found.len() > LISTED_MAX;
        let good = found.into_iter().take(LISTED_MAX).filter(|value| self.is_good(value));
        Ok(OwnList { entries: good.filter_map(|value| entry(&value)).collect(), more })
    }

    fn is_revoked(&self, slot: SlotNumber, expires_at: UnixTime) -> bool {
        let born = self.sealer.cursor_born_after(expires_at);
        let subject = Subject::of(&self.shelf.principal).slot(slot);
        self.revocations.is_revoked(&subject.born(born.as_secs().saturating_mul(1000)))
    }
}

/// What a list says of a held value.
fn entry(value: &Held) -> Option<OwnEntry> {
    let HeldNote { upstream, tool, items, media } = HeldNote::read(value.note());
    let some = |text: String| Some(text).filter(|text| !text.is_empty());
    Some(OwnEntry {
        handle: value.handle()?,
        kind: match media {
            Some(HeldMedia::Block(media)) => media,
            Some(HeldMedia::Blocks) | None => value.kind().to_owned(),
        },
        bytes: value.len(),
        until: UnixTime::from_secs(value.until() / 1000),
        upstream,
        tool: some(tool),
        pointer: some(items),
    })
}

/// The note of what a value was made of, without the place of its items if they are there no more.
fn derived_note(new: &NewOwn<'_>) -> Vec<u8> {
    let note = HeldNote::read(new.note);
    let is_kept = note.items.is_empty()
        || note.items.parse().is_ok_and(|items| {
            matches!(json::locate(&InMemory::new(new.bytes, 0), &items), Ok(Some(_)))
        });
    if is_kept { new.note.to_vec() } else { HeldNote { items: String::new(), ..note }.to_bytes() }
}
