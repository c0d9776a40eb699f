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
    /// Whether it was said on the command line.
    pub(crate) const fn is_given(&self) -> bool {
        self.token_file.is_some()
    }

    pub(crate) fn token(&self) -> Result<Option<BearerToken>, Failure> {
        Ok(self.read()?.map(|(_, token)| token))
    }

    /// The header that shows it, by its name and value.
    pub(crate) fn header(&self) -> Result<Option<(String, String)>, Failure> {
        let header = |text: &str| ("authorization".to_owned(), format!("Bearer {text}"));
        Ok(self.read()?.map(|(text, _)| header(text.trim())))
    }

    fn read(&self) -> Result<Option<(Zeroizing<String>, BearerToken)>, Failure> {
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
        match BearerToken::parse(text.trim()) {
            Ok(token) => Ok(Some((text, token))),
            Err(error) => Err(Failure::new(error)
                .about(format!("{place} holds no bearer token"))
                .hint("`handback identity add` prints one")),
        }
    }
}
