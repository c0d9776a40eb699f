//! The data: what tools give that people have in front of their agents. All of it is made from
//! fixed seeds, and a test knows its digests: it is what it was when the questions were written.

pub(crate) mod config;
pub(crate) mod handbook;
pub(crate) mod issues;
pub(crate) mod log;
pub(crate) mod orders;
pub(crate) mod results;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum DataSet {
    Issues,
    Orders,
    Log,
    Config,
    Results,
    Handbook,
}

impl DataSet {
    pub(crate) const ALL: [Self; 6] =
        [Self::Issues, Self::Orders, Self::Log, Self::Config, Self::Results, Self::Handbook];

    /// What the tool gives, as one text.
    pub(crate) fn text(self) -> String {
        match self {
            Self::Issues => issues::text(),
            Self::Orders => orders::text(),
            Self::Log => log::text(),
            Self::Config => config::text(),
            Self::Results => results::text(),
            Self::Handbook => handbook::text(),
        }
    }

    /// What it is, for people.
    pub(crate) const fn about(self) -> &'static str {
        match self {
            Self::Issues => "an issue tracker's list, a JSON array",
            Self::Orders => "the orders of half a year, a JSON array in an object",
            Self::Log => "a day's log of several services, text",
            Self::Config => "a deployment's configuration, one nested JSON document",
            Self::Results => "search results with whole articles, JSON",
            Self::Handbook => "a handbook, Markdown",
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Issues => "issues",
            Self::Orders => "orders",
            Self::Log => "log",
            Self::Config => "config",
            Self::Results => "results",
            Self::Handbook => "handbook",
        }
    }
}

/// The SHA-256 of a text, in hexadecimal digits.
pub(crate) fn digest(text: &str) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A time as APIs write it.
fn time(second: i64) -> String {
    jiff::Timestamp::from_second(second).map(|time| time.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_is_what_it_was() {
        let digests = DataSet::ALL.map(|data| (data.name(), digest(&data.text())));
        let known = [
            ("issues", "9c8f7ba71d227714e1d5369ffba3f39027e65760a44f94600f7098fdbb7657e6"),
            ("orders", "9bcbfaac97c3c9a19e59da773c590c15571ba62c1324e69615e5b97b98e5f44c"),
            ("log", "2c00d398179b95e3f57a38eda09c700346956c3a3f5c99c9e11bbc8344969517"),
            ("config", "68f6cf056dbc69ea859f9c2cd7e8278836f47319ef7c13ac50b125842c022d75"),
            ("results", "1513eca68b7d71ed1f38edd1eaafad15816ece27ed058ac7bc76723d886fb5fd"),
            ("handbook", "0d4322f75710b1dd765cb2d12cc03f508e5fc0c8971dd5f19cd197dd6b1b99be"),
        ];
        assert_eq!(digests, known.map(|(name, digest)| (name, digest.to_owned())));
    }

    #[test]
    fn sizes_are_those_that_people_complain_about() {
        for data in DataSet::ALL {
            let size = data.text().len();
            assert!((300_000..5_000_000).contains(&size), "{} has {size} bytes", data.name());
        }
    }
}
