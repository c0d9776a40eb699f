//! Folders that go away with their owner.

use std::path::{Path, PathBuf};
use std::{env, fs, io, process};

/// A new, empty folder that is removed on drop.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// Makes the folder; `label` only has to be unique within this process.
    pub(crate) fn new(label: &str) -> io::Result<Self> {
        let dir = env::temp_dir().join(format!("handback-xtask-{}-{label}", process::id()));
        if dir.exists() {
            fs::remove_dir_all(&dir)?;
        }
        fs::create_dir_all(&dir)?;
        Ok(Self(dir))
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Nothing can be done about a folder that will not go.
        let _ = fs::remove_dir_all(&self.0);
    }
}
