//! Snapshots and long places as held values of their caller.

use std::sync::Arc;

use handback_identity::VerifiedPrincipal;
use handback_page::CollectionError;
use handback_page::json::ByteSource;
use handback_page::shelf::{Shelf, ShelfId, ShelfWriter};
use handback_store::Kv;
use handback_store::held::{HeldError, HeldWriter, LookUp, NewValue, SpillId};
use handback_token::UnixTime;
use handback_tool::CallHeld;

use super::held::{HeldBytes, failure};

/// The kind of what is on the shelf: other things are spilled, too.
const KIND: &str = "shelf";

/// The shelf of one caller: what is put there counts for its quota.
#[derive(Debug)]
pub(super) struct HeldShelf {
    pub(super) held: CallHeld,
    pub(super) principal: VerifiedPrincipal,
}

impl Shelf for HeldShelf {
    fn put(
        &self,
        id: ShelfId,
        now: UnixTime,
        until: UnixTime,
    ) -> Result<Box<dyn ShelfWriter + '_>, CollectionError> {
        let life_ms = millis(until).saturating_sub(millis(now));
        let new = NewValue::new(KIND).fixed_life(life_ms);
        let (spill, now_ms) = (SpillId::from_bytes(*id.as_bytes()), millis(now));
        let writer = self.held.spill_writer_under(&self.principal, spill, new, now_ms);
        let writer = writer.map_err(failure)?;
        Ok(Box::new(HeldShelfWriter { shelf: self, id, now, writer }))
    }

    fn open(
        &self,
        id: ShelfId,
        now: UnixTime,
    ) -> Result<Option<Arc<dyn ByteSource>>, CollectionError> {
        let (spill, now_ms) = (SpillId::from_bytes(*id.as_bytes()), millis(now));
        let found = self.held.look_up_spill(spill, &self.principal, now_ms).map_err(failure)?;
        let LookUp::Found(value) = found else { return Ok(None) };
        if value.kind() != KIND {
            return Ok(None);
        }
        match HeldBytes::open(&self.held, &value, now_ms) {
            Ok(bytes) => Ok(Some(Arc::new(bytes))),
            Err(HeldError::Gone) => Ok(None),
            Err(error) => Err(failure(error)),
        }
    }
}

struct HeldShelfWriter<'a> {
    shelf: &'a HeldShelf,
    id: ShelfId,
    now: UnixTime,
    writer: HeldWriter<Arc<dyn Kv>>,
}

impl ShelfWriter for HeldShelfWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<(), CollectionError> {
        self.writer.write(bytes, millis(self.now)).map_err(failure)
    }

    fn finish(self: Box<Self>) -> Result<(), CollectionError> {
        let Self { shelf, id, now, writer } = *self;
        match writer.finish(millis(now)) {
            Ok(_) => Ok(()),
            // Somebody else put the same there at the same time.
            Err(HeldError::Gone) if shelf.open(id, now)?.is_some() => Ok(()),
            Err(error) => Err(failure(error)),
        }
    }
}

const fn millis(time: UnixTime) -> u64 {
    time.as_secs().saturating_mul(1000)
}
