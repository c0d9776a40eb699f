//! Held media blocks: images, audio and blobs, given as blocks and never as base64 in a text.
//!
//! | request | answer |
//! |---|---|
//! | `get_element` of a held media block | the block |
//! | `get_element` of a block among held content blocks | the block, if it is a media block |
//! | `resources/read` of `handback://held/HANDLE` | the bytes of the media block |
//! | every other one | as of other held values, with a short text in the place of the base64 |

use handback_gateway::bound::{HeldMedia, MediaBlock};
use handback_gateway::note::HeldNote;
use handback_page::aql::Operation;
use handback_page::json::ByteSource as _;
use handback_token::Handle;
use handback_tool::{Content, Outcome};
use serde_json::{Value, json};

use super::held::HeldBytes;
use super::own::Belongings;

/// Bytes of a media block that is given at once: it is in memory several times on its way to the
/// client, and a larger result of another server is not passed on either.
const BLOCK_BYTES_MAX: u64 = 64 << 20;

/// A media block of a caller.
pub(super) struct Shown {
    block: Value,
    media: MediaBlock,
    handle: Handle,
}

impl Shown {
    /// The block that a request of `get_element` asks for; nothing, if it asks for something else.
    pub(super) fn by_request(own: &Belongings<'_>, request: &Value) -> Option<Self> {
        let is_get = request.get("operation")?.as_str()? == Operation::GetElement.name();
        let params = request.get("params").unwrap_or(&Value::Null);
        let named = |name: &str| params.get(name).or_else(|| request.get(name));
        let is_part =
            ["pointer", "from", "length", "fields"].iter().any(|name| named(name).is_some());
        if !is_get || is_part || request.get("operations").is_some() {
            return None;
        }
        let handle = Handle::parse(named("element_type")?.as_str()?).ok()?;
        let number = match named("id") {
            Some(Value::String(id)) => id.parse().ok(),
            Some(id) => id.as_u64(),
            None => None,
        };
        Self::of(own, handle, number)
    }

    /// The block under a handle, or the one of this number among the blocks there.
    pub(super) fn of(own: &Belongings<'_>, handle: Handle, number: Option<u64>) -> Option<Self> {
        let value = own.found(handle).ok()?;
        let noted = HeldNote::read(value.note()).media?;
        let bytes = HeldBytes::open(&own.shelf.held, &value, own.now_ms).ok()?;
        let mut blocks = noted.blocks(&bytes).ok()?.into_iter();
        let media = match noted {
            HeldMedia::Block(_) => blocks.next()?,
            HeldMedia::Blocks => blocks.find(|block| Some(block.number) == number)?,
        };
        let range = media.block.clone();
        if range.end.saturating_sub(range.start) > BLOCK_BYTES_MAX {
            return None;
        }
        let block = serde_json::from_slice(&bytes.read(range).ok()?).ok()?;
        Some(Self { block, media, handle })
    }

    /// The block as the result of a tool, behind what an answer of MCP-AQL says of it.
    pub(super) fn result(self) -> Outcome {
        let Self { block, media, handle } = self;
        let data = json!({
            "type": media.kind.name(),
            "mimeType": media.label(),
            "bytes": media.size_bytes(),
            "held": handle.to_string(),
            "shown": "the next block is the element itself",
        });
        let envelope = json!({"success": true, "data": data}).to_string();
        let envelope = json!({"type": "text", "text": envelope});
        Outcome::Done(Content::Result(json!({"content": [envelope, block]})))
    }

    /// The contents of the block as a resource of this URI.
    pub(super) fn contents(self, uri: &str) -> Option<Outcome> {
        let Self { block, media, .. } = self;
        let data = block.get("data").or_else(|| block.get("resource")?.get("blob"))?;
        let mut contents = json!({"uri": uri, "blob": data});
        if let (Some(_), Some(contents)) = (&media.media_type, contents.as_object_mut()) {
            contents.insert("mimeType".to_owned(), media.label().into());
        }
        Some(Outcome::Done(Content::Result(json!({"contents": [contents]}))))
    }
}
