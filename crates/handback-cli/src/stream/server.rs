//! Which server, and what its errors mean to people.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use handback_client::duplex::{Blame, DuplexError, DuplexOptions};
use handback_client::streams::{Streams, StreamsError};
use handback_stream::StreamKey;
use zeroize::Zeroizing;

use crate::bearer::BearerArgs;
use crate::config;
use crate::error::Failure;
use crate::exit::Exit;

/// Which server is asked.
#[derive(Clone, Debug, Args)]
pub(super) struct ServerArgs {
    /// The server: http://HOST:PORT, or https://HOST
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8420")]
    pub(super) url: String,

    #[command(flatten)]
    pub(super) bearer: BearerArgs,
}

/// The key of a stream.
#[derive(Clone, Debug, Args)]
pub(super) struct StreamKeyArgs {
    /// A file with the key of the stream: 32 bytes in base64url without padding
    #[arg(long, value_name = "FILE")]
    stream_key_file: Option<PathBuf>,
}

impl ServerArgs {
    pub(super) fn streams(&self) -> Result<Streams, Failure> {
        let streams = Streams::new(&self.url).map_err(streams_failure)?;
        Ok(match self.bearer.token()? {
            Some(token) => streams.bearer(&token),
            None => streams,
        })
    }

    /// A duplex at this server.
    pub(super) fn duplex(&self) -> Result<DuplexOptions, Failure> {
        let options = DuplexOptions::new(&self.url);
        Ok(match self.bearer.token()? {
            Some(token) => options.bearer(token),
            None => options,
        })
    }
}

impl StreamKeyArgs {
    pub(super) fn key(&self) -> Result<Option<StreamKey>, Failure> {
        let Some(path) = &self.stream_key_file else { return Ok(None) };
        let about = |error: Failure| error.about(format!("cannot read {}", path.display()));
        let text = fs::read_to_string(path).map(Zeroizing::new);
        let text = text.map_err(|error| about(Failure::new(error)))?;
        StreamKey::parse(text.trim_end()).map(Some).map_err(|error| {
            about(Failure::new(error))
                .hint("make one: openssl rand 32 | basenc --base64url -w0 | tr -d =")
        })
    }
}

/// Where the state of duplexes is kept.
pub(super) fn state_directory() -> Result<PathBuf, Failure> {
    Ok(config::data_directory()?.join(Path::new("client")))
}

pub(super) fn streams_failure(error: StreamsError) -> Failure {
    if error.is_about_proofs() {
        return Failure::of(Exit::UNPROVED, error)
            .hint("do not trust what was read; compare with what others kept");
    }
    let hint = match &error {
        StreamsError::Http(_) => Some("is the server running? `handback serve` starts one"),
        StreamsError::Refused { status: 401, .. } => Some(NO_CREDENTIAL),
        StreamsError::Refused { status: 404, .. } => {
            Some("`handback stream create PATH` makes a stream")
        }
        StreamsError::Refused { status: 403, code, .. } if code == "KEY" => {
            Some("--stream-key-file names the file with the stream's key")
        }
        StreamsError::Refused { status: 503, .. } => {
            Some("the server takes no writes at the moment; try again later")
        }
        StreamsError::Fenced { .. } => Some("another producer took over; start a later epoch"),
        _ => None,
    };
    match hint {
        Some(hint) => Failure::new(error).hint(hint),
        None => Failure::new(error),
    }
}

const NO_CREDENTIAL: &str = "--token-file names the file with your bearer token";

pub(super) fn duplex_failure(error: DuplexError) -> Failure {
    let hint = match &error {
        DuplexError::Status { status: 401, .. } => NO_CREDENTIAL,
        DuplexError::Owned => "another `handback stream send` or `resume` has it",
        DuplexError::Expired | DuplexError::Invalid => {
            "it cannot be resumed; under another --key all of it is sent again"
        }
        DuplexError::Cut(_) | DuplexError::Unreachable(_) => {
            "nothing is lost: `handback stream resume` goes on"
        }
        DuplexError::State(_) => "what is kept is in the folder `client` of the data directory",
        _ => "",
    };
    let failure = match error.blame() {
        Blame::Server => Failure::of(Exit::UNPROVED, error),
        _ => Failure::new(error),
    };
    if hint.is_empty() { failure } else { failure.hint(hint) }
}
