//! Patterns with look-around, matched on sets of positions.
//!
//! Automata have no look-around. Engines that backtrack have it, but no bound of their work: the limit of
//! `fancy-regex` counts backtracks, and `(?:(?=a)){4000000000}` takes none. Here each part of a pattern maps
//! a set of positions in the text to the set of positions where its matches end. A look-around keeps the
//! positions that are in a set of its own: where matches of its body begin, or end. That set does not
//! depend on the rest of the pattern, and is made once for a text. Each set counts in the steps of the
//! check, with its size, so that every search ends within them.
//!
//! A pattern with a backreference is not read: what a group has matched is not known.

use std::cell::OnceCell;

use regex_automata::util::look::{Look, LookMatcher};
use regex_syntax::ast::ErrorKind;
use regex_syntax::hir::{self, Class, Hir, HirKind};

use super::steps::{Over, Steps};

/// Bytes of a text. A set may have every position, and there is one for each level of the pattern.
pub(super) const LOOK_AROUND_TEXT_BYTES_MAX: usize = 4 * 1024;

/// Look-arounds of one pattern. Reading goes over the pattern once for each.
const LOOK_AROUNDS_MAX: usize = 16;

/// Parts of a pattern inside each other.
const NESTING_MAX: usize = 64;

/// Bytes of one pattern when it was read.
const READ_BYTES_MAX: usize = 128 * 1024;

/// Bytes that a look at one of so many bytes of a literal counts as one step for.
const LITERAL_BYTES_PER_STEP: usize = 16;

/// Bytes of a text for which a flag at each position counts as one step.
const FLAGS_PER_STEP: usize = 64;

/// The name of the groups that stand for look-arounds while a pattern is read, before their number.
const GROUP: &str = "handback_look_around_";

/// A pattern with look-around.
#[derive(Debug)]
pub(super) struct LookAroundPattern {
    root: Node,
    around: Vec<Around>,
    bytes: usize,
}

/// A look-around.
#[derive(Debug)]
struct Around {
    sign: Sign,
    body: Node,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sign {
    is_ahead: bool,
    is_negative: bool,
}

/// A part of a pattern.
#[derive(Debug)]
enum Node {
    Literal(String),
    /// Sorted ranges of characters.
    Class(Box<[(char, char)]>),
    Assertion(Look),
    /// The look-around with this number.
    Around(usize),
    Concatenation(Vec<Self>),
    Alternation(Vec<Self>),
    Repetition {
        min: u32,
        max: Option<u32>,
        body: Box<Self>,
    },
}

impl LookAroundPattern {
    /// Reads a pattern of a schema. None if it has more than look-around, or goes over a bound.
    pub(super) fn read(pattern: &str) -> Option<Self> {
        if pattern.contains(GROUP) {
            return None;
        }
        let (mut pattern, mut signs) = (pattern.to_owned(), Vec::new());
        loop {
            let mut translated = jsonschema_regex::to_rust_regex(&pattern).ok()?.into_owned();
            let error = match regex_syntax::parse(&translated) {
                Ok(hir) => return Reading { signs, around: Vec::new(), bytes: 0 }.pattern(&hir),
                Err(regex_syntax::Error::Parse(error)) => error,
                Err(_) => return None,
            };
            if *error.kind() != ErrorKind::UnsupportedLookAround || signs.len() >= LOOK_AROUNDS_MAX
            {
                return None;
            }
            // The group has the same end.
            let opener = error.span().start.offset..error.span().end.offset;
            let group = format!("(?P<{GROUP}{}>", signs.len());
            signs.push(Sign::of(translated.get(opener.clone())?)?);
            translated.replace_range(opener, &group);
            pattern = translated;
        }
    }

    /// Bytes of the pattern in memory.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Searches a text, within the steps of a check.
    pub(super) fn is_match(&self, text: &str, steps: &Steps) -> Result<bool, Over> {
        if text.len() > LOOK_AROUND_TEXT_BYTES_MAX {
            return Err(Over);
        }
        steps.take(1 + text.len() as u64)?;
        let all = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
        let holds = self.around.iter().map(|_| OnceCell::new()).collect();
        let search = Search { pattern: self, text, steps, all, holds };
        Ok(!search.ends(&self.root, &search.all, Direction::Forward)?.is_empty())
    }
}

impl Sign {
    /// The sign of a look-around that begins so.
    fn of(opener: &str) -> Option<Self> {
        let signs =
            [("?=", true, false), ("?!", true, true), ("?<=", false, false), ("?<!", false, true)];
        let sign = signs.into_iter().find(|(text, ..)| opener.ends_with(text));
        sign.map(|(_, is_ahead, is_negative)| Self { is_ahead, is_negative })
    }
}

/// A pattern that is being read.
struct Reading {
    signs: Vec<Sign>,
    around: Vec<Around>,
    bytes: usize,
}

impl Reading {
    fn pattern(mut self, hir: &Hir) -> Option<LookAroundPattern> {
        let root = self.node(hir, 0)?;
        let Self { around, bytes, .. } = self;
        Some(LookAroundPattern { root, around, bytes })
    }

    fn node(&mut self, hir: &Hir, depth: usize) -> Option<Node> {
        let payload = match hir.kind() {
            HirKind::Literal(literal) => literal.0.len(),
            HirKind::Class(Class::Unicode(class)) => size_of_val(class.ranges()),
            HirKind::Class(Class::Bytes(class)) => class.ranges().len() * size_of::<(char, char)>(),
            _ => 0,
        };
        self.bytes += size_of::<Node>() + payload;
        if depth > NESTING_MAX || self.bytes > READ_BYTES_MAX {
            return None;
        }
        let mut all = |parts: &[Hir]| -> Option<Vec<Node>> {
            parts.iter().map(|part| self.node(part, depth + 1)).collect()
        };
        Some(match hir.kind() {
            HirKind::Empty => Node::Concatenation(Vec::new()),
            HirKind::Literal(literal) => Node::Literal(String::from_utf8(literal.0.to_vec()).ok()?),
            HirKind::Class(Class::Unicode(class)) => {
                let ranges = class.ranges().iter();
                Node::Class(ranges.map(|range| (range.start(), range.end())).collect())
            }
            HirKind::Class(Class::Bytes(class)) => {
                let ranges = Some(class.ranges().iter()).filter(|_| class.is_ascii())?;
                Node::Class(ranges.map(|it| (it.start().into(), it.end().into())).collect())
            }
            HirKind::Look(look) => Node::Assertion(assertion(*look)?),
            HirKind::Concat(parts) => Node::Concatenation(all(parts)?),
            HirKind::Alternation(parts) => Node::Alternation(all(parts)?),
            HirKind::Repetition(repetition) => {
                let body = Box::new(self.node(&repetition.sub, depth + 1)?);
                Node::Repetition { min: repetition.min, max: repetition.max, body }
            }
            HirKind::Capture(capture) => {
                let body = self.node(&capture.sub, depth + 1)?;
                let number = capture.name.as_deref().and_then(|name| name.strip_prefix(GROUP));
                let Some(number) = number else { return Some(body) };
                let sign = *self.signs.get(number.parse::<usize>().ok()?)?;
                self.around.push(Around { sign, body });
                Node::Around(self.around.len() - 1)
            }
        })
    }
}

/// The assertion of the engine; none for those that ECMAScript does not have.
const fn assertion(look: hir::Look) -> Option<Look> {
    Some(match look {
        hir::Look::Start => Look::Start,
        hir::Look::End => Look::End,
        hir::Look::StartLF => Look::StartLF,
        hir::Look::EndLF => Look::EndLF,
        hir::Look::WordAscii => Look::WordAscii,
        hir::Look::WordAsciiNegate => Look::WordAsciiNegate,
        hir::Look::WordUnicode => Look::WordUnicode,
        hir::Look::WordUnicodeNegate => Look::WordUnicodeNegate,
        _ => return None,
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

/// A search in one text. Positions are offsets of characters, and the end of the text; sets of them are
/// sorted.
struct Search<'a> {
    pattern: &'a LookAroundPattern,
    text: &'a str,
    steps: &'a Steps,
    /// Every position.
    all: Vec<usize>,
    /// For each look-around, whether it holds at an offset.
    holds: Vec<OnceCell<Vec<bool>>>,
}

impl Search<'_> {
    /// The positions where matches end that begin at one of `from`; backward, those where matches begin that
    /// end there.
    fn ends(&self, node: &Node, from: &[usize], to: Direction) -> Result<Vec<usize>, Over> {
        self.steps.take(1 + from.len() as u64)?;
        let positions = from.iter().copied();
        Ok(match node {
            Node::Literal(literal) => {
                let looks = from.len().saturating_mul(literal.len() / LITERAL_BYTES_PER_STEP);
                self.steps.take(looks as u64)?;
                positions.filter_map(|at| self.after_literal(literal, at, to)).collect()
            }
            Node::Class(ranges) => {
                positions.filter_map(|at| self.after_class(ranges, at, to)).collect()
            }
            Node::Assertion(look) => {
                let (looks, text) = (LookMatcher::new(), self.text.as_bytes());
                positions.filter(|at| looks.matches(*look, text, *at)).collect()
            }
            Node::Around(number) => {
                let holds = self.around(*number)?;
                positions.filter(|at| holds.get(*at) == Some(&true)).collect()
            }
            Node::Concatenation(parts) => {
                let mut found = from.to_vec();
                let mut parts = parts.iter();
                while !found.is_empty()
                    && let Some(part) = match to {
                        Direction::Forward => parts.next(),
                        Direction::Backward => parts.next_back(),
                    }
                {
                    found = self.ends(part, &found, to)?;
                }
                found
            }
            Node::Alternation(parts) => {
                let mut found = Vec::new();
                for part in parts {
                    found.extend(self.ends(part, from, to)?);
                }
                self.steps.take(found.len() as u64)?;
                found.sort_unstable();
                found.dedup();
                found
            }
            Node::Repetition { min, max, body } => self.repeated((*min, *max), body, from, to)?,
        })
    }

    fn repeated(
        &self,
        (min, max): (u32, Option<u32>),
        body: &Node,
        from: &[usize],
        to: Direction,
    ) -> Result<Vec<usize>, Over> {
        let mut last = from.to_vec();
        for _ in 0..min {
            let next = self.ends(body, &last, to)?;
            // The next ones are the same.
            if next == last {
                break;
            }
            last = next;
        }
        self.steps.take((self.text.len() / FLAGS_PER_STEP) as u64)?;
        let mut is_known = vec![false; self.text.len() + 1];
        let mut is_new = |at: &usize| {
            is_known.get_mut(*at).is_some_and(|is_known| !std::mem::replace(is_known, true))
        };
        last.retain(&mut is_new);
        let mut found = last.clone();
        let mut left = max.map(|max| max.saturating_sub(min));
        while !last.is_empty() && left != Some(0) {
            last = self.ends(body, &last, to)?;
            // With fewer repetitions, a position has more of them left.
            last.retain(&mut is_new);
            found.extend(&last);
            left = left.map(|left| left - 1);
        }
        found.sort_unstable();
        Ok(found)
    }

    /// For each offset, whether a look-around holds there.
    fn around(&self, number: usize) -> Result<&[bool], Over> {
        let holds = self.holds.get(number).ok_or(Over)?;
        if let Some(holds) = holds.get() {
            return Ok(holds);
        }
        let Around { sign, body } = self.pattern.around.get(number).ok_or(Over)?;
        let to = if sign.is_ahead { Direction::Backward } else { Direction::Forward };
        let found = self.ends(body, &self.all, to)?;
        self.steps.take((self.text.len() / FLAGS_PER_STEP) as u64)?;
        let mut made = vec![sign.is_negative; self.text.len() + 1];
        for at in found {
            made.get_mut(at).into_iter().for_each(|holds| *holds = !sign.is_negative);
        }
        Ok(holds.get_or_init(|| made))
    }

    fn after_literal(&self, literal: &str, at: usize, to: Direction) -> Option<usize> {
        let (before, after) = self.text.split_at_checked(at)?;
        match to {
            Direction::Forward => after.starts_with(literal).then(|| at + literal.len()),
            Direction::Backward => before.ends_with(literal).then(|| at - literal.len()),
        }
    }

    fn after_class(&self, ranges: &[(char, char)], at: usize, to: Direction) -> Option<usize> {
        let (before, after) = self.text.split_at_checked(at)?;
        let (character, end) = match to {
            Direction::Forward => after.chars().next().map(|c| (c, at + c.len_utf8()))?,
            Direction::Backward => before.chars().next_back().map(|c| (c, at - c.len_utf8()))?,
        };
        let place = ranges.partition_point(|(_, last)| *last < character);
        ranges.get(place).filter(|(first, _)| *first <= character).map(|_| end)
    }
}
