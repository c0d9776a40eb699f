//! What is shown of each part.

use serde_json::Value;

use super::body::{Body, Shown, ShownBlocks};
use super::hold::Place;
use super::items::{self, Items, LongText};
use super::plain::Plain;
use super::plan::{Unit, What};
use super::render::{self, Cut, Mode, Other};
use super::sketch::{Node, Sketch};
use crate::schema::BoundedValidator;

/// What is shown of a part, in its place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Piece {
    /// JSON; if there is none, nothing stands in its place.
    pub(super) json: Option<Vec<u8>>,
    /// The blocks that are shown, where it is all of them.
    pub(super) blocks: Option<ShownBlocks>,
    /// How many items of what is held are shown.
    pub(super) shown: u64,
    pub(super) remark: Remark,
}

/// What else is to be said of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Remark {
    /// Nothing of it is shown.
    #[default]
    NotShown,
    /// Nothing.
    Plain,
    /// It has no list that is read on: what there is, and what of that is cut.
    Outline(String, Vec<Other>),
    /// Others in it are cut, too.
    Others(Vec<Other>),
}

/// All pieces.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    /// One for each unit.
    pub(super) all: Vec<Piece>,
    /// No cut of `structuredContent` is valid.
    pub(super) invalid: bool,
}

/// The bytes of an outline in a notice.
const OUTLINE_BYTES: usize = 160;

/// Makes pieces of parts.
#[derive(Debug)]
pub(super) struct Show<'a> {
    pub(super) units: &'a [Unit],
    pub(super) bodies: &'a [Body],
    pub(super) places: &'a [Place],
    /// What `structuredContent` has to be, if that is known.
    pub(super) schema: Option<&'a BoundedValidator>,
}

impl Show<'_> {
    /// Shows as much as there is room for.
    pub(super) fn within(&self, room: usize) -> Pieces {
        let mut pieces =
            Pieces { all: vec![Piece::default(); self.units.len()], invalid: self.is_withheld() };
        let mut groups = self.groups();
        // What the lighter ones leave is for the heavier ones.
        groups.sort_by_key(|group| {
            group.first().and_then(|it| self.places.get(*it)).map(|it| it.bytes)
        });
        let mut waiting: usize = groups.iter().map(Vec::len).sum();
        let mut left = room;
        for group in groups {
            let used = self.group(&group, left / waiting.max(1) * group.len(), &mut pieces);
            left = left.saturating_sub(used);
            waiting -= group.len();
        }
        pieces
    }

    /// Whether `structuredContent` has to be there and cannot be shown at all.
    fn is_withheld(&self) -> bool {
        let mut parts = self.units.iter().zip(self.bodies);
        self.schema.is_some()
            && parts.any(|(unit, body)| {
                unit.what == What::Structured && matches!(body.shown, Shown::Nothing)
            })
    }

    /// Parts that are shown, those together that are shown in the same way.
    fn groups(&self) -> Vec<Vec<usize>> {
        let is_first = |body: &Body| !matches!(body.shown, Shown::Nothing | Shown::Same(_));
        let bodies = || self.bodies.iter().enumerate();
        let firsts = bodies().filter(|(_, body)| is_first(body)).map(|(number, _)| number);
        let same = |number: usize| {
            bodies().filter_map(move |(other, body)| match body.shown {
                Shown::Same(first) if first == number => Some(other),
                _ => None,
            })
        };
        firsts.map(|first| std::iter::once(first).chain(same(first)).collect()).collect()
    }

    /// Shows a group, and tells how many bytes that takes.
    fn group(&self, group: &[usize], room: usize, pieces: &mut Pieces) -> usize {
        let Some((first, body)) = group.first().and_then(|it| Some((*it, self.bodies.get(*it)?)))
        else {
            return 0;
        };
        let (cut, remark) = match &body.shown {
            Shown::Json(sketch) => {
                let cut = self.json(sketch, group, room, pieces);
                let remark = remark(sketch, &cut);
                (cut, remark)
            }
            Shown::Blocks(row) => {
                let blocks = row.within(room);
                let (bytes, shown) = (blocks.bytes, blocks.first);
                if let Some(piece) = pieces.all.get_mut(first) {
                    let (blocks, remark) = (Some(blocks), Remark::Plain);
                    *piece = Piece { blocks, shown, remark, json: None };
                }
                return bytes;
            }
            Shown::Long { sketch, text } => {
                let mark = self.mark(first, " ");
                let cut = |room| long(sketch, text, &mark, room);
                let best = fit(room, cut, |cut| self.cost(group, cut));
                (self.checked(group, best, pieces), Remark::Plain)
            }
            Shown::Plain(text) | Shown::Half(text) => {
                let mark = self.mark(first, "\n");
                let is_half = matches!(body.shown, Shown::Half(_));
                let cut = fit(room, |room| plain(text, is_half, &mark, room), |cut| cut.text.len());
                (cut, Remark::Plain)
            }
            Shown::Same(_) | Shown::Nothing => return 0,
        };
        self.put(group, &cut, &remark, pieces)
    }

    /// A cut of a document, which is valid if it has to be.
    fn json(&self, sketch: &Sketch, group: &[usize], room: usize, pieces: &mut Pieces) -> Cut {
        let items = Items::of(sketch);
        let list = items.is_list.then_some(items.node);
        let fitted = |mode| {
            let cut = |room| render::cut(sketch, list, mode, room);
            fit(room, cut, |cut| self.cost(group, cut))
        };
        let best = fitted(Mode::Items);
        if self.is_valid(group, &best) {
            return best;
        }
        // Halves, and nothing last.
        let fewer = (1..usize::BITS).map(|bits| best.text.len() >> bits);
        let mut tries = std::iter::once(fitted(Mode::Inside)).chain(
            fewer
                .scan(true, |more, room| std::mem::replace(more, room > 0).then_some(room))
                .flat_map(|room| {
                    [Mode::Items, Mode::Inside].map(|mode| render::cut(sketch, list, mode, room))
                }),
        );
        match tries.find(|cut| self.cost(group, cut) <= room && self.is_valid(group, cut)) {
            Some(cut) => cut,
            None => {
                pieces.invalid = true;
                best
            }
        }
    }

    fn whats(&self, group: &[usize]) -> impl Iterator<Item = What> {
        group.iter().filter_map(|number| Some(self.units.get(*number)?.what))
    }

    fn checked(&self, group: &[usize], cut: Cut, pieces: &mut Pieces) -> Cut {
        pieces.invalid |= !self.is_valid(group, &cut);
        cut
    }

    fn is_valid(&self, group: &[usize], cut: &Cut) -> bool {
        let Some(schema) = self.schema else { return true };
        if !self.whats(group).any(|what| what == What::Structured) {
            return true;
        }
        let value = serde_json::from_slice::<Value>(&cut.text);
        value.is_ok_and(|value| schema.fits(&value))
    }

    /// What a cut of a document takes wherever it is shown.
    fn cost(&self, group: &[usize], cut: &Cut) -> usize {
        self.whats(group)
            .map(|what| match what {
                What::Text { .. } => quoted(&cut.text).len(),
                _ => cut.text.len(),
            })
            .sum()
    }

    /// Puts a cut to where it is shown.
    fn put(&self, group: &[usize], cut: &Cut, remark: &Remark, pieces: &mut Pieces) -> usize {
        let mut used = 0;
        for number in group {
            let (Some(unit), Some(body), Some(piece)) =
                (self.units.get(*number), self.bodies.get(*number), pieces.all.get_mut(*number))
            else {
                continue;
            };
            let json = match (unit.what, &body.shown) {
                (What::Structured, _) if pieces.invalid => None,
                // It was quoted to be measured.
                (What::Text { .. }, Shown::Plain(_) | Shown::Half(_)) => Some(cut.text.clone()),
                (What::Text { .. }, _) => Some(quoted(&cut.text)),
                _ => Some(cut.text.clone()),
            };
            if let Some(json) = json {
                used += json.len();
                let (shown, remark) = (cut.shown, remark.clone());
                *piece = Piece { json: Some(json), shown, remark, blocks: None };
            }
        }
        used
    }

    /// Where a text that is cut goes on.
    fn mark(&self, number: usize, before: &str) -> String {
        let handle = self.places.get(number).map(|place| place.kept.handle.to_string());
        format!("{before}[cut here; the rest is held under {}]", handle.unwrap_or_default())
    }
}

fn remark(sketch: &Sketch, cut: &Cut) -> Remark {
    let items = Items::of(sketch);
    let is_all = cut.shown == items.total(sketch) && cut.others.is_empty();
    if !items.is_list && !is_all {
        // It is read from its root.
        let outline = items::outline(sketch, sketch.root(), OUTLINE_BYTES);
        return Remark::Outline(outline, cut.others.clone());
    }
    match cut.others.is_empty() {
        true => Remark::Plain,
        false => Remark::Others(cut.others.clone()),
    }
}

/// The start of a text, quoted.
fn plain(text: &Plain, is_half: bool, mark: &str, room: usize) -> Cut {
    let mut head = text.head(room);
    if is_half || (head.text.len() as u64) < text.bytes {
        head.text.push_str(mark);
    }
    let shown = if is_half { 0 } else { head.lines };
    Cut { text: quoted(head.text.as_bytes()), shown, others: vec![] }
}

/// A document with the start of its one long text.
fn long(sketch: &Sketch, text: &Plain, mark: &str, room: usize) -> Cut {
    let root = &sketch.root().text;
    let all = sketch.slice(root.clone());
    let Some(Node { text: place, .. }) = LongText::of(sketch, usize::MAX).map(|long| long.node)
    else {
        return Cut { text: all.to_vec(), ..Cut::default() };
    };
    let cut = plain(text, false, mark, room.saturating_sub(root.len() - place.len()));
    let before = sketch.slice(root.start..place.start);
    let text = [before, &cut.text, sketch.slice(place.end..root.end)].concat();
    Cut { text, ..cut }
}

/// A text as JSON.
pub(super) fn quoted(text: &[u8]) -> Vec<u8> {
    Value::from(String::from_utf8_lossy(text)).to_string().into_bytes()
}

/// The best of what is made for up to `room` bytes and takes no more, or what is made for none.
fn fit(room: usize, make: impl Fn(usize) -> Cut, cost: impl Fn(&Cut) -> usize) -> Cut {
    let most = make(room);
    if cost(&most) <= room {
        return most;
    }
    let (mut low, mut high, mut best) = (0, room, make(0));
    // Within a hundredth: the last bytes are not worth another try.
    while high - low > room / 100 + 1 {
        let middle = low + (high - low) / 2;
        let made = make(middle);
        if cost(&made) <= room {
            low = middle;
            best = made;
        } else {
            high = middle;
        }
    }
    best
}
