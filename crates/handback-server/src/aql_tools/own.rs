//! What belongs to the caller of a request.

use std::sync::Arc;

use handback_page::aql::{Own, OwnEntry, OwnError, OwnList};
use handback_page::shelf::Shelf;
use handback_page::{Collection, CollectionError};
use handback_store::held::{Held, LookUp};
use handback_store::revocations::{Revocations, Subject};
use handback_token::{Handle, Sealer, SlotNumber, UnixTime};

use super::held::{Opened, failure};
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
}

impl Own for Belongings<'_> {
    fn shelf(&self) -> &dyn Shelf {
        &self.shelf
    }

    fn collection(&self, handle: Handle) -> Result<Arc<dyn Collection>, OwnError> {
        let HeldShelf { held, principal } = &self.shelf;
        let found = held.look_up(handle, principal, self.now_ms).map_err(failure)?;
        let value = match found {
            LookUp::Found(value) if self.is_good(&value) => value,
            LookUp::Expired => return Err(OwnError::Expired),
            LookUp::Found(_) => return Err(OwnError::Revoked),
            LookUp::Unknown => return Err(OwnError::Unknown),
        };
        Ok(self.opened.collection(handle, held, &value, self.now_ms)?)
    }

    fn list(&self) -> Result<OwnList, CollectionError> {
        let HeldShelf { held, principal } = &self.shelf;
        let found = held.list(principal, None, LISTED_MAX + 1, self.now_ms).map_err(failure)?;
        let more = found.len() > LISTED_MAX;
        let good = found.into_iter().take(LISTED_MAX).filter(|value| self.is_good(value));
        let entries = good.filter_map(|value| {
            let until = UnixTime::from_secs(value.until() / 1000);
            let (kind, bytes) = (value.kind().to_owned(), value.len());
            Some(OwnEntry { handle: value.handle()?, kind, bytes, until })
        });
        Ok(OwnList { entries: entries.collect(), more })
    }

    fn is_revoked(&self, slot: SlotNumber, expires_at: UnixTime) -> bool {
        let born = self.sealer.cursor_born_after(expires_at);
        let subject = Subject::of(&self.shelf.principal).slot(slot);
        self.revocations.is_revoked(&subject.born(born.as_secs().saturating_mul(1000)))
    }
}
