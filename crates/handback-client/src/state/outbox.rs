//! Chunks that the server may not have yet: a file that grows at its end.
//!
//! ```text
//! file  = head entry …
//! head  = "hboutb01" || first seqno u32be || salt (16) || M
//! entry = length u32be || seqno u32be || H (16) || bytes || M
//! H     = HMAC-SHA256(key, 01 || M before || length || seqno)[..16]
//! M     = HMAC-SHA256(key, 02 || M before || length || seqno || bytes)     of an entry
//!       = HMAC-SHA256(key, 00 || u32be(length) folder id || first seqno || salt)   of the head
//! ```
//!
//! Each MAC is over the one before it: entries that are left out, moved, or taken from another file
//! do not fit. `H` is checked before a length is believed, so that an edited length does not pass for
//! the end. What a crash leaves is the beginning of an entry, or zeros where it should be: that was
//! never told to anyone, and is dropped. Everything else is damage.

use std::fs::{File, OpenOptions};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;
use bytes::Bytes;
use handback_stream::duplex::CHUNK_BYTES_MAX;
use rand::Rng as _;

use super::{StateError, disk};

/// Bytes of the file at most: more than the outbox holds, since it is trimmed now and then only.
const FILE_BYTES_MAX: usize = 128 << 20;

const MAGIC: &[u8; 8] = b"hboutb01";
const SALT_BYTES: usize = 16;
const MAC_BYTES: usize = 32;
const SHORT_MAC_BYTES: usize = 16;
const HEAD_BYTES: usize = MAGIC.len() + 4 + SALT_BYTES + MAC_BYTES;

/// A chunk and its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) seqno: u32,
    pub(crate) data: Bytes,
}

type Mac = [u8; MAC_BYTES];

/// The file, open at its end.
#[derive(Debug)]
pub(super) struct Outbox {
    path: PathBuf,
    file: File,
    key: hmac::Key,
    id: String,
    last: Mac,
    /// The bytes that are there for certain.
    length: u64,
    next_seqno: u32,
    is_broken: bool,
}

impl Outbox {
    /// A new file with these chunks, in place of what is there.
    pub(super) fn create(
        path: &Path,
        key: &hmac::Key,
        id: &str,
        first_seqno: u32,
        chunks: &[Chunk],
    ) -> Result<Self, StateError> {
        let mut salt = [0; SALT_BYTES];
        rand::rng().fill_bytes(&mut salt);
        let mut bytes = MAGIC.to_vec();
        bytes.extend(first_seqno.to_be_bytes());
        bytes.extend(salt);
        let mut last = head_mac(key, id, first_seqno, &salt);
        bytes.extend(last);
        let mut next_seqno = first_seqno;
        for chunk in chunks {
            last = write(&mut bytes, key, &last, chunk);
            next_seqno = chunk.seqno.saturating_add(1);
        }
        let file = disk::replace(path, &bytes)?;
        let (path, id, length) = (path.to_owned(), id.to_owned(), bytes.len() as u64);
        Ok(Self { path, file, key: key.clone(), id, last, length, next_seqno, is_broken: false })
    }

    /// The file that is there, and its chunks.
    pub(super) fn open(
        path: &Path,
        key: &hmac::Key,
        id: &str,
    ) -> Result<(Self, Vec<Chunk>), StateError> {
        let damaged = |what| StateError::Damaged { path: path.to_owned(), what };
        let bytes = disk::read(path, FILE_BYTES_MAX)?.ok_or_else(|| damaged("it is gone"))?;
        let bytes = Bytes::from(bytes);
        let (mut last, first_seqno) = read_head(&bytes, key, id).map_err(damaged)?;
        let (mut next_seqno, mut chunks, mut length) = (first_seqno, Vec::new(), HEAD_BYTES);
        let mut rest = bytes.slice(HEAD_BYTES..);
        while let Some((chunk, mac)) = read(&rest, key, &last, next_seqno).map_err(damaged)? {
            let taken = 4 + 4 + SHORT_MAC_BYTES + chunk.data.len() + MAC_BYTES;
            rest = rest.slice(taken..);
            length += taken;
            (last, next_seqno) = (mac, chunk.seqno.saturating_add(1));
            chunks.push(chunk);
        }
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .map_err(disk::failed("open", path))?;
        let length = length as u64;
        if !rest.is_empty() {
            file.set_len(length).map_err(disk::failed("cut", path))?;
            file.sync_all().map_err(disk::failed("sync", path))?;
        }
        file.seek(SeekFrom::Start(length)).map_err(disk::failed("read", path))?;
        let (path, id, key) = (path.to_owned(), id.to_owned(), key.clone());
        let outbox = Self { path, file, key, id, last, length, next_seqno, is_broken: false };
        Ok((outbox, chunks))
    }

    /// The number of the next chunk.
    pub(super) const fn next_seqno(&self) -> u32 {
        self.next_seqno
    }

    /// Bytes of the file.
    pub(super) const fn length(&self) -> u64 {
        self.length
    }

    /// Adds chunks that follow, and syncs. After a failure the file is not used any more: what of it
    /// is on the disk is not known.
    pub(super) fn append(&mut self, chunks: &[Chunk]) -> Result<(), StateError> {
        if self.is_broken {
            return Err(StateError::Broken);
        }
        let (mut bytes, mut last) = (Vec::new(), self.last);
        for chunk in chunks {
            last = write(&mut bytes, &self.key, &last, chunk);
        }
        self.is_broken = true;
        self.file.write_all(&bytes).map_err(disk::failed("write", &self.path))?;
        self.file.sync_data().map_err(disk::failed("sync", &self.path))?;
        self.is_broken = false;
        self.last = last;
        self.length += bytes.len() as u64;
        if let Some(chunk) = chunks.last() {
            self.next_seqno = chunk.seqno.saturating_add(1);
        }
        Ok(())
    }

    /// Writes the file again, with these chunks only.
    pub(super) fn rewrite(&mut self, chunks: &[Chunk]) -> Result<(), StateError> {
        if self.is_broken {
            return Err(StateError::Broken);
        }
        let first = chunks.first().map_or(self.next_seqno, |chunk| chunk.seqno);
        *self = Self::create(&self.path, &self.key, &self.id, first, chunks)?;
        Ok(())
    }
}

fn head_mac(key: &hmac::Key, id: &str, first_seqno: u32, salt: &[u8]) -> Mac {
    let length = u32::try_from(id.len()).unwrap_or(u32::MAX).to_be_bytes();
    mac(key, &[&[0], &length, id.as_bytes(), &first_seqno.to_be_bytes(), salt])
}

fn mac(key: &hmac::Key, parts: &[&[u8]]) -> Mac {
    let mut context = hmac::Context::with_key(key);
    for part in parts {
        context.update(part);
    }
    context.sign().as_ref().first_chunk().copied().unwrap_or_default()
}

fn write(bytes: &mut Vec<u8>, key: &hmac::Key, last: &Mac, chunk: &Chunk) -> Mac {
    let length = u32::try_from(chunk.data.len()).unwrap_or(u32::MAX).to_be_bytes();
    let seqno = chunk.seqno.to_be_bytes();
    let short = mac(key, &[&[1], last, &length, &seqno]);
    let full = mac(key, &[&[2], last, &length, &seqno, &chunk.data]);
    bytes.extend(length);
    bytes.extend(seqno);
    bytes.extend(short.iter().take(SHORT_MAC_BYTES));
    bytes.extend_from_slice(&chunk.data);
    bytes.extend(full);
    full
}

fn read_head(bytes: &[u8], key: &hmac::Key, id: &str) -> Result<(Mac, u32), &'static str> {
    let rest = bytes.strip_prefix(MAGIC).ok_or("not an outbox of this version")?;
    let (seqno, rest) = rest.split_first_chunk::<4>().ok_or("it is cut")?;
    let (salt, rest) = rest.split_first_chunk::<SALT_BYTES>().ok_or("it is cut")?;
    let found = rest.first_chunk::<MAC_BYTES>().ok_or("it is cut")?;
    let first_seqno = u32::from_be_bytes(*seqno);
    let expected = head_mac(key, id, first_seqno, salt);
    verify_slices_are_equal(&expected, found)
        .map_err(|_| "it was edited, or is of another folder or key")?;
    Ok((expected, first_seqno))
}

/// The next entry. Nothing at the end, and where a crash cut the last one.
fn read(
    rest: &Bytes,
    key: &hmac::Key,
    last: &Mac,
    next_seqno: u32,
) -> Result<Option<(Chunk, Mac)>, &'static str> {
    if rest.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    let Some((length, after)) = rest.split_first_chunk::<4>() else { return Ok(None) };
    let Some((seqno, after)) = after.split_first_chunk::<4>() else { return Ok(None) };
    let Some((short, after)) = after.split_first_chunk::<SHORT_MAC_BYTES>() else {
        return Ok(None);
    };
    let expected = mac(key, &[&[1], last, length, seqno]);
    let is_entry = expected.first_chunk::<SHORT_MAC_BYTES>().is_some_and(|expected| {
        verify_slices_are_equal(expected.as_slice(), short.as_slice()).is_ok()
    });
    if !is_entry {
        return Err("an entry was edited, or does not follow the one before");
    }
    let size = u32::from_be_bytes(*length) as usize;
    if u32::from_be_bytes(*seqno) != next_seqno || size > CHUNK_BYTES_MAX {
        return Err("an entry is not what was written");
    }
    let Some((data, after)) = after.split_at_checked(size) else { return Ok(None) };
    let Some(found) = after.first_chunk::<MAC_BYTES>() else { return Ok(None) };
    let expected = mac(key, &[&[2], last, length, seqno, data]);
    verify_slices_are_equal(&expected, found).map_err(|_| "an entry was edited")?;
    Ok(Some((Chunk { seqno: next_seqno, data: rest.slice_ref(data) }, expected)))
}
