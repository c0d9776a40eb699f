//! Arguments, from wherever they are.

use std::fs::File;
use std::io::{self, Read};

use handback_client::tools::{Arguments, MAX_ARGUMENTS_BYTES};

use crate::error::Failure;

/// Arguments as JSON, of a file (`@FILE`) or of stdin (`-`).
pub(super) fn arguments(text: &str) -> Result<Arguments, Failure> {
    let read = match (text, text.strip_prefix('@')) {
        ("-", _) => bounded(io::stdin().lock()),
        (_, Some(path)) => File::open(path).and_then(bounded),
        (text, None) => return parsed(text, "the arguments are not right"),
    };
    let place = text.trim_start_matches('@');
    let read = read.map_err(|error| Failure::new(error).about(format!("cannot read {place}")))?;
    parsed(&read, &format!("{place} holds no arguments"))
}

fn parsed(text: &str, what: &str) -> Result<Arguments, Failure> {
    Arguments::parse(text.trim()).map_err(|error| Failure::usage(error).about(what.to_owned()))
}

/// One byte more than there may be is enough to see that it is too much.
fn bounded(from: impl Read) -> io::Result<String> {
    let mut text = String::new();
    from.take(MAX_ARGUMENTS_BYTES as u64 + 1).read_to_string(&mut text)?;
    Ok(text)
}
