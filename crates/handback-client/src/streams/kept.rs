//! The head that a reader keeps, so that a rollback shows.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;

use handback_stream::{Head, StreamId};
use serde::{Deserialize, Serialize};

use super::StreamsError;

/// Bytes of the file at most.
const FILE_BYTES_MAX: u64 = 4096;

/// How far a stream was proved, and what its head was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "there is nothing else to a place")]
pub struct KeptHead {
    /// Which stream.
    pub stream: StreamId,
    /// Its last record that was proved.
    pub number: u64,
    /// The head behind it.
    pub head: Head,
}

#[derive(Serialize, Deserialize)]
struct Wire {
    stream: String,
    number: u64,
    head: String,
}

impl KeptHead {
    /// What a file holds; nothing, if there is none.
    ///
    /// # Errors
    ///
    /// [`StreamsError`] if it cannot be read, or holds something else.
    pub fn load(path: &Path) -> Result<Option<Self>, StreamsError> {
        let failed =
            |source| StreamsError::File { path: path.to_owned(), source: Arc::new(source) };
        let none = || StreamsError::NoHead(path.to_owned());
        match fs::metadata(path) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(None),
            Ok(file) if file.len() > FILE_BYTES_MAX => return Err(none()),
            file => file.map_err(failed)?,
        };
        let bytes = fs::read(path).map_err(failed)?;
        let wire: Wire = serde_json::from_slice(&bytes).map_err(|_| none())?;
        Ok(Some(Self {
            stream: wire.stream.parse().map_err(|_| none())?,
            number: wire.number,
            head: wire.head.parse().map_err(|_| none())?,
        }))
    }

    /// Keeps it in a file, which is the old one or the new one after a crash.
    ///
    /// # Errors
    ///
    /// [`StreamsError::File`] if it cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), StreamsError> {
        let failed =
            |source| StreamsError::File { path: path.to_owned(), source: Arc::new(source) };
        let (stream, head) = (self.stream.to_string(), self.head.to_string());
        let text = serde_json::to_string(&Wire { stream, number: self.number, head });
        let mut name = path.as_os_str().to_owned();
        name.push(".new");
        let next = Path::new(&name);
        let written = || {
            let mut file = File::create(next)?;
            file.write_all(text.map_err(io::Error::other)?.as_bytes())?;
            file.write_all(b"\n")?;
            file.sync_all()?;
            fs::rename(next, path)
        };
        written().map_err(failed)
    }
}
