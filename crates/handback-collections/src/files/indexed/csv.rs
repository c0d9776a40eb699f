//! Rows of a CSV file into an index.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek as _, SeekFrom};

use csv::{ByteRecord, ErrorKind, Reader, ReaderBuilder};
use handback_page::{CollectionError, Column, Kind, Preset, scalar};
use rusqlite::{Connection, Statement};

use super::build::{Filled, sql_name};
use super::collection::Progress;
use super::jsonl::PROGRESS_BYTES;
use super::options::{FileOptions, MAX_CSV_COLUMNS, MAX_LINE_BYTES};
use crate::files::source::{BYTE_ORDER_MARK, unreadable};
use crate::sqlite::failure;

/// Reads the file twice: what a column holds is known only at its end.
pub(super) fn fill(
    db: &Connection,
    file: &File,
    options: &FileOptions,
    progress: Progress<'_>,
) -> Result<Filled, CollectionError> {
    let total = file.metadata().map_err(|error| unreadable(&error))?.len();
    let mut columns = Vec::new();
    let mut items = 0;
    let mut first = Records::open(file, options.delimiter)?;
    let mut header = first.header()?;
    if let (true, Some(key)) = (header.is_empty(), &options.key) {
        // Of an empty file, this is known.
        header.push_field(key.as_bytes());
    }
    for name in unique_names(&header)? {
        columns.push(Guess {
            name,
            numbers: Numbers::Integers,
            has_values: false,
            has_nulls: false,
        });
    }
    while first.next(&mut |done| progress(done / 2, total))? {
        items += 1;
        for (column, cell) in columns.iter_mut().zip(first.record.iter()) {
            column.met(cell);
        }
        if let Some(key) = &options.key
            && !has_value(&first.record, &columns, key)
        {
            return Err(first.damaged(&format!("has no '{key}'")));
        }
    }
    let columns: Vec<_> = columns.into_iter().map(Guess::into_column).collect();
    let names: Vec<_> = (0..columns.len()).map(sql_name).collect();
    let names = names.join(", ");
    db.execute_batch(&format!("CREATE TABLE items(n INTEGER PRIMARY KEY, {names})"))
        .map_err(|e| failure(&e))?;
    let marks = ", ?".repeat(columns.len());
    let sql = format!("INSERT INTO items(n, {names}) VALUES (?{marks})");
    let mut insert = db.prepare(&sql).map_err(|e| failure(&e))?;
    let mut second = Records::open(file, options.delimiter)?;
    second.header()?;
    let mut number = 0;
    while second.next(&mut |done| progress(total / 2 + done / 2, total))? {
        number += 1;
        add(&mut insert, number, &second.record, &columns).map_err(|e| failure(&e))?;
    }
    progress(total, total);
    let mut columns = with_presets(columns, options.key.as_deref());
    for column in &mut columns {
        // Also if there is no row that has it.
        column.nullable &= options.key.as_ref() != Some(&column.name);
    }
    Ok(Filled { columns, items })
}

fn add(
    insert: &mut Statement<'_>,
    number: i64,
    record: &ByteRecord,
    columns: &[Column],
) -> rusqlite::Result<()> {
    insert.raw_bind_parameter(1, number)?;
    for ((place, cell), column) in (2..).zip(record.iter()).zip(columns) {
        // Checked when it was read the first time.
        let cell = std::str::from_utf8(cell).unwrap_or_default();
        let is_number = matches!(column.kind, Kind::Integer | Kind::Number);
        match (is_number, cell.parse::<i64>(), cell.parse::<f64>()) {
            _ if cell.is_empty() => {}
            (true, Ok(int), _) => insert.raw_bind_parameter(place, int)?,
            (true, Err(_), Ok(real)) => insert.raw_bind_parameter(place, real)?,
            _ => insert.raw_bind_parameter(place, cell)?,
        }
    }
    insert.raw_execute()?;
    insert.clear_bindings();
    Ok(())
}

fn has_value(record: &ByteRecord, columns: &[Guess], name: &str) -> bool {
    let number = columns.iter().position(|column| column.name == name);
    number.and_then(|number| record.get(number)).is_some_and(|cell| !cell.is_empty())
}

/// What a column may still turn out to be.
struct Guess {
    name: String,
    numbers: Numbers,
    has_values: bool,
    has_nulls: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Numbers {
    Integers,
    Doubles,
    None,
}

impl Guess {
    fn met(&mut self, cell: &[u8]) {
        if cell.is_empty() {
            self.has_nulls = true;
            return;
        }
        self.has_values = true;
        if self.numbers == Numbers::None {
            return;
        }
        let text = std::str::from_utf8(cell).unwrap_or_default();
        if !is_canonical_integer(text) {
            let double = is_canonical_double(text);
            self.numbers = if double { Numbers::Doubles } else { Numbers::None };
        }
    }

    fn into_column(self) -> Column {
        let kind = match self.numbers {
            _ if !self.has_values => Kind::Any,
            Numbers::Integers => Kind::Integer,
            Numbers::Doubles => Kind::Number,
            Numbers::None => Kind::Text,
        };
        let nullable = self.has_nulls || !self.has_values;
        Column { name: self.name, kind, nullable, preset: Preset::Standard }
    }
}

/// Whether it is written as it would be written again.
fn is_canonical_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let canonical = match digits.as_bytes() {
        [b'0'] => digits.len() == text.len(),
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    canonical && text.parse::<i64>().is_ok()
}

fn is_canonical_double(text: &str) -> bool {
    let Ok(real) = text.parse::<f64>() else { return false };
    let mut written = String::new();
    scalar::write_real(real, &mut written);
    // Both `1e300` and `1e+300` are common.
    written == text || written.replace("e+", "e") == text
}

fn with_presets(mut columns: Vec<Column>, key: Option<&str>) -> Vec<Column> {
    let named =
        |name: &str| columns.iter().position(|column| column.name.eq_ignore_ascii_case(name));
    let title = named("name")
        .or_else(|| named("title"))
        .or_else(|| columns.iter().position(|column| column.kind == Kind::Text));
    let key = key.and_then(|key| columns.iter().position(|column| column.name == key));
    let mut minimal = [key, named("id"), title];
    if minimal == [None; 3] {
        // Something has to tell what it is.
        minimal = [Some(0), None, None];
    }
    for number in minimal.into_iter().flatten() {
        if let Some(column) = columns.get_mut(number) {
            column.preset = Preset::Minimal;
        }
    }
    columns
}

/// The names of the first line; where one is missing or there twice, a number is added.
fn unique_names(header: &ByteRecord) -> Result<Vec<String>, CollectionError> {
    if header.is_empty() {
        return Err(CollectionError::Damaged("there is no first line with names".to_owned()));
    }
    if header.len() > MAX_CSV_COLUMNS {
        let text = format!("line 1 has more than {MAX_CSV_COLUMNS} columns");
        return Err(CollectionError::Damaged(text));
    }
    let given: Vec<_> = header.iter().map(|name| String::from_utf8_lossy(name)).collect();
    let mut names: Vec<String> = Vec::with_capacity(given.len());
    for (number, name) in (1..).zip(&given) {
        let mut unique =
            if name.is_empty() { format!("column_{number}") } else { name.to_string() };
        let mut count = 1;
        let is_later_name = |unique: &str| {
            given.iter().skip(number).any(|later| later == unique) && *name != unique
        };
        while names.contains(&unique) || is_later_name(&unique) {
            count += 1;
            let base = if name.is_empty() { format!("column_{number}") } else { name.to_string() };
            unique = format!("{base}_{count}");
        }
        names.push(unique);
    }
    Ok(names)
}

/// The records of a file.
struct Records<'a> {
    reader: Reader<Bounded<'a>>,
    file: &'a File,
    delimiter: u8,
    /// Where the first record starts.
    base: u64,
    record: ByteRecord,
    reported: u64,
}

impl<'a> Records<'a> {
    fn open(mut file: &'a File, delimiter: u8) -> Result<Self, CollectionError> {
        let mut mark = Vec::new();
        let length = BYTE_ORDER_MARK.len() as u64;
        let opened = file
            .seek(SeekFrom::Start(0))
            .and_then(|_| file.take(length).read_to_end(&mut mark))
            .and_then(|_| {
                let start = if mark == BYTE_ORDER_MARK { length } else { 0 };
                file.seek(SeekFrom::Start(start))
            });
        let base = opened.map_err(|error| unreadable(&error))?;
        let bounded = Bounded { file, left: MAX_LINE_BYTES };
        let reader =
            ReaderBuilder::new().delimiter(delimiter).has_headers(true).from_reader(bounded);
        Ok(Self { reader, file, delimiter, base, record: ByteRecord::new(), reported: 0 })
    }

    fn header(&mut self) -> Result<ByteRecord, CollectionError> {
        self.record = match self.reader.byte_headers() {
            Ok(header) => header.clone(),
            Err(error) => return Err(self.damage_at(self.base, &error)),
        };
        self.check_text()?;
        Ok(self.record.clone())
    }

    /// Reads the next record, if there is one.
    fn next(&mut self, report: &mut dyn FnMut(u64)) -> Result<bool, CollectionError> {
        self.reader.get_mut().left = MAX_LINE_BYTES;
        let start = self.start();
        let read = self.reader.read_byte_record(&mut self.record);
        let more = read.map_err(|error| self.damage_at(self.start(), &error))?;
        let done = self.reader.position().byte();
        if done - self.reported >= PROGRESS_BYTES {
            self.reported = done;
            report(done);
        }
        if more {
            self.check_text()?;
        } else if let Some(line) = self.open_quote(start, u64::MAX) {
            return Err(never_closed(line));
        }
        Ok(more)
    }

    /// About where the record starts that was read last: an end of line may still be in front.
    fn start(&self) -> u64 {
        self.base + self.record.position().map_or(0, csv::Position::byte)
    }

    fn check_text(&self) -> Result<(), CollectionError> {
        if self.record.iter().all(|cell| std::str::from_utf8(cell).is_ok()) {
            return Ok(());
        }
        Err(self.damaged("is not UTF-8"))
    }

    /// That something is wrong with the record that was read last.
    fn damaged(&self, what: &str) -> CollectionError {
        let line = self.line_at(self.start());
        CollectionError::Damaged(format!("line {line} {what}"))
    }

    fn damage_at(&self, start: u64, error: &csv::Error) -> CollectionError {
        match error.kind() {
            ErrorKind::UnequalLengths { expected_len, len, .. } => {
                if let Some(line) = self.open_quote(start, u64::MAX) {
                    return never_closed(line);
                }
                let line = self.line_at(start);
                let text = format!("line {line} has {len} cells, and not {expected_len}");
                CollectionError::Damaged(text)
            }
            ErrorKind::Io(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                let max = MAX_LINE_BYTES;
                CollectionError::Damaged(match self.open_quote(start, max as u64) {
                    Some(line) => format!(
                        "the quote that begins in line {line} is not closed within {max} bytes"
                    ),
                    None => format!("line {} is longer than {max} bytes", self.line_at(start)),
                })
            }
            ErrorKind::Io(error) => unreadable(error),
            _ => CollectionError::Damaged("not CSV".to_owned()),
        }
    }

    /// The line of the record that starts at a byte of the file, or behind ends of lines there. The
    /// reader counts lines as well, but one too few where they end in two characters.
    fn line_at(&self, start: u64) -> u64 {
        let mut line = 1;
        let mut before = 0;
        for (at, byte) in (0..).zip(self.bytes(0)) {
            if at >= start && !matches!(byte, b'\r' | b'\n') {
                break;
            }
            // Two characters are one end.
            line += u64::from(byte == b'\r' || (byte == b'\n' && before != b'\r'));
            before = byte;
        }
        line
    }

    /// The line in which a quote begins that is open at the end of the file, or so many bytes behind
    /// the start of its record. A quote is one at the start of a cell only, and two in it are none.
    fn open_quote(&self, start: u64, within: u64) -> Option<u64> {
        enum At {
            Start,
            Plain,
            /// In quotes, which began at this byte.
            Quoted(u64),
            /// Behind a quote there.
            QuoteInQuoted(u64),
        }
        let mut at = At::Start;
        let mut is_empty = true;
        for (byte_at, byte) in (0..within).zip(self.bytes(start)) {
            at = match (at, byte) {
                (At::Start, b'"') => At::Quoted(byte_at),
                (At::Quoted(began), b'"') => At::QuoteInQuoted(began),
                (At::QuoteInQuoted(began), b'"') => At::Quoted(began),
                (At::Quoted(began), _) => At::Quoted(began),
                (_, b'\r' | b'\n') if is_empty => At::Start,
                (_, b'\r' | b'\n') => return None,
                (_, byte) if byte == self.delimiter => At::Start,
                _ => At::Plain,
            };
            is_empty &= matches!(byte, b'\r' | b'\n');
        }
        match at {
            At::Quoted(began) => Some(self.line_at(start + began)),
            _ => None,
        }
    }

    /// The bytes of the file from one of them on, as far as they can be read.
    fn bytes(&self, start: u64) -> impl Iterator<Item = u8> {
        let mut file = self.file;
        let found = file.seek(SeekFrom::Start(start)).is_ok();
        BufReader::with_capacity(1 << 16, file).bytes().map_while(Result::ok).filter(move |_| found)
    }
}

fn never_closed(line: u64) -> CollectionError {
    CollectionError::Damaged(format!("the quote that begins in line {line} is never closed"))
}

/// A file of which one record may have only so many bytes: an open quote would else swallow all.
struct Bounded<'a> {
    file: &'a File,
    left: usize,
}

impl Read for Bounded<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let read = self.file.read(buffer)?;
        self.left = self.left.saturating_sub(read);
        Ok(read)
    }
}
