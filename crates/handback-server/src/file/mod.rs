//! `handback.toml`.
//!
//! Precedence, for every setting: **flag, then environment, then file, then what is built in.** The
//! file is the one that `--config` names, else the one that `HANDBACK_CONFIG` names, else
//! `handback.toml` in the data directory, if it is there. Variables: `HANDBACK_LISTEN` and
//! `HANDBACK_DATA`, and `HANDBACK_KEYS` for the text of a key ring.
//!
//! [`DEFAULT_TEXT`] is the one place where every key is told of. It is what `handback config default`
//! prints, and from it comes what a misspelled key was perhaps meant to be. A key that it does not
//! know is an error.
//!
//! What was read is valid by its types; what depends on more than one key is checked by
//! [`Settings::server_config`]. Writing [`Settings`] out is for people: it leaves out what could be a
//! secret.

mod error;
mod known;
mod settings;
mod upstreams;
mod values;

use std::path::Path;

pub use self::error::{FileError, UnknownKey};
pub use self::settings::{
    AccessName, HeldSettings, IdentityName, IdentitySettings, LimitSettings, McpSettings, McpTools,
    OidcFileSettings, PageSettings, PermissionSettings, PresetSettings, RuleSettings, Settings,
    StaticFileSettings, TlsSettings, TokenSettings, WebhookSettings,
};
pub use self::upstreams::{
    Address, GatewaySettings, GatewayToolSettings, NamesName, ReferenceSettings, RetryName, Secret,
    UpstreamSettings,
};
pub use self::values::{Host, Origin, Parsed, Scope, Source, Within};

/// Every key, with what it is for and its default.
pub const DEFAULT_TEXT: &str = include_str!("default.toml");

/// The largest file, in bytes.
pub const MAX_FILE_BYTES: usize = 1 << 20;

impl Settings {
    /// Reads a configuration. Paths in it are relative to `folder`.
    ///
    /// # Errors
    ///
    /// [`FileError`] if it is not TOML, a key is unknown, or a value is not what it should be. No
    /// error repeats a value.
    pub fn parse(text: &str, folder: &Path) -> Result<Self, FileError> {
        if text.len() > MAX_FILE_BYTES {
            return Err(FileError::TooLarge);
        }
        let line = |error: &toml::de::Error| {
            let start = error.span().map_or(0, |span| span.start);
            text.get(..start).map_or(1, |before| before.matches('\n').count() + 1)
        };
        let toml = toml::Deserializer::parse(text)
            .map_err(|error| FileError::Toml { line: line(&error), why: first_line(&error) })?;
        let mut unknown = Vec::new();
        let mut track = serde_path_to_error::Track::new();
        let tracked = serde_path_to_error::Deserializer::new(toml, &mut track);
        let read = serde_ignored::deserialize(tracked, |path| unknown.push(path.to_string()));
        let mut settings: Self = match read {
            Ok(settings) => settings,
            Err(error) => {
                let (line, why) = (line(&error), first_line(&error));
                return Err(FileError::Value { line, key: track.path().to_string(), why });
            }
        };
        if !unknown.is_empty() {
            return Err(FileError::Unknown(
                unknown.iter().map(|key| known::unknown(key)).collect(),
            ));
        }
        settings.resolve(folder);
        Ok(settings)
    }
}

/// What was wrong, without the text around it: that may have a password in it.
fn first_line(error: &toml::de::Error) -> String {
    error.message().lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests;
