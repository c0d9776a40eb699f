//! `handback store check`.

use std::fmt;
use std::path::{Path, PathBuf};

use clap::Args;
use handback_server::missing_keys;
use handback_store::embedded::{self, AcceptError, Checked, Damage};
use serde::Serialize;

use crate::error::Failure;
use crate::exit::Exit;
use crate::output::Output;
use crate::{clock, config_file, text};

/// Check the store of a stopped server, or accept a loss
///
/// Reads every journal and every table to its end, and compares them with what the store has recorded.
/// Nothing is changed, unless --accept-loss is given and there is damage. Held results in files of
/// their own are checked when they are read.
///
/// With --accept-loss the server starts again. Everything before the first damage in the journals is
/// kept. Damaged files go to the folder `lost` of the store, and `losses.txt` says what was accepted. A
/// call with an idempotency key whose record is lost runs again if a client repeats it. Restore a
/// backup instead, if there is one.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Exit codes:
  0  the store is whole, or its loss was accepted
  1  it cannot be checked: there is none, or a server has it open
  5  the store is damaged

JSON members:
  store, is_whole, is_proved (no acknowledged write can be missing), journals, writes, tables,
  torn_bytes, accepted; damage: file, what, expected_bytes, found_bytes, is_acceptable

Examples:
  handback store check
  handback store check --data /var/lib/handback --output json
  handback store check --accept-loss")]
pub(crate) struct CheckArgs {
    /// The data directory, or the folder of a wrapped command in it [default: as for all commands]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,

    /// The configuration, of which `data` counts here [default: HANDBACK_CONFIG, or handback.toml in
    /// the data directory]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Go on without what is missing: the server starts again
    #[arg(long)]
    accept_loss: bool,
}

/// The answer.
#[derive(Debug, Serialize)]
struct Report {
    store: String,
    is_whole: bool,
    is_proved: bool,
    journals: u64,
    writes: u64,
    tables: u64,
    torn_bytes: u64,
    accepted: bool,
    damage: Vec<Line>,
}

/// A file that is damaged.
#[derive(Debug, Serialize)]
struct Line {
    file: String,
    what: String,
    expected_bytes: Option<u64>,
    found_bytes: Option<u64>,
    is_acceptable: bool,
}

pub(super) fn run(args: &CheckArgs, output: Output) -> Result<Exit, Failure> {
    let (settings, _) = config_file::find(args.config.as_deref(), args.data.as_deref())?;
    let data = match args.data.clone().or(settings.data) {
        Some(folder) => folder,
        None => crate::config::data_directory()?,
    };
    let store = data.join("store");
    let missing: Vec<Line> = missing_keys(&data).iter().map(|file| Line::missing(file)).collect();
    let report = if args.accept_loss && missing.is_empty() {
        let when = text::rfc3339(clock::now());
        let checked = embedded::accept_loss(&store, &when).map_err(unaccepted)?;
        Report::new(checked, missing, true)
    } else {
        Report::new(embedded::check(&store).map_err(Failure::new)?, missing, false)
    };
    output.answer(&report)?;
    if report.is_whole || report.accepted {
        return Ok(Exit::OK);
    }
    Ok(Exit::DAMAGED)
}

fn unaccepted(error: AcceptError) -> Failure {
    let is_needed = matches!(error, AcceptError::Needed(_));
    let failure = Failure::new(error).about("the loss cannot be accepted".to_owned());
    if is_needed { failure.hint("restore the data directory from a backup") } else { failure }
}

impl Report {
    fn new(checked: Checked, missing: Vec<Line>, accepts: bool) -> Self {
        let Checked { store, journals, batches, torn_bytes, tables, is_proved, .. } = checked;
        let mut damage = missing;
        damage.extend(checked.damage.into_iter().map(Line::of));
        let is_whole = damage.is_empty();
        Self {
            store: store.display().to_string(),
            is_whole,
            is_proved,
            journals,
            writes: batches,
            tables,
            torn_bytes,
            accepted: accepts && !is_whole,
            damage,
        }
    }
}

impl Line {
    fn of(damage: Damage) -> Self {
        Self {
            file: damage.store.join(&damage.file).display().to_string(),
            what: damage.what,
            expected_bytes: damage.expected_bytes,
            found_bytes: damage.found_bytes,
            is_acceptable: damage.is_acceptable,
        }
    }

    fn missing(file: &Path) -> Self {
        Self {
            file: file.display().to_string(),
            what: "is missing".to_owned(),
            expected_bytes: None,
            found_bytes: None,
            is_acceptable: false,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { store, journals, writes, tables, torn_bytes, .. } = self;
        writeln!(f, "{store}: {journals} journals with {writes} writes, {tables} tables")?;
        for Line { file, what, is_acceptable, .. } in &self.damage {
            let needed = if *is_acceptable { "" } else { " (the store cannot go on without it)" };
            writeln!(f, "damaged: {file} {what}{needed}")?;
        }
        if *torn_bytes > 0 && self.is_whole {
            writeln!(
                f,
                "An interrupted write of {torn_bytes} bytes is removed at the next start."
            )?;
        }
        match (self.is_whole, self.is_proved) {
            (true, true) => write!(f, "The store is whole."),
            (true, false) => write!(
                f,
                "No damage was found. The store was last used by an earlier version, so that nothing \
                 proves that no acknowledged write is missing."
            ),
            (false, _) if self.accepted => write!(
                f,
                "The loss is accepted: the server starts with what is there. See losses.txt and the \
                 folder lost in the store. Revocations and redeemed tokens may be lost: revoke what \
                 was handed out before."
            ),
            (false, _) => {
                let data = Path::new(store).parent().unwrap_or_else(|| Path::new("."));
                let data = text::shell_word(&data.to_string_lossy());
                write!(
                    f,
                    "The store is damaged. Restore a backup, or go on with what is there: \
                     handback store check --data {data} --accept-loss"
                )
            }
        }
    }
}
