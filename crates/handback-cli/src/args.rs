//! The command line, as far as several commands share it.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use handback_token::{Mode, SlotNumber};

use crate::call::CallArgs;
use crate::collections::CollectionsArgs;
use crate::config_file::ConfigCommand;
use crate::identity::IdentityCommand;
use crate::keys::KeysCommand;
use crate::output::Format;
use crate::query::QueryArgs;
use crate::serve::ServeArgs;
use crate::store::StoreCommand;
use crate::stream::StreamCommand;
use crate::token::TokenCommand;
use crate::wrap::WrapArgs;

/// Handback: what agent tool servers hand out and take back, and the collections they page
#[derive(Debug, Parser)]
#[command(name = "handback", version, max_term_width = 100, after_long_help = AFTER_HELP)]
pub(crate) struct Cli {
    /// How answers and errors are written
    #[arg(
        long,
        global = true,
        value_enum,
        default_value_t,
        value_name = "FORMAT",
        help_heading = "Global options"
    )]
    pub(crate) output: Format,

    #[command(subcommand)]
    pub(crate) command: Command,
}

const AFTER_HELP: &str = "\
Key ring:
  The first of these that is there is used: --keys FILE, HANDBACK_KEYS (the text of a key file),
  ATD_CURSOR_SIGNING_KEY (32 bytes in base64), keys.json in the data directory. Whoever reads a
  ring checks every variable that is set; if one is malformed, nothing is done.

Data directory:
  HANDBACK_DATA, else $XDG_DATA_HOME/handback, else $HOME/.local/share/handback.

Configuration of the server:
  --config FILE, else HANDBACK_CONFIG, else handback.toml in the data directory, if it is there.
  A flag counts more than the environment, and that more than the file.

Who asks a server:
  --token-file FILE, else HANDBACK_TOKEN. `handback identity add` makes a bearer token.

Exit codes:
  0  the command did what it was asked for
  1  it could not; the message on stderr says why
  2  the command line is wrong, or lacks a flag that the command insists on
  3  the token or cursor is refused; the reason is on stdout
  4  the server does not prove what it says of a stream
  5  the store is damaged; what is missing is on stdout
  6  the server that was wrapped never came up; the messages on stderr say why

JSON:
  With --output json, an answer is one line on stdout, and an error one line on stderr with the
  members error, causes and hint. The help of each command names the members of its answer.

Examples:
  handback serve
  handback call shop_orders '{\"customer\":7}' --all
  handback keys generate
  handback keys list --output json
  handback token inspect EAAAAA…
  handback collections --collection orders=sqlite:shop.db#orders
  handback query --collection orders=sqlite:shop.db#orders --table \\
    '{\"operation\":\"list_elements\",\"element_type\":\"orders\"}'";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make, show, rotate and retire the keys of a ring
    #[command(subcommand)]
    Keys(KeysCommand),
    /// Look at tokens, open them and make them
    #[command(subcommand)]
    Token(TokenCommand),
    /// Write, read, follow and verify streams, and send through a duplex
    #[command(subcommand)]
    Stream(StreamCommand),
    /// Check the files of a server that is not running
    #[command(subcommand)]
    Store(StoreCommand),
    /// Make, list and remove the bearer tokens of callers
    #[command(subcommand)]
    Identity(IdentityCommand),
    /// Print the default configuration, and check one
    #[command(subcommand)]
    Config(ConfigCommand),
    // The help of a command is the documentation of its arguments.
    Serve(Box<ServeArgs>),
    Wrap(Box<WrapArgs>),
    Call(Box<CallArgs>),
    Query(Box<QueryArgs>),
    Collections(CollectionsArgs),
}

/// Which key file a command works on.
#[derive(Clone, Debug, Args)]
pub(crate) struct KeyFileArgs {
    /// The key file [default: keys.json in the data directory]
    #[arg(long, value_name = "FILE")]
    pub(crate) keys: Option<PathBuf>,
}

/// Which ring a command reads.
#[derive(Clone, Debug, Args)]
pub(crate) struct RingArgs {
    /// The key file [default: HANDBACK_KEYS, ATD_CURSOR_SIGNING_KEY, or the data directory]
    #[arg(long, value_name = "FILE")]
    pub(crate) keys: Option<PathBuf>,

    /// Mode of a ring that is made from ATD_CURSOR_SIGNING_KEY; every other ring says it itself
    #[arg(long, value_name = "MODE", default_value = "sealed", value_parser = modes())]
    pub(crate) atd_mode: Mode,
}

/// Reads a mode by its name.
pub(crate) fn modes() -> impl TypedValueParser<Value = Mode> {
    let all = [Mode::Sealed, Mode::Signed];
    PossibleValuesParser::new(all.map(Mode::as_str))
        .map(move |name| all.into_iter().find(|mode| mode.as_str() == name).unwrap_or(Mode::Sealed))
}

/// Reads a slot number.
pub(crate) fn parse_slot(text: &str) -> Result<SlotNumber, String> {
    text.parse()
        .ok()
        .and_then(SlotNumber::new)
        .ok_or_else(|| "key slots are numbered 0 to 15".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_numbered_0_to_15() {
        assert_eq!(parse_slot("0"), Ok(SlotNumber::FIRST));
        assert_eq!(parse_slot("15").map(SlotNumber::get), Ok(15));
        for wrong in ["16", "-1", "256", "", "a", "1.0"] {
            assert!(parse_slot(wrong).is_err(), "{wrong}");
        }
    }
}
