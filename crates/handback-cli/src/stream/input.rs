//! What a command reads: a file, or stdin.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use bytes::Bytes;

use crate::error::Failure;

/// Opens a file, or stdin for `-`.
pub(super) fn open(path: &Path) -> Result<Box<dyn BufRead + Send>, Failure> {
    if path == Path::new("-") {
        return Ok(Box::new(BufReader::new(io::stdin())));
    }
    let opened = File::open(path).map_err(|error| unread(path, error))?;
    Ok(Box::new(BufReader::new(opened)))
}

/// All of a file, up to a bound.
pub(super) fn whole(path: &Path, bytes_max: usize) -> Result<Bytes, Failure> {
    let mut bytes = Vec::new();
    let limit = bytes_max as u64 + 1;
    open(path)?.take(limit).read_to_end(&mut bytes).map_err(|error| unread(path, error))?;
    if bytes.len() > bytes_max {
        return Err(Failure::new(format!("more than {bytes_max} bytes"))
            .about(format!("cannot append {}", path.display()))
            .hint("append it in parts, or use `handback stream send`"));
    }
    Ok(bytes.into())
}

pub(super) fn unread(path: &Path, error: io::Error) -> Failure {
    Failure::new(error).about(format!("cannot read {}", path.display()))
}

/// How input becomes chunks.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cut {
    /// Lines, with what ends them; longer ones in pieces.
    Lines,
    /// Pieces of so many bytes.
    Pieces(usize),
}

/// Input in chunks.
pub(super) struct Chunks {
    pub(super) input: Box<dyn BufRead + Send>,
    pub(super) path: PathBuf,
    pub(super) cut: Cut,
    pub(super) bytes_max: usize,
}

impl Chunks {
    /// The next chunk; nothing at the end.
    pub(super) fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        let mut bytes = Vec::new();
        let read = match self.cut {
            Cut::Lines => {
                self.input.by_ref().take(self.bytes_max as u64).read_until(b'\n', &mut bytes)
            }
            Cut::Pieces(size) => self.input.by_ref().take(size as u64).read_to_end(&mut bytes),
        };
        read.map_err(|error| unread(&self.path, error))?;
        Ok((!bytes.is_empty()).then(|| bytes.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(cut: Cut, expected: &[&str]) {
        let text = "one\n\nthree is long\nno end";
        let input = Box::new(text.as_bytes());
        let mut chunks = Chunks { input, path: "x".into(), cut, bytes_max: 8 };
        let mut found = Vec::new();
        while let Some(chunk) = chunks.next().unwrap() {
            found.push(String::from_utf8(chunk.to_vec()).unwrap());
        }
        assert_eq!(found, expected);
        assert_eq!(found.concat(), text);
    }

    #[test]
    fn chunks_are_the_input_whatever_they_are() {
        check(Cut::Lines, &["one\n", "\n", "three is", " long\n", "no end"]);
        check(Cut::Pieces(10), &["one\n\nthree", " is long\nn", "o end"]);
    }
}
