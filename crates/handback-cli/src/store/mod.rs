//! `handback store`: the files of a server that is not running.

mod check;

use clap::Subcommand;

use crate::error::Failure;
use crate::exit::Exit;
use crate::output::Output;

// The help of a command is the documentation of its arguments.
#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    Check(check::CheckArgs),
}

pub(crate) fn run(command: &StoreCommand, output: Output) -> Result<Exit, Failure> {
    match command {
        StoreCommand::Check(args) => check::run(args, output),
    }
}
