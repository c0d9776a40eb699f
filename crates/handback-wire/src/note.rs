//! What is written beside a held value: where it came from, and where its items are.

use serde::{Deserialize, Serialize};

use crate::bound::HeldMedia;

/// Where a held value came from. It is written as JSON into the note of the value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "written as a literal")]
pub struct HeldNote {
    /// The name of the upstream that made it; none for our own tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream: Option<String>,
    /// The tool that gave it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tool: String,
    /// The JSON pointer of the array whose elements are its items; empty for the whole value.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub items: String,
    /// The media blocks in it, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media: Option<HeldMedia>,
}

impl HeldNote {
    /// Reads a note. Values that have none, or one of somebody else, came from nowhere.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Self {
        serde_json::from_slice(bytes).unwrap_or_default()
    }

    /// Its bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        // Texts are always written.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn a_note_comes_back(
            upstream: Option<String>,
            tool: String,
            items: String,
            media: Option<String>,
        ) {
            let media = media.map(|of| if of.is_empty() { HeldMedia::Blocks } else { HeldMedia::Block(of) });
            let note = HeldNote { upstream, tool, items, media };
            proptest::prop_assert_eq!(HeldNote::read(&note.to_bytes()), note);
        }

        #[test]
        fn other_bytes_are_no_note(bytes: Vec<u8>) {
            let read = HeldNote::read(&bytes);
            proptest::prop_assert_eq!(HeldNote::read(&read.to_bytes()), read);
        }
    }
}
