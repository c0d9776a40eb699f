//! Where the references are in the text of arguments.

use std::ops::Range;

use handback_page::json::Pointer;
use handback_token::{Handle, HandleError};
use memchr::memmem;
use serde::de::IgnoredAny;

use super::error::{Fault, HandleRefusal, ReferenceError};

/// References of one call at most: each is looked up, and may be a pass over a large value.
pub const MAX_REFERENCES: usize = 16;

/// Arrays and objects in each other that are looked through: as deep as arguments may be.
pub const MAX_ARGUMENTS_DEPTH: usize = 32;

/// The member that makes an object a reference, and what is before a handle in a string.
const HELD: &str = "$held";

/// The member beside it.
const PATH: &str = "path";

/// Whether there may be references in the text of arguments: whether `held` is in it, or an escape
/// of one of these letters, which are U+0064 to U+006C.
#[must_use]
pub fn mentions_held(arguments: &str) -> bool {
    let has = |needle: &[u8]| memmem::find(arguments.as_bytes(), needle).is_some();
    has(b"held") || has(b"\\u006")
}

/// A reference in the text of arguments.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reference {
    /// What it takes the place of.
    pub range: Range<usize>,
    /// Whether a JSON string has to come of it.
    pub is_text: bool,
    /// What it names.
    pub handle: Handle,
    /// Which part of that.
    pub pointer: Pointer,
    /// Where in the arguments, as a JSON pointer.
    pub place: String,
}

/// The references of arguments, in their order.
///
/// # Errors
///
/// [`ReferenceError`], also if something looks like a reference and is none.
pub fn find(arguments: &str) -> Result<Vec<Reference>, ReferenceError> {
    // What follows counts on it.
    if serde_json::from_str::<IgnoredAny>(arguments).is_err() {
        return Err(ReferenceError::new(String::new(), Fault::NotJson));
    }
    let mut finder = Finder { text: arguments, found: Vec::new(), way: Vec::new() };
    let start = finder.space(0);
    finder.value(start)?;
    Ok(finder.found)
}

/// Goes over a text that is JSON.
struct Finder<'a> {
    text: &'a str,
    found: Vec<Reference>,
    way: Vec<Step>,
}

/// From a value to one in it.
enum Step {
    /// The member whose name, with its quotes, is there.
    Member(Range<usize>),
    /// The element of this number.
    Element(usize),
}

/// The members of an object that matter, and where their values are.
#[derive(Default)]
struct Members {
    held: Option<Range<usize>>,
    path: Option<Range<usize>>,
    /// Others, or one of these twice.
    has_others: bool,
}

impl Members {
    fn add(&mut self, name: Name, value: Range<usize>) {
        let before = match name {
            Name::Held => self.held.replace(value),
            Name::Path => self.path.replace(value),
            Name::Other => Some(value),
        };
        self.has_others |= before.is_some();
    }
}

/// The name of a member.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Name {
    Held,
    Path,
    Other,
}

/// The byte behind the end. There is none of it in JSON.
const END: u8 = 0;

impl Finder<'_> {
    /// Goes over the value that starts at `at`, and gives its end.
    fn value(&mut self, at: usize) -> Result<usize, ReferenceError> {
        match self.byte(at) {
            b'"' => {
                let end = self.string(at);
                let rest = after_written(self.inside(&(at..end)), HELD);
                if rest.and_then(|rest| after_written(rest, ":")).is_some() {
                    self.text_reference(at..end)?;
                }
                Ok(end)
            }
            b'{' => self.object(at),
            b'[' => self.array(at),
            _ => Ok(self.literal(at)),
        }
    }

    fn array(&mut self, start: usize) -> Result<usize, ReferenceError> {
        let mut at = self.enter(start)?;
        let mut number = 0;
        while !matches!(self.byte(at), b']' | END) {
            self.way.push(Step::Element(number));
            at = self.value(at)?;
            self.way.pop();
            at = self.between(at);
            number += 1;
        }
        Ok(at + 1)
    }

    fn object(&mut self, start: usize) -> Result<usize, ReferenceError> {
        let mut at = self.enter(start)?;
        let (mut members, before) = (Members::default(), self.found.len());
        while !matches!(self.byte(at), b'}' | END) {
            let name = at..self.string(at);
            let value = self.space(self.space(name.end) + 1);
            let kind = self.name(&name);
            self.way.push(Step::Member(name));
            // A handle is no reference.
            at = if kind == Name::Held { self.handle_end(value)? } else { self.value(value)? };
            self.way.pop();
            members.add(kind, value..at);
            at = self.between(at);
        }
        let end = at + 1;
        if let Some(held) = &members.held {
            self.found.truncate(before);
            self.object_reference(start..end, held, &members)?;
        }
        Ok(end)
    }

    fn name(&self, quoted: &Range<usize>) -> Name {
        let is = |wanted: &str| after_written(self.inside(quoted), wanted) == Some("");
        match (is(HELD), is(PATH)) {
            (true, _) => Name::Held,
            (_, true) => Name::Path,
            _ => Name::Other,
        }
    }

    /// Goes into an array or object.
    fn enter(&self, at: usize) -> Result<usize, ReferenceError> {
        // The way leads to it, so that it is itself below as many.
        if self.way.len() >= MAX_ARGUMENTS_DEPTH {
            return Err(self.error(Fault::TooDeep));
        }
        Ok(self.space(at + 1))
    }

    /// The end of the value of `$held`.
    fn handle_end(&self, at: usize) -> Result<usize, ReferenceError> {
        match self.byte(at) {
            b'"' => Ok(self.string(at)),
            _ => Err(self.error(Fault::NotText(HELD))),
        }
    }

    fn object_reference(
        &mut self,
        range: Range<usize>,
        held: &Range<usize>,
        members: &Members,
    ) -> Result<(), ReferenceError> {
        if members.has_others {
            return Err(self.error(Fault::Members));
        }
        let path = match &members.path {
            None => String::new(),
            // Half a character is no text. Without it, the path would be another one.
            Some(path) => self.decode(path).ok_or_else(|| self.error(Fault::NotText(PATH)))?,
        };
        let handle = self.decoded(held);
        self.add(range, false, &handle, &path)
    }

    fn text_reference(&mut self, range: Range<usize>) -> Result<(), ReferenceError> {
        let text = self.decoded(&range);
        let named = text.strip_prefix(HELD).and_then(|rest| rest.strip_prefix(':'));
        let named = named.unwrap_or_default();
        let (handle, path) = named.split_once('#').unwrap_or((named, ""));
        self.add(range, true, handle, path)
    }

    fn add(
        &mut self,
        range: Range<usize>,
        is_text: bool,
        handle: &str,
        path: &str,
    ) -> Result<(), ReferenceError> {
        let handle = Handle::parse(handle).map_err(|error| {
            self.error(Fault::Handle(match error {
                HandleError::Mistyped => HandleRefusal::Mistyped,
                _ => HandleRefusal::Unknown,
            }))
        })?;
        let pointer = path.parse().map_err(|error| self.error(Fault::Pointer(error)))?;
        if self.found.len() >= MAX_REFERENCES {
            return Err(self.error(Fault::TooMany));
        }
        self.found.push(Reference { range, is_text, handle, pointer, place: self.place() });
        Ok(())
    }

    fn error(&self, fault: Fault) -> ReferenceError {
        ReferenceError::new(self.place(), fault)
    }

    fn place(&self) -> String {
        let token = |step: &Step| match step {
            Step::Element(number) => format!("/{number}"),
            Step::Member(name) => {
                format!("/{}", self.decoded(name).replace('~', "~0").replace('/', "~1"))
            }
        };
        self.way.iter().map(token).collect()
    }

    fn byte(&self, at: usize) -> u8 {
        self.text.as_bytes().get(at).copied().unwrap_or(END)
    }

    fn space(&self, at: usize) -> usize {
        let rest = self.text.as_bytes().get(at..).unwrap_or_default();
        let spaces = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\n' | b'\r' | b'\t'));
        at + spaces.count()
    }

    /// From the end of an element or member to the next, or to the bracket.
    fn between(&self, at: usize) -> usize {
        let at = self.space(at);
        if self.byte(at) == b',' { self.space(at + 1) } else { at }
    }

    /// The end of the string that starts at `at`.
    fn string(&self, at: usize) -> usize {
        let bytes = self.text.as_bytes();
        let mut at = at + 1;
        while let Some(found) = memchr::memchr2(b'"', b'\\', bytes.get(at..).unwrap_or_default()) {
            at += found;
            if self.byte(at) == b'"' {
                return at + 1;
            }
            at += 2;
        }
        bytes.len()
    }

    /// The end of the number, truth value or null that starts at `at`.
    fn literal(&self, at: usize) -> usize {
        let rest = self.text.as_bytes().get(at..).unwrap_or_default();
        let is_end = |byte: &u8| matches!(byte, b',' | b']' | b'}' | b' ' | b'\n' | b'\r' | b'\t');
        at + rest.iter().position(is_end).unwrap_or(rest.len())
    }

    /// What is between the quotes.
    fn inside(&self, quoted: &Range<usize>) -> &str {
        self.text.get(quoted.start + 1..quoted.end.saturating_sub(1)).unwrap_or_default()
    }

    /// The text that a string stands for. What stands for none names nothing.
    fn decoded(&self, quoted: &Range<usize>) -> String {
        self.decode(quoted).unwrap_or_default()
    }

    fn decode(&self, quoted: &Range<usize>) -> Option<String> {
        serde_json::from_str(self.text.get(quoted.clone())?).ok()
    }
}

/// What follows `wanted` inside of a string, be it written as it is or with escapes.
fn after_written<'t>(inside: &'t str, wanted: &str) -> Option<&'t str> {
    wanted.chars().try_fold(inside, |rest, wanted| {
        if let Some(rest) = rest.strip_prefix(wanted) {
            return Some(rest);
        }
        let (digits, rest) = rest.strip_prefix("\\u")?.split_at_checked(4)?;
        let code = u32::from_str_radix(digits, 16).ok()?;
        (code == u32::from(wanted)).then_some(rest)
    })
}

#[cfg(test)]
mod tests;
