//! What a client may get in one answer.

use std::fmt;
use std::str::FromStr;

/// What a client may get in one answer, in bytes of JSON.
///
/// ```
/// use handback_wire::bound::Budget;
///
/// assert_eq!("64KiB".parse(), Ok(Budget::bytes(65_536)));
/// assert_eq!("10000 tokens".parse(), Ok(Budget::tokens(10_000)));
/// assert_eq!("unlimited".parse(), Ok(Budget::unlimited()));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Budget {
    bytes: usize,
}

impl Budget {
    /// About 10,000 tokens. The lowest limits that clients are known to have are 25,000 tokens (or
    /// 50,000 characters); a result that takes all of that leaves an agent no room to work.
    pub const DEFAULT: Self = Self { bytes: 40 << 10 };

    /// The default for images, audio and blobs, as base64. A model pays for an image by its area, a few
    /// thousand tokens at most, whatever its bytes are: screenshots have 0.2 to 2 MiB. More than this is
    /// a burden for clients, which keep every result in the conversation.
    pub const MEDIA_DEFAULT: Self = Self { bytes: 8 << 20 };

    /// Nothing is cut below so many bytes, however small the budget is: a notice, a handle and what
    /// is said of it for programs have to fit, and would be longer than what is cut.
    pub const FLOOR_BYTES: usize = 4 << 10;

    /// What a token is taken for. English text has about four characters in a token, JSON and code
    /// have three to four, other scripts fewer characters of more bytes each.
    pub const BYTES_PER_TOKEN: usize = 4;

    /// So many bytes.
    #[must_use]
    pub const fn bytes(bytes: usize) -> Self {
        Self { bytes }
    }

    /// So many tokens, by estimate.
    #[must_use]
    pub const fn tokens(tokens: usize) -> Self {
        Self { bytes: tokens.saturating_mul(Self::BYTES_PER_TOKEN) }
    }

    /// Everything.
    #[must_use]
    pub const fn unlimited() -> Self {
        Self { bytes: usize::MAX }
    }

    /// How many bytes.
    #[must_use]
    pub const fn as_bytes(self) -> usize {
        self.bytes
    }

    /// Whether a result of so many bytes is within it.
    #[must_use]
    pub fn allows(self, bytes: u64) -> bool {
        usize::try_from(bytes).is_ok_and(|bytes| bytes <= self.room())
    }

    /// What a result has room for: the budget, or what nothing is cut below.
    pub(super) fn room(self) -> usize {
        self.bytes.max(Self::FLOOR_BYTES)
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Text that is no budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a budget is a number of bytes (65536, 64KiB, 1MB), of tokens (10000 tokens, 10000t), or 'unlimited'"
)]
#[non_exhaustive]
pub struct BudgetError;

impl FromStr for Budget {
    type Err = BudgetError;

    fn from_str(text: &str) -> Result<Self, BudgetError> {
        let text = text.trim();
        if text.eq_ignore_ascii_case("unlimited") {
            return Ok(Self::unlimited());
        }
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let number: usize = number.parse().map_err(|_| BudgetError)?;
        let each = bytes_each(unit.trim_start()).ok_or(BudgetError)?;
        number.checked_mul(each).map(Self::bytes).ok_or(BudgetError)
    }
}

/// The bytes of one of a unit.
fn bytes_each(unit: &str) -> Option<usize> {
    Some(match unit.to_ascii_lowercase().as_str() {
        "" | "b" | "byte" | "bytes" => 1,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "t" | "token" | "tokens" => Budget::BYTES_PER_TOKEN,
        _ => return None,
    })
}

/// As [`FromStr`] reads it.
impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bytes {
            usize::MAX => f.write_str("unlimited"),
            bytes => write!(f, "{bytes}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_read_in_bytes_and_tokens() {
        for (text, bytes) in [
            ("20000", 20_000),
            ("0", 0),
            ("64KiB", 65_536),
            ("64 kib", 65_536),
            ("1MB", 1_000_000),
            ("2MiB", 2 << 20),
            ("5 kb", 5_000),
            ("7b", 7),
            ("10000 tokens", 40_000),
            ("10000t", 40_000),
            ("1 token", 4),
            (" unlimited ", usize::MAX),
        ] {
            assert_eq!(text.parse(), Ok(Budget::bytes(bytes)), "{text}");
        }
        for text in ["", "x", "-1", "1.5KiB", "64 gib", "tokens", "99999999999999999999", "1 t t"] {
            assert_eq!(text.parse::<Budget>(), Err(BudgetError), "{text}");
        }
        assert!(format!("{} mib", usize::MAX).parse::<Budget>().is_err());
    }

    #[test]
    fn a_budget_is_written_as_it_is_read() {
        for budget in [Budget::DEFAULT, Budget::unlimited(), Budget::tokens(5), Budget::bytes(0)] {
            assert_eq!(budget.to_string().parse(), Ok(budget));
        }
    }

    #[test]
    fn the_default_is_below_what_clients_take() {
        assert!(Budget::DEFAULT.as_bytes() <= Budget::tokens(25_000).as_bytes());
        assert!(Budget::DEFAULT.as_bytes() < 50_000);
        assert!(Budget::DEFAULT.as_bytes() >= Budget::tokens(10_000).as_bytes());
        assert!(Budget::unlimited().allows(u64::MAX));
        assert!(Budget::bytes(5000).allows(5000) && !Budget::bytes(5000).allows(5001));
    }

    #[test]
    fn nothing_is_cut_that_a_notice_would_be_longer_than() {
        let floor = Budget::FLOOR_BYTES as u64;
        for budget in [0, 1000, Budget::FLOOR_BYTES] {
            let budget = Budget::bytes(budget);
            assert!(budget.allows(1500) && budget.allows(floor) && !budget.allows(floor + 1));
        }
    }
}
