//! `handback keys generate`.

use clap::Args;
use handback_token::ring::file::KeyFile;
use handback_token::{KeyRing, Mode};

use super::change::{Action, Change};
use crate::args::{KeyFileArgs, modes};
use crate::error::Failure;
use crate::exit::Exit;
use crate::output::Output;
use crate::{clock, rings};

/// Make a key file with one random key
///
/// The file is for its owner only (mode 0600). An existing one is never overwritten: it may be the
/// only copy of its keys. The key itself is not printed.
#[derive(Debug, Args)]
#[command(after_long_help = "\
JSON members:
  action, file, ring, generation, fingerprint, slot, next (null)

Examples:
  handback keys generate
  handback keys generate --keys /etc/handback/keys.json
  handback keys generate --keys drill.json --mode signed")]
pub(crate) struct GenerateArgs {
    #[command(flatten)]
    file: KeyFileArgs,

    /// Whether tokens are encrypted (sealed) or readable by everybody (signed)
    #[arg(long, default_value = "sealed", value_parser = modes())]
    mode: Mode,
}

pub(super) fn run(args: &GenerateArgs, output: Output) -> Result<Exit, Failure> {
    let ring = KeyRing::generate(&mut rand::rng(), args.mode, clock::now());
    let path = match &args.file.keys {
        Some(path) => path.clone(),
        None => {
            let (path, _folder) = rings::default_file()?;
            KeyFile::new(&path).create_folder()?;
            path
        }
    };
    KeyFile::new(&path).create(&ring)?;
    Change::new(Action::Generated, &path, &ring, ring.active()).tell(output)?;
    if args.file.keys.is_none()
        && let Some(variable) = rings::overriding_variable()
    {
        output.note("note", &format!("{variable} is set, so this ring is not the one in use"));
    }
    Ok(Exit::OK)
}
