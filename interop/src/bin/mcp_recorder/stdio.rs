//! Messages are lines of standard streams.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::record::{From, Record};

/// How long a server may go on after its input has ended. Clients wait longer.
const END_MAX: Duration = Duration::from_millis(1500);

const POLL: Duration = Duration::from_millis(10);

/// Starts the server and passes lines on until it has ended.
pub(crate) fn run(record: Record, program: &str, args: &[&str]) -> Result<ExitCode> {
    let mut server = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("failed to start {program}"))?;
    let (input, output) = (server.stdin.take(), server.stdout.take());
    let input = input.context("the server has no input")?;
    let output = output.context("the server has no output")?;
    let to_server = record.clone();
    let reader = thread::spawn(move || pass(io::stdin().lock(), input, &to_server, From::Client));
    let writer = thread::spawn(move || {
        pass(BufReader::new(output), io::stdout().lock(), &record, From::Server)
    });
    while !writer.is_finished() && !reader.is_finished() {
        thread::sleep(POLL);
    }
    end(&mut server)?;
    // What it still said is passed on; a client that has not ended its input is not waited for.
    writer.join().map_err(|_| anyhow::anyhow!("a thread panicked"))??;
    let code = server.wait()?.code().and_then(|code| u8::try_from(code).ok());
    Ok(ExitCode::from(code.unwrap_or(1)))
}

/// Waits for a server whose input has ended, and then does not wait any more.
fn end(server: &mut Child) -> Result<()> {
    let deadline = Instant::now() + END_MAX;
    while server.try_wait()?.is_none() {
        if Instant::now() >= deadline {
            server.kill()?;
            return Ok(());
        }
        thread::sleep(POLL);
    }
    Ok(())
}

fn pass(mut from: impl BufRead, mut to: impl Write, record: &Record, who: From) -> Result<()> {
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line).context("failed to read")? > 0 {
        record.write(who, &line)?;
        // Whoever is gone does not miss it.
        if to.write_all(&line).and_then(|()| to.flush()).is_err() {
            break;
        }
        line.clear();
    }
    Ok(())
}
