//! What an upstream is.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::sanitize::Origin;

/// Characters of the name of an upstream at most: it is put before names of tools.
pub const NAME_CHARS_MAX: usize = 32;

/// The name that our own tools collide under: no upstream has it.
pub(crate) const OWN: &str = "handback";

/// A name that no upstream can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the name of a server has 1 to {} letters, digits, `-` and `_`, has no `__` and ends with no `_`, \
     and is not `{}`",
    NAME_CHARS_MAX,
    OWN
)]
#[non_exhaustive]
pub struct BadName;

/// Whether an upstream can be called so. Names of tools are put behind it and two underscores: with more
/// of them, it would not be clear where it ends.
///
/// # Errors
///
/// [`BadName`], if it cannot.
pub fn check_name(name: &str) -> Result<(), BadName> {
    let is_name = (1..=NAME_CHARS_MAX).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
        && !name.contains("__")
        && !name.ends_with('_')
        && name != OWN;
    if is_name { Ok(()) } else { Err(BadName) }
}

/// An upstream, as configured.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "written as a literal")]
pub struct Spec {
    /// Its name: the prefix of names that collide, and a part of what tokens are bound to.
    pub name: String,
    /// Where it is.
    pub place: Place,
    /// How long a question may take, if nobody says otherwise.
    pub time_limit: Duration,
    /// Limits of its start.
    pub start: StartLimits,
    /// Use of what a program writes to its standard error.
    pub stderr: StderrUse,
    /// Bytes of one answer at most: what is larger is stopped while it arrives.
    pub answer_bytes_max: u64,
    /// Bytes of an answer that is kept in memory; a larger one goes to a file as it arrives.
    pub memory_bytes_max: usize,
    /// Where such files are.
    pub spool: PathBuf,
    /// Whether all callers share one line of the older era. Then the upstream cannot ask anything on
    /// it, and what belongs to no question is heard by nobody.
    pub is_shared: bool,
    /// Variables of this process that a program does not get, because they are secrets of others:
    /// unless what is added to its environment sets them. Variables of Handback itself it never
    /// gets in another way.
    pub withheld: Vec<String>,
    /// Whether marks of Handback in its messages are Handback's own: the server is the Handback that this
    /// process stands in for (`wrap --connect`).
    pub passes_marks: bool,
}

impl Spec {
    /// Whether it is a program, of which every line has a process of its own.
    #[must_use]
    pub const fn is_program(&self) -> bool {
        matches!(self.place, Place::Command { .. })
    }

    /// Whose word its messages are.
    pub(super) const fn origin(&self) -> Origin {
        if self.passes_marks { Origin::Handback } else { Origin::Upstream }
    }
}

/// Limits of the start of an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "written as a literal")]
pub struct StartLimits {
    /// Time until the handshake is done, a restart included.
    pub total: Duration,
    /// Time for a program to answer `server/discover`. After that it gets `initialize` as well.
    pub discovery: Duration,
}

/// Time until an upstream has to be there, unless configured otherwise: a cold `npx -y` or `uvx` downloads
/// its program first.
pub const START_TIME: Duration = Duration::from_secs(120);

/// Time for a program to answer `server/discover`: a program that has started answers at once.
const DISCOVERY_TIME: Duration = Duration::from_secs(5);

impl Default for StartLimits {
    fn default() -> Self {
        Self { total: START_TIME, discovery: DISCOVERY_TIME }
    }
}

/// Use of what a program writes to its standard error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "matched by its only reader")]
pub enum StderrUse {
    /// Lines in the log, under the name of the upstream: bounded in length and rate, without control
    /// characters.
    #[default]
    Logged,
    /// The same bytes on the standard error of this process.
    PassedOn,
}

/// Where an upstream is.
#[derive(Clone)]
#[expect(clippy::exhaustive_enums, reason = "the protocol has two transports")]
pub enum Place {
    /// At a URL, `http` or `https`, with headers that may be secret.
    Http {
        /// The endpoint.
        url: String,
        /// Added to every request.
        headers: Vec<(String, String)>,
    },
    /// A program that speaks on its standard input and output.
    Command {
        /// The program.
        program: String,
        /// Its arguments.
        args: Vec<String>,
        /// Added to its environment; may be secret.
        env: Vec<(String, String)>,
    },
}

/// Headers and environments may be secret: only their names are shown, and of a URL what has no key in it.
impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |pairs: &[(String, String)]| -> Vec<String> {
            pairs.iter().map(|(name, _)| name.clone()).collect()
        };
        match self {
            Self::Http { url, headers } => {
                let url = shown_url(url);
                f.debug_struct("Http").field("url", &url).field("headers", &names(headers)).finish()
            }
            Self::Command { program, args, env } => f
                .debug_struct("Command")
                .field("program", program)
                .field("args", &args.len())
                .field("env", &names(env))
                .finish(),
        }
    }
}

/// A URL as it is shown: user information and query, which keys may be in, are left out.
#[must_use]
pub fn shown_url(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return HIDDEN.to_owned() };
    let (rest, query) = match rest.find(['?', '#']) {
        Some(at) => (rest.get(..at).unwrap_or_default(), format!("?{HIDDEN}")),
        None => (rest, String::new()),
    };
    let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let authority = match authority.rsplit_once('@') {
        Some((_, host)) => format!("{HIDDEN}@{host}"),
        None => authority.to_owned(),
    };
    format!("{scheme}://{authority}{path}{query}")
}

/// What is shown in the place of what is not.
const HIDDEN: &str = "…";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_in_a_url_are_not_shown() {
        for (url, shown) in [
            ("https://shop.example/mcp", "https://shop.example/mcp"),
            ("https://h:8443/@scope/mcp", "https://h:8443/@scope/mcp"),
            ("https://user:key@h/mcp?key=key", "https://…@h/mcp?…"),
            ("http://k@ey@h?key", "http://…@h?…"),
            ("http://h#key", "http://h?…"),
            ("key", "…"),
        ] {
            assert_eq!(shown_url(url), shown);
            let place = Place::Http { url: url.to_owned(), headers: Vec::new() };
            assert!(!format!("{place:?}").contains("key"), "{place:?}");
        }
    }

    #[test]
    fn where_a_name_ends_is_clear() {
        let longest = "x".repeat(NAME_CHARS_MAX);
        for name in ["a", "my-shop_2", "_a", "handback2", longest.as_str()] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        let longer = "x".repeat(NAME_CHARS_MAX + 1);
        for name in ["", "a__b", "a_", "__a", "handback", "a b", "a.b", "é", longer.as_str()] {
            assert_eq!(check_name(name), Err(BadName), "{name}");
        }
        let told = BadName.to_string();
        assert!(told.contains("1 to 32") && told.contains("`handback`"), "{told}");
    }
}
