//! Cuts of a sketch to a number of bytes.
//!
//! | what | how it is cut |
//! |---|---|
//! | array, object with many members | its first items, whole |
//! | object with few members | all of its members; those that are too long are cut themselves |
//! | text | its start, and a mark |
//!
//! A cut is valid JSON of the same kind as what it is cut from, for a schema to be content with it.

use super::items::{self, RECORD_MEMBERS};
use super::share;
use super::sketch::{Child, Node, Sketch};
use crate::json::lexer::Token;
use crate::json::unescape;

/// How lists are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// At items; the one item of an array is cut if it does not fit.
    Items,
    /// All objects are records, and if the first item of an array does not fit, it is cut. For
    /// schemas that want a member or an item to be there.
    Inside,
}

/// A cut of a sketch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cut {
    /// JSON.
    pub(super) text: Vec<u8>,
    /// How many items of the list are shown whole, from the first one on.
    pub(super) shown: u64,
    /// Other arrays and objects of which items are missing.
    pub(super) others: Vec<Other>,
}

/// An array or object, beside the list, of which items are missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Other {
    /// Its name in the object that it is in; empty in arrays.
    pub(super) name: String,
    pub(super) shown: u64,
    pub(super) total: u64,
}

/// Not more of them are remembered: more than a notice names, which then says that there are others.
const OTHERS_MAX: usize = 8;

/// Cuts a sketch to at most `room` bytes, or to what is left of it when nothing is shown that can be
/// left out. `list` is the array or object whose items are counted; without one, it is the root.
pub(super) fn cut(sketch: &Sketch, list: Option<&Node>, mode: Mode, room: usize) -> Cut {
    let mut render = Render { sketch, list, mode, shown: 0, others: vec![] };
    let mut text = vec![];
    render.node(sketch.root(), b"", room, &mut text);
    Cut { text, shown: render.shown, others: render.others }
}

/// The least that is left of a cut text: `"…"`.
const LEAST_TEXT: usize = 5;

/// The least that is left of an array or object.
const LEAST_CONTAINER: usize = 2;

struct Render<'a> {
    sketch: &'a Sketch,
    list: Option<&'a Node>,
    mode: Mode,
    shown: u64,
    others: Vec<Other>,
}

impl Render<'_> {
    fn node(&mut self, node: &Node, name: &[u8], room: usize, out: &mut Vec<u8>) {
        // Numbers and words are not cut.
        let is_short = node.text.len() <= room || matches!(node.kind, Token::Number | Token::Word);
        if node.whole && is_short {
            out.extend_from_slice(self.sketch.slice(node.text.clone()));
            let is_in =
                |list: &&Node| node.text.start <= list.text.start && list.text.end <= node.text.end;
            if let Some(list) = self.list.filter(is_in) {
                self.shown = list.total;
            } else if self.is_counted(node) {
                self.shown = node.items();
            }
            return;
        }
        match node.kind {
            Token::Text => self.text(node, room, out),
            Token::Array => self.list(node, name, room, out),
            Token::Object if node.total > RECORD_MEMBERS && self.mode != Mode::Inside => {
                self.list(node, name, room, out);
            }
            Token::Object => self.record(node, name, room, out),
            Token::Name | Token::Number | Token::Word => {
                out.extend_from_slice(self.sketch.slice(node.text.clone()));
            }
        }
    }

    /// The start of a text.
    fn text(&self, node: &Node, room: usize, out: &mut Vec<u8>) {
        let mark = format!("… [cut: {} bytes in all]", node.bytes());
        let quoted = self.sketch.slice(node.text.clone());
        let left = room.saturating_sub(mark.len() + 1);
        let length = unescape::whole_characters(quoted, left).max(1);
        out.extend_from_slice(quoted.get(..length).unwrap_or(b"\""));
        out.extend_from_slice(if left > 1 { mark.as_bytes() } else { "…".as_bytes() });
        out.push(b'"');
    }

    /// The first items.
    fn list(&mut self, node: &Node, name: &[u8], room: usize, out: &mut Vec<u8>) {
        let (open, close) = if node.kind == Token::Object { (b'{', b'}') } else { (b'[', b']') };
        out.push(open);
        let mut left = room.saturating_sub(LEAST_CONTAINER);
        let (mut shown, mut is_in_part) = (0, false);
        for child in node.children().take(node.leading) {
            let comma = usize::from(shown > 0);
            let is_whole = child.node.is_none_or(|node| node.whole);
            if !is_whole || child.text.len() + comma > left {
                if shown == 0 {
                    is_in_part = self.lone_item(node, &child, left, out);
                }
                break;
            }
            if shown > 0 {
                out.push(b',');
            }
            out.extend_from_slice(self.sketch.slice(child.text.clone()));
            left -= child.text.len() + comma;
            shown += 1;
        }
        out.push(close);
        // Of a list of one item that is there in part, what is missing is told inside.
        if !is_in_part || node.total > 1 {
            self.count(node, name, shown);
        }
    }

    /// An item that is too long, where nothing else would be shown. Gives whether it is.
    fn lone_item(
        &mut self,
        list: &Node,
        child: &Child<'_>,
        room: usize,
        out: &mut Vec<u8>,
    ) -> bool {
        let may = match self.mode {
            Mode::Items => list.total == 1,
            Mode::Inside => true,
        };
        let node = child.node.filter(|_| may && list.kind == Token::Array);
        let Some(node) = node.filter(|node| room >= least(node)) else { return false };
        self.node(node, b"", room, out);
        true
    }

    /// All members, or as many as have room for a name and next to nothing.
    fn record(&mut self, node: &Node, name: &[u8], room: usize, out: &mut Vec<u8>) {
        let (members, left) = self.members(node, room.saturating_sub(LEAST_CONTAINER));
        let mut cuts = self.cuts(&members, left);
        if self.is_counted(node) {
            let leading = members.iter().zip(&cuts).take(node.leading);
            let whole = leading.take_while(|(member, cut)| {
                member.child.node.is_none_or(|node| self.is_all(node, cut.as_deref()))
            });
            self.shown = whole.count() as u64;
        }
        out.push(b'{');
        for (number, member) in members.iter().enumerate() {
            if number > 0 {
                out.push(b',');
            }
            self.member(member, cuts.get_mut(number).and_then(Option::take), out);
        }
        out.push(b'}');
        let shown = members.len() as u64;
        // Members that are there may be cut themselves: they do not count as shown.
        if shown < node.total && !self.is_list(node) {
            self.count(node, name, shown);
        }
    }

    /// What is shown of the members that do not fit.
    fn cuts(&mut self, members: &[Member<'_>], mut left: usize) -> Vec<Option<Vec<u8>>> {
        let wants: Vec<_> = members.iter().map(|member| member.wants).collect();
        let level = share::level(left, &wants);
        left -= wants.iter().filter(|wants| **wants <= level).sum::<usize>();
        let mut cut: Vec<_> = (0..).zip(members).filter(|(_, it)| it.wants > level).collect();
        // What the lighter ones leave is for the heavier ones.
        cut.sort_by_key(|(_, member)| member.wants);
        let mut texts = vec![None; members.len()];
        let mut waiting = cut.len();
        for (number, Member { child, least, .. }) in cut {
            let (Some(node), Some(place)) = (child.node, texts.get_mut::<usize>(number)) else {
                continue;
            };
            let mut text = vec![];
            self.node(node, self.sketch.name(child), least + left / waiting, &mut text);
            left -= text.len().saturating_sub(*least).min(left);
            waiting -= 1;
            *place = Some(text);
        }
        texts
    }

    fn member(&mut self, member: &Member<'_>, cut: Option<Vec<u8>>, out: &mut Vec<u8>) {
        let Child { text, node } = &member.child;
        match (cut, node) {
            (Some(cut), Some(node)) => {
                out.extend_from_slice(self.sketch.slice(text.start..node.text.start));
                out.extend_from_slice(&cut);
            }
            (_, Some(node)) => {
                out.extend_from_slice(self.sketch.slice(text.start..node.text.start));
                self.node(node, b"", usize::MAX, out);
            }
            _ => out.extend_from_slice(self.sketch.slice(text.clone())),
        }
    }

    /// The members that are shown, and the bytes that they leave when next to nothing is shown of
    /// each.
    fn members<'n>(&self, node: &'n Node, room: usize) -> (Vec<Member<'n>>, usize) {
        let (mut members, mut left) = (vec![], room);
        for child in node.children() {
            // What is small is all name.
            let value = child.node.map_or(child.text.end, |node| node.text.start);
            let name = value - child.text.start + usize::from(!members.is_empty());
            let least = child.node.map_or(0, least);
            let wants = match child.node {
                Some(node) if node.whole => node.text.len() - least,
                // More than there is, and the heavier the more.
                Some(node) => usize::try_from(node.bytes()).unwrap_or(usize::MAX).max(room + 1),
                None => 0,
            };
            if name + least > left {
                break;
            }
            left -= name + least;
            members.push(Member { child, least, wants });
        }
        (members, left)
    }

    /// Whether its items are the ones that are counted.
    fn is_counted(&self, node: &Node) -> bool {
        std::ptr::eq(node, self.list.unwrap_or_else(|| self.sketch.root()))
    }

    /// Whether all of a value is shown, which may be cut.
    fn is_all(&self, node: &Node, cut: Option<&[u8]>) -> bool {
        node.whole && cut.is_none_or(|cut| cut == self.sketch.slice(node.text.clone()))
    }

    fn is_list(&self, node: &Node) -> bool {
        self.list.is_some_and(|list| std::ptr::eq(node, list))
    }

    fn count(&mut self, node: &Node, name: &[u8], shown: u64) {
        if self.is_list(node) {
            self.shown = shown;
        } else if self.others.len() < OTHERS_MAX {
            let name = items::decoded(name).unwrap_or_default();
            self.others.push(Other { name, shown, total: node.total });
        }
    }
}

/// A member of a record.
struct Member<'a> {
    child: Child<'a>,
    /// What is always shown of its value; nothing if that is small.
    least: usize,
    /// What else there is.
    wants: usize,
}

/// What is left of a value when nothing is shown that can be left out.
fn least(node: &Node) -> usize {
    let least = match node.kind {
        Token::Text => LEAST_TEXT,
        Token::Object | Token::Array => LEAST_CONTAINER,
        Token::Name | Token::Number | Token::Word => node.text.len(),
    };
    if node.whole { least.min(node.text.len()) } else { least }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::super::items::Items;
    use super::super::sketch::Sketcher;
    use super::super::tests::any_value;
    use super::*;
    use crate::json::lexer::Lexer;

    fn sketch(value: &Value, limit: usize) -> Sketch {
        let (mut lexer, mut sketcher) = (Lexer::new(), Sketcher::new(limit));
        lexer.feed(value.to_string().as_bytes(), &mut sketcher).unwrap();
        lexer.finish(&mut sketcher).unwrap();
        sketcher.finish().unwrap()
    }

    #[track_caller]
    fn check(value: &Value, mode: Mode, room: usize, expected: &Value, shown: u64) {
        let sketch = sketch(value, 10_000);
        let cut = cut(&sketch, Some(Items::of(&sketch).node), mode, room);
        assert_eq!(serde_json::from_slice::<Value>(&cut.text).unwrap(), *expected);
        assert_eq!(cut.shown, shown);
    }

    fn long(length: usize) -> String {
        "x".repeat(length)
    }

    #[test]
    fn lists_are_cut_at_items() {
        let list = json!([long(300), long(300), long(300)]);
        check(&list, Mode::Items, 700, &json!([long(300), long(300)]), 2);
        check(&list, Mode::Items, 301, &json!([]), 0);
        let cut = format!("{}… [cut: 302 bytes in all]", long(71));
        check(&list, Mode::Inside, 102, &json!([cut]), 0);
    }

    #[test]
    fn records_keep_their_members() {
        let record = json!({"a": long(900), "b": 1, "c": [long(400), long(400), 3], "d": {}});
        let sketch = sketch(&record, 10_000);
        let cut = cut(&sketch, Some(Items::of(&sketch).node), Mode::Items, 1000);
        let value: Value = serde_json::from_slice(&cut.text).unwrap();
        assert_eq!((&value["b"], &value["d"]), (&json!(1), &json!({})));
        assert_eq!(value["c"], json!([long(400)]));
        assert!(value["a"].as_str().unwrap().ends_with("x… [cut: 902 bytes in all]"));
        assert_eq!((cut.shown, cut.others.len()), (1, 0));
        assert!(cut.text.len() <= 1000);
    }

    #[test]
    fn a_list_is_shown_if_what_it_is_in_is() {
        let document = json!({"a": {"rows": [long(300), 2]}});
        check(&document, Mode::Items, 1000, &document, 2);
    }

    #[test]
    fn next_to_nothing_is_shown_where_there_is_no_room() {
        let record = json!({"a": long(900), "b": [long(900)], "c": {"d": long(900)}});
        check(&record, Mode::Items, 30, &json!({"a": "…", "b": [], "c": {}}), 0);
        check(&record, Mode::Items, 15, &json!({"a": "…"}), 0);
        check(&record, Mode::Items, 0, &json!({}), 0);
        check(&json!(long(900)), Mode::Items, 0, &json!("…"), 0);
    }

    proptest! {
        #[test]
        fn a_cut_has_room_and_is_json(
            value in any_value(),
            limit in 0_usize..5000,
            rooms in prop::collection::vec(0_usize..5000, 1..5),
        ) {
            let sketch = sketch(&value, limit);
            let all = sketch.slice(sketch.root().text.clone());
            prop_assert!(serde_json::from_slice::<Value>(all).is_ok());
            prop_assert!(all.len() <= 6 * limit + 2000);
            if sketch.root().whole {
                prop_assert_eq!(serde_json::from_slice::<Value>(all).unwrap(), value.clone());
            }
            let items = Items::of(&sketch);
            for room in rooms {
                for mode in [Mode::Items, Mode::Inside] {
                    let cut = cut(&sketch, Some(items.node), mode, room);
                    prop_assert!(serde_json::from_slice::<Value>(&cut.text).is_ok());
                    prop_assert!(cut.text.len() <= room.max(least(sketch.root())));
                    prop_assert!(cut.shown <= items.node.total);
                }
            }
        }
    }
}
