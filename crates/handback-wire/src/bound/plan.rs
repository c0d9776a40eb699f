//! Which parts of a result are shown as they are, and which are cut.

use std::ops::Range;

use handback_page::json::Pointer;

use super::chunks::length;
use super::items;
use super::media::{Found, MediaBlock};
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
    /// The media block of this number: a link takes its place.
    Media { block: usize },
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
    /// A plan for a result that can be taken apart, in at most `room` bytes beside its media, and
    /// `media_room` bytes of these.
    pub(super) fn of(
        shape: &Shape,
        media: &Found,
        (room, media_room): (usize, u64),
    ) -> Option<Self> {
        let content = shape.find("content");
        if !shape.is_plain || content.is_some_and(|content| content.kind != Token::Array) {
            return None;
        }
        let by_block = || {
            let units = units(shape, blocks(shape, media, media_room)?)?;
            let plan = Self::choose(&units, room, room / 4 * 3)?;
            let is_block = |unit: &&Unit| unit.what.is_in_content();
            (plan.cut.iter().filter(is_block).count() <= CUT_BLOCKS_MAX).then_some(plan)
        };
        let whole_content = || {
            let all = content.map(|content| all_blocks(content, media, media_room));
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
            let wants: Vec<_> = units.iter().map(|unit| unit.wants).collect();
            let level = share::level(left, &wants);
            let (cut, whole): (Vec<_>, Vec<_>) =
                units.iter().partition(|unit| unit.forced || unit.wants > level);
            if cut.len() <= count {
                let shown: usize = whole.iter().map(|unit| unit.wants).sum();
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
    /// Bytes that it takes where it is shown whole, beside those that are fixed.
    wants: usize,
}

impl Candidate {
    /// A part that is shown if there is room for all of it.
    fn new(unit: Unit, fixed: usize) -> Self {
        let wants = narrow(length(&unit.value));
        Self { unit, fixed, forced: false, wants }
    }
}

impl What {
    /// True if it is a part of one block.
    pub(super) const fn is_in_content(self) -> bool {
        matches!(self, Self::Text { .. } | Self::Block { .. } | Self::Media { .. })
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
        let candidate = Candidate::new(unit, member.name.len() * 2 + 4);
        // A member that is left out takes nothing.
        let wants = if forced { 0 } else { candidate.wants };
        units.push(Candidate { forced, wants, ..candidate });
    }
    Some(units)
}

/// The blocks one by one, if they are few. Media blocks stay in their order, for as long as there is
/// room for them.
fn blocks(shape: &Shape, media: &Found, media_room: u64) -> Option<Vec<Candidate>> {
    if shape.block_count > shape.blocks.len() as u64 {
        return None;
    }
    let mut left = media_room;
    let candidates = shape.blocks.iter().enumerate().map(|(number, block)| {
        let Some(found) = media.block(number as u64) else { return candidate(number, block) };
        let rest = left.checked_sub(length(&found.data));
        left = rest.unwrap_or(left);
        media_candidate(number, found, rest.is_some())
    });
    candidates.collect()
}

/// A media block, of which nothing is cut: it stays, or a link takes its place.
fn media_candidate(number: usize, found: &MediaBlock, stays: bool) -> Option<Candidate> {
    let unit = Unit {
        path: path(&["content", &number.to_string()])?,
        what: What::Media { block: number },
        value: found.block.clone(),
    };
    let fixed = if stays { narrow(found.beside()) + 1 } else { 1 };
    Some(Candidate { unit, fixed, forced: !stays, wants: 0 })
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
    Some(Candidate::new(unit, fixed))
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

fn all_blocks(content: &Member, media: &Found, media_room: u64) -> Candidate {
    let path = Pointer::from_tokens(["content".to_owned()]);
    let unit = Unit { path, what: What::Content, value: content.value.clone() };
    let wants = narrow(length(&content.value).saturating_sub(media.bytes));
    Candidate { unit, fixed: 0, forced: media.bytes > media_room, wants }
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
