//! A result as tools give it: a text for people, and the same as a structure.

use handback_gateway::note::HeldNote;
use handback_identity::VerifiedPrincipal;
use handback_store::held::NewValue;
use handback_tool::CallHeld;
use serde_json::{Value, json};

use crate::bench::START_MS;

/// Where its items are.
pub(crate) const ITEMS: &str = "/structuredContent/items";

/// Items are in one of so many groups, by a word.
pub(crate) const GROUPS: u64 = 4;

/// Which result: everything about it follows from this.
#[derive(Clone, Copy)]
pub(crate) struct Result {
    pub(crate) items: u64,
    pub(crate) item_bytes: usize,
    /// Characters of its text.
    pub(crate) text_chars: u64,
}

impl Result {
    /// One of about so many bytes: a quarter of it is text.
    pub(crate) fn of_bytes(bytes: u64, item_bytes: usize) -> Self {
        let items = bytes / 4 * 3 / (item_bytes as u64 + 1);
        Self { items, item_bytes, text_chars: bytes / 4 }
    }

    pub(crate) fn item(&self, number: u64) -> String {
        let item = json!({
            "id": number,
            "group": group(number),
            "score": score(number),
            "pad": "",
        });
        let item = item.to_string();
        let pad = "x".repeat(self.item_bytes.saturating_sub(item.len()));
        item.replace(r#""pad":"""#, &format!(r#""pad":"{pad}""#))
    }

    /// Holds it, piece by piece. Gives its handle.
    pub(crate) fn hold(&self, held: &CallHeld, owner: &VerifiedPrincipal) -> String {
        let note = HeldNote {
            upstream: Some("shop".to_owned()),
            tool: "export".to_owned(),
            items: ITEMS.to_owned(),
            media: None,
        };
        let new = NewValue::new("application/json").note(note.to_bytes());
        let mut writer = held.writer(owner, new, &mut rand::rng(), START_MS).unwrap();
        let mut write = |text: &str| writer.write(text.as_bytes(), START_MS).unwrap();
        write(r#"{"content":[{"type":"text","text":""#);
        let block = "0123456789abcdef".repeat(4096);
        let mut left = self.text_chars;
        while left > 0 {
            let part = usize::try_from(left).map_or(block.len(), |left| left.min(block.len()));
            write(&block[..part]);
            left -= part as u64;
        }
        write(&format!(r#""}}],"structuredContent":{{"total":{},"items":["#, self.items));
        for number in 0..self.items {
            write(if number == 0 { "" } else { "," });
            write(&self.item(number));
        }
        write("]}}");
        let value = writer.finish(START_MS).unwrap();
        value.handle().unwrap().to_string()
    }

    /// How many items have a lower score than this.
    pub(crate) fn below(&self, limit: u64) -> u64 {
        (0..self.items).filter(|number| score(*number) < limit).count() as u64
    }
}

pub(crate) fn group(number: u64) -> String {
    format!("group{}x", number % GROUPS)
}

/// A number below a million that looks like no order.
pub(crate) const fn score(number: u64) -> u64 {
    (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) % 1_000_000
}

/// Numbers that are met once each.
pub(crate) struct Met {
    bits: Vec<u64>,
    count: u64,
}

impl Met {
    pub(crate) fn none(of: u64) -> Self {
        Self { bits: vec![0; usize::try_from(of / 64 + 1).unwrap()], count: 0 }
    }

    #[track_caller]
    pub(crate) fn meet(&mut self, number: u64) {
        let word = &mut self.bits[usize::try_from(number / 64).unwrap()];
        assert_eq!(*word >> (number % 64) & 1, 0, "{number} comes twice");
        *word |= 1 << (number % 64);
        self.count += 1;
    }

    pub(crate) const fn count(&self) -> u64 {
        self.count
    }
}

/// The member of an item.
pub(crate) fn number(item: &Value, name: &str) -> u64 {
    item[name].as_u64().unwrap()
}
