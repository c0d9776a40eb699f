//! Rows of a CSV file into an index.

use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom};

use csv::{ByteRecord, ErrorKind, Reader, ReaderBuilder};
use handback_page::{CollectionError, Column, Kind, Preset, scalar};
use rusqlite::{Connection, Statement};

use super::build::{Filled, sql_name};
use super::collection::Progress;
use super::jsonl::{BYTE_ORDER_MARK, PROGRESS_BYTES};
use super::options::{FileOptions, MAX_CSV_COLUMNS, MAX_LINE_BYTES};
use crate::files::source::unreadable;
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
    for name in unique_names(first.header()?)? {
        columns.push(Guess {
            name,
            numbers: Numbers::Integers,
            has_values: false,
            has_nulls: false,
        });
    }
    while let Some(record) = first.next(&mut |done| progress(done / 2, total))? {
        items += 1;
        for (column, cell) in columns.iter_mut().zip(record.iter()) {
            column.met(cell);
        }
        check_key(record, &columns, options.key.as_deref())?;
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
    while let Some(record) = second.next(&mut |done| progress(total / 2 + done / 2, total))? {
        number += 1;
        add(&mut insert, number, record, &columns).map_err(|e| failure(&e))?;
    }
    progress(total, total);
    let columns = with_presets(columns, options.key.as_deref());
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

fn check_key(
    record: &ByteRecord,
    columns: &[Guess],
    key: Option<&str>,
) -> Result<(), CollectionError> {
    let Some(key) = key else { return Ok(()) };
    let number = columns.iter().position(|column| column.name == key);
    match number.and_then(|number| record.get(number)) {
        Some(cell) if !cell.is_empty() => Ok(()),
        _ => {
            let text = format!("line {} has no '{key}'", line_of(record));
            Err(CollectionError::Damaged(text))
        }
    }
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
            _ if !self.has_values => Kind::Text,
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
        opened.map_err(|error| unreadable(&error))?;
        let bounded = Bounded { file, left: MAX_LINE_BYTES };
        let reader =
            ReaderBuilder::new().delimiter(delimiter).has_headers(true).from_reader(bounded);
        Ok(Self { reader, record: ByteRecord::new(), reported: 0 })
    }

    fn header(&mut self) -> Result<&ByteRecord, CollectionError> {
        let header = self.reader.byte_headers().map_err(|error| damage(&error))?;
        check_text(header)?;
        Ok(header)
    }

    fn next(
        &mut self,
        report: &mut dyn FnMut(u64),
    ) -> Result<Option<&ByteRecord>, CollectionError> {
        self.reader.get_mut().left = MAX_LINE_BYTES;
        let more =
            self.reader.read_byte_record(&mut self.record).map_err(|error| damage(&error))?;
        let done = self.reader.position().byte();
        if done - self.reported >= PROGRESS_BYTES {
            self.reported = done;
            report(done);
        }
        if !more {
            return Ok(None);
        }
        check_text(&self.record)?;
        Ok(Some(&self.record))
    }
}

fn check_text(record: &ByteRecord) -> Result<(), CollectionError> {
    if record.iter().all(|cell| std::str::from_utf8(cell).is_ok()) {
        return Ok(());
    }
    Err(CollectionError::Damaged(format!("line {} is not UTF-8", line_of(record))))
}

fn line_of(record: &ByteRecord) -> u64 {
    record.position().map_or(1, csv::Position::line)
}

fn damage(error: &csv::Error) -> CollectionError {
    match error.kind() {
        ErrorKind::UnequalLengths { pos, expected_len, len } => {
            let line = pos.as_ref().map_or(0, csv::Position::line);
            CollectionError::Damaged(format!("line {line} has {len} cells, and not {expected_len}"))
        }
        ErrorKind::Io(error) if error.kind() == io::ErrorKind::FileTooLarge => {
            let text = format!("a record is longer than {MAX_LINE_BYTES} bytes: an open quote?");
            CollectionError::Damaged(text)
        }
        ErrorKind::Io(error) => unreadable(error),
        _ => CollectionError::Damaged("not CSV".to_owned()),
    }
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
