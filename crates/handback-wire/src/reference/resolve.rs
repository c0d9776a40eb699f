//! From arguments with references to arguments without.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use handback_page::CollectionError;
use handback_page::json::{self, ByteSource};
use handback_page::scalar::write_text;
use handback_token::{Handle, TokenFingerprint};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::error::{Fault, ReferenceError};
use super::find::{Reference, find, mentions_held};
use super::rules::{OWN, Rules};
use crate::note::HeldNote;
use crate::schema::{BoundedValidator, Verdict};

/// Characters of a path in the audit at most: paths come from callers.
const AUDITED_CHARS_MAX: usize = 256;

/// Characters of a message about a schema at most.
const FAULT_CHARS_MAX: usize = 300;

/// A call whose arguments may name held values.
#[derive(Clone, Copy)]
#[expect(clippy::exhaustive_structs, reason = "written as a literal: nothing may be left out")]
pub struct Call<'a> {
    /// The upstream that it goes to.
    pub upstream: &'a str,
    /// The tool.
    pub tool: &'a str,
    /// What may be passed.
    pub rules: &'a Rules,
    /// The schema of the arguments. Those that name nothing are not checked: they go upstream as they
    /// came.
    pub schema: Option<&'a BoundedValidator>,
}

impl fmt::Debug for Call<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("upstream", &self.upstream)
            .field("tool", &self.tool)
            .field("rules", self.rules)
            .finish_non_exhaustive()
    }
}

/// Where values are held.
///
/// One wrong answer is dangerous: a value of somebody else. Whoever implements it checks the owner,
/// and does not tell somebody else's value from none.
pub trait Fetch {
    /// What a handle names for the caller. It is not read yet.
    ///
    /// # Errors
    ///
    /// [`Fault::Handle`] if it names nothing for this caller, [`Fault::Unavailable`].
    fn fetch(&mut self, handle: Handle) -> Result<Source, Fault>;
}

/// What a handle names.
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "written as a literal")]
pub struct Source {
    /// Its media type: `text/…` is text, everything else JSON.
    pub kind: String,
    /// Where it came from.
    pub note: HeldNote,
    /// Its bytes.
    pub bytes: Box<dyn ByteSource>,
}

/// Arguments without references.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "taken apart by who makes the call")]
pub struct Resolution<'a> {
    /// Their text.
    pub arguments: Cow<'a, str>,
    /// What was put in, for the audit.
    pub resolved: Vec<Resolved>,
}

/// A value that was put into arguments, as the audit is told of it. Paths are cut to 256 characters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Resolved {
    /// The upstream that made the value; absent for our own tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_upstream: Option<String>,
    /// The tool that gave it.
    pub from_tool: String,
    /// The upstream that gets it.
    pub to_upstream: String,
    /// The tool that gets it.
    pub to_tool: String,
    /// Where in the arguments, as a JSON pointer.
    pub place: String,
    /// The fingerprint of the handle.
    pub handle: String,
    /// Which part of the value, as a JSON pointer; empty for all of it.
    pub path: String,
    /// How many bytes the part has where it is held.
    pub bytes: u64,
}

/// Puts held values into the arguments of a call, in the place of what names them.
///
/// # Errors
///
/// [`ReferenceError`]; then the call must not be made.
pub fn resolve<'a>(
    arguments: &'a str,
    call: &Call<'_>,
    held: &mut dyn Fetch,
) -> Result<Resolution<'a>, ReferenceError> {
    let untouched = Resolution { arguments: Cow::Borrowed(arguments), resolved: Vec::new() };
    if !mentions_held(arguments) {
        return Ok(untouched);
    }
    let references = find(arguments)?;
    if references.is_empty() {
        return Ok(untouched);
    }
    let mut room = Room { limit: call.rules.bytes_max, used: 0 };
    let mut parts = Vec::with_capacity(references.len());
    for reference in references {
        let part = Part::find(&reference, call, held, &mut room);
        let part = part.map_err(|fault| ReferenceError::new(reference.place.clone(), fault))?;
        parts.push((reference, part));
    }
    let text = replaced(arguments, &parts, &room)?;
    if let Some(schema) = call.schema {
        check(&text, schema)?;
    }
    let resolved = parts.iter().map(|(reference, part)| part.audited(reference, call)).collect();
    Ok(Resolution { arguments: Cow::Owned(text), resolved })
}

/// How many bytes the values of a call may have together.
struct Room {
    limit: u64,
    used: u64,
}

impl Room {
    fn take(&mut self, bytes: u64) -> Result<(), Fault> {
        self.used = self.used.saturating_add(bytes);
        if self.used > self.limit { Err(Fault::TooLarge { limit: self.limit }) } else { Ok(()) }
    }
}

/// The part of a held value that a reference is about.
struct Part {
    source: Source,
    range: Range<u64>,
}

impl Part {
    /// Finds it. Of its bytes, none are kept.
    fn find(
        reference: &Reference,
        call: &Call<'_>,
        held: &mut dyn Fetch,
        room: &mut Room,
    ) -> Result<Self, Fault> {
        let source = held.fetch(reference.handle)?;
        let (from, to) = (source.note.upstream.as_deref(), call.upstream);
        if !call.rules.allow(from, to) {
            let from = from.unwrap_or(OWN).to_owned();
            return Err(Fault::Direction { from, to: to.to_owned() });
        }
        let range = match (source.is_text(), reference.pointer.tokens()) {
            // That it is JSON is seen when it is read.
            (_, []) => 0..source.bytes.size_bytes(),
            (true, _) => return Err(Fault::TextHasNoParts),
            (false, _) => {
                let found = json::locate(&*source.bytes, &reference.pointer).map_err(unreadable)?;
                found.ok_or(Fault::Nothing)?
            }
        };
        room.take(range.end.saturating_sub(range.start))?;
        Ok(Self { source, range })
    }

    /// Writes it as JSON.
    fn write(&self, is_text: bool, out: &mut String) -> Result<(), Fault> {
        let bytes = self.source.bytes.read(self.range.clone()).map_err(unreadable)?;
        let text = str::from_utf8(&bytes).map_err(|_| Fault::Unreadable)?;
        if self.source.is_text() {
            write_text(text, out);
            return Ok(());
        }
        // One value, and nothing beside it: `1,"admin":true` would be two arguments.
        let value: &RawValue = serde_json::from_str(text).map_err(|_| Fault::Unreadable)?;
        if is_text && !value.get().starts_with('"') {
            write_text(value.get(), out);
        } else {
            out.push_str(value.get());
        }
        Ok(())
    }

    fn audited(&self, reference: &Reference, call: &Call<'_>) -> Resolved {
        let cut = |text: &str| text.chars().take(AUDITED_CHARS_MAX).collect();
        let HeldNote { upstream, tool, .. } = &self.source.note;
        Resolved {
            from_upstream: upstream.clone(),
            from_tool: tool.clone(),
            to_upstream: call.upstream.to_owned(),
            to_tool: call.tool.to_owned(),
            place: cut(&reference.place),
            handle: TokenFingerprint::of(&reference.handle.to_string()).to_string(),
            path: cut(&reference.pointer.to_string()),
            bytes: self.range.end.saturating_sub(self.range.start),
        }
    }
}

impl Source {
    fn is_text(&self) -> bool {
        self.kind.starts_with("text/")
    }
}

/// The arguments with the parts in the place of their references.
fn replaced(
    arguments: &str,
    parts: &[(Reference, Part)],
    room: &Room,
) -> Result<String, ReferenceError> {
    let slice = |range: Range<usize>| arguments.get(range).unwrap_or_default();
    let bytes = usize::try_from(room.used).unwrap_or_default();
    let mut out = String::with_capacity(arguments.len().saturating_add(bytes));
    // Text is longer in quotes and with escapes than it is held.
    let mut written = Room { limit: room.limit, used: 0 };
    let mut from = 0;
    for (reference, part) in parts {
        out.push_str(slice(from..reference.range.start));
        let before = out.len();
        let done = part.write(reference.is_text, &mut out);
        let done = done.and_then(|()| written.take((out.len() - before) as u64));
        done.map_err(|fault| ReferenceError::new(reference.place.clone(), fault))?;
        from = reference.range.end;
    }
    out.push_str(slice(from..arguments.len()));
    Ok(out)
}

/// What is said of arguments that no validator reads.
const UNCHECKABLE: &str = "with the held values in them they cannot be checked: they are too deep, or have a \
     number beyond doubles or half a character in them";

/// The message for a schema whose check takes more than its budget.
const UNKNOWN: &str = "with the held values in them they cannot be checked: that takes more steps than a \
     check may take";

/// Checks arguments by the schema of their tool.
fn check(arguments: &str, schema: &BoundedValidator) -> Result<(), ReferenceError> {
    let refused =
        |what: &str| Err(ReferenceError::new(String::new(), Fault::Schema(what.to_owned())));
    let Ok(value) = serde_json::from_str::<Value>(arguments) else {
        // A document may be deeper than arguments are, and hold numbers that no double does; what is
        // beside it may have half a character in it.
        return refused(UNCHECKABLE);
    };
    match schema.check(&value) {
        Verdict::Fits => Ok(()),
        Verdict::Unknown => refused(UNKNOWN),
        Verdict::Misfit(misfit) => {
            let what = misfit.message.chars().take(FAULT_CHARS_MAX).collect();
            Err(ReferenceError::new(misfit.pointer, Fault::Schema(what)))
        }
    }
}

fn unreadable(error: CollectionError) -> Fault {
    match error {
        CollectionError::Damaged(_) | CollectionError::TooLarge { .. } => Fault::Unreadable,
        error => {
            tracing::warn!(%error, "a held value cannot be read");
            Fault::Unavailable
        }
    }
}

#[cfg(test)]
mod tests;
