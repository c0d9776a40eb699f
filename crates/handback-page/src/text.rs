//! Text as a collection of lines.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use crate::collection::{
    About, Collection, CollectionError, Fetch, Fetched, Query, Search, Sink, Unread,
};
use crate::excerpt::{Excerpt, Extent, Located, LongItem};
use crate::json::listing::{Items, Key, Listing, Visit};
use crate::json::pick::{Found, Wanted};
use crate::json::starts::Starts;
use crate::json::stored::{Block, Stored, whole_characters};
use crate::json::window::{MAX_VALUE_BYTES, READ_BYTES, Window};
use crate::json::{ByteSource, Pointer};
use crate::scalar;
use crate::schema::{Column, FieldPath, Kind, Preset, Schema, Shape};

/// The lines of a text: `{"line":1,"text":"…"}`, counted from 1.
///
/// A line ends in `\n` or `\r\n`, which are no part of it; the last one may end with the text. The
/// number of a line is its key. A walk goes on when the text has grown; when the line under its cursor
/// is another one, because the text was cut or replaced, the cursor ends.
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
    /// [`CollectionError::Damaged`] if the text is not UTF-8; errors of the source.
    pub fn open(source: impl ByteSource + 'static) -> Result<Self, CollectionError> {
        Self::open_bounded(source, MAX_VALUE_BYTES)
    }

    /// A text of which no line is read that has more bytes than this. It is counted and shown in part;
    /// what takes a look at the text of all lines leaves it out, and [`Collection::unread`] says so.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn open_bounded(
        source: impl ByteSource + 'static,
        longest_line_bytes: usize,
    ) -> Result<Self, CollectionError> {
        Self::open_in_chunks(Box::new(source), longest_line_bytes, READ_BYTES)
    }

    fn open_in_chunks(
        source: Box<dyn ByteSource>,
        longest_line_bytes: usize,
        chunk: usize,
    ) -> Result<Self, CollectionError> {
        let size = source.size_bytes();
        let starts = line_starts(&*source, chunk)?;
        let lines = Lines { stored: Stored::new(source, starts, longest_line_bytes) };
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

impl TextCollection {
    /// About how many bytes of memory it takes beside its source: more once it was asked.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.listing.items().stored.index_bytes() + self.listing.memory_bytes()
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

    fn unread(&self, query: Option<&Query>) -> Unread {
        self.listing.unread(query, line_number)
    }

    fn value_at(&self, pointer: &Pointer, extent: Extent) -> Result<Located, CollectionError> {
        if !pointer.tokens().is_empty() {
            return Ok(Located::Nothing);
        }
        let source = self.listing.items().stored.source();
        Excerpt::of(source, 0..source.size_bytes(), "text", extent).map(Located::Found)
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

/// Lines may be longer than what is in memory of them.
fn line_starts(source: &dyn ByteSource, chunk: usize) -> Result<Starts, CollectionError> {
    let (edition, size) = (source.edition(), source.size_bytes());
    let mut starts = Starts::new(size);
    let mut window = Window::new(source, chunk)?;
    let mut start = 0;
    loop {
        for newline in memchr::memchr_iter(b'\n', window.bytes()) {
            starts.push(start);
            start = window.offset(newline) + 1;
        }
        starts.check_count()?;
        if window.is_last() {
            break;
        }
        window.set_done(whole_characters(window.bytes()));
        window.slide()?;
    }
    if start < size {
        starts.push(start);
    }
    window.set_done(window.bytes().len());
    window.check_utf8()?;
    starts.check_count()?;
    starts.finish(size);
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

    fn long(&self) -> &[u32] {
        self.stored.long()
    }

    fn longest_bytes(&self) -> usize {
        self.stored.longest_bytes()
    }

    /// The line itself, and not the JSON that it is shown as: how long that would be says only the whole
    /// line.
    fn long_item(&self, number: u32) -> Result<LongItem, CollectionError> {
        let start = self.stored.start(number, |block| {
            let before = (number - block.numbers.start) as usize;
            Ok(block.text.split_inclusive('\n').take(before).map(str::len).sum())
        })?;
        let mut ends = [b'\n', b'\r'].into_iter();
        let bytes = start..self.stored.next_start(number);
        let bytes = self.stored.trimmed(bytes, |byte| ends.next() == Some(byte))?;
        let start = bytes.start;
        let line = Excerpt::of(self.stored.source(), bytes, "text", LongItem::START)?;
        let shown = line.text.as_ref().map_or(0, String::len) as u64;
        let read_on = Some((Pointer::whole(), start + shown));
        Ok(LongItem { start: line, id: Some(line_number(number)), read_on })
    }

    fn outside(&self, number: u32, path: &FieldPath) -> Option<Found<'static>> {
        match path.column() {
            Some(LINE) => Some(Found::Number(line_number(number))),
            Some(TEXT) => None,
            _ => Some(Found::Missing),
        }
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
            for number in block.numbers.clone() {
                let line = lines.next().and_then(|line| block.text.get(line));
                visit(number, Some(line.ok_or(CollectionError::Changed)?))?;
            }
            block.long.map_or(Ok(()), |number| visit(number, None))
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::collection::{Places, Row, Window as Place};
    use crate::filter::Filter;
    use crate::json::InMemory;
    use crate::order::{Direction, Nulls, SortKey};
    use crate::scalar::Scalar;

    fn open(text: &[u8], chunk: usize) -> Result<TextCollection, CollectionError> {
        let source = Box::new(InMemory::new(text.to_vec(), 0));
        TextCollection::open_in_chunks(source, MAX_VALUE_BYTES, chunk)
    }

    fn query(collection: &TextCollection, filter: &Value, sort: Option<&str>) -> Query {
        let schema = collection.schema().unwrap();
        let key = sort.map(|name| SortKey {
            field: FieldPath::name(name.trim_start_matches('-')),
            direction: match name.starts_with('-') {
                true => Direction::Descending,
                false => Direction::Ascending,
            },
            nulls: Nulls::Last,
            nullable: false,
        });
        Query {
            filter: Filter::parse(filter, &schema).unwrap(),
            search: Search::default(),
            order: schema.total_order(key.into_iter().collect()),
        }
    }

    fn fetch(
        collection: &TextCollection,
        query: &Query,
        window: Place<'_>,
    ) -> Result<Fetched, CollectionError> {
        collection.fetch(&Fetch {
            query,
            window,
            columns: None,
            budget_bytes: usize::MAX,
            places: Places::All,
            total: false,
        })
    }

    fn all(collection: &TextCollection, query: &Query) -> Vec<Row> {
        let mut rows = vec![];
        collection
            .scan(query, &mut |row| {
                rows.push(row);
                Ok(())
            })
            .unwrap();
        rows
    }

    fn numbers(rows: &[Row]) -> Vec<u64> {
        let number = |row: &Row| serde_json::from_str::<Value>(&row.item).unwrap()["line"].as_u64();
        rows.iter().map(|row| number(row).unwrap()).collect()
    }

    #[test]
    fn lines_are_numbered_and_quoted() {
        let collection = open(b"first\r\nsays \"hi\"\t\n\nlast", 5).unwrap();
        let query = query(&collection, &json!({}), None);
        let rows = all(&collection, &query);
        let items: Vec<_> = rows.iter().map(|row| &*row.item).collect();
        assert_eq!(
            items,
            [
                r#"{"line":1,"text":"first"}"#,
                r#"{"line":2,"text":"says \"hi\"\t"}"#,
                r#"{"line":3,"text":""}"#,
                r#"{"line":4,"text":"last"}"#,
            ]
        );
        assert_eq!(rows[2].place[0], Scalar::Int(3));
        assert_eq!(collection.count(&query).unwrap(), 4);
        let about = collection.about().unwrap();
        assert_eq!(
            (about.source.as_str(), about.items, about.bytes),
            ("text lines", Some(4), Some(23))
        );
    }

    #[test]
    fn text_that_is_not_utf8_is_damaged() {
        for chunk in [1, 4, READ_BYTES] {
            let error = open(b"ab\ncd\xff\nef", chunk).unwrap_err();
            assert_eq!(error.to_string(), "the source is damaged: the text is not UTF-8 at byte 5");
            assert!(open("ab\nä€𝄞\n".as_bytes(), chunk).is_ok());
            assert!(open(b"ab\n\xc3", chunk).is_err());
        }
    }

    #[test]
    fn lines_are_filtered_searched_and_sorted() {
        let collection = open(b"pear\napple\nfig\napple pie\n", READ_BYTES).unwrap();
        let lines = |filter, sort| numbers(&all(&collection, &query(&collection, &filter, sort)));
        assert_eq!(lines(json!({}), None), [1, 2, 3, 4]);
        assert_eq!(lines(json!({}), Some("-line")), [4, 3, 2, 1]);
        assert_eq!(lines(json!({}), Some("text")), [2, 4, 3, 1]);
        assert_eq!(lines(json!({"text": {"starts_with": "apple"}}), None), [2, 4]);
        assert_eq!(lines(json!({"line": {"gt": 2}}), Some("-text")), [3, 4]);
        let search = Search::new("PIE fig");
        let query = Query { search, ..query(&collection, &json!({}), None) };
        assert_eq!(numbers(&all(&collection, &query)), [3, 4]);
        assert_eq!(collection.count(&query).unwrap(), 2);
    }

    #[test]
    fn a_walk_goes_on_in_a_text_that_grew_and_ends_in_another_one() {
        for sort in [None, Some("text"), Some("-line")] {
            let before = open(b"a\nb\n", READ_BYTES).unwrap();
            let place = all(&before, &query(&before, &json!({}), sort))[0].place.clone();
            let go_on = |text: &[u8]| {
                let collection = open(text, READ_BYTES).unwrap();
                let query = query(&collection, &json!({}), sort);
                let window = Place::Forward { after: Some(&place), limit: 9 };
                fetch(&collection, &query, window).map(|page| numbers(&page.rows))
            };
            let rest = if sort == Some("-line") { vec![1] } else { vec![2, 3] };
            assert_eq!(go_on(b"a\nb\nc\n").unwrap(), rest);
            for other in [&b""[..], b"x\ny\nz\n"] {
                assert!(matches!(go_on(other), Err(CollectionError::Changed)), "{other:?}");
            }
        }
    }

    #[test]
    fn a_place_of_another_shape_is_refused() {
        let collection = open(b"a\nb\nc\n", READ_BYTES).unwrap();
        let natural = query(&collection, &json!({}), None);
        let by_text = query(&collection, &json!({}), Some("text"));
        let int = Scalar::Int;
        for (query, place) in [
            (&natural, vec![]),
            (&natural, vec![Scalar::Null]),
            (&natural, vec![int(1)]),
            (&natural, vec![int(0), int(0)]),
            (&natural, vec![int(i128::MIN), int(0)]),
            (&natural, vec![Scalar::Text("1".into()), int(0)]),
            (&by_text, vec![int(1)]),
            (&by_text, vec![int(1), int(1)]),
        ] {
            let window = Place::Backward { before: Some(&place), limit: 1 };
            let result = fetch(&collection, query, window);
            assert!(matches!(result, Err(CollectionError::BadPlace)), "{place:?}");
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_passed_by() {
        // Short lines share blocks with long ones.
        let line = |number: usize| match number % 5000 {
            4999 => "é".repeat(200_000),
            _ => number.to_string(),
        };
        let text: String = (0..30_000).map(|number| format!("{}\r\n", line(number))).collect();
        let source = InMemory::new(text, 0);
        let collection = TextCollection::open_bounded(source, 64 << 10).unwrap();
        let natural = query(&collection, &json!({}), None);
        assert_eq!(collection.unread(None).first, [5000, 10_000, 15_000, 20_000, 25_000, 30_000]);
        assert_eq!(collection.unread(Some(&natural)), Unread::default());
        let mut seen = 0;
        collection
            .scan(&natural, &mut |row| {
                match row.item.as_long() {
                    Some(long) => {
                        assert_eq!(long.id, Some(seen as u64 + 1));
                        assert_eq!(long.start.size_bytes, line(seen).len() as u64);
                        assert!(line(seen).starts_with(long.text()) && long.text().len() > 4000);
                    }
                    None => {
                        let expected = json!({"line": seen + 1, "text": line(seen)});
                        assert_eq!(row.item, expected.to_string());
                    }
                }
                seen += 1;
                Ok(())
            })
            .unwrap();
        assert_eq!(seen, 30_000);
        let searched = Query { search: Search::new("29998"), ..natural.clone() };
        assert_eq!(collection.count(&searched).unwrap(), 1);
        assert_eq!(collection.unread(Some(&searched)).count, 6);
        // Where a walk stands on a long line, it goes on.
        let offset = Place::Offset { offset: 4998, limit: 2 };
        let page = fetch(&collection, &natural, offset).unwrap();
        let long = &page.rows[1];
        assert!(page.rows[0].item.as_long().is_none() && long.item.as_long().is_some());
        let window = Place::Forward { after: Some(&long.place), limit: 1 };
        let next = fetch(&collection, &natural, window).unwrap();
        assert_eq!(next.rows[0].item, r#"{"line":5001,"text":"5000"}"#);
        let other = TextCollection::open_bounded(InMemory::new("x\n".repeat(9000), 0), 64 << 10);
        let window = Place::Forward { after: Some(&long.place), limit: 1 };
        let changed = fetch(&other.unwrap(), &natural, window);
        assert!(matches!(changed, Err(CollectionError::Changed)));
    }

    #[test]
    fn the_schema_is_closed() {
        let schema = open(b"", 1).unwrap().schema().unwrap();
        assert_eq!((schema.key(), schema.shape()), (["line".to_owned()].as_slice(), Shape::Closed));
        assert!(schema.counts_always() && schema.resolve("other").is_none());
    }

    proptest! {
        #[test]
        fn lines_are_those_of_the_standard_library(
            text in "[a\r\n\né\u{0}\"]{0,60}",
            chunk in 1_usize..20,
            limit in 1_usize..5,
        ) {
            let collection = open(text.as_bytes(), chunk).unwrap();
            let query = query(&collection, &json!({}), None);
            let expected: Vec<_> = text
                .lines()
                .zip(1..)
                .map(|(text, line)| json!({"line": line, "text": text}).to_string())
                .collect();
            let items: Vec<_> =
                all(&collection, &query).into_iter().map(|row| row.item).collect();
            prop_assert_eq!(&items, &expected);
            let (mut seen, mut place) = (vec![], None::<Vec<Scalar>>);
            loop {
                let window = Place::Forward { after: place.as_deref(), limit };
                let page = fetch(&collection, &query, window).unwrap();
                prop_assert_eq!(page.more_before, !seen.is_empty());
                let Some(last) = page.rows.last() else { break };
                place = Some(last.place.clone());
                seen.extend(page.rows.into_iter().map(|row| row.item));
                prop_assert_eq!(page.more_after, seen.len() < expected.len());
            }
            prop_assert_eq!(&seen, &expected);
        }

        #[test]
        fn short_lines_share_blocks(count in 30_000_usize..70_000, limit in 1_usize..4) {
            let text: String = (1..=count).map(|line| format!("{line}\n")).collect();
            let collection = open(text.as_bytes(), READ_BYTES).unwrap();
            let query = query(&collection, &json!({}), None);
            prop_assert_eq!(collection.count(&query).unwrap(), count as u64);
            let window = Place::Offset { offset: count as u64 - 5, limit };
            let page = fetch(&collection, &query, window).unwrap();
            let expected: Vec<_> = (count as u64 - 4..).take(limit).collect();
            prop_assert_eq!(numbers(&page.rows), expected);
        }
    }
}
