//! The result that the client gets.

use std::borrow::Cow;
use std::ops::Range;

use handback_page::CollectionError;
use serde_json::{Value, json};

use super::chunks::{Chunks, length};
use super::media::{Found, HELD_URI, MediaBlock};
use super::part::Part;
use super::plan::{HELD_KEY, Unit, What};
use super::shape::{self, Block, Member, Shape};
use super::show::Pieces;

/// What a media type or the type of a block is cut to.
const LABEL_CHARS: usize = 64;

/// Longer labels are not read.
const LABEL_BYTES: u64 = 128;

/// Puts a result together.
#[derive(Debug)]
pub(super) struct Compose<'a> {
    pub(super) chunks: Chunks<'a>,
    pub(super) shape: &'a Shape,
    pub(super) units: &'a [Unit],
    pub(super) media: &'a Found,
    pub(super) links: Links<'a>,
}

/// The stand-in for a media block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Links<'a> {
    /// True if the client knows blocks of the type `resource_link`.
    pub(super) are_known: bool,
    /// The tool that shows the block.
    pub(super) tool: &'a str,
}

impl Compose<'_> {
    /// Bytes of the media in a result with these pieces.
    pub(super) fn media_bytes(&self, pieces: &Pieces) -> u64 {
        if self.is_cut_by_block() {
            let is_replaced = |block: &&MediaBlock| {
                let place = self.units.iter().position(|unit| is_of_block(unit, block.number));
                place.is_some()
            };
            let stay = self.media.blocks.iter().filter(|block| !is_replaced(block));
            return stay.map(|block| length(&block.data)).sum();
        }
        let all = self.units.iter().position(|unit| unit.what == What::Content);
        match all.and_then(|all| pieces.all.get(all)) {
            Some(piece) => piece.blocks.as_ref().map_or(0, |blocks| blocks.media_bytes),
            None => self.media.bytes,
        }
    }

    fn is_cut_by_block(&self) -> bool {
        self.units.iter().any(|unit| unit.what.is_in_content())
    }

    /// The result: the members of the upstream's, in their order.
    pub(super) fn result(
        &self,
        notice: Option<&str>,
        pieces: &Pieces,
        parts: &[Part],
    ) -> Result<Vec<u8>, CollectionError> {
        let mut out = Members::new();
        let mut missing: Vec<_> =
            [("content", true), ("isError", pieces.invalid), ("_meta", !parts.is_empty())]
                .into_iter()
                .filter_map(|(name, wanted)| wanted.then_some(name))
                .collect();
        for member in &self.shape.members {
            missing.retain(|name| *name != member.name);
            self.member(member, notice, pieces, parts, &mut out)?;
        }
        for name in missing {
            match name {
                "content" => self.content(notice, pieces, parts, out.value(name))?,
                "isError" => out.value(name).extend_from_slice(b"true"),
                _ => self.meta(None, parts, out.value(name))?,
            }
        }
        Ok(out.finish())
    }

    fn member(
        &self,
        member: &Member,
        notice: Option<&str>,
        pieces: &Pieces,
        parts: &[Part],
        out: &mut Members,
    ) -> Result<(), CollectionError> {
        let Member { name, value, .. } = member;
        let number = self.units.iter().position(|unit| {
            unit.value == *value && matches!(unit.what, What::Structured | What::Member)
        });
        match (name.as_str(), number) {
            ("content", _) => self.content(notice, pieces, parts, out.value(name))?,
            ("isError", _) if pieces.invalid => out.value(name).extend_from_slice(b"true"),
            ("_meta", number) => {
                let kept = number.is_none().then_some(member);
                self.meta(kept, parts, out.value(name))?;
            }
            (_, None) => self.copy(value, out.value(name))?,
            (_, Some(number)) => {
                if let Some(json) = pieces.all.get(number).and_then(|piece| piece.json.as_ref()) {
                    out.value(name).extend_from_slice(json);
                }
            }
        }
        Ok(())
    }

    /// The notice, and the blocks.
    fn content(
        &self,
        notice: Option<&str>,
        pieces: &Pieces,
        parts: &[Part],
        out: &mut Vec<u8>,
    ) -> Result<(), CollectionError> {
        out.push(b'[');
        let start = out.len();
        if let Some(notice) = notice {
            out.extend_from_slice(&text_block(notice));
        }
        if self.is_cut_by_block() {
            for (number, block) in self.shape.blocks.iter().enumerate() {
                separate(out, start);
                self.block(number, block, pieces, parts, out)?;
            }
        } else {
            for range in self.blocks(pieces) {
                let blocks = self.chunks.read(range)?;
                let blocks = blocks.trim_ascii();
                if !blocks.is_empty() {
                    separate(out, start);
                    out.extend_from_slice(blocks);
                }
            }
        }
        out.push(b']');
        Ok(())
    }

    /// The bytes of the blocks that are shown of all.
    fn blocks(&self, pieces: &Pieces) -> Vec<Range<u64>> {
        let all = self.units.iter().position(|unit| unit.what == What::Content);
        let piece = all.and_then(|all| pieces.all.get(all));
        match (piece, self.shape.find("content")) {
            (Some(piece), _) => piece.blocks.clone().unwrap_or_default().ranges,
            (None, Some(content)) => vec![within_brackets(&content.value)],
            (None, None) => vec![],
        }
    }

    fn block(
        &self,
        number: usize,
        block: &Block,
        pieces: &Pieces,
        parts: &[Part],
        out: &mut Vec<u8>,
    ) -> Result<(), CollectionError> {
        let is_it = |unit: &Unit| is_of_block(unit, number as u64);
        let Some(place) = self.units.iter().position(is_it) else {
            return self.copy(&block.value, out);
        };
        let Some(unit) = self.units.get(place) else { return Ok(()) };
        match pieces.all.get(place).and_then(|piece| piece.json.as_ref()) {
            Some(json) => {
                self.copy(&(block.value.start..unit.value.start), out)?;
                out.extend_from_slice(json);
                self.copy(&(unit.value.end..block.value.end), out)
            }
            None => {
                let media = self.media.block(number as u64);
                let media = media.filter(|_| self.links.are_known);
                if let (Some(part), Some(media)) = (parts.get(place), media) {
                    out.extend_from_slice(&self.link(part, media));
                } else if let Some(part) = parts.get(place) {
                    let label = self.label(block)?;
                    let Part { bytes, handle, .. } = part;
                    let text = format!("[{label}, {bytes} bytes: held under {handle}]");
                    out.extend_from_slice(&text_block(&text));
                }
                Ok(())
            }
        }
    }

    /// The link to a media block that is held.
    fn link(&self, part: &Part, media: &MediaBlock) -> Vec<u8> {
        let Part { handle, bytes, .. } = part;
        let tool = self.links.tool;
        let mut link = json!({
            "type": "resource_link",
            "uri": format!("{HELD_URI}{handle}"),
            "name": format!("{}-{}", media.kind.name(), media.number + 1),
            "description": format!("{bytes} bytes, held: {tool} get_element shows it"),
            "size": media.size_bytes(),
        });
        if let (Some(_), Value::Object(members)) = (&media.media_type, &mut link) {
            members.insert("mimeType".to_owned(), media.label().into());
        }
        link.to_string().into_bytes()
    }

    /// What a block is.
    fn label(&self, block: &Block) -> Result<String, CollectionError> {
        let mut labels = vec![];
        for (members, name) in
            [(&block.members, "type"), (&block.members, "mimeType"), (&block.resource, "mimeType")]
        {
            let Some(member) = shape::find(members, name) else { continue };
            if member.value.end - member.value.start > LABEL_BYTES {
                continue;
            }
            let text = self.chunks.read(member.value.clone())?;
            if let Ok(text) = serde_json::from_slice::<String>(&text) {
                // They come from the upstream: no more than media types need.
                let plain = |c: &char| c.is_ascii_alphanumeric() || "/+-._; =".contains(*c);
                labels.push(text.chars().filter(plain).take(LABEL_CHARS).collect::<String>());
            }
        }
        labels.retain(|label| !label.is_empty());
        Ok(if labels.is_empty() { "block".to_owned() } else { labels.join(", ") })
    }

    /// The upstream's members of `_meta`, and ours.
    fn meta(
        &self,
        kept: Option<&Member>,
        parts: &[Part],
        out: &mut Vec<u8>,
    ) -> Result<(), CollectionError> {
        let text = match kept {
            Some(member) => self.chunks.read(member.value.clone())?,
            None => Cow::Borrowed(b"{}".as_slice()),
        };
        if parts.is_empty() {
            out.extend_from_slice(&text);
            return Ok(());
        }
        let members = text.trim_ascii_end().strip_suffix(b"}").unwrap_or(b"{").trim_ascii_end();
        out.extend_from_slice(members);
        if members.trim_ascii() != b"{" {
            out.push(b',');
        }
        let held: Vec<_> = parts.iter().map(Part::entry).collect();
        out.extend_from_slice(format!("\"{HELD_KEY}\":{}}}", Value::from(held)).as_bytes());
        Ok(())
    }

    /// Bytes of the result that are shown, and therefore few.
    fn copy(&self, range: &Range<u64>, out: &mut Vec<u8>) -> Result<(), CollectionError> {
        out.extend_from_slice(&self.chunks.read(range.clone())?);
        Ok(())
    }
}

/// True if a unit is a part of the block of this number.
fn is_of_block(unit: &Unit, number: u64) -> bool {
    match unit.what {
        What::Text { block } | What::Block { block } | What::Media { block } => {
            block as u64 == number
        }
        _ => false,
    }
}

/// The bytes of an array between its brackets.
fn within_brackets(array: &Range<u64>) -> Range<u64> {
    let start = array.start.saturating_add(1);
    start..array.end.saturating_sub(1).max(start)
}

fn separate(out: &mut Vec<u8>, start: usize) {
    if out.len() > start {
        out.push(b',');
    }
}

fn text_block(text: &str) -> Vec<u8> {
    json!({"type": "text", "text": text}).to_string().into_bytes()
}

/// An object, while it is written.
struct Members(Vec<u8>);

impl Members {
    fn new() -> Self {
        Self(vec![b'{'])
    }

    /// Where the value of a member is to be written.
    fn value(&mut self, name: &str) -> &mut Vec<u8> {
        separate(&mut self.0, 1);
        self.0.extend_from_slice(Value::from(name).to_string().as_bytes());
        self.0.push(b':');
        &mut self.0
    }

    fn finish(mut self) -> Vec<u8> {
        self.0.push(b'}');
        self.0
    }
}
