//! Checks the files of the database that say which tables there are.
//!
//! fjall takes a keyspace without its file `current` for one whose creation was interrupted, and
//! removes it with all of its tables; and it removes tables that the file `vN` does not name, which
//! it reads without its checksum. So both are checked here, before the database is opened.
//!
//! | file | content; integers are little-endian |
//! |---|---|
//! | `version` | `46 4a 4c 03` |
//! | `keyspaces/K/current` | N u64, XXH3-128 of `vN` u128, `00` |
//! | `keyspaces/K/vN` | archive; its section `tables` has levels (u8), runs (u8) of each, tables (u32) of each, and of each table: id u64, `00`, XXH3-128 of the file u128, u64 |
//! | `keyspaces/K/tables/T` | table with the id T |

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use bytes::Buf;
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use super::damage::{Damage, Folder};

/// Bytes of `current`.
const CURRENT_BYTES: usize = 25;

/// Bytes of `version`.
const VERSION_BYTES: u64 = 4;

/// Bytes of tables that are read at a start, the shortest tables first: a part of a second. Longer
/// tables are checked block by block when they are read.
const START_TABLE_BYTES: u64 = 64 << 20;

/// How much is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Depth {
    /// As much as a start has time for.
    Start,
    /// Every byte.
    Whole,
}

/// Which keyspaces must be there.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wanted<'a> {
    /// These.
    Known(&'a [u64]),
    /// All that have a folder.
    Found,
    /// None: the creation may have been interrupted.
    Any,
}

/// Checks all files that name tables, and adds damage to a list. Gives the number of tables.
pub(super) fn check(
    folder: &Folder,
    wanted: Wanted<'_>,
    depth: Depth,
    damage: &mut Vec<Damage>,
) -> io::Result<u64> {
    let version = folder.database().join("version");
    match fs::metadata(&version) {
        Ok(found) if found.len() >= VERSION_BYTES => {}
        Ok(found) => {
            damage.push(Damage::cut(folder.store(), &version, VERSION_BYTES, found.len()));
        }
        Err(_) => damage.push(Damage::missing(folder.store(), &version)),
    }
    let mut tables = Vec::new();
    for path in keyspaces(folder, wanted)? {
        let is_needed = !matches!(wanted, Wanted::Any) || path.join("current").exists();
        if !is_needed {
            continue;
        }
        match tables_of(&path) {
            Ok(found) => tables.extend(found),
            Err(Wrong { file, what }) => damage.push(Damage::new(folder.store(), &file, what)),
        }
    }
    check_tables(folder, &mut tables, depth, damage)?;
    Ok(tables.len() as u64)
}

fn keyspaces(folder: &Folder, wanted: Wanted<'_>) -> io::Result<Vec<PathBuf>> {
    let keyspaces = folder.database().join("keyspaces");
    let mut paths = Vec::new();
    match fs::read_dir(&keyspaces) {
        Ok(entries) => {
            for entry in entries {
                let entry = entry?;
                if entry.file_type()?.is_dir() {
                    paths.push(entry.path());
                }
            }
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Err(_) => {}
    }
    if let Wanted::Known(ids) = wanted {
        paths.extend(ids.iter().map(|id| keyspaces.join(id.to_string())));
    }
    paths.sort();
    paths.dedup();
    Ok(paths)
}

/// A table that a keyspace names.
struct Table {
    path: PathBuf,
    checksum: u128,
    bytes: u64,
}

/// A file that is not as it should be.
struct Wrong {
    file: PathBuf,
    what: String,
}

fn tables_of(keyspace: &Path) -> Result<Vec<Table>, Wrong> {
    let file = keyspace.join("current");
    let current = read(&file)?;
    let length = current.len();
    if length != CURRENT_BYTES {
        let what = format!("was cut: it had {CURRENT_BYTES} bytes, and has {length}");
        return Err(Wrong { file, what });
    }
    let mut rest = current.as_slice();
    let (number, checksum) = (rest.get_u64_le(), rest.get_u128_le());
    let current = file;
    let file = keyspace.join(format!("v{number}"));
    // Nothing proves `current` itself: either file may be the one that was changed.
    let named_by =
        |what: &str| format!("{what}, or {} is damaged, which names it", current.display());
    let bytes = read(&file).map_err(|wrong| Wrong { what: named_by(&wrong.what), ..wrong })?;
    if xxh3_128(&bytes) != checksum {
        return Err(Wrong { file, what: named_by("is damaged: its checksum is another") });
    }
    // It is whole, so that what does not go together is of a version that is not known here.
    let entries = entries(&file).ok_or_else(|| Wrong {
        file: file.clone(),
        what: "does not name its tables as expected".to_owned(),
    })?;
    let table = |(id, checksum): (u64, u128)| Table {
        path: keyspace.join("tables").join(id.to_string()),
        checksum,
        bytes: 0,
    };
    Ok(entries.into_iter().map(table).collect())
}

fn read(file: &Path) -> Result<Vec<u8>, Wrong> {
    fs::read(file).map_err(|error| {
        let what = match error.kind() {
            io::ErrorKind::NotFound => "is missing".to_owned(),
            _ => format!("cannot be read: {error}"),
        };
        Wrong { file: file.to_owned(), what }
    })
}

/// Ids and checksums of tables.
fn entries(file: &Path) -> Option<Vec<(u64, u128)>> {
    let archive = sfa::Reader::new(file).ok()?;
    let section = archive.toc().section(b"tables")?;
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut section.buf_reader(file).ok()?, &mut bytes).ok()?;
    let mut rest = bytes.as_slice();
    let mut entries = Vec::new();
    for _ in 0..rest.try_get_u8().ok()? {
        for _ in 0..rest.try_get_u8().ok()? {
            for _ in 0..rest.try_get_u32_le().ok()? {
                let id = rest.try_get_u64_le().ok()?;
                let _kind = rest.try_get_u8().ok()?;
                entries.push((id, rest.try_get_u128_le().ok()?));
                let _first = rest.try_get_u64_le().ok()?;
            }
        }
    }
    rest.is_empty().then_some(entries)
}

fn check_tables(
    folder: &Folder,
    tables: &mut [Table],
    depth: Depth,
    damage: &mut Vec<Damage>,
) -> io::Result<()> {
    for table in tables.iter_mut() {
        match fs::metadata(&table.path) {
            Ok(found) => table.bytes = found.len(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                damage.push(Damage::missing(folder.store(), &table.path));
                table.bytes = u64::MAX;
            }
            Err(error) => return Err(error),
        }
    }
    tables.sort_by_key(|table| table.bytes);
    let mut read = 0_u64;
    for table in tables.iter().filter(|table| table.bytes < u64::MAX) {
        read = read.saturating_add(table.bytes);
        if depth == Depth::Start && read > START_TABLE_BYTES {
            break;
        }
        if checksum(&table.path)? != table.checksum {
            let what = "is damaged: its checksum is another".to_owned();
            damage.push(Damage::new(folder.store(), &table.path, what));
        }
    }
    Ok(())
}

fn checksum(path: &Path) -> io::Result<u128> {
    let mut file = BufReader::with_capacity(1 << 16, File::open(path)?);
    let mut hash = Xxh3::new();
    loop {
        let chunk = file.fill_buf()?;
        if chunk.is_empty() {
            return Ok(hash.digest128());
        }
        hash.update(chunk);
        let length = chunk.len();
        file.consume(length);
    }
}
