//! Text as a collection of lines.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use crate::collection::{About, Collection, CollectionError, Fetch, Fetched, Query, Search, Sink};
use crate::json::ByteSource;
use crate::json::listing::{Items, Key, Listing, Visit};
use crate::json::pick::{Found, Wanted};
use crate::json::starts::Starts;
use crate::json::stored::{Block, Stored};
use crate::json::window::{READ_BYTES, Window};
use crate::scalar;
use crate::schema::{Column, Kind, Preset, Schema, Shape};

/// The lines of a text: `{"line":1,"text":"…"}`, counted from 1.
///
/// A line ends in `\n` or `\r\n`, which are no part of it; the last one may end with the text. The
/// number of a line is its key: a walk goes on behind that number when the text has changed.
#[derive(Debug)]
pub struct TextCollection {
    listing: Listing<Lines>,
    schema: Arc<Schema>,
}

/// The names of the columns.
const LINE: &str = "line";
const TEXT: &str = "text";

impl TextCollection {
    /// Checks a text and finds its lines, in one pass and bounded memory.
    ///
    /// # Errors
    ///
    /// [`CollectionError::Damaged`] if the text is not UTF-8; [`CollectionError::TooLarge`] for a
    /// line beyond [`MAX_VALUE_BYTES`](crate::json::MAX_VALUE_BYTES); errors of the source.
    pub fn open(source: impl ByteSource + 'static) -> Result<Self, CollectionError> {
        Self::open_in_chunks(Box::new(source), READ_BYTES)
    }

    fn open_in_chunks(source: Box<dyn ByteSource>, chunk: usize) -> Result<Self, CollectionError> {
        let size = source.size_bytes();
        let starts = line_starts(&*source, chunk)?;
        let lines = Lines { stored: Stored::new(source, starts) };
        let column = |name: &str, kind| Column {
            name: name.to_owned(),
            kind,
            nullable: false,
            preset: Preset::Minimal,
        };
        let columns = vec![column(LINE, Kind::Integer), column(TEXT, Kind::Text)];
        let schema = Schema::new(columns, vec![LINE.to_owned()], Shape::Closed).with_cheap_counts();
        let listing = Listing::new(lines, Key::Line { name: LINE }, size);
        Ok(Self { listing, schema: Arc::new(schema) })
    }
}

impl Collection for TextCollection {
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

    fn about(&self) -> Result<About, CollectionError> {
        let lines = self.listing.items();
        Ok(About {
            source: "text lines".to_owned(),
            items: Some(u64::from(lines.count())),
            bytes: Some(lines.stored.source().size_bytes()),
            indexes: vec![format!("({LINE}) unique")],
        })
    }
}

fn line_starts(source: &dyn ByteSource, chunk: usize) -> Result<Starts, CollectionError> {
    let (edition, size) = (source.edition(), source.size_bytes());
    let mut starts = Starts::new(size);
    let mut window = Window::new(source, chunk)?;
    loop {
        let base = window.offset(0);
        let mut start = 0;
        for newline in memchr::memchr_iter(b'\n', window.bytes()) {
            starts.push(base + start as u64);
            start = newline + 1;
        }
        if window.is_last() {
            if start < window.bytes().len() {
                starts.push(base + start as u64);
            }
            window.set_done(window.bytes().len());
            window.check_utf8()?;
            starts.check_count()?;
            starts.finish(size);
            break;
        }
        window.set_done(start);
        starts.check_count()?;
        window.slide()?;
    }
    if source.edition() == edition { Ok(starts) } else { Err(CollectionError::Changed) }
}

#[derive(Debug)]
struct Lines {
    stored: Stored,
}

impl Items for Lines {
    fn count(&self) -> u32 {
        self.stored.count()
    }

    fn text(&self, number: u32) -> Result<Cow<'_, str>, CollectionError> {
        self.stored.text(number, |block| {
            let wanted = (number - block.numbers.start) as usize;
            lines(&block).nth(wanted).ok_or(CollectionError::Changed)
        })
    }

    fn each(&self, visit: Visit<'_>) -> Result<(), CollectionError> {
        self.stored.each(&mut |block| {
            let mut lines = lines(&block);
            block.numbers.clone().try_for_each(|number| {
                let line = lines.next().and_then(|line| block.text.get(line));
                visit(number, line.ok_or(CollectionError::Changed)?)
            })
        })
    }

    fn find<'t>(
        &self,
        number: u32,
        text: &'t str,
        wanted: &Wanted,
        found: &mut Vec<Found<'t>>,
    ) -> Result<(), CollectionError> {
        found.clear();
        found.extend(wanted.paths().iter().map(|path| match path.column() {
            Some(LINE) => Found::Number(line_number(number)),
            Some(TEXT) => Found::Text(text),
            _ => Found::Missing,
        }));
        Ok(())
    }

    fn is_hit(&self, text: &str, search: &Search) -> Result<bool, CollectionError> {
        Ok(search.matches(text))
    }

    fn json(&self, number: u32, text: Cow<'_, str>) -> Result<String, CollectionError> {
        let mut json = String::with_capacity(text.len() + 32);
        json.push_str(r#"{"line":"#);
        scalar::write_integer(i128::from(line_number(number)), &mut json);
        json.push_str(r#","text":"#);
        scalar::write_text(&text, &mut json);
        json.push('}');
        Ok(json)
    }
}

/// The lines of a block, without what ends them.
fn lines<'t>(block: &Block<'t>) -> impl Iterator<Item = Range<usize>> + use<'t> {
    let mut start = 0;
    let text = block.text;
    text.split_inclusive('\n').map(move |line| {
        let content =
            line.strip_suffix('\n').map_or(line, |line| line.strip_suffix('\r').unwrap_or(line));
        let range = start..start + content.len();
        start += line.len();
        range
    })
}

fn line_number(number: u32) -> u64 {
    u64::from(number) + 1
}
