//! Values that are valid once they are read.

use std::fmt;
use std::str::FromStr;

use handback_identity::scopes::is_scope;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A number within bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Within<const MIN: u32, const MAX: u32>(u32);

impl<const MIN: u32, const MAX: u32> Within<MIN, MAX> {
    /// The number, if it is within the bounds.
    #[must_use]
    pub const fn new(number: u32) -> Option<Self> {
        if MIN <= number && number <= MAX { Some(Self(number)) } else { None }
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The number as a size.
    #[must_use]
    pub fn size(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }

    /// A number that is known to be within the bounds when this is compiled.
    pub(super) const fn of<const NUMBER: u32>() -> Self {
        const { assert!(MIN <= NUMBER && NUMBER <= MAX, "it is within the bounds") };
        Self(NUMBER)
    }
}

impl<'de, const MIN: u32, const MAX: u32> Deserialize<'de> for Within<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = i64::deserialize(deserializer)?;
        let found = u32::try_from(number).ok().and_then(Self::new);
        found.ok_or_else(|| de::Error::custom(format_args!("it must be from {MIN} to {MAX}")))
    }
}

impl<const MIN: u32, const MAX: u32> Serialize for Within<MIN, MAX> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(self.0)
    }
}

/// A text that was read as something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parsed<T>(T);

impl<T> Parsed<T> {
    /// What it was read as.
    pub const fn get(&self) -> &T {
        &self.0
    }
}

impl<T> From<T> for Parsed<T> {
    fn from(value: T) -> Self {
        Self(value)
    }
}

impl<'de, T: FromStr<Err: fmt::Display>> Deserialize<'de> for Parsed<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Self).map_err(de::Error::custom)
    }
}

impl<T: fmt::Display> Serialize for Parsed<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// A name and perhaps a port, such as `tools.example:8443`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host(String);

impl FromStr for Host {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
        if text.is_empty() || text.len() > 255 || !text.bytes().all(is_fit) {
            return Err("a host is a name and perhaps a port, such as tools.example:8443");
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A scheme and a host, such as `https://app.example`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin(String);

impl FromStr for Origin {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
        let host = rest.map(|rest| rest.strip_suffix('/').unwrap_or(rest));
        match host.map(Host::from_str) {
            Some(Ok(_)) => Ok(Self(text.to_owned())),
            _ => Err("an origin is a scheme and a host, such as https://app.example"),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A scope, as OAuth writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope(String);

impl FromStr for Scope {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if is_scope(text) { Ok(Self(text.to_owned())) } else { Err("it is not a scope") }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Where a collection comes from, as `--collection` takes it. It is not shown as it is: a URL may
/// have a password in it.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Source(String);

impl Source {
    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn replace(&mut self, text: String) {
        self.0 = text;
    }

    fn shown(&self) -> String {
        match self.0.split_once("://") {
            None => self.0.clone(),
            Some((scheme, rest)) => {
                let table = rest.rsplit_once('#').map_or("", |(_, table)| table);
                format!("{scheme}://…#{table}")
            }
        }
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.shown(), f)
    }
}

impl Serialize for Source {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.shown())
    }
}
