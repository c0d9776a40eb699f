//! A value without the base64 in it.

use std::borrow::Cow;
use std::ops::Range;

use handback_page::CollectionError;
use handback_page::json::ByteSource;

use super::MediaBlock;

/// A JSON value without the base64 of its media blocks, for pages and searches. A short text that names
/// the media is in its place.
#[derive(Debug)]
pub struct Masked<S> {
    source: S,
    /// In the order of the value.
    holes: Vec<Hole>,
    size: u64,
}

/// A text that is replaced.
#[derive(Debug)]
struct Hole {
    /// Start of the replacement in the value that is shown.
    at: u64,
    /// The text in the source, with quotes.
    hidden: Range<u64>,
    shown: String,
}

impl Hole {
    const fn end(&self) -> u64 {
        self.at + self.shown.len() as u64
    }
}

impl<S: ByteSource> Masked<S> {
    /// A value without the base64 of these of its blocks.
    pub fn new(source: S, blocks: &[MediaBlock]) -> Self {
        let mut holes: Vec<Hole> = Vec::with_capacity(blocks.len());
        let (mut hidden, mut shown) = (0, 0);
        for block in blocks {
            let text = format!("\"[{}, {} bytes of base64]\"", block.label(), length(&block.data));
            let at = block.data.start - hidden + shown;
            hidden += length(&block.data);
            shown += text.len() as u64;
            holes.push(Hole { at, hidden: block.data.clone(), shown: text });
        }
        let size = source.size_bytes().saturating_sub(hidden) + shown;
        Self { source, holes, size }
    }

    /// The bytes of the source between two holes, or outside of them.
    fn between(
        &self,
        shown: Range<u64>,
        before: Option<&Hole>,
        out: &mut Vec<u8>,
    ) -> Result<(), CollectionError> {
        let start = match before {
            Some(hole) => hole.hidden.end + (shown.start - hole.end()),
            None => shown.start,
        };
        out.extend_from_slice(&self.source.read(start..start + length(&shown))?);
        Ok(())
    }
}

impl<S: ByteSource> ByteSource for Masked<S> {
    fn size_bytes(&self) -> u64 {
        self.size
    }

    fn edition(&self) -> u64 {
        self.source.edition()
    }

    fn read(&self, range: Range<u64>) -> Result<Cow<'_, [u8]>, CollectionError> {
        if self.holes.is_empty() {
            return self.source.read(range);
        }
        if range.start > range.end || range.end > self.size {
            return Err(CollectionError::Changed);
        }
        let mut out = Vec::new();
        let mut at = range.start;
        let mut next = self.holes.partition_point(|hole| hole.end() <= at);
        while at < range.end {
            let before = next.checked_sub(1).and_then(|number| self.holes.get(number));
            match self.holes.get(next) {
                Some(hole) if hole.at <= at => {
                    let end = hole.end().min(range.end);
                    let local = |offset: u64| usize::try_from(offset - hole.at).unwrap_or_default();
                    let text = hole.shown.as_bytes().get(local(at)..local(end));
                    out.extend_from_slice(text.unwrap_or_default());
                    at = end;
                    next += 1;
                }
                hole => {
                    let end = hole.map_or(range.end, |hole| hole.at.min(range.end));
                    self.between(at..end, before, &mut out)?;
                    at = end;
                }
            }
        }
        Ok(Cow::Owned(out))
    }
}

const fn length(range: &Range<u64>) -> u64 {
    range.end.saturating_sub(range.start)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use handback_page::json::InMemory;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::bound::HeldMedia;

    proptest! {
        #[test]
        fn a_masked_value_has_everything_but_base64(
            blocks in prop::collection::vec((0_usize..4, 0_usize..300), 0..6),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
            is_pretty: bool,
        ) {
            let block = |(kind, size): &(usize, usize)| {
                let data = "QUJD".repeat(*size);
                match kind {
                    0 => json!({"type": "image", "data": data, "mimeType": "image/png"}),
                    1 => json!({"mimeType": "audio/wav", "data": data, "type": "audio"}),
                    2 => json!({"type": "resource", "resource": {"uri": "x:é", "blob": data}}),
                    _ => json!({"type": "text", "text": data}),
                }
            };
            let all: Vec<Value> = blocks.iter().map(block).collect();
            let text = match is_pretty {
                true => serde_json::to_string_pretty(&all).unwrap(),
                false => Value::from(all.clone()).to_string(),
            };
            let source = Arc::new(InMemory::new(text.clone(), 0));
            let found = HeldMedia::Blocks.blocks(&source).unwrap();
            let expected = blocks.iter().filter(|(kind, _)| *kind < 3).count();
            prop_assert_eq!(found.len(), expected);
            for media in &found {
                let range = |range: &Range<u64>| {
                    text[usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap()].to_owned()
                };
                let number = usize::try_from(media.number).unwrap();
                let block: Value = serde_json::from_str(&range(&media.block)).unwrap();
                prop_assert_eq!(&block, &all[number]);
                let data: String = serde_json::from_str(&range(&media.data)).unwrap();
                prop_assert_eq!(data, "QUJD".repeat(blocks[number].1));
            }
            let masked = Masked::new(source, &found);
            let whole = masked.read(0..masked.size_bytes()).unwrap().into_owned();
            let mut at = vec![0, whole.len()];
            at.extend(cuts.iter().map(|cut| cut.index(whole.len() + 1)));
            at.sort_unstable();
            let pieces = at.windows(2).flat_map(|pair| {
                masked.read(pair[0] as u64..pair[1] as u64).unwrap().into_owned()
            });
            prop_assert_eq!(pieces.collect::<Vec<u8>>(), whole.clone());
            let shown: Vec<Value> = serde_json::from_slice(&whole).unwrap();
            for ((kind, _), (shown, was)) in blocks.iter().zip(shown.iter().zip(&all)) {
                match kind {
                    3 => prop_assert_eq!(shown, was),
                    _ => prop_assert!(shown.to_string().contains("bytes of base64]")),
                }
            }
        }
    }
}
