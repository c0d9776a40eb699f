//! The file that messages are written to.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, ensure};

/// Who sent a message.
#[derive(Clone, Copy, Debug)]
pub(crate) enum From {
    Client,
    Server,
}

/// What is written down; its clones write to the same file.
#[derive(Clone, Debug)]
pub(crate) struct Record(Arc<Mutex<File>>);

impl Record {
    /// Goes on with a file, or makes it.
    pub(crate) fn open(path: &str) -> Result<Self> {
        let file = OpenOptions::new().append(true).create(true).open(path);
        let file = file.with_context(|| format!("failed to open {path}"))?;
        Ok(Self(Arc::new(Mutex::new(file))))
    }

    /// Writes a message, before it is passed on: nobody can have got what is not here.
    pub(crate) fn write(&self, from: From, message: &[u8]) -> Result<()> {
        let message = message.trim_ascii_end();
        if message.is_empty() {
            return Ok(());
        }
        ensure!(!message.contains(&b'\n'), "a message has several lines");
        let sign = match from {
            From::Client => '>',
            From::Server => '<',
        };
        let begin = format!("{}{sign} ", std::process::id());
        let line = [begin.as_bytes(), message, b"\n"].concat();
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(&line).context("failed to write a message down")
    }
}
