//! A JSON document as a collection.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use super::index::{self, Index, Target};
use super::infer;
#[cfg(test)]
use super::listing::Bounds;
use super::listing::{Items, Key, Listing, MemberKey, Visit};
use super::pick::{self, Found, Wanted};
use super::pointer::{self, Pointer};
use super::scan::{Scan, Stop};
use super::source::ByteSource;
use super::stored::{Block, Stored};
use super::window::{FIRST_READ_BYTES, MAX_VALUE_BYTES, READ_BYTES, Window};
use crate::collection::{
    About, Collection, CollectionError, Fetch, Fetched, Query, Search, Sink, Unread, Whereabouts,
};
use crate::excerpt::{self, Excerpt, Extent, Located, LongItem};
use crate::scalar::Scalar;
use crate::schema::{FieldPath, Schema};

/// The elements of an array in a JSON document, or the members of an object as
/// `{"key":…,"value":…}`, or a single value.
///
/// The document is checked and indexed once; after that, only the items of a page are looked at.
/// It does not change: when its file does, another collection takes its place.
///
/// ```
/// use handback_page::json::{InMemory, JsonCollection, JsonOptions};
/// use handback_page::{Collection, Fetch, Filter, Places, Query, Search, Window};
///
/// let source = InMemory::new(r#"{"items": [{"id": 7}, {"id": 8}]}"#, 0);
/// let options = JsonOptions::new().with_pointer("/items".parse()?);
/// let items = JsonCollection::open(source, options)?;
/// let order = items.schema()?.total_order(vec![]);
/// let query = Query { filter: Filter::EVERYTHING, search: Search::default(), order };
/// let window = Window::Forward { after: None, limit: 1 };
/// let page = items.fetch(&Fetch { query: &query, window, columns: None, budget_bytes: 1000, places: Places::All, total: false })?;
/// assert_eq!(page.rows[0].item, r#"{"id": 7}"#);
/// assert!(page.more_after);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct JsonCollection {
    listing: Listing<JsonItems>,
    schema: Arc<Schema>,
    key: Option<String>,
    pointer: Pointer,
    is_whole_open: bool,
}

/// What of a document is the collection, and what tells its items apart.
#[derive(Clone, Debug)]
#[must_use]
pub struct JsonOptions {
    pointer: Pointer,
    key: Option<FieldPath>,
    is_whole_open: bool,
    longest_item_bytes: usize,
}

impl Default for JsonOptions {
    fn default() -> Self {
        Self {
            pointer: Pointer::whole(),
            key: None,
            is_whole_open: false,
            longest_item_bytes: MAX_VALUE_BYTES,
        }
    }
}

impl JsonOptions {
    /// The items of the whole document, without a key.
    pub fn new() -> Self {
        Self::default()
    }

    /// The items of the value at `pointer`.
    pub fn with_pointer(mut self, pointer: Pointer) -> Self {
        self.pointer = pointer;
        self
    }

    /// Items that differ in the member at `path`, which all of them have.
    ///
    /// They are in the order of that member. A walk over them goes on when the content has changed;
    /// without a key, such a walk ends in [`CollectionError::Changed`].
    pub fn with_key(mut self, path: FieldPath) -> Self {
        self.key = Some(path);
        self
    }

    /// Pointers that values are asked for by ([`Collection::value_at`]) start at the document, and not
    /// at what is the collection of it: whoever may read the items may read everything.
    pub const fn with_whole_document(mut self) -> Self {
        self.is_whole_open = true;
        self
    }

    /// No item is read that has more bytes than this. It is counted and shown in part, and what is in it
    /// can be read by its pointer; what takes a look at all items leaves it out, and
    /// [`Collection::unread`] says so.
    pub const fn with_longest_item(mut self, bytes: usize) -> Self {
        self.longest_item_bytes = bytes;
        self
    }
}

impl JsonCollection {
    /// Checks and indexes a document, in one pass and bounded memory.
    ///
    /// # Errors
    ///
    /// [`CollectionError::Damaged`] if the source is not one JSON value in UTF-8, or is nested more
    /// than 128 deep; [`CollectionError::NothingAt`] if there is nothing at the pointer; errors of the
    /// source. Keys are checked when they
    /// are needed first.
    pub fn open(
        source: impl ByteSource + 'static,
        options: JsonOptions,
    ) -> Result<Self, CollectionError> {
        Self::open_in_chunks(Box::new(source), options, READ_BYTES)
    }

    pub(super) fn open_in_chunks(
        source: Box<dyn ByteSource>,
        options: JsonOptions,
        chunk: usize,
    ) -> Result<Self, CollectionError> {
        let JsonOptions { pointer, key, is_whole_open, longest_item_bytes } = options;
        let (edition, size) = (source.edition(), source.size_bytes());
        let Index { target, starts } = Index::build(&*source, &pointer, chunk)?;
        let own = if is_whole_open { pointer.clone() } else { Pointer::whole() };
        let stored = Stored::new(source, starts, longest_item_bytes);
        let items = JsonItems { stored, target, own };
        let name = key.as_ref().map(FieldPath::to_string);
        let schema = infer::schema(&items, key.as_ref())?.with_part(pointer.to_string());
        let schema = Arc::new(schema);
        let key = match key {
            Some(path) => Key::Member(MemberKey::new(path)),
            None => Key::Number { edition },
        };
        let listing = Listing::new(items, key, size);
        Ok(Self { listing, schema, key: name, pointer, is_whole_open })
    }

    #[cfg(test)]
    pub(super) fn with_bounds(self, bounds: Bounds) -> Self {
        Self { listing: self.listing.with_bounds(bounds), ..self }
    }

    /// About how many bytes of memory it takes beside its source: more once it was asked.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.listing.items().stored.index_bytes() + self.listing.memory_bytes()
    }

    /// Where the value at a pointer is in the source.
    fn locate(&self, asked: &Pointer) -> Result<Option<Range<u64>>, CollectionError> {
        let items = self.listing.items();
        let source = items.stored.source();
        let own = self.pointer.tokens();
        let tokens = match self.is_whole_open {
            true => asked.tokens().to_vec(),
            false => [own, asked.tokens()].concat(),
        };
        if items.target == Target::Elements
            && let Some([element, rest @ ..]) = tokens.strip_prefix(own)
        {
            // Where the items are is known.
            let number = pointer::element_number(element).and_then(|n| u32::try_from(n).ok());
            let Some(number) = number.filter(|number| *number < items.count()) else {
                return Ok(None);
            };
            let bytes = items.start(number)?..items.stored.end();
            return index::locate_within(source, bytes, rest);
        }
        index::locate_within(source, 0..source.size_bytes(), &tokens)
    }
}

impl Collection for JsonCollection {
    fn schema(&self) -> Result<Arc<Schema>, CollectionError> {
        Ok(Arc::clone(&self.schema))
    }

    fn fetch(&self, fetch: &Fetch<'_>) -> Result<Fetched, CollectionError> {
        self.listing.fetch(fetch)
    }

    fn count(&self, query: &Query) -> Result<u64, CollectionError> {
        self.listing.count(query)
    }

    fn scan(&self, query: &Query, sink: Sink<'_>) -> Result<(), CollectionError> {
        self.listing.scan(query, sink)
    }

    fn unread(&self, query: Option<&Query>) -> Unread {
        self.listing.unread(query, u64::from)
    }

    fn value_at(&self, pointer: &Pointer, extent: Extent) -> Result<Located, CollectionError> {
        let Some(bytes) = self.locate(pointer)? else { return Ok(Located::Nothing) };
        Excerpt::of_json(self.listing.items().stored.source(), bytes, extent).map(Located::Found)
    }

    fn whereabouts(&self, place: &[Scalar]) -> Whereabouts {
        if self.key.is_some() {
            return Whereabouts::default();
        }
        let number = match place.last() {
            Some(Scalar::Int(number)) => u64::try_from(*number).ok(),
            _ => None,
        };
        let JsonItems { target, own, .. } = self.listing.items();
        let pointer = match target {
            Target::Elements => number.map(|number| own.clone().element(number)),
            Target::Itself => Some(own.clone()),
            // It is by its name.
            Target::Members => None,
        };
        Whereabouts { number, pointer }
    }

    fn about(&self) -> Result<About, CollectionError> {
        let items = self.listing.items();
        let source = match items.target {
            Target::Elements => "json array",
            Target::Members => "json object",
            Target::Itself => "json value",
        };
        Ok(About {
            source: source.to_owned(),
            items: Some(u64::from(items.count())),
            bytes: Some(items.stored.source().size_bytes()),
            indexes: self.key.iter().map(|key| format!("({key}) unique")).collect(),
        })
    }
}

/// The items of a document that was checked.
#[derive(Debug)]
pub(super) struct JsonItems {
    stored: Stored,
    target: Target,
    /// Where what has the items is, as [`Collection::value_at`] takes it.
    own: Pointer,
}

impl JsonItems {
    /// The end of the item that starts at `at`.
    fn end(&self, scan: &Scan<'_>, at: usize) -> Result<usize, Stop> {
        let value = if self.target == Target::Members { scan.name(at)? } else { at };
        scan.value(value, 0, &mut ())
    }

    /// Where an item is in its block.
    fn range(&self, block: &Block<'_>, number: u32) -> Result<Range<usize>, Stop> {
        let at = self.start_in(block, number)?;
        Ok(at..self.end(&Scan::whole(block.text.as_bytes()), at)?)
    }

    /// Where an item starts in its block.
    fn start_in(&self, block: &Block<'_>, number: u32) -> Result<usize, Stop> {
        let scan = Scan::whole(block.text.as_bytes());
        let mut at = 0;
        for _ in block.numbers.start..number {
            // Behind the item is a comma.
            at = scan.space(scan.space(self.end(&scan, at)?) + 1);
        }
        Ok(at)
    }

    /// Where an item starts in the source.
    fn start(&self, number: u32) -> Result<u64, CollectionError> {
        self.stored.start(number, |block| self.start_in(&block, number).map_err(changed))
    }

    /// The start of a member that is in these bytes. What can be read on is its value.
    fn long_member(&self, bytes: Range<u64>) -> Result<LongItem, CollectionError> {
        let source = self.stored.source();
        let chunks = FIRST_READ_BYTES..=READ_BYTES;
        let mut window = Window::over(source, bytes.clone(), chunks)?;
        let name = window.name(<[u8]>::to_vec)?;
        let name_bytes = bytes.start..window.offset(window.done());
        window.colon()?;
        window.space()?;
        let value = window.offset(window.done())..bytes.end;
        let name = match name {
            Some(name) => String::from_utf8(name).map_err(|_| CollectionError::Changed)?,
            // Of one that is longer, no more is shown than of a value.
            None => {
                let start = Excerpt::of_json(source, name_bytes.clone(), LongItem::START)?;
                start.text.unwrap_or_default()
            }
        };
        let mut text = format!(r#"{{"key":{name},"value":"#);
        let size_bytes = (text.len() - name.len() + 1) as u64
            + (name_bytes.end - name_bytes.start)
            + (value.end - value.start);
        let mut read_on = None;
        let is_whole = name.len() as u64 == name_bytes.end - name_bytes.start;
        if is_whole && text.len() <= FIRST_READ_BYTES {
            let shown = Excerpt::of_json(source, value, LongItem::START)?.text.unwrap_or_default();
            let name = pick::unquoted(name.as_bytes()).into_owned();
            let tokens = self.own.tokens().iter().cloned().chain([name]);
            read_on = Some((Pointer::from_tokens(tokens), shown.len() as u64));
            text.push_str(&shown);
        } else {
            text.truncate(text.floor_char_boundary(FIRST_READ_BYTES));
        }
        let kind = excerpt::kind(Some(b'{'));
        let start = Excerpt { kind, size_bytes, from: 0, text: Some(text) };
        Ok(LongItem { start, id: None, read_on })
    }

    /// The text of an item: as it is in the source, but for members of an object.
    fn item<'t>(&self, text: Cow<'t, str>) -> Result<Cow<'t, str>, Stop> {
        if self.target != Target::Members {
            return Ok(text);
        }
        let (name_end, value) = Scan::whole(text.as_bytes()).member(0)?;
        let part = |range| text.get(range).unwrap_or_default();
        let (name, value) = (part(0..name_end), part(value..text.len()));
        Ok(Cow::Owned(format!(r#"{{"key":{name},"value":{value}}}"#)))
    }
}

impl Items for JsonItems {
    fn count(&self) -> u32 {
        self.stored.count()
    }

    fn long(&self) -> &[u32] {
        self.stored.long()
    }

    fn longest_bytes(&self) -> usize {
        self.stored.longest_bytes()
    }

    fn long_item(&self, number: u32) -> Result<LongItem, CollectionError> {
        let mut has_comma = false;
        let bytes = self.start(number)?..self.stored.next_start(number);
        let bytes = self.stored.trimmed(bytes, |byte| match byte {
            b',' => !std::mem::replace(&mut has_comma, true),
            byte => SPACE.contains(&char::from(byte)),
        })?;
        let pointer = match self.target {
            Target::Elements => self.own.clone().element(number.into()),
            Target::Itself => self.own.clone(),
            Target::Members => return self.long_member(bytes),
        };
        let start = Excerpt::of_json(self.stored.source(), bytes, LongItem::START)?;
        let shown = start.text.as_ref().map_or(0, String::len) as u64;
        Ok(LongItem { start, id: None, read_on: Some((pointer, shown)) })
    }

    fn outside(&self, _number: u32, _path: &FieldPath) -> Option<Found<'static>> {
        None
    }

    fn text(&self, number: u32) -> Result<Cow<'_, str>, CollectionError> {
        let text = self.stored.text(number, |block| self.range(&block, number).map_err(changed))?;
        self.item(text).map_err(changed)
    }

    fn each(&self, visit: Visit<'_>) -> Result<(), CollectionError> {
        self.stored.each(&mut |block| {
            let scan = Scan::whole(block.text.as_bytes());
            let mut at = 0;
            for number in block.numbers.clone() {
                let is_last = number + 1 == block.numbers.end;
                let end = if is_last && block.long.is_none() {
                    without_comma(block.text).len()
                } else {
                    self.end(&scan, at).map_err(changed)?
                };
                let text = block.text.get(at..end).ok_or(CollectionError::Changed)?;
                visit(number, Some(&self.item(Cow::Borrowed(text)).map_err(changed)?))?;
                at = scan.space(scan.space(end) + 1);
            }
            block.long.map_or(Ok(()), |number| visit(number, None))
        })
    }

    fn find<'t>(
        &self,
        _number: u32,
        text: &'t str,
        wanted: &Wanted,
        found: &mut Vec<Found<'t>>,
    ) -> Result<(), CollectionError> {
        wanted.find(text, found).map_err(changed)
    }

    fn is_hit(&self, text: &str, search: &Search) -> Result<bool, CollectionError> {
        pick::is_hit(text, search).map_err(changed)
    }

    fn json(&self, _number: u32, text: Cow<'_, str>) -> Result<String, CollectionError> {
        let end = Scan::whole(text.as_bytes()).value(0, 0, &mut ()).map_err(changed)?;
        if end == text.len() { Ok(text.into_owned()) } else { Err(CollectionError::Changed) }
    }
}

/// An item without what separates it from the next one. No item ends in a comma or white space.
fn without_comma(text: &str) -> &str {
    let text = text.trim_end_matches(SPACE);
    text.strip_suffix(',').unwrap_or(text).trim_end_matches(SPACE)
}

const SPACE: [char; 4] = [' ', '\n', '\r', '\t'];

/// The document was checked when it was indexed: what is not JSON now was written since.
fn changed(_: Stop) -> CollectionError {
    CollectionError::Changed
}
