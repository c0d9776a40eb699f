//! What is written, and where: stdout carries data, stderr everything else.
//!
//! A reader that goes away early (`handback keys list | head -1`) is no failure: the command has
//! done its work by then, and its exit code is that of the work.

use std::fmt::Display;
use std::io::{self, Write};

use clap::ValueEnum;
use serde::Serialize;

use crate::error::Failure;
use crate::exit::Exit;
use crate::text;

/// How answers and errors are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    #[default]
    Text,
    /// One line of JSON; the names of its members are stable.
    Json,
}

/// Where a command's answer goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    format: Format,
}

impl Output {
    pub(crate) const fn new(format: Format) -> Self {
        Self { format }
    }

    /// Writes the answer to stdout: its `Display` for people, its members for programs.
    pub(crate) fn answer<T: Display + Serialize>(self, answer: &T) -> Result<(), Failure> {
        let mut text = match self.format {
            Format::Text => answer.to_string(),
            Format::Json => json(answer),
        };
        if !text.ends_with('\n') {
            text.push('\n');
        }
        write(anstream::stdout().lock(), &text)
            .map_err(|error| Failure::new(Unwritten(error)).hint("the command itself was done"))
    }

    /// Writes text that is the answer in every format to stdout.
    pub(crate) fn text(self, text: &str) -> Result<(), Failure> {
        let text = if text.ends_with('\n') { text.to_owned() } else { format!("{text}\n") };
        write(io::stdout().lock(), &text).map_err(|error| Failure::new(Unwritten(error)))
    }

    /// Whether a person may be watching.
    pub(crate) fn is_for_people(self) -> bool {
        self.format == Format::Text
    }

    /// Writes a line for people to stderr. Programs find the same in the answer's members.
    pub(crate) fn note(self, label: &str, note: &str) {
        if self.format == Format::Text {
            // Whoever closed stderr does not want to know.
            let _ = write(anstream::stderr().lock(), &format!("{BOLD}{label}:{RESET} {note}\n"));
        }
    }

    /// Writes what went wrong to stderr.
    pub(crate) fn failure(self, failure: &Failure) -> Exit {
        let (error, causes, hint) = (failure.message(), failure.causes(), failure.hint_text());
        let text = match self.format {
            Format::Json => json(&FailureMembers { error, causes, hint }) + "\n",
            Format::Text => {
                let mut text = format!("{RED}error:{RESET} {error}\n");
                text.extend(causes.iter().map(|cause| format!("  caused by: {cause}\n")));
                text.extend(hint.map(|hint| format!("\n{CYAN}hint:{RESET} {hint}\n")));
                text
            }
        };
        let _ = write(anstream::stderr().lock(), &text);
        failure.exit()
    }

    /// Writes a command line that clap refused, or the help that was asked for.
    pub(crate) fn clap(self, error: &clap::Error) -> Exit {
        if !error.use_stderr() {
            let _ = error.print();
            return Exit::OK;
        }
        match self.format {
            Format::Text => {
                let _ = error.print();
                Exit::USAGE
            }
            Format::Json => self.failure(&usage_failure(&error.render().to_string())),
        }
    }
}

/// Members of an error in JSON.
#[derive(Serialize)]
struct FailureMembers<'a> {
    error: String,
    causes: Vec<String>,
    hint: Option<&'a str>,
}

// anstream drops these where they are not wanted: NO_COLOR, a file, a pipe.
const BOLD: &str = "\u{1b}[1m";
const RED: &str = "\u{1b}[1;31m";
const CYAN: &str = "\u{1b}[1;36m";
const RESET: &str = "\u{1b}[0m";

/// What programs read may still go to a terminal, and the words may be those of a server.
fn json(value: &impl Serialize) -> String {
    let json = serde_json::to_string(value).expect("answers have text keys and plain members");
    text::plain_json(&json).into_owned()
}

fn write(mut out: impl Write, text: &str) -> io::Result<()> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// The first paragraph of clap's text is the error, the others say what would be right.
fn usage_failure(rendered: &str) -> Failure {
    let (error, rest) = rendered.split_once("\n\n").unwrap_or((rendered, ""));
    let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let failure = Failure::usage(one_line(error.trim_start_matches("error:")));
    let hint = one_line(rest);
    if hint.is_empty() { failure } else { failure.hint(hint) }
}

/// An answer that nobody received.
#[derive(Debug)]
struct Unwritten(io::Error);

impl Display for Unwritten {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("cannot write the answer to stdout")
    }
}

impl std::error::Error for Unwritten {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fails(io::ErrorKind);

    impl Write for Fails {
        fn write(&mut self, _bytes: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_left_is_no_failure_and_a_full_disk_is() {
        assert!(write(Fails(io::ErrorKind::BrokenPipe), "x").is_ok());
        assert!(write(Fails(io::ErrorKind::StorageFull), "x").is_err());
    }

    #[test]
    fn a_usage_error_is_split_into_error_and_hint() {
        let failure =
            usage_failure("error: no such\n  flag\n\nUsage: handback\n\nFor more, ask.\n");
        assert_eq!(failure.message(), "no such flag");
        assert_eq!(failure.hint_text(), Some("Usage: handback For more, ask."));
        assert_eq!(failure.exit(), Exit::USAGE);
    }
}
