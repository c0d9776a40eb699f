//! `handback identity add`.

use std::fmt;

use clap::Args;
use handback_identity::roster::{Entry, NewToken};
use handback_token::UnixTime;
use serde::Serialize;

use super::IdentityFileArgs;
use super::file::IdentityFile;
use crate::error::Failure;
use crate::exit::Exit;
use crate::output::Output;
use crate::text;

/// Make a bearer token for somebody, and add it to a file of identities
///
/// The token is printed once. In the file is its SHA-256 only, so it cannot be shown again. A server
/// that uses the file notices within seconds. The file is for its owner only (mode 0600).
#[derive(Debug, Args)]
#[command(after_long_help = "\
JSON members:
  token, subject, scopes, expires_at (null if it does not), file

Examples:
  handback identity add --subject alice --scope read --scope write
  handback identity add --subject ci --expires 2027-01-01T00:00:00Z --file /etc/handback/identities")]
pub(crate) struct AddArgs {
    #[command(flatten)]
    file: IdentityFileArgs,

    /// Whose token it is; a subject may have several
    #[arg(long, value_name = "NAME")]
    subject: String,

    /// A scope that it grants; may be repeated
    #[arg(long = "scope", value_name = "SCOPE")]
    scopes: Vec<String>,

    /// When it ends: a time, or seconds since 1970 [default: never]
    #[arg(long, value_name = "TIME", value_parser = text::parse_time)]
    expires: Option<UnixTime>,
}

#[derive(Serialize)]
struct Added<'a> {
    token: &'a str,
    subject: &'a str,
    scopes: Vec<&'a str>,
    expires_at: Option<String>,
    file: String,
}

pub(super) fn run(args: &AddArgs, output: Output) -> Result<Exit, Failure> {
    let path = args.file.path()?;
    let token = NewToken::generate(&mut rand::rng());
    let expires_at = args.expires.map(UnixTime::as_secs);
    let entry = Entry::new(&token, &args.subject, &args.scopes, expires_at)
        .map_err(|error| Failure::usage(error).about("there can be no such entry".to_owned()))?;
    IdentityFile::open(&path, true)?.add(&entry.to_string())?;
    let added = Added {
        token: token.dangerous_text(),
        subject: entry.name(),
        scopes: entry.scopes().iter().collect(),
        expires_at: args.expires.map(text::rfc3339),
        file: path.display().to_string(),
    };
    output.answer(&added)?;
    output.note("token", &added.about());
    Ok(Exit::OK)
}

impl Added<'_> {
    fn about(&self) -> String {
        let Self { subject, file, .. } = self;
        let scopes = if self.scopes.is_empty() { "none".to_owned() } else { self.scopes.join(" ") };
        let until = self.expires_at.as_deref().unwrap_or("it is removed");
        format!(
            "of {subject}, not shown again; scopes: {scopes}; good until {until}; its digest is in \
             {file}. Callers send it so: Authorization: Bearer TOKEN"
        )
    }
}

/// The token alone: stdout may be the file of a client.
impl fmt::Display for Added<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.token)
    }
}
