//! `handback keys`: the ring and its slots.

mod change;
mod export;
mod generate;
mod list;
mod retire;
mod rotate;

use clap::Subcommand;

use crate::error::Failure;
use crate::exit::Exit;
use crate::output::Output;

// The help of a command is the documentation of its arguments.
#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    Generate(generate::GenerateArgs),
    List(list::ListArgs),
    Rotate(rotate::RotateArgs),
    Retire(retire::RetireArgs),
    Export(export::ExportArgs),
}

pub(crate) fn run(command: KeysCommand, output: Output) -> Result<Exit, Failure> {
    match command {
        KeysCommand::Generate(args) => generate::run(&args, output),
        KeysCommand::List(args) => list::run(&args, output),
        KeysCommand::Rotate(args) => rotate::run(&args, output),
        KeysCommand::Retire(args) => retire::run(&args, output),
        KeysCommand::Export(args) => export::run(&args, output),
    }
}
