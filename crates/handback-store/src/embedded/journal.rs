//! Checks the journals of the database before it is opened.
//!
//! fjall replays its journals at opening, and stops at the first thing that it cannot read: what
//! follows is cut off in silence, be it the rest of a write that the power interrupted or a year of
//! acknowledged records behind one flipped bit. And where a write was torn so that its end is there
//! and its middle is not, it does not open at all. Both are decided here, first.
//!
//! Every batch of ours is synced before the next is begun, so at most the last one can be torn. If a
//! batch cannot be read and a whole one stands behind it, the journal is damaged. If none does, it is
//! taken for torn, and cut off: it was never acknowledged. (Damage within the last batch of all
//! looks the same. Only a signature kept elsewhere can tell it apart.)
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

const START: u8 = 1;
const ITEM: u8 = 2;
const END: u8 = 3;
const TRAILER: [u8; 4] = *b"FJL\x03";
const ITEM_HEADER_BYTES: usize = 20;

/// By how much the sequence number may grow from one batch to the next. The engine takes some for
/// itself, never billions.
const MAX_STEP: u64 = 1 << 32;

/// Why the journals cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub(super) enum JournalError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("journal {file} is damaged at byte {position}")]
    Damaged { file: String, position: u64 },
    #[error("journal {0} is missing")]
    Missing(u64),
}

/// What was found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Checked {
    /// How many batches will be replayed.
    pub(super) batches: u64,
    /// How many bytes of a torn batch were cut off.
    pub(super) torn_bytes: u64,
}

/// Checks all journals of a directory, and cuts off a torn end.
pub(super) fn check(directory: &Path) -> Result<Checked, JournalError> {
    let mut checked = Checked::default();
    let mut last_sequence = None;
    let mut expected_id = None;
    for (id, path) in journals(directory)? {
        if let Some(expected) = expected_id.filter(|&expected| expected != id) {
            return Err(JournalError::Missing(expected));
        }
        expected_id = id.checked_add(1);
        let scan = Scan::run(&path, last_sequence)?;
        let damaged = |position| JournalError::Damaged { file: format!("{id}.jnl"), position };
        // Whatever was written after a torn batch was written by someone else.
        if checked.torn_bytes > 0 && scan.batches > 0 {
            return Err(damaged(0));
        }
        checked.batches += scan.batches;
        last_sequence = scan.last_sequence;
        match scan.stop {
            Stop::Tail => {}
            Stop::Impossible => return Err(damaged(scan.end)),
            Stop::Unreadable => {
                if batch_follows(&path, scan.end, last_sequence)? {
                    return Err(damaged(scan.end));
                }
                checked.torn_bytes += cut(&path, scan.end)?;
            }
        }
    }
    Ok(checked)
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
    for entry in fs::read_dir(directory)? {
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

/// Cuts a journal off, and gives how many bytes it was.
fn cut(path: &Path, end: u64) -> io::Result<u64> {
    let bytes = content_end(path)?.saturating_sub(end);
    let file = OpenOptions::new().write(true).open(path)?;
    file.set_len(end)?;
    file.sync_all()?;
    // A torn batch whose bytes were all zero was none.
    Ok(bytes)
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
