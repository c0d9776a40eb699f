//! Which parts of a result are shown as they are, and which are cut.

use std::ops::Range;

use handback_page::json::Pointer;

use super::chunks::length;
use super::items;
use super::shape::{self, Block, Member, Shape};
use super::share;
use crate::json::lexer::Token;

/// The member of `_meta` that tells programs what is held.
pub const HELD_KEY: &str = "dev.handback/held";

/// The longest notice without what it says of each part, and the brackets of the result.
const BASE_BYTES: usize = 1300;

/// What a part takes at most besides what is shown of it: a line of the notice, an entry of `_meta`,
/// and what stands in its place.
const PART_BYTES: usize = 1200;

/// If more blocks have to be cut, their array is cut instead: nobody keeps so many handles apart.
const CUT_BLOCKS_MAX: usize = 8;

/// A block of a text with more than that besides the text is replaced, not cut.
const BESIDE_TEXT_BYTES: u64 = 256;

/// A part of the result that is shown whole, cut, or replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unit {
    /// Where it is in the result.
    pub(super) path: Pointer,
    pub(super) what: What,
    /// The bytes that are not shown as they are.
    pub(super) value: Range<u64>,
}

/// What is done with a part that does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// `structuredContent`: cut, to be valid.
    Structured,
    /// The text of the block of this number: cut.
    Text { block: usize },
    /// The block of this number: replaced.
    Block { block: usize },
    /// All blocks: cut at blocks.
    Content,
    /// Another member of the result: left out.
    Member,
    /// All of the result: left out.
    Whole,
}

/// How a result is cut.
#[derive(Debug)]
pub(super) struct Plan {
    /// What does not fit, in the order of the result.
    pub(super) cut: Vec<Unit>,
    /// About what each of them has room for.
    pub(super) share: usize,
    /// What there is for all of them together.
    pub(super) room: usize,
}

impl Plan {
    /// A plan for a result that can be taken apart, in at most `room` bytes.
    pub(super) fn of(shape: &Shape, room: usize) -> Option<Self> {
        let content = shape.find("content");
        if !shape.is_plain || content.is_some_and(|content| content.kind != Token::Array) {
            return None;
        }
        let by_block = || {
            let units = units(shape, blocks(shape)?)?;
            let plan = Self::choose(&units, room, room / 4 * 3)?;
            let is_block =
                |unit: &&Unit| matches!(unit.what, What::Text { .. } | What::Block { .. });
            (plan.cut.iter().filter(is_block).count() <= CUT_BLOCKS_MAX).then_some(plan)
        };
        let whole_content = || {
            let all = content.map(all_blocks);
            Self::choose(&units(shape, all.into_iter().collect())?, room, room)
        };
        by_block().or_else(whole_content)
    }

    /// Cuts as few as possible, if what that costs besides is within `most`.
    fn choose(units: &[Candidate], room: usize, most: usize) -> Option<Self> {
        let mut count = units.iter().filter(|unit| unit.forced).count();
        loop {
            let cost = BASE_BYTES + count * PART_BYTES;
            if cost > most {
                return None;
            }
            let fixed: usize = units.iter().map(|unit| unit.fixed).sum();
            let left = room.checked_sub(cost)?.checked_sub(fixed)?;
            let wants: Vec<_> = units.iter().map(Candidate::wants).collect();
            let level = share::level(left, &wants);
            let (cut, whole): (Vec<_>, Vec<_>) =
                units.iter().partition(|unit| unit.forced || unit.wants() > level);
            if cut.len() <= count {
                let shown: usize = whole.iter().map(|unit| unit.wants()).sum();
                let left = left.saturating_sub(shown);
                let share = left / cut.len().max(1);
                let cut = cut.into_iter().map(|candidate| candidate.unit.clone()).collect();
                return Some(Self { cut, share, room: left });
            }
            count = cut.len();
        }
    }
}

/// What may have to be cut.
#[derive(Debug)]
struct Candidate {
    unit: Unit,
    /// Bytes beside it that are shown in any case.
    fixed: usize,
    /// Whether it is cut whatever its size.
    forced: bool,
}

impl Candidate {
    fn wants(&self) -> usize {
        // What is left out takes nothing.
        if self.forced { 0 } else { narrow(length(&self.unit.value)) }
    }
}

/// All that the result has; none if something has no short path.
fn units(shape: &Shape, content: Vec<Candidate>) -> Option<Vec<Candidate>> {
    let mut units = vec![];
    let mut content = Some(content);
    for member in &shape.members {
        if member.name == "content" {
            units.extend(content.take().unwrap_or_default());
            continue;
        }
        let forced = member.name == "_meta"
            && (!shape.is_meta_plain || shape::find(&shape.meta, HELD_KEY).is_some());
        let what = match member.name.as_str() {
            "structuredContent" => What::Structured,
            _ => What::Member,
        };
        let path = path(&[&member.name])?;
        let unit = Unit { path, what, value: member.value.clone() };
        units.push(Candidate { unit, fixed: member.name.len() * 2 + 4, forced });
    }
    Some(units)
}

/// The blocks one by one, if they are few.
fn blocks(shape: &Shape) -> Option<Vec<Candidate>> {
    if shape.block_count > shape.blocks.len() as u64 {
        return None;
    }
    shape.blocks.iter().enumerate().map(|(number, block)| candidate(number, block)).collect()
}

fn candidate(number: usize, block: &Block) -> Option<Candidate> {
    let place = number.to_string();
    let beside = |text: &Range<u64>| length(&block.value) - length(text);
    let unit = match text_of(block).filter(|(_, text)| beside(text) <= BESIDE_TEXT_BYTES) {
        Some((names, text)) => {
            let names: Vec<_> = ["content", &place].into_iter().chain(names).collect();
            Unit { path: path(&names)?, what: What::Text { block: number }, value: text }
        }
        None => Unit {
            path: path(&["content", &place])?,
            what: What::Block { block: number },
            value: block.value.clone(),
        },
    };
    let fixed = narrow(beside(&unit.value)) + 1;
    Some(Candidate { unit, fixed, forced: false })
}

/// The text of a block, and the names of the members that lead to it.
fn text_of(block: &Block) -> Option<(Vec<&'static str>, Range<u64>)> {
    let text = |members: &[Member]| {
        let text = shape::find(members, "text").filter(|text| text.kind == Token::Text)?;
        Some(text.value.clone())
    };
    if !block.is_plain {
        return None;
    }
    match (text(&block.members), text(&block.resource)) {
        (Some(own), None) => Some((vec!["text"], own)),
        (None, Some(resource)) => Some((vec!["resource", "text"], resource)),
        _ => None,
    }
}

fn all_blocks(content: &Member) -> Candidate {
    let path = Pointer::from_tokens(["content".to_owned()]);
    let unit = Unit { path, what: What::Content, value: content.value.clone() };
    Candidate { unit, fixed: 0, forced: false }
}

fn path(names: &[&str]) -> Option<Pointer> {
    let mut tokens = vec![];
    for name in names {
        if !items::fits(&tokens, name) {
            return None;
        }
        tokens.push((*name).to_owned());
    }
    Some(Pointer::from_tokens(tokens))
}

fn narrow(length: u64) -> usize {
    usize::try_from(length).unwrap_or(usize::MAX)
}
