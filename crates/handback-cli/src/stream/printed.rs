//! Bytes and events on stdout.

use std::io::{self, Write as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

use crate::error::Failure;
use crate::output::Output;

/// Bytes as a member: text if they are, base64 otherwise.
#[derive(Serialize)]
pub(super) struct Data {
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
}

impl Data {
    pub(super) fn new(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self { data: Some(text.to_owned()), base64: None },
            Err(_) => Self { data: None, base64: Some(STANDARD.encode(bytes)) },
        }
    }
}

/// Writes bytes as they are to people, and a line with members to programs. False, if nobody reads any more.
pub(super) fn print(output: Output, bytes: &[u8], line: &impl Serialize) -> Result<bool, Failure> {
    let mut out = io::stdout().lock();
    let written = if output.is_for_people() {
        out.write_all(bytes)
    } else {
        serde_json::to_vec(line).map_err(io::Error::other).and_then(|mut text| {
            text.push(b'\n');
            out.write_all(&text)
        })
    };
    match written.and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::new(error).about("cannot write to stdout".to_owned())),
    }
}
