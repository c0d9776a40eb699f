//! Which ring a command works on.
//!
//! Reading commands follow the precedence of `handback_token::ring::source`, but never make a ring.
//! Changing commands work on a key file: while the environment holds the ring, a change of a file
//! would not be a change of the ring in use.

use std::path::{Path, PathBuf};

use handback_token::ring::file::{KeyFile, KeyFileError};
use handback_token::ring::source::{
    ATD_KEY_VARIABLE, AtdKeyUse, KEY_FILE_NAME, KEYS_VARIABLE, LoadRingError, LoadedRing, Origin,
    Sources,
};
use handback_token::{KeyRing, Mode};
use serde::Serialize;

use crate::args::RingArgs;
use crate::error::{Failure, MISSING_RING};
use crate::output::Output;
use crate::{clock, config};

/// A ring, and where it came from.
#[derive(Debug)]
pub(crate) struct FoundRing {
    pub(crate) ring: KeyRing,
    pub(crate) origin: Origin,
}

/// Finds and reads the ring of a reading command.
pub(crate) fn find(args: &RingArgs) -> Result<FoundRing, Failure> {
    find_by(args.keys.as_deref(), args.atd_mode)
}

/// Finds the ring, or makes one in the data directory, as a server does when it starts.
pub(crate) fn find_or_make(args: &RingArgs, output: Output) -> Result<FoundRing, Failure> {
    find_or_make_in(args, None, None, output)
}

/// The same, in a data directory that was named. None is made if the folder `sealed` in the data
/// directory exists, whose content needs the ring that was there.
pub(crate) fn find_or_make_in(
    args: &RingArgs,
    data: Option<&Path>,
    sealed: Option<&Path>,
    output: Output,
) -> Result<FoundRing, Failure> {
    match load(args.keys.as_deref(), None, args.atd_mode) {
        Ok(loaded) => return Ok(FoundRing { ring: loaded.ring, origin: loaded.origin }),
        Err(LoadRingError::NoSource) => {}
        Err(error) => return Err(error.into()),
    }
    let (path, folder) = match data {
        Some(folder) => (folder.join(KEY_FILE_NAME), folder.to_path_buf()),
        None => default_file()?,
    };
    let is_new = !path.exists();
    if is_new
        && let Some(sealed) = sealed.map(|sealed| folder.join(sealed)).filter(|it| it.exists())
    {
        let (path, sealed) = (path.display(), sealed.display());
        let error = format!("{path} is missing, and {sealed} cannot be read without it");
        return Err(Failure::new(error).hint(MISSING_RING));
    }
    let loaded = load(None, Some(&folder), Mode::Sealed)?;
    if is_new {
        output.note("note", &format!("made a key ring: {}", path.display()));
    }
    Ok(FoundRing { ring: loaded.ring, origin: loaded.origin })
}

/// Finds the key file of a changing command, and reads what it holds now.
pub(crate) fn find_file(keys: Option<&Path>) -> Result<(KeyFile, KeyRing), Failure> {
    let FoundRing { ring, origin } = find_by(keys, Mode::Sealed)?;
    match origin {
        Origin::KeyFile(path) => Ok((KeyFile::new(path), ring)),
        Origin::DataDirectory(folder) => Ok((KeyFile::new(folder.join(KEY_FILE_NAME)), ring)),
        Origin::KeysVariable => Err(held_by(KEYS_VARIABLE).hint(
            "change the key file that it was exported from (--keys FILE), then export that again",
        )),
        Origin::AtdVariable => Err(held_by(ATD_KEY_VARIABLE).hint(
            "a ring made from one secret cannot be rotated: keep what `handback keys export \
             --reveal-all-keys` prints as a key file (mode 0600), unset the variable, and rotate \
             that file",
        )),
        _ => Err(Failure::new("the ring in use is not in a key file")),
    }
}

/// Finds the ring as a server does that starts with an epoch of its own, but never makes one.
pub(crate) fn find_for_epoch(keys: Option<&Path>) -> Result<LoadedRing, Failure> {
    let found = find_by(keys, Mode::Sealed)?;
    let data_directory = match &found.origin {
        Origin::DataDirectory(folder) => Some(folder.as_path()),
        _ => None,
    };
    Ok(load(keys, data_directory, Mode::Sealed)?)
}

/// The default key file, and the directory that it is in.
pub(crate) fn default_file() -> Result<(PathBuf, PathBuf), Failure> {
    let folder = config::data_directory()?;
    Ok((folder.join(KEY_FILE_NAME), folder))
}

/// The variable that holds the ring in use, if one is set.
pub(crate) fn overriding_variable() -> Option<&'static str> {
    [KEYS_VARIABLE, ATD_KEY_VARIABLE].into_iter().find(|name| config::variable(name).is_some())
}

fn find_by(keys: Option<&Path>, atd_mode: Mode) -> Result<FoundRing, Failure> {
    match load(keys, None, atd_mode) {
        Ok(loaded) => Ok(FoundRing { ring: loaded.ring, origin: loaded.origin }),
        Err(LoadRingError::NoSource) => find_in_data_directory(),
        Err(error) => Err(error.into()),
    }
}

fn find_in_data_directory() -> Result<FoundRing, Failure> {
    let (path, folder) = default_file()?;
    match KeyFile::new(&path).load() {
        Ok(ring) => Ok(FoundRing { ring, origin: Origin::DataDirectory(folder) }),
        Err(KeyFileError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            Err(Failure::new(format!(
                "there is no key ring: no --keys, no {KEYS_VARIABLE}, no {ATD_KEY_VARIABLE}, and \
                 no file {}",
                path.display()
            ))
            .hint("`handback keys generate` makes one"))
        }
        Err(error) => Err(error.into()),
    }
}

fn load(
    key_file: Option<&Path>,
    data_directory: Option<&Path>,
    mode: Mode,
) -> Result<LoadedRing, LoadRingError> {
    let sources = Sources {
        key_file,
        environment: &config::variable,
        atd_key: AtdKeyUse::Ring,
        data_directory,
        mode,
    };
    LoadedRing::load(&sources, &mut rand::rng(), clock::now())
}

fn held_by(variable: &str) -> Failure {
    Failure::new(format!(
        "{variable} holds the ring in use: a change of a key file would not reach it"
    ))
}

/// Where a ring came from, as a member of answers.
#[derive(Debug, Serialize)]
pub(crate) struct OriginMember {
    kind: &'static str,
    file: Option<String>,
}

impl OriginMember {
    pub(crate) fn of(origin: &Origin) -> Self {
        let shown = |path: &Path| Some(path.display().to_string());
        let (kind, file) = match origin {
            Origin::KeyFile(path) => ("key_file", shown(path)),
            Origin::KeysVariable => ("handback_keys", None),
            Origin::AtdVariable => ("atd_cursor_signing_key", None),
            Origin::DataDirectory(folder) => ("data_directory", shown(&folder.join(KEY_FILE_NAME))),
            _ => ("other", None),
        };
        Self { kind, file }
    }

    /// For people.
    pub(crate) fn sentence(&self) -> String {
        match (self.kind, &self.file) {
            ("key_file", Some(file)) => format!("{file} (named by --keys)"),
            ("data_directory", Some(file)) => format!("{file} (in the data directory)"),
            ("handback_keys", _) => KEYS_VARIABLE.to_owned(),
            ("atd_cursor_signing_key", _) => ATD_KEY_VARIABLE.to_owned(),
            _ => "elsewhere".to_owned(),
        }
    }
}
