//! `handback token`: what tokens show, what is in them, and tokens for drills.

mod call;
mod inspect;
mod open;
mod presented;
mod refused;
mod seal;

use clap::Subcommand;

use crate::error::Failure;
use crate::exit::Exit;
use crate::output::Output;

// The help of a command is the documentation of its arguments.
#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    Inspect(inspect::InspectArgs),
    Open(Box<open::OpenArgs>),
    Seal(Box<seal::SealArgs>),
}

pub(crate) fn run(command: TokenCommand, output: Output) -> Result<Exit, Failure> {
    match command {
        TokenCommand::Inspect(args) => inspect::run(&args, output),
        TokenCommand::Open(args) => open::run(&args, output),
        TokenCommand::Seal(args) => seal::run(&args, output),
    }
}
