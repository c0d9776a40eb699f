//! Stands between a client and a server of MCP, passes everything on as it is, and writes down every
//! message, to the byte.
//!
//! ```text
//! mcp-recorder FILE -- COMMAND ARGUMENT…    standard streams, of a server that it starts
//! mcp-recorder FILE ADDRESS URL             HTTP at an address, for the server at a URL
//! ```
//!
//! A line of FILE is a message: the number of the recorder's process, then `> ` and what the client
//! sent, or `< ` and what the server sent. Recorders of servers that are started again go on with the
//! same file.

mod http;
mod record;
mod stdio;

use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use crate::record::Record;

fn main() -> Result<ExitCode> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        [file, "--", program, args @ ..] => stdio::run(Record::open(file)?, program, args),
        [file, address, url] => {
            let address = address.parse().context("there is no such address")?;
            http::serve(Record::open(file)?, address, url)?;
            Ok(ExitCode::SUCCESS)
        }
        _ => bail!("usage: mcp-recorder FILE -- COMMAND ARGUMENT… | FILE ADDRESS URL"),
    }
}
