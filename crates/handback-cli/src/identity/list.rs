//! `handback identity list`.

use std::fmt;

use clap::Args;
use handback_identity::roster::Entry;
use handback_token::UnixTime;
use serde::Serialize;

use super::IdentityFileArgs;
use super::file::IdentityFile;
use crate::error::Failure;
use crate::exit::Exit;
use crate::output::Output;
use crate::text;

/// Show who has tokens in a file of identities
#[derive(Debug, Args)]
#[command(after_long_help = "\
JSON members:
  file; identities: digest (its first digits), subject, scopes, expires_at")]
pub(crate) struct ListArgs {
    #[command(flatten)]
    file: IdentityFileArgs,
}

#[derive(Serialize)]
struct Listed {
    file: String,
    identities: Vec<Line>,
}

#[derive(Serialize)]
struct Line {
    digest: String,
    subject: String,
    scopes: Vec<String>,
    expires_at: Option<String>,
}

pub(super) fn run(args: &ListArgs, output: Output) -> Result<Exit, Failure> {
    let path = args.file.path()?;
    let roster = IdentityFile::open(&path, false)?.roster()?;
    let identities = roster.entries().iter().map(Line::of).collect();
    output.answer(&Listed { file: path.display().to_string(), identities })?;
    Ok(Exit::OK)
}

impl Line {
    fn of(entry: &Entry) -> Self {
        Self {
            digest: entry.short_digest(),
            subject: entry.name().to_owned(),
            scopes: entry.scopes().iter().map(str::to_owned).collect(),
            expires_at: entry.expires_at().map(|at| text::rfc3339(UnixTime::from_secs(at))),
        }
    }
}

impl fmt::Display for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.identities.is_empty() {
            return write!(f, "Nobody has a token in {}.", self.file);
        }
        for line in &self.identities {
            let until = line.expires_at.as_deref().unwrap_or("-");
            let scopes = line.scopes.join(" ");
            writeln!(f, "{}  {until:20}  {}  {scopes}", line.digest, line.subject)?;
        }
        Ok(())
    }
}
