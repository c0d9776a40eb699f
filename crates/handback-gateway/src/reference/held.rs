//! What is held for a caller.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use handback_identity::VerifiedPrincipal;
use handback_page::CollectionError;
use handback_page::json::ByteSource;
use handback_store::held::{Held, HeldError, HeldReader, LookUp};
use handback_store::revocations::{Revocations, Subject};
use handback_store::{Kv, Millis};
use handback_token::Handle;
use handback_tool::CallHeld;

use super::{Fault, Fetch, HandleRefusal, Source};
use crate::note::HeldNote;

/// What is held for one caller, at one time.
#[derive(Debug)]
pub struct HeldValues<'a> {
    held: &'a CallHeld,
    principal: &'a VerifiedPrincipal,
    revocations: &'a Revocations,
    now: Millis,
}

impl<'a> HeldValues<'a> {
    /// What is held for `principal`, except what was revoked.
    #[must_use]
    pub const fn of(
        principal: &'a VerifiedPrincipal,
        held: &'a CallHeld,
        revocations: &'a Revocations,
        now: Millis,
    ) -> Self {
        Self { held, principal, revocations, now }
    }

    fn is_good(&self, value: &Held) -> bool {
        let subject = Subject::of(self.principal).born(value.created());
        !self.revocations.is_revoked(&subject)
    }
}

impl Fetch for HeldValues<'_> {
    fn fetch(&mut self, handle: Handle) -> Result<Source, Fault> {
        let found = self.held.look_up(handle, self.principal, self.now).map_err(failure)?;
        let value = match found {
            LookUp::Found(value) if self.is_good(&value) => value,
            LookUp::Found(_) => return Err(Fault::Handle(HandleRefusal::Revoked)),
            LookUp::Expired => return Err(Fault::Handle(HandleRefusal::Expired)),
            LookUp::Unknown => return Err(Fault::Handle(HandleRefusal::Unknown)),
        };
        let reader = self.held.read(&value, self.now).map_err(failure)?;
        Ok(Source {
            kind: value.kind().to_owned(),
            note: HeldNote::read(value.note()),
            bytes: Box::new(HeldBytes(reader)),
        })
    }
}

fn failure(error: HeldError) -> Fault {
    match error {
        HeldError::Gone => Fault::Handle(HandleRefusal::Expired),
        error => {
            tracing::error!(%error, "a held value cannot be reached");
            Fault::Unavailable
        }
    }
}

/// A held value, read by position.
#[derive(Debug)]
struct HeldBytes(HeldReader<Arc<dyn Kv>>);

impl ByteSource for HeldBytes {
    fn size_bytes(&self) -> u64 {
        self.0.len()
    }

    fn edition(&self) -> u64 {
        // A handle never stands for other bytes.
        0
    }

    fn read(&self, range: Range<u64>) -> Result<Cow<'_, [u8]>, CollectionError> {
        let length = range.end.checked_sub(range.start).filter(|_| range.end <= self.0.len());
        let length = length.and_then(|length| usize::try_from(length).ok());
        let mut bytes = vec![0; length.ok_or(CollectionError::Changed)?];
        let gone = |what: &str| CollectionError::Unavailable(what.to_owned());
        let read = self.0.read_at(range.start, &mut bytes);
        let read = read.map_err(|error| gone(&error.to_string()))?;
        if read == bytes.len() { Ok(Cow::Owned(bytes)) } else { Err(gone("it was cut")) }
    }
}

#[cfg(test)]
mod tests;
