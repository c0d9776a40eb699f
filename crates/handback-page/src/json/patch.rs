//! RFC 6902: changes of a document.
//!
//! A patch is applied to the text of a document, and not to a tree of values: a tree takes many times
//! the memory, and would round numbers that nobody wanted to change. Only the arrays and objects on
//! the way to a change are taken apart. All else stays as it is written, white space included.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;

use serde_json::{Map, Value};

use super::pick;
use super::pointer::{Pointer, PointerError, element_number};
use super::scan::{Fault, MAX_DEPTH, Scan, Stop};
use crate::scalar::Scalar;

/// Operations of one patch at most: each may cost a pass over an array.
pub const MAX_OPERATIONS: usize = 1_000;

/// Elements and members of the arrays and objects that a patch takes apart, at most. Each takes about
/// 80 bytes of memory, whatever its length.
pub const MAX_TAKEN_APART: usize = 1_000_000;

/// A patch, as RFC 6902 has it.
///
/// ```
/// use handback_page::json::Patch;
/// use serde_json::json;
///
/// let patch = Patch::read(&json!([
///     {"op": "test", "path": "/a", "value": 1.0},
///     {"op": "add", "path": "/b/-", "value": "new"},
/// ]))?;
/// let document = r#"{ "a": 1, "b": [ 1.50 ] }"#;
/// assert_eq!(patch.apply(document, 1000)?, r#"{ "a": 1, "b": [ 1.50, "new" ] }"#);
/// # Ok::<_, handback_page::json::PatchError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Patch(Vec<Operation>);

/// Why a patch is none, or cannot be applied. Then nothing of it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PatchError {
    /// It is not an array of operations.
    #[error("a patch is an array of at most {MAX_OPERATIONS} operations")]
    NotAPatch,
    /// What is wrong with an operation.
    #[error("operation {number}: {fault}")]
    Operation {
        /// Which one, from 0.
        number: usize,
        /// What is wrong.
        fault: OperationFault,
    },
    /// The document is not JSON.
    #[error("the document is not JSON: {what} at byte {offset}")]
    NotJson {
        /// What is wrong.
        what: &'static str,
        /// Where.
        offset: usize,
    },
    /// The result is larger than it may be, or what is written on the way to it.
    #[error("the result would have more than {limit} bytes")]
    TooLarge {
        /// How many it may have.
        limit: usize,
    },
    /// The result would be nested too deeply.
    #[error("the result would be nested more than {MAX_DEPTH} deep")]
    TooDeep,
    /// What would be taken apart has too many elements and members.
    #[error("the arrays and objects on the way have more than {MAX_TAKEN_APART} elements")]
    TooMany,
}

/// What is wrong with an operation of a patch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OperationFault {
    /// It is not an object.
    #[error("an operation is an object")]
    NotAnObject,
    /// There is no such operation.
    #[error("'op' is one of add, remove, replace, move, copy and test")]
    UnknownOp,
    /// A member that it needs is not there, or is no text.
    #[error("'{0}' is missing or of the wrong type")]
    Member(&'static str),
    /// A member is no JSON pointer.
    #[error("'{0}' is no JSON pointer: {1}")]
    Pointer(&'static str, PointerError),
    /// A place that must be there is not.
    #[error("there is nothing under '{0}'")]
    Nothing(&'static str),
    /// The number of an element that an array cannot get.
    #[error("the array has no place of this number")]
    NoPlace,
    /// The whole document was to be removed.
    #[error("the whole document cannot be removed")]
    Whole,
    /// Something was to be moved into itself.
    #[error("a value cannot be moved into itself")]
    IntoItself,
    /// A test failed.
    #[error("the test failed: the value is another one")]
    TestFailed,
}

#[derive(Clone, Debug, PartialEq)]
struct Operation {
    path: Pointer,
    change: Change,
}

#[derive(Clone, Debug, PartialEq)]
enum Change {
    /// The JSON of what is added.
    Add(String),
    Remove,
    /// The JSON of what takes the place.
    Replace(String),
    Move(Pointer),
    Copy(Pointer),
    Test(Value),
}

impl Patch {
    /// Reads a patch. Members that are unknown are left alone, as section 4 says.
    ///
    /// # Errors
    ///
    /// [`PatchError::NotAPatch`] and [`PatchError::Operation`].
    pub fn read(patch: &Value) -> Result<Self, PatchError> {
        let operations = patch.as_array().filter(|operations| operations.len() <= MAX_OPERATIONS);
        let operations = operations.ok_or(PatchError::NotAPatch)?.iter().enumerate();
        let read = |(number, operation)| {
            Operation::read(operation).map_err(|fault| PatchError::Operation { number, fault })
        };
        operations.map(read).collect::<Result<_, _>>().map(Self)
    }

    /// The document with all operations applied, one after the other. Where it is taken apart, new
    /// members and elements are spaced as those beside them.
    ///
    /// # Errors
    ///
    /// [`PatchError`]; then there is no result.
    pub fn apply(&self, document: &str, bytes_max: usize) -> Result<String, PatchError> {
        let place = check(document)?;
        let slice = |range: Range<usize>| document.get(range).unwrap_or_default();
        let (before, after) = (slice(0..place.start), slice(place.end..document.len()));
        let too_large = PatchError::TooLarge { limit: bytes_max };
        let spent = Spent { apart: 0, bytes: 0, bytes_max };
        let mut tree = Tree { root: Node::Text(slice(place)), spent };
        for (number, operation) in self.0.iter().enumerate() {
            tree.change(operation).map_err(|halt| match halt {
                Halt::Fault(fault) => PatchError::Operation { number, fault },
                Halt::TooDeep => PatchError::TooDeep,
                Halt::TooMany => PatchError::TooMany,
                Halt::TooLarge => too_large.clone(),
            })?;
        }
        let bytes = before.len() + tree.root.bytes() + after.len();
        if bytes > bytes_max {
            return Err(too_large);
        }
        let mut out = String::with_capacity(bytes);
        out.push_str(before);
        tree.root.write(&mut out);
        out.push_str(after);
        // Nothing else can be wrong with it.
        check(&out).map_err(|_| PatchError::TooDeep)?;
        Ok(out)
    }
}

impl Operation {
    fn read(operation: &Value) -> Result<Self, OperationFault> {
        let Value::Object(members) = operation else { return Err(OperationFault::NotAnObject) };
        let json = || members.get("value").ok_or(OperationFault::Member("value"));
        let change = match members.get("op").and_then(Value::as_str) {
            Some("add") => Change::Add(json()?.to_string()),
            Some("remove") => Change::Remove,
            Some("replace") => Change::Replace(json()?.to_string()),
            Some("move") => Change::Move(pointer(members, "from")?),
            Some("copy") => Change::Copy(pointer(members, "from")?),
            Some("test") => Change::Test(json()?.clone()),
            Some(_) => return Err(OperationFault::UnknownOp),
            None => return Err(OperationFault::Member("op")),
        };
        Ok(Self { path: pointer(members, "path")?, change })
    }
}

fn pointer(members: &Map<String, Value>, name: &'static str) -> Result<Pointer, OperationFault> {
    let text = members.get(name).and_then(Value::as_str).ok_or(OperationFault::Member(name))?;
    text.parse().map_err(|error| OperationFault::Pointer(name, error))
}

/// Where in a text the one value is that it has.
fn check(text: &str) -> Result<Range<usize>, PatchError> {
    let scan = Scan::whole(text.as_bytes());
    let start = scan.space(0);
    let checked = scan.value(start, 0, &mut ()).and_then(|end| match scan.space(end) {
        after if after == text.len() => Ok(end),
        after => Err(Stop::Bad(Fault::trailing(after))),
    });
    match checked {
        Ok(end) => Ok(start..end),
        Err(Stop::Bad(Fault { at, what })) => Err(PatchError::NotJson { what, offset: at }),
        Err(Stop::Incomplete) => {
            Err(PatchError::NotJson { what: "the text ends too early", offset: text.len() })
        }
    }
}

/// Why a change is not made.
enum Halt {
    Fault(OperationFault),
    TooDeep,
    TooMany,
    TooLarge,
}

impl From<OperationFault> for Halt {
    fn from(fault: OperationFault) -> Self {
        Self::Fault(fault)
    }
}

/// A document that is being changed. What is in it are slices of the document and of the patch, but for
/// the heads of new parts.
struct Tree<'a> {
    root: Node<'a>,
    spent: Spent,
}

/// What a patch has taken of memory so far. Nothing is given back: a patch that makes and removes the
/// same thing again and again costs time as well.
struct Spent {
    /// How many elements and members were taken apart, or added to those.
    apart: usize,
    /// How many bytes were written: heads of parts, and copies of them. All else are slices.
    bytes: usize,
    /// How many may be.
    bytes_max: usize,
}

impl Spent {
    /// For something that is taken apart to look at it, and let go: nothing is written.
    const fn for_a_look() -> Self {
        Self { apart: 0, bytes: 0, bytes_max: 0 }
    }

    /// Before so many elements or members are taken apart or added.
    fn part(&mut self, parts: usize) -> Result<(), Halt> {
        self.apart = self.apart.saturating_add(parts);
        if self.apart > MAX_TAKEN_APART { Err(Halt::TooMany) } else { Ok(()) }
    }

    /// Before so many bytes are written.
    fn write(&mut self, bytes: usize) -> Result<(), Halt> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > self.bytes_max { Err(Halt::TooLarge) } else { Ok(()) }
    }
}

/// A value.
#[derive(Clone)]
enum Node<'a> {
    /// As it is written.
    Text(&'a str),
    /// Taken apart.
    Apart(Box<Apart<'a>>),
}

/// An array or object that was taken apart.
#[derive(Clone)]
struct Apart<'a> {
    is_object: bool,
    parts: Vec<Part<'a>>,
    /// The space before the bracket that closes it.
    end: &'a str,
}

/// An element or member.
#[derive(Clone)]
struct Part<'a> {
    /// What is written before the value: space, and the name of a member with its colon.
    head: Cow<'a, str>,
    /// Of `head`, the name in quotes; empty in an array.
    name: Range<u32>,
    node: Node<'a>,
    /// The space between the value and a comma.
    tail: &'a str,
}

impl<'a> Tree<'a> {
    fn change(&mut self, operation: &'a Operation) -> Result<(), Halt> {
        let path = operation.path.tokens();
        match &operation.change {
            Change::Add(json) => self.add(path, Node::Text(json)),
            Change::Remove => self.remove(path, "path").map(drop),
            Change::Replace(json) => {
                *self.root.find(path, "path", &mut self.spent)? = Node::Text(json);
                Ok(())
            }
            Change::Move(from) if from == &operation.path => {
                self.root.find(from.tokens(), "from", &mut self.spent).map(drop)
            }
            Change::Move(from) if path.starts_with(from.tokens()) => {
                Err(OperationFault::IntoItself.into())
            }
            Change::Move(from) => {
                let node = self.remove(from.tokens(), "from")?;
                self.add(path, node)
            }
            Change::Copy(from) => {
                let node = self.root.find(from.tokens(), "from", &mut self.spent)?;
                self.spent.part(node.parts())?;
                self.spent.write(node.written_bytes())?;
                let node = node.clone();
                self.add(path, node)
            }
            Change::Test(value) => {
                let is_it = self.root.find(path, "path", &mut self.spent)?.equals(value);
                if is_it { Ok(()) } else { Err(OperationFault::TestFailed.into()) }
            }
        }
    }

    fn add(&mut self, path: &[String], node: Node<'a>) -> Result<(), Halt> {
        // Trees are gone over by functions that call themselves.
        if path.len() + node.depth() > MAX_DEPTH as usize {
            return Err(Halt::TooDeep);
        }
        let Some((last, parents)) = path.split_last() else {
            self.root = node;
            return Ok(());
        };
        self.spent.part(1)?;
        let parent = self.root.container(parents, "path", &mut self.spent)?;
        if parent.is_object {
            return parent.put(last, node, &mut self.spent);
        }
        let end = parent.parts.len();
        let place = if last == "-" { Some(end) } else { number(last) };
        let place = place.filter(|place| *place <= end).ok_or(OperationFault::NoPlace)?;
        parent.insert(place, "", node, &mut self.spent)
    }

    fn remove(&mut self, path: &[String], which: &'static str) -> Result<Node<'a>, Halt> {
        let Some((last, parents)) = path.split_last() else {
            return Err(OperationFault::Whole.into());
        };
        let parent = self.root.container(parents, which, &mut self.spent)?;
        let taken = parent.take(last, &mut self.spent)?;
        taken.ok_or_else(|| OperationFault::Nothing(which).into())
    }
}

/// The number of an element.
fn number(token: &str) -> Option<usize> {
    element_number(token).and_then(|number| usize::try_from(number).ok())
}

impl<'a> Node<'a> {
    /// The value at the end of a path.
    fn find(
        &mut self,
        path: &[String],
        which: &'static str,
        spent: &mut Spent,
    ) -> Result<&mut Self, Halt> {
        let Some((last, parents)) = path.split_last() else { return Ok(self) };
        let part = self.container(parents, which, spent)?.part(last);
        Ok(&mut part.ok_or(OperationFault::Nothing(which))?.node)
    }

    /// The array or object at the end of a path, taken apart, as all before it.
    fn container(
        &mut self,
        path: &[String],
        which: &'static str,
        spent: &mut Spent,
    ) -> Result<&mut Apart<'a>, Halt> {
        let nothing = || Halt::Fault(OperationFault::Nothing(which));
        let mut apart = self.open(spent)?.ok_or_else(nothing)?;
        for token in path {
            let part = apart.part(token).ok_or_else(nothing)?;
            apart = part.node.open(spent)?.ok_or_else(nothing)?;
        }
        Ok(apart)
    }

    /// Takes it apart; nothing, if it is neither array nor object.
    fn open(&mut self, spent: &mut Spent) -> Result<Option<&mut Apart<'a>>, Halt> {
        if let Self::Text(text) = *self {
            let Some(taken) = Apart::read(text, spent)? else { return Ok(None) };
            *self = Self::Apart(Box::new(taken));
        }
        match self {
            Self::Apart(apart) => Ok(Some(apart)),
            Self::Text(_) => Ok(None),
        }
    }

    /// How many bytes it has.
    fn bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Apart(apart) => {
                let part = |part: &Part<'_>| part.head.len() + part.node.bytes() + part.tail.len();
                let commas = apart.parts.len().saturating_sub(1);
                apart.parts.iter().map(part).sum::<usize>() + commas + apart.end.len() + 2
            }
        }
    }

    /// How many elements and members are apart in it.
    fn parts(&self) -> usize {
        match self {
            Self::Text(_) => 0,
            Self::Apart(apart) => apart.parts.iter().map(|part| 1 + part.node.parts()).sum(),
        }
    }

    /// How many bytes of it are no slices: a copy takes as many more.
    fn written_bytes(&self) -> usize {
        match self {
            Self::Text(_) => 0,
            Self::Apart(apart) => {
                let part = |part: &Part<'_>| part.written_bytes() + part.node.written_bytes();
                apart.parts.iter().map(part).sum()
            }
        }
    }

    /// How many arrays and objects in each other are apart in it.
    fn depth(&self) -> usize {
        match self {
            Self::Text(_) => 0,
            Self::Apart(apart) => {
                1 + apart.parts.iter().map(|part| part.node.depth()).max().unwrap_or_default()
            }
        }
    }

    fn write(&self, out: &mut String) {
        let apart = match self {
            Self::Text(text) => return out.push_str(text),
            Self::Apart(apart) => apart,
        };
        out.push(if apart.is_object { '{' } else { '[' });
        for (number, part) in apart.parts.iter().enumerate() {
            if number > 0 {
                out.push(',');
            }
            out.push_str(&part.head);
            part.node.write(out);
            out.push_str(part.tail);
        }
        out.push_str(apart.end);
        out.push(if apart.is_object { '}' } else { ']' });
    }

    /// Whether it is this value, as section 4.6 has it: numbers by value, members in any order. It is
    /// looked at only as deep as the value is.
    fn equals(&self, value: &Value) -> bool {
        let text = match self {
            Self::Text(text) => *text,
            Self::Apart(apart) => return apart.equals(value),
        };
        match value {
            Value::Null => text == "null",
            Value::Bool(truth) => text == if *truth { "true" } else { "false" },
            Value::String(wanted) => {
                text.starts_with('"') && pick::unquoted(text.as_bytes()) == *wanted
            }
            Value::Number(wanted) => {
                let is_number = text.starts_with(|c: char| c == '-' || c.is_ascii_digit());
                let found = is_number.then(|| Scalar::from_number_text(text)).flatten();
                found.is_some_and(|found| found.order(&Scalar::from_number(wanted)).is_eq())
            }
            Value::Array(_) | Value::Object(_) => {
                let apart = Apart::read(text, &mut Spent::for_a_look()).ok().flatten();
                apart.is_some_and(|apart| apart.equals(value))
            }
        }
    }
}

impl<'a> Apart<'a> {
    /// Takes the text of an array or object apart, which was checked before.
    fn read(text: &'a str, spent: &mut Spent) -> Result<Option<Self>, Halt> {
        let scan = Scan::whole(text.as_bytes());
        let (is_object, close) = match text.as_bytes().first() {
            Some(b'{') => (true, b'}'),
            Some(b'[') => (false, b']'),
            _ => return Ok(None),
        };
        let slice = |from: usize, to: usize| text.get(from..to).unwrap_or_default();
        let (mut parts, mut at) = (Vec::new(), 1);
        let first = scan.space(at);
        if scan.byte(first) == Ok(close) {
            return Ok(Some(Self { is_object, parts, end: slice(at, first) }));
        }
        loop {
            spent.part(1)?;
            let start = scan.space(at);
            let member = if is_object { scan.member(start) } else { Ok((start, start)) };
            let Ok((name, value)) = member else { return Ok(None) };
            let Ok(end) = scan.value(value, 0, &mut ()) else { return Ok(None) };
            let after = scan.space(end);
            let is_last = scan.byte(after) == Ok(close);
            let (tail, rest) =
                if is_last { ("", slice(end, after)) } else { (slice(end, after), "") };
            let node = Node::Text(slice(value, end));
            parts.push(Part::new(slice(at, value).into(), start - at..name - at, node, tail));
            if is_last {
                return Ok(Some(Self { is_object, parts, end: rest }));
            }
            at = after + 1;
        }
    }

    /// Where the part is that a token of a pointer names: of several members of one name, the last.
    fn place(&self, token: &str) -> Option<usize> {
        if self.is_object {
            return self.parts.iter().rposition(|part| pick::is_name(part.name(), token));
        }
        number(token).filter(|number| *number < self.parts.len())
    }

    fn part(&mut self, token: &str) -> Option<&mut Part<'a>> {
        let place = self.place(token)?;
        self.parts.get_mut(place)
    }

    /// Puts a member into an object.
    fn put(&mut self, name: &str, node: Node<'a>, spent: &mut Spent) -> Result<(), Halt> {
        if let Some(part) = self.part(name) {
            part.node = node;
            return Ok(());
        }
        let mut written = String::new();
        crate::scalar::write_text(name, &mut written);
        self.insert(self.parts.len(), &written, node, spent)
    }

    /// Inserts a part, spaced as the one beside it.
    fn insert(
        &mut self,
        place: usize,
        name: &str,
        node: Node<'a>,
        spent: &mut Spent,
    ) -> Result<(), Halt> {
        let beside = self.parts.get(place).or_else(|| self.parts.last());
        let (space, colon) = beside.map_or(("", ":"), |part| (part.space(), part.colon()));
        let colon = if self.is_object { colon } else { "" };
        spent.write(space.len() + name.len() + colon.len())?;
        let head = format!("{space}{name}{colon}");
        let name = space.len()..space.len() + name.len();
        // Between the elements of `[1, 2]` there is a space that is not before the first.
        if place == 0
            && let [first, second, ..] = self.parts.as_mut_slice()
        {
            first.set_space(second.space(), spent)?;
        }
        self.parts.insert(place, Part::new(head.into(), name, node, ""));
        Ok(())
    }

    /// Takes out what a token of a pointer names, with all other members of that name: they would
    /// appear in its place.
    fn take(&mut self, token: &str, spent: &mut Spent) -> Result<Option<Node<'a>>, Halt> {
        let Some(place) = self.place(token) else { return Ok(None) };
        let first_space = self.parts.first().map(|first| first.space().to_owned());
        let taken = self.parts.remove(place).node;
        if self.is_object {
            self.parts.retain(|part| !pick::is_name(part.name(), token));
        }
        if let (Some(space), Some(first)) = (first_space, self.parts.first_mut()) {
            first.set_space(&space, spent)?;
        }
        Ok(Some(taken))
    }

    fn equals(&self, value: &Value) -> bool {
        match value {
            Value::Array(values) if !self.is_object => {
                values.len() == self.parts.len()
                    && self.parts.iter().zip(values).all(|(part, value)| part.node.equals(value))
            }
            // An object that has a member twice is no other.
            Value::Object(members) if self.is_object && members.len() == self.parts.len() => {
                let mut met = BTreeSet::new();
                self.parts.iter().all(|part| {
                    let name = pick::unquoted(part.name());
                    let value = members.get(name.as_ref());
                    value.is_some_and(|value| part.node.equals(value)) && met.insert(name)
                })
            }
            _ => false,
        }
    }
}

impl<'a> Part<'a> {
    fn new(head: Cow<'a, str>, name: Range<usize>, node: Node<'a>, tail: &'a str) -> Self {
        Self { head, name: places(name), node, tail }
    }

    /// The space before it.
    fn space(&self) -> &str {
        self.head.get(..self.name.start as usize).unwrap_or_default()
    }

    fn set_space(&mut self, space: &str, spent: &mut Spent) -> Result<(), Halt> {
        let old = self.name.start as usize;
        if self.space() == space {
            return Ok(());
        }
        let rest = self.head.get(old..).unwrap_or_default();
        spent.write(space.len() + rest.len())?;
        let name = space.len()..space.len() + self.name.len();
        self.head = Cow::Owned(format!("{space}{rest}"));
        self.name = places(name);
        Ok(())
    }

    /// How many bytes of its head are no slice.
    fn written_bytes(&self) -> usize {
        match &self.head {
            Cow::Borrowed(_) => 0,
            Cow::Owned(head) => head.len(),
        }
    }

    /// The name of a member, in quotes.
    fn name(&self) -> &[u8] {
        let name = self.name.start as usize..self.name.end as usize;
        self.head.as_bytes().get(name).unwrap_or_default()
    }

    /// The colon after a name, with the space around it.
    fn colon(&self) -> &str {
        self.head.get(self.name.end as usize..).unwrap_or_default()
    }
}

/// No document that is changed is as long as a `u32` counts.
fn places(range: Range<usize>) -> Range<u32> {
    let place = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
    place(range.start)..place(range.end)
}

#[cfg(test)]
mod tests;
