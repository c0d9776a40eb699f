use std::fmt;

/// Why a configuration is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// It is larger than [`MAX_FILE_BYTES`](super::MAX_FILE_BYTES).
    #[error("it has more than {} bytes", super::MAX_FILE_BYTES)]
    TooLarge,
    /// It is not TOML.
    #[error("line {line}: {why}")]
    Toml {
        /// Where.
        line: usize,
        /// What is wrong.
        why: String,
    },
    /// A value is not what it should be.
    #[error("line {line}: {key}: {why}")]
    Value {
        /// Where.
        line: usize,
        /// Of which key.
        key: String,
        /// What is wrong.
        why: String,
    },
    /// There are keys that nobody reads.
    #[error("{}", Listed(.0))]
    Unknown(Vec<UnknownKey>),
    /// Values that do not go together.
    #[error("{key}: {why}")]
    Together {
        /// Of which key.
        key: &'static str,
        /// What is wrong.
        why: String,
    },
}

impl FileError {
    pub(super) fn together(key: &'static str, why: impl Into<String>) -> Self {
        Self::Together { key, why: why.into() }
    }

    /// What could be done about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unknown(keys) => {
                let meant: Vec<_> = keys.iter().filter_map(|key| key.meant.as_deref()).collect();
                match meant.as_slice() {
                    [] => Some("`handback config default` shows every key".to_owned()),
                    meant => Some(format!("perhaps {} was meant", meant.join(", "))),
                }
            }
            _ => None,
        }
    }
}

/// A key that nobody reads.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownKey {
    /// The key.
    pub key: String,
    /// What was perhaps meant.
    pub meant: Option<String>,
}

struct Listed<'a>(&'a [UnknownKey]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<_> = self.0.iter().map(|unknown| unknown.key.as_str()).collect();
        let (noun, verb) = if keys.len() == 1 { ("key", "is") } else { ("keys", "are") };
        write!(f, "the {noun} {} {verb} not known", keys.join(", "))
    }
}
