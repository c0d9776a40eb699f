//! The `handback` command: keys of continuation tokens, tokens, and pages of collections.
//!
//! Arguments come in, the library is called, text or JSON goes out, and the exit code says how it
//! went. Precedence is flag over environment over data directory: `config.rs` finds the data
//! directory, `rings.rs` the key ring.

mod args;
mod bearer;
mod call;
mod clock;
mod collections;
mod config;
mod config_file;
mod error;
mod exit;
mod identity;
mod keys;
mod output;
mod query;
mod rings;
mod serve;
mod store;
mod stream;
mod text;
mod token;
mod wrap;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser as _;

use args::{Cli, Command};
use error::Failure;
use exit::Exit;
use output::{Format, Output};

/// Requests make many small things that live briefly; this is faster at them than the system's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let exit = match Cli::try_parse() {
        Err(error) => Output::new(format_asked_for(std::env::args_os())).clap(&error),
        Ok(cli) => {
            let output = Output::new(cli.output);
            run(cli.command, output).unwrap_or_else(|failure| output.failure(&failure))
        }
    };
    exit.into()
}

fn run(command: Command, output: Output) -> Result<Exit, Failure> {
    match command {
        Command::Keys(command) => keys::run(command, output),
        Command::Token(command) => token::run(command, output),
        Command::Store(command) => store::run(&command, output),
        Command::Stream(command) => stream::run(command, output),
        Command::Identity(command) => identity::run(command, output),
        Command::Config(command) => config_file::run(command, output),
        Command::Call(args) => call::run(&args, output),
        Command::Serve(args) => serve::run(&args, output),
        Command::Wrap(args) => wrap::run(&args, output),
        Command::Query(args) => query::run(&args, output),
        Command::Collections(args) => collections::run(&args, output),
    }
}

/// The output format of a command line that does not parse.
fn format_asked_for(arguments: impl Iterator<Item = OsString>) -> Format {
    let words: Vec<OsString> = arguments.collect();
    let is_json = words.iter().any(|word| word == "--output=json")
        || words.windows(2).any(|pair| pair == ["--output", "json"]);
    if is_json { Format::Json } else { Format::Text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory as _;
        Cli::command().debug_assert();
    }

    #[test]
    fn the_format_is_found_in_a_command_line_that_does_not_parse() {
        let format = |line: &str| format_asked_for(line.split(' ').map(OsString::from));
        assert_eq!(format("handback --output json nonsense"), Format::Json);
        assert_eq!(format("handback nonsense --output=json"), Format::Json);
        assert_eq!(format("handback nonsense --output text json"), Format::Text);
    }
}
