//! `handback config`, and the configuration that a command finds.
//!
//! Precedence is written in `handback_server::file`.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use handback_server::file::{DEFAULT_TEXT, FileError, Settings};
use serde::Serialize;

use crate::error::Failure;
use crate::exit::Exit;
use crate::output::Output;
use crate::{collections, config};

/// What the file is called in the data directory.
const FILE_NAME: &str = "handback.toml";

// The help of a command is the documentation of its arguments.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print a configuration file with every key, its meaning and its default
    Default,
    Check(CheckArgs),
}

/// Check a configuration file, and print what it comes to
///
/// What is printed has the environment and the built-in defaults in it, and no secrets. A key that is
/// not known is an error.
#[derive(Debug, Args)]
#[command(after_long_help = "\
JSON members:
  as in the file

Examples:
  handback config default > handback.toml
  handback config check handback.toml")]
pub(crate) struct CheckArgs {
    /// The file [default: HANDBACK_CONFIG, or handback.toml in the data directory]
    file: Option<PathBuf>,
}

pub(crate) fn run(command: ConfigCommand, output: Output) -> Result<Exit, Failure> {
    match command {
        ConfigCommand::Default => output.text(DEFAULT_TEXT)?,
        ConfigCommand::Check(args) => {
            let (settings, file) = find(args.file.as_deref(), None)?;
            check(&settings).map_err(|failure| within(failure, file.as_deref()))?;
            match &file {
                Some(file) => output.note("note", &format!("{} is well", file.display())),
                None => output.note("note", "there is no file: this is what is built in"),
            }
            output.answer(&Effective(settings))?;
        }
    }
    Ok(Exit::OK)
}

/// Finds the configuration: the file, with the environment over it.
pub(crate) fn find(
    named: Option<&Path>,
    data: Option<&Path>,
) -> Result<(Settings, Option<PathBuf>), Failure> {
    let variable = config::variable("HANDBACK_CONFIG").map(PathBuf::from);
    let (path, is_named) = match (named, variable) {
        (Some(path), _) => (Some(path.to_owned()), true),
        (None, Some(path)) => (Some(path), true),
        (None, None) => {
            let folder = data.map(Path::to_owned).or_else(|| config::data_directory().ok());
            (folder.map(|folder| folder.join(FILE_NAME)), false)
        }
    };
    let read = match path {
        Some(path) => match fs::read_to_string(&path) {
            Ok(text) => Some((path, text)),
            Err(error) if !is_named && error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                let what = format!("cannot read {}", path.display());
                let hint = "`handback config default` prints a file to start from";
                return Err(Failure::new(error).about(what).hint(hint));
            }
        },
        None => None,
    };
    let (mut settings, file) = match read {
        None => (Settings::default(), None),
        Some((path, text)) => {
            let settings = Settings::parse(&text, folder_of(&path))
                .map_err(|error| within(error.into(), Some(&path)))?;
            (settings, Some(path))
        }
    };
    if let Some(listen) = config::listen()? {
        settings.listen = listen;
    }
    if !settings.memory && config::variable("HANDBACK_DATA").is_some() {
        settings.data = Some(config::data_directory()?);
    }
    Ok((settings, file))
}

/// Checks what the types do not.
pub(crate) fn check(settings: &Settings) -> Result<(), Failure> {
    settings.check()?;
    for (name, source) in &settings.collections {
        collections::check(name, source.as_str()).map_err(|why| {
            Failure::new(why).about(format!("the collection '{name}' cannot be read"))
        })?;
    }
    Ok(())
}

fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or_else(|| Path::new(""))
}

fn within(failure: Failure, file: Option<&Path>) -> Failure {
    match file {
        Some(file) => failure.about(format!("{} cannot be used", file.display())),
        None => failure,
    }
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Self {
        let hint = error.hint();
        let failure = Self::new(error);
        match hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}

/// What a configuration comes to.
#[derive(Serialize)]
#[serde(transparent)]
struct Effective(Settings);

impl fmt::Display for Effective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = toml::to_string(&self.0).map_err(|_| fmt::Error)?;
        f.write_str(&text)
    }
}
