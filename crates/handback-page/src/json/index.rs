//! One pass over a document: is it JSON, and where do the items start?

use super::pick;
use super::pointer::{self, Pointer};
use super::scan::{Fault, MAX_DEPTH, Names, Scan, Stop};
use super::source::ByteSource;
use super::starts::Starts;
use super::window::Window;
use crate::collection::CollectionError;

/// Where the items of a document are.
#[derive(Debug)]
pub(super) struct Index {
    pub(super) target: Target,
    pub(super) starts: Starts,
}

/// What items are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// The elements of an array.
    Elements,
    /// The members of an object.
    Members,
    /// The value itself: neither array nor object.
    Itself,
}

impl Index {
    /// Checks a document from its first byte to its last, and finds the items of the value at
    /// `pointer`.
    ///
    /// # Errors
    ///
    /// [`CollectionError::Damaged`] if it is not one JSON value, or has nothing at the pointer;
    /// errors of the source.
    pub(super) fn build(
        source: &dyn ByteSource,
        pointer: &Pointer,
        chunk: usize,
    ) -> Result<Self, CollectionError> {
        let edition = source.edition();
        let size = source.size_bytes();
        let mut builder =
            Builder { window: Window::new(source, chunk)?, size, names: Names::new() };
        let found = builder.find(pointer.tokens(), 0)?;
        builder.end()?;
        if source.edition() != edition {
            return Err(CollectionError::Changed);
        }
        found.ok_or_else(|| CollectionError::Damaged(format!("there is nothing at '{pointer}'")))
    }
}

struct Builder<'a> {
    window: Window<'a>,
    size: u64,
    names: Names,
}

impl Builder<'_> {
    /// Reads a value, and finds what the tokens lead to in it.
    fn find(&mut self, tokens: &[String], depth: u32) -> Result<Option<Index>, CollectionError> {
        let first = self.peek()?;
        let Some((token, rest)) = tokens.split_first() else {
            return self.items(first, depth).map(Some);
        };
        match first {
            b'{' => self.find_member(token, rest, depth),
            b'[' => self.find_element(pointer::element_number(token), rest, depth),
            _ => {
                self.skip(depth)?;
                Ok(None)
            }
        }
    }

    fn find_member(
        &mut self,
        token: &str,
        rest: &[String],
        depth: u32,
    ) -> Result<Option<Index>, CollectionError> {
        self.open(depth)?;
        let mut found = None;
        let mut state = State::Start;
        while self.next(&mut state, b'}')? {
            let is_it = self.window.step(|scan, at| {
                let (end, value) = scan.member(at)?;
                Ok((pick::is_name(scan.slice(at, end), token), value))
            })?;
            if is_it {
                // Of several members of one name the last one counts, whatever it is.
                found = self.find(rest, depth + 1)?;
            } else {
                self.peek()?;
                self.skip(depth + 1)?;
            }
        }
        Ok(found)
    }

    fn find_element(
        &mut self,
        wanted: Option<u64>,
        rest: &[String],
        depth: u32,
    ) -> Result<Option<Index>, CollectionError> {
        self.open(depth)?;
        let mut found = None;
        let mut state = State::Start;
        let mut number = 0;
        while self.next(&mut state, b']')? {
            if wanted == Some(number) {
                found = self.find(rest, depth + 1)?;
            } else {
                self.skip(depth + 1)?;
            }
            number += 1;
        }
        Ok(found)
    }

    /// The items of the value that starts here with `first`.
    fn items(&mut self, first: u8, depth: u32) -> Result<Index, CollectionError> {
        let mut starts = Starts::new(self.size);
        let target = match first {
            b'[' => Target::Elements,
            b'{' => Target::Members,
            _ => {
                starts.push(self.window.offset(self.window.done()));
                self.skip(depth)?;
                starts.finish(self.window.offset(self.window.done()));
                return Ok(Index { target: Target::Itself, starts });
            }
        };
        self.open(depth)?;
        let mut walk = Walk { target, depth: depth + 1, state: State::Start, at: 0 };
        loop {
            walk.at = self.window.done();
            let (scan, base) = (self.window.scan(), self.window.offset(0));
            let result = walk.run(&scan, &mut self.names, |at| starts.push(base + at as u64));
            self.window.set_done(walk.at);
            starts.check_count()?;
            match result {
                Ok(end) => {
                    starts.finish(self.window.offset(end));
                    return Ok(Index { target, starts });
                }
                Err(stop) => self.window.go_on(stop)?,
            }
        }
    }

    /// Goes on to the next byte that is not white space.
    fn peek(&mut self) -> Result<u8, CollectionError> {
        self.window.step(|scan, at| {
            let at = scan.space(at);
            Ok((scan.byte(at)?, at))
        })
    }

    /// Goes into an array or object below `depth` others.
    fn open(&mut self, depth: u32) -> Result<(), CollectionError> {
        self.window.step(|_, at| match depth {
            0..MAX_DEPTH => Ok(((), at + 1)),
            _ => Err(Stop::Bad(Fault::too_deep(at))),
        })
    }

    /// Goes over a value.
    fn skip(&mut self, depth: u32) -> Result<(), CollectionError> {
        let names = &mut self.names;
        self.window.step(|scan, at| Ok(((), scan.value(at, depth, names)?)))
    }

    /// Goes on to the next element or member; or out of the array or object, if there is none.
    fn next(&mut self, state: &mut State, close: u8) -> Result<bool, CollectionError> {
        let step = *state;
        *state = State::Between;
        self.window.step(|scan, at| {
            let at = scan.space(at);
            match (scan.byte(at)?, step) {
                (byte, _) if byte == close => Ok((false, at + 1)),
                (_, State::Start) => Ok((true, at)),
                (b',', _) => {
                    let at = scan.space(at + 1);
                    scan.byte(at)?;
                    Ok((true, at))
                }
                _ => Err(Stop::Bad(Fault::not_between(at, close))),
            }
        })
    }

    /// Checks that nothing follows the document.
    fn end(&mut self) -> Result<(), CollectionError> {
        loop {
            let at = self.window.scan().space(self.window.done());
            if at < self.window.bytes().len() {
                return self.window.go_on(Stop::Bad(Fault::trailing(at)));
            }
            self.window.set_done(at);
            if self.window.is_last() {
                return self.window.check_utf8();
            }
            self.window.slide()?;
        }
    }
}

/// Goes over the items of one array or object, as far as there are bytes.
struct Walk {
    target: Target,
    /// How many arrays and objects the items are in.
    depth: u32,
    state: State,
    at: usize,
}

/// Where a walk is in an array or object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before the first item, or the end.
    Start,
    /// Before an item.
    Item,
    /// Behind an item: before a comma, or the end.
    Between,
}

impl Walk {
    /// The place of the bracket that closes the array or object. `found` is told of every item.
    fn run(
        &mut self,
        scan: &Scan<'_>,
        names: &mut Names,
        mut found: impl FnMut(usize),
    ) -> Result<usize, Stop> {
        let close = if self.target == Target::Members { b'}' } else { b']' };
        loop {
            self.at = scan.space(self.at);
            let byte = scan.byte(self.at)?;
            match self.state {
                State::Start | State::Between if byte == close => {
                    let end = self.at;
                    self.at += 1;
                    return Ok(end);
                }
                State::Between if byte == b',' => {
                    self.at += 1;
                    self.state = State::Item;
                }
                State::Between => return Err(Stop::Bad(Fault::not_between(self.at, close))),
                State::Start | State::Item => {
                    let value = match self.target {
                        Target::Members => scan.name(self.at)?,
                        Target::Elements | Target::Itself => self.at,
                    };
                    let end = scan.value(value, self.depth, names)?;
                    found(self.at);
                    self.at = end;
                    self.state = State::Between;
                }
            }
        }
    }
}
