//! `handback identity`: bearer tokens of a server in mode static.

mod add;
mod file;
mod list;
mod remove;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::config;
use crate::error::Failure;
use crate::exit::Exit;
use crate::output::Output;

// The help of a command is the documentation of its arguments.
#[derive(Debug, Subcommand)]
pub(crate) enum IdentityCommand {
    Add(add::AddArgs),
    List(list::ListArgs),
    Remove(remove::RemoveArgs),
}

pub(crate) fn run(command: IdentityCommand, output: Output) -> Result<Exit, Failure> {
    match command {
        IdentityCommand::Add(args) => add::run(&args, output),
        IdentityCommand::List(args) => list::run(&args, output),
        IdentityCommand::Remove(args) => remove::run(&args, output),
    }
}

/// Which file of identities a command works on.
#[derive(Clone, Debug, Args)]
struct IdentityFileArgs {
    /// The file of identities [default: identities in the data directory]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

impl IdentityFileArgs {
    fn path(&self) -> Result<PathBuf, Failure> {
        match &self.file {
            Some(path) => Ok(path.clone()),
            None => Ok(config::data_directory()?.join("identities")),
        }
    }
}
