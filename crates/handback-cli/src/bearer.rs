//! Who asks a server: a bearer token, from a file or from the environment.

use std::fs;
use std::path::PathBuf;

use clap::Args;
use handback_client::BearerToken;
use zeroize::Zeroizing;

use crate::config::{self, TOKEN_VARIABLE};
use crate::error::Failure;

/// Who asks.
#[derive(Clone, Debug, Args)]
pub(crate) struct BearerArgs {
    /// A file with the bearer token to show to the server [default: HANDBACK_TOKEN]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

impl BearerArgs {
    pub(crate) fn token(&self) -> Result<Option<BearerToken>, Failure> {
        let (text, place) = match &self.token_file {
            Some(path) => {
                let place = path.display().to_string();
                let read = fs::read_to_string(path).map(Zeroizing::new);
                let read = read
                    .map_err(|error| Failure::new(error).about(format!("cannot read {place}")))?;
                (read, place)
            }
            None => match config::variable(TOKEN_VARIABLE) {
                Some(value) => {
                    let text = value.into_string().unwrap_or_default();
                    (Zeroizing::new(text), TOKEN_VARIABLE.to_owned())
                }
                None => return Ok(None),
            },
        };
        BearerToken::parse(text.trim()).map(Some).map_err(|error| {
            Failure::new(error)
                .about(format!("{place} holds no bearer token"))
                .hint("`handback identity add` prints one")
        })
    }
}
