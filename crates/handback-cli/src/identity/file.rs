//! The file of identities, as commands change it: whole, or not at all.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use handback_identity::Roster;
use handback_identity::roster::FIRST_LINE;

use crate::error::Failure;

/// What a new file starts with.
const HEAD: &str = "# Made by `handback identity add`: digest of the token, when it ends (or -), \
                    subject, scopes.\n";

/// A file of identities that nobody else changes meanwhile.
#[derive(Debug)]
pub(super) struct IdentityFile {
    path: PathBuf,
    text: String,
    _lock: File,
}

impl IdentityFile {
    /// Locks and reads a file; if it is not there, and may be new, it is as if it were empty.
    pub(super) fn open(path: &Path, may_be_new: bool) -> Result<Self, Failure> {
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        if may_be_new {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
            made.map_err(|error| cannot("make", folder, error))?;
        }
        let lock = File::open(folder).map_err(|error| cannot("open", folder, error))?;
        lock.lock().map_err(|error| cannot("lock", folder, error))?;
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if may_be_new && error.kind() == io::ErrorKind::NotFound => {
                format!("{FIRST_LINE}\n{HEAD}")
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(cannot("read", path, error).hint("`handback identity add` makes one"));
            }
            Err(error) => return Err(cannot("read", path, error)),
        };
        parse(&text, path)?;
        Ok(Self { path: path.to_owned(), text, _lock: lock })
    }

    /// What is in it.
    pub(super) fn roster(&self) -> Result<Roster, Failure> {
        parse(&self.text, &self.path)
    }

    /// Adds a line.
    pub(super) fn add(mut self, line: &str) -> Result<(), Failure> {
        if !self.text.ends_with('\n') {
            self.text.push('\n');
        }
        self.text.push_str(line);
        self.text.push('\n');
        self.write()
    }

    /// Keeps only the lines that are wanted.
    pub(super) fn retain(mut self, mut is_wanted: impl FnMut(&str) -> bool) -> Result<(), Failure> {
        let kept = self.text.lines().filter(|line| is_wanted(line)).map(|line| format!("{line}\n"));
        self.text = kept.collect();
        self.write()
    }

    fn write(&self) -> Result<(), Failure> {
        // What cannot be read back is not written.
        parse(&self.text, &self.path)?;
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(".new");
        let new = self.path.with_file_name(name);
        let written = (|| {
            let _ = fs::remove_file(&new);
            let mut file = File::options().write(true).create_new(true).mode(0o600).open(&new)?;
            file.write_all(self.text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&new, &self.path)
        })();
        written.map_err(|error| cannot("write", &self.path, error))
    }
}

fn parse(text: &str, path: &Path) -> Result<Roster, Failure> {
    // Whose server it is does not matter here.
    Roster::parse(text.as_bytes(), "cli").map_err(|error| {
        Failure::new(error).about(format!("{} is not a file of identities", path.display()))
    })
}

fn cannot(verb: &str, path: &Path, error: io::Error) -> Failure {
    Failure::new(error).about(format!("cannot {verb} {}", path.display()))
}
