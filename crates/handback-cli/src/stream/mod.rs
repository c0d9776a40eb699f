//! `handback stream`: the client side of streams and duplexes.

mod append;
mod create;
mod input;
mod printed;
mod resume;
mod send;
mod server;
mod tail;
mod verify;

use clap::Subcommand;

use crate::error::Failure;
use crate::exit::Exit;
use crate::output::Output;

// The help of a command is the documentation of its arguments.
#[derive(Debug, Subcommand)]
pub(crate) enum StreamCommand {
    Create(create::CreateArgs),
    Append(append::AppendArgs),
    Tail(tail::TailArgs),
    Send(send::SendArgs),
    Resume(resume::ResumeArgs),
    Verify(verify::VerifyArgs),
}

pub(crate) fn run(command: StreamCommand, output: Output) -> Result<Exit, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| Failure::new(error).about("cannot start a runtime".to_owned()))?;
    let ran = runtime.block_on(async {
        match command {
            StreamCommand::Create(args) => create::run(&args, output).await,
            StreamCommand::Append(args) => append::run(&args, output).await,
            StreamCommand::Tail(args) => tail::run(&args, output).await,
            StreamCommand::Send(args) => send::run(&args, output).await,
            StreamCommand::Resume(args) => resume::run(&args, output).await,
            StreamCommand::Verify(args) => verify::run(&args, output).await,
        }
    });
    // Somebody may still be asked for input that does not come.
    runtime.shutdown_background();
    ran
}
