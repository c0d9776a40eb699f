//! What an agent talks to: the upstream alone, or with the gateway in front.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::client::Client;

/// What there is to talk to.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    /// This program, which is also the upstream.
    pub(crate) own: PathBuf,
    /// The gateway.
    pub(crate) handback: PathBuf,
}

impl Programs {
    /// The upstream alone.
    pub(crate) fn upstream(&self, record: &Path) -> Result<Client> {
        Client::start(Command::new(&self.own).args(["upstream", "--record"]).arg(record))
    }

    /// The upstream behind `handback wrap`, as users start it, with its files in `folder`.
    pub(crate) fn wrapped(&self, record: &Path, folder: &Path) -> Result<Client> {
        let mut wrap = Command::new(&self.handback);
        // Whatever the user has configured, this is about the defaults.
        wrap.env_remove("HANDBACK_CONFIG")
            .args(["wrap", "--data"])
            .arg(folder)
            .arg("--")
            .arg(&self.own);
        Client::start(wrap.args(["upstream", "--record"]).arg(record))
    }
}
