//! The only place that reads the environment.
//!
//! The data directory is the first of these that is there:
//!
//! 1. `HANDBACK_DATA`;
//! 2. `$XDG_DATA_HOME/handback`, if that variable holds an absolute path (any other value is to be
//!    ignored, says the XDG Base Directory Specification);
//! 3. `$HOME/.local/share/handback`.
//!
//! Which key ring is used is decided in `rings.rs`.

use std::ffi::OsString;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
#[cfg(debug_assertions)]
use std::time::Duration;

#[cfg(debug_assertions)]
use handback_server::ServerConfig;
use handback_server::Upstream;
use handback_server::gateway::upstream::StartLimits;

/// The variable that names the data directory.
const DATA_VARIABLE: &str = "HANDBACK_DATA";

/// The variable that says where to listen.
const LISTEN_VARIABLE: &str = "HANDBACK_LISTEN";

/// The variable that has the bearer token of whoever asks a server.
pub(crate) const TOKEN_VARIABLE: &str = "HANDBACK_TOKEN";

/// A variable of this process, if it is set.
#[expect(clippy::disallowed_methods, reason = "this is config.rs")]
pub(crate) fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// Where to listen, if the environment says so.
pub(crate) fn listen() -> Result<Option<SocketAddr>, ConfigError> {
    let Some(value) = variable(LISTEN_VARIABLE) else { return Ok(None) };
    let address = value.to_str().and_then(|text| text.parse().ok());
    address.map(Some).ok_or(ConfigError::Listen)
}

/// A variable that a configuration names, if it is a text.
pub(crate) fn text_variable(name: &str) -> Option<String> {
    variable(name)?.into_string().ok()
}

/// The data directory, which need not exist.
pub(crate) fn data_directory() -> Result<PathBuf, ConfigError> {
    data_directory_of(variable)
}

fn data_directory_of(variable: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf, ConfigError> {
    if let Some(folder) = variable(DATA_VARIABLE) {
        return if folder.is_empty() { Err(ConfigError::Empty) } else { Ok(folder.into()) };
    }
    let absolute =
        |name| variable(name).map(PathBuf::from).filter(|path: &PathBuf| path.is_absolute());
    absolute("XDG_DATA_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(Path::new(".local/share"))))
        .map(|shared| shared.join("handback"))
        .ok_or(ConfigError::NoDataDirectory)
}

/// The faults that a test asks for: `HANDBACK_TEST_KILL_AT` (a `KillPoint`) and
/// `HANDBACK_TEST_CLOCK_MS`. A release does not look.
#[cfg(debug_assertions)]
pub(crate) fn faults(mut config: ServerConfig) -> ServerConfig {
    let text = |name| variable(name).and_then(|value| value.into_string().ok());
    if let Some(point) = text("HANDBACK_TEST_KILL_AT").and_then(|text| text.parse().ok()) {
        config = config.dangerous_kill_at(point);
    }
    if let Some(offset) = text("HANDBACK_TEST_CLOCK_MS").and_then(|text| text.parse().ok()) {
        config = config.dangerous_clock_offset_ms(offset);
    }
    config
}

/// Limits of the start of an upstream. Tests make them shorter with `HANDBACK_TEST_START_MS` and
/// `HANDBACK_TEST_DISCOVERY_MS`; a release does not look.
#[cfg(debug_assertions)]
pub(crate) fn start_limits(mut limits: StartLimits) -> StartLimits {
    let time = |name| {
        let text = variable(name).and_then(|value| value.into_string().ok())?;
        text.parse().ok().map(Duration::from_millis)
    };
    limits.total = time("HANDBACK_TEST_START_MS").unwrap_or(limits.total);
    limits.discovery = time("HANDBACK_TEST_DISCOVERY_MS").unwrap_or(limits.discovery);
    limits
}

/// Limits of the start of an upstream.
#[cfg(not(debug_assertions))]
pub(crate) const fn start_limits(limits: StartLimits) -> StartLimits {
    limits
}

/// An upstream with these limits of its start.
pub(crate) fn with_limits(upstream: Upstream) -> Upstream {
    Upstream { start: start_limits(upstream.start), ..upstream }
}

/// An environment that does not say what is needed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ConfigError {
    /// `HANDBACK_DATA` is set, but to nothing.
    Empty,
    /// `HANDBACK_LISTEN` is not an address.
    Listen,
    /// No variable leads to a data directory.
    NoDataDirectory,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "HANDBACK_DATA is set to an empty value",
            Self::Listen => "HANDBACK_LISTEN is not an address with a port",
            Self::NoDataDirectory => "there is no data directory: HOME is not set",
        })
    }
}

impl std::error::Error for ConfigError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(set: &[(&str, &str)], expected: Result<&str, ConfigError>) {
        let found = data_directory_of(|name| {
            set.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into())
        });
        assert_eq!(found, expected.map(PathBuf::from));
    }

    #[test]
    fn the_first_variable_that_names_a_data_directory_wins() {
        let home = ("HOME", "/home/a");
        check(&[home], Ok("/home/a/.local/share/handback"));
        check(&[home, ("XDG_DATA_HOME", "/x")], Ok("/x/handback"));
        check(&[home, ("XDG_DATA_HOME", "/x"), ("HANDBACK_DATA", "d")], Ok("d"));
    }

    #[test]
    fn a_value_that_names_nothing_is_not_taken() {
        check(&[("HOME", "/h"), ("XDG_DATA_HOME", "rel")], Ok("/h/.local/share/handback"));
        check(&[("HOME", "/h"), ("HANDBACK_DATA", "")], Err(ConfigError::Empty));
        check(&[("HOME", "")], Err(ConfigError::NoDataDirectory));
        check(&[], Err(ConfigError::NoDataDirectory));
    }
}
