//! Checks the journals of the database before it is opened.
//!
//! fjall replays its journals at opening, and stops at the first thing that it cannot read: what
//! follows is cut off in silence, be it the rest of a write that the power interrupted or a year of
//! acknowledged records behind one flipped bit. And where a write was torn so that its end is there
//! and its middle is not, it does not open at all. Both are decided here, first.
//!
//! Every batch of ours is synced before the next is begun, so at most the last one can be torn. If a
//! batch cannot be read and a whole one stands behind it, the journal is damaged. If none does, the
//! watermark decides: a batch that was acknowledged is missing, which is damage; or none is, and what
//! cannot be read was torn, and is cut off. (A directory of an earlier version has no watermark at its
//! first start: there, damage within the last batch of all looks like a torn one.)
//!
//! | journal | bytes |
//! |---|---|
//! | batch | start, items, end |
//! | start | `01`, number of items u32le, sequence number u64le |
//! | item | `02`, value type, compression (`00`), keyspace u64le, key length u16le, value length u32le twice, key, value |
//! | end | `03`, XXH3-64 of the items u64le, `46 4a 4c 03` |
//! | tail | zeros, or nothing |
//!
//! The start is not covered by the checksum; sequence numbers must grow, and not by leaps.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::Xxh3;

use super::damage::{Damage, Folder};
use super::watermark::{Known, Record};

const START: u8 = 1;
const ITEM: u8 = 2;
const END: u8 = 3;
const TRAILER: [u8; 4] = *b"FJL\x03";
const ITEM_HEADER_BYTES: usize = 20;

/// By how much the sequence number may grow from one batch to the next. The engine takes some for
/// itself, never billions.
const MAX_STEP: u64 = 1 << 32;

/// A journal as it was found.
#[derive(Debug)]
pub(super) struct Scanned {
    pub(super) id: u64,
    pub(super) path: PathBuf,
    /// Number of whole batches.
    pub(super) batches: u64,
    /// Number of the last batch, if there is one.
    pub(super) last: Option<u64>,
    /// Position behind the last whole batch.
    pub(super) end: u64,
    /// Bytes that follow and are no batch, and that nobody was told of.
    pub(super) torn_bytes: u64,
    /// True if acknowledged writes are missing or cannot be read. A journal that has only lost the
    /// zeros behind its last write is damage too, but lacks nothing.
    pub(super) is_incomplete: bool,
}

/// Reads all journals, changes nothing, and adds damage to a list. Gives the journals, oldest first:
/// also those of which only the second name is left.
pub(super) fn survey(
    folder: &Folder,
    record: Option<&Record>,
    damage: &mut Vec<Damage>,
) -> io::Result<Vec<Scanned>> {
    let mut survey = Surveyor { folder, record, damage, last_sequence: None, torn: false };
    let mut scanned: Vec<Scanned> = Vec::new();
    for (id, path) in survey.all()? {
        if let Some(before) = scanned.last() {
            (before.id + 1..id).for_each(|missing| survey.missing(missing));
        }
        scanned.push(survey.scan(id, path)?);
    }
    Ok(scanned)
}

struct Surveyor<'a> {
    folder: &'a Folder,
    record: Option<&'a Record>,
    damage: &'a mut Vec<Damage>,
    last_sequence: Option<u64>,
    /// True after a journal that ends in a torn batch.
    torn: bool,
}

impl Surveyor<'_> {
    fn known(&self) -> &[Known] {
        self.record.map(|record| record.journals.as_slice()).unwrap_or_default()
    }

    /// The journals that are there, by either name.
    fn all(&mut self) -> io::Result<Vec<(u64, PathBuf)>> {
        let mut found = journals(&self.folder.database())?;
        let newest = found.last().map(|(id, _)| *id);
        let has_links = self.record.is_some_and(|record| record.has_links);
        for id in self.known().iter().map(|known| known.id).collect::<Vec<_>>() {
            let link = self.folder.link(id);
            if found.iter().any(|(other, _)| *other == id) {
                continue;
            }
            if link.exists() {
                found.push((id, link));
            } else if has_links || newest.is_none_or(|newest| newest < id) {
                self.missing(id);
            }
        }
        found.sort_unstable();
        Ok(found)
    }

    fn missing(&mut self, id: u64) {
        let missing = Damage::missing(self.folder.store(), &self.folder.journal(id)).acceptable();
        if !self.damage.contains(&missing) {
            self.damage.push(missing);
        }
    }

    fn scan(&mut self, id: u64, path: PathBuf) -> io::Result<Scanned> {
        let scan = Scan::run(&path, self.last_sequence)?;
        let torn_bytes = match scan.stop {
            Stop::Tail => 0,
            Stop::Unreadable | Stop::Impossible => {
                // A torn batch whose bytes were all zero was none.
                content_end(&path)?.saturating_sub(scan.end)
            }
        };
        let is_unreadable = match scan.stop {
            Stop::Tail => false,
            Stop::Impossible => true,
            Stop::Unreadable => batch_follows(&path, scan.end, scan.last_sequence)?,
        };
        // Whatever was written after a torn batch was written by someone else.
        let is_foreign = self.torn && scan.batches > 0;
        let last = scan.last_sequence.filter(|_| scan.batches > 0);
        let mut what = None;
        let mut is_incomplete = is_unreadable || is_foreign;
        if is_incomplete {
            let position = if is_foreign { 0 } else { scan.end };
            what = Some(format!("is damaged at byte {position}"));
        }
        let found_bytes = fs::metadata(&path)?.len();
        let mut expected_bytes = None;
        if let Some(known) = self.known().iter().find(|known| known.id == id) {
            if found_bytes < known.length {
                expected_bytes = Some(known.length);
                let length = known.length;
                what = Some(format!("was cut: it had {length} bytes, and has {found_bytes}"));
            }
            if last.unwrap_or_default() < known.last {
                is_incomplete = true;
                let (there, lost) = (last.unwrap_or_default(), known.last);
                let what = what.get_or_insert_with(|| format!("is damaged at byte {}", scan.end));
                *what += &format!(
                    "; acknowledged writes are missing: up to number {lost} were acknowledged, and \
                     they end with number {there} at byte {}",
                    scan.end
                );
            } else if let Some(what) = what.as_mut().filter(|_| !is_incomplete && known.last > 0) {
                let last = known.last;
                *what += &format!(
                    "; all writes up to number {last}, the last one acknowledged in it, are there"
                );
            }
        }
        if let Some(what) = what {
            let damage = Damage::new(self.folder.store(), &self.folder.journal(id), what);
            let found_bytes = expected_bytes.map(|_| found_bytes);
            self.damage.push(Damage { expected_bytes, found_bytes, ..damage }.acceptable());
        }
        self.torn |= torn_bytes > 0;
        self.last_sequence = scan.last_sequence;
        // Nothing is kept of a journal that follows a torn batch.
        let (end, last) = if is_foreign { (0, None) } else { (scan.end, last) };
        let batches = scan.batches;
        Ok(Scanned { id, path, batches, last, end, torn_bytes, is_incomplete })
    }
}

/// Writes all journals anew and syncs them.
///
/// After a sync that failed, what the kernel shows may not be on the disk, and a second sync says
/// nothing about it: the pages count as written. Only another write and another sync do.
pub(super) fn rewrite(directory: &Path) -> io::Result<()> {
    let copy = directory.join("rewritten.tmp");
    for (_, path) in journals(directory)? {
        // What is left of a copy would only take room.
        rewrite_one(&path, &copy).inspect_err(|_| drop(fs::remove_file(&copy)))?;
    }
    File::open(directory)?.sync_all()
}

fn rewrite_one(path: &Path, copy: &Path) -> io::Result<()> {
    let mut from = File::open(path)?.take(content_end(path)?);
    let mut to = File::create(copy)?;
    io::copy(&mut from, &mut to)?;
    to.sync_all()?;
    fs::rename(copy, path)
}

/// Whether nothing but zeros is in any journal.
pub(super) fn are_blank(directory: &Path) -> io::Result<bool> {
    for (_, path) in journals(directory)? {
        if content_end(&path)? > 0 {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The journals, oldest first.
pub(super) fn journals(directory: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut journals = Vec::new();
    let entries = match fs::read_dir(directory) {
        // What else is missing is named by the survey.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(journals),
        entries => entries?,
    };
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "jnl") {
            continue;
        }
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        let Some(id) = stem.and_then(|stem| stem.parse().ok()) else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a journal has a strange name"));
        };
        journals.push((id, path));
    }
    journals.sort_unstable();
    Ok(journals)
}

/// Where a scan of a journal ended, and why.
struct Scan {
    batches: u64,
    last_sequence: Option<u64>,
    /// Behind the last batch that is whole.
    end: u64,
    stop: Stop,
}

enum Stop {
    /// Nothing follows.
    Tail,
    /// Something follows that is not a whole batch.
    Unreadable,
    /// A whole batch follows that cannot come here.
    Impossible,
}

impl Scan {
    fn run(path: &Path, last_sequence: Option<u64>) -> io::Result<Self> {
        let file = File::open(path)?;
        let len = file.metadata()?.len();
        let mut input = BufReader::with_capacity(1 << 16, file);
        let mut scan = Self { batches: 0, last_sequence, end: 0, stop: Stop::Tail };
        let mut buffer = Vec::new();
        loop {
            let (sequence, bytes) = match read_batch(&mut input, len - scan.end, &mut buffer)? {
                Step::Batch { sequence, bytes } => (sequence, bytes),
                Step::End => return Ok(scan),
                Step::Bad { .. } => {
                    scan.stop = Stop::Unreadable;
                    return Ok(scan);
                }
                Step::Zero => {
                    if !rest_is_zero(input.get_ref(), scan.end)? {
                        scan.stop = Stop::Unreadable;
                    }
                    return Ok(scan);
                }
            };
            if !may_follow(scan.last_sequence, sequence) {
                scan.stop = Stop::Impossible;
                return Ok(scan);
            }
            scan.batches += 1;
            scan.last_sequence = Some(sequence);
            scan.end += bytes;
        }
    }
}

fn may_follow(last: Option<u64>, sequence: u64) -> bool {
    match last {
        Some(last) => sequence > last && sequence - last < MAX_STEP,
        None => sequence < u64::MAX >> 8,
    }
}

enum Step {
    Batch {
        sequence: u64,
        bytes: u64,
    },
    /// No more bytes.
    End,
    /// A zero where a batch should start.
    Zero,
    /// Not a batch. If everything but its checksum is as it should be, how long it is.
    Bad {
        bytes: Option<u64>,
    },
}

const BAD: Step = Step::Bad { bytes: None };

/// Reads one batch of at most `room` bytes.
fn read_batch(input: &mut impl Read, room: u64, buffer: &mut Vec<u8>) -> io::Result<Step> {
    if room == 0 {
        return Ok(Step::End);
    }
    let [tag] = read_array(input)?;
    match tag {
        START => {}
        0 => return Ok(Step::Zero),
        _ => return Ok(BAD),
    }
    let mut used = 1;
    let mut takes = |bytes: u64| {
        used += bytes;
        (used <= room).then_some(used)
    };
    if takes(12).is_none() {
        return Ok(BAD);
    }
    let items = u32::from_le_bytes(read_array(input)?);
    let sequence = u64::from_le_bytes(read_array(input)?);
    let mut hash = Xxh3::new();
    for _ in 0..items {
        if takes(1).is_none() || read_array(input)? != [ITEM] {
            return Ok(BAD);
        }
        if takes(ITEM_HEADER_BYTES as u64).is_none() {
            return Ok(BAD);
        }
        let header: [u8; ITEM_HEADER_BYTES] = read_array(input)?;
        let Some((key_bytes, value_bytes)) = item_lengths(&header) else { return Ok(BAD) };
        let body_bytes = u64::from(key_bytes) + u64::from(value_bytes);
        if takes(body_bytes).is_none() {
            return Ok(BAD);
        }
        buffer.clear();
        input.take(body_bytes).read_to_end(buffer)?;
        hash.update(&[ITEM]);
        hash.update(&header);
        hash.update(buffer);
    }
    let Some(bytes) = takes(13) else { return Ok(BAD) };
    if read_array(input)? != [END] {
        return Ok(BAD);
    }
    let checksum = u64::from_le_bytes(read_array(input)?);
    if read_array(input)? != TRAILER {
        return Ok(BAD);
    }
    if hash.digest() != checksum {
        return Ok(Step::Bad { bytes: Some(bytes) });
    }
    Ok(Step::Batch { sequence, bytes })
}

/// Lengths of key and value, if the header is one that we write.
fn item_lengths(header: &[u8; ITEM_HEADER_BYTES]) -> Option<(u16, u32)> {
    let (&[kind, compression], rest) = header.split_first_chunk()?;
    let (_keyspace, rest) = rest.split_first_chunk::<8>()?;
    let (key, rest) = rest.split_first_chunk::<2>()?;
    let (value, rest) = rest.split_first_chunk::<4>()?;
    let plain = kind <= 1 && compression == 0 && rest == value;
    plain.then(|| (u16::from_le_bytes(*key), u32::from_le_bytes(*value)))
}

/// Whether a whole batch stands somewhere behind the unreadable one at `position`.
///
/// What was written by our callers could look like a batch, which is why a batch of which only the
/// checksum is wrong is skipped as one, and why what follows a batch must look right, too. At worst a
/// caller of a store that is not encrypted has a torn journal taken for a damaged one.
fn batch_follows(path: &Path, position: u64, last: Option<u64>) -> io::Result<bool> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(position))?;
    let mut bytes = Vec::new();
    file.take(content_end(path)?.saturating_sub(position)).read_to_end(&mut bytes)?;
    let mut buffer = Vec::new();
    let mut step = |from: usize| {
        let mut rest = bytes.get(from..).unwrap_or_default();
        let room = rest.len() as u64;
        read_batch(&mut rest, room, &mut buffer)
    };
    let skipped = match step(0)? {
        Step::Bad { bytes: Some(bytes) } => usize::try_from(bytes).unwrap_or(usize::MAX),
        _ => 1,
    };
    let starts = bytes.iter().enumerate().skip(skipped).filter(|&(_, &byte)| byte == START);
    for (at, _) in starts {
        let Step::Batch { sequence, bytes: len } = step(at)? else { continue };
        let behind = bytes.get(at + usize::try_from(len).unwrap_or(usize::MAX)).copied();
        if may_follow(last, sequence) && matches!(behind, None | Some(0 | START)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Cuts a journal off.
pub(super) fn cut(path: &Path, end: u64) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    file.set_len(end)?;
    file.sync_all()
}

/// Behind the last byte that is not zero.
fn content_end(path: &Path) -> io::Result<u64> {
    let mut end = 0;
    for_each_chunk(&File::open(path)?, 0, |position, chunk| {
        if let Some(last) = chunk.iter().rposition(|&byte| byte != 0) {
            end = position + last as u64 + 1;
        }
        true
    })?;
    Ok(end)
}

fn rest_is_zero(file: &File, from: u64) -> io::Result<bool> {
    for_each_chunk(file, from, |_, _| false)
}

/// Calls a function with what is in a file, left out what is zero, until it says `false`; gives
/// whether it never did. A new journal is 64 MiB of zeros, nearly all of it a hole.
fn for_each_chunk(
    file: &File,
    mut position: u64,
    mut visit: impl FnMut(u64, &[u8]) -> bool,
) -> io::Result<bool> {
    const CHUNK_BYTES: usize = 1 << 13;
    const ZEROS: [u8; CHUNK_BYTES] = [0; CHUNK_BYTES];
    let mut chunk = ZEROS;
    loop {
        match rustix::fs::seek(file, rustix::fs::SeekFrom::Data(position)) {
            Ok(data) => position = data,
            Err(rustix::io::Errno::NXIO) => return Ok(true),
            // A file system that knows no holes.
            Err(_) => {}
        }
        let read = file.read_at(&mut chunk, position)?;
        if read == 0 {
            return Ok(true);
        }
        let bytes = chunk.get(..read).unwrap_or_default();
        if !ZEROS.starts_with(bytes) && !visit(position, bytes) {
            return Ok(false);
        }
        position += read as u64;
    }
}

fn read_array<const N: usize>(input: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    input.read_exact(&mut bytes)?;
    Ok(bytes)
}
