//! Patterns for names: `*` is any run of characters, `?` is one, the rest stands for itself.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// The longest pattern, in bytes.
pub const MAX_GLOB_BYTES: usize = 1_024;

/// A pattern for names. It matches whole names, and case counts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Glob(String);

/// A text that is no pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
pub enum GlobError {
    /// It matches nothing but the empty name, which nothing has.
    #[error("the pattern is empty")]
    Empty,
    /// It has more than [`MAX_GLOB_BYTES`].
    #[error("the pattern has more than {MAX_GLOB_BYTES} bytes")]
    TooLong,
}

impl Glob {
    /// Reads a pattern.
    ///
    /// # Errors
    ///
    /// [`GlobError`] if it is empty or too long.
    pub fn new(pattern: &str) -> Result<Self, GlobError> {
        match pattern.len() {
            0 => Err(GlobError::Empty),
            1..=MAX_GLOB_BYTES => Ok(Self(pattern.to_owned())),
            _ => Err(GlobError::TooLong),
        }
    }

    /// Whether a whole name matches. Takes at most the product of both lengths.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        let (mut pattern, mut name) = (self.0.chars(), name.chars());
        // Where to go on if what follows the last star does not fit: one character later.
        let mut last_star: Option<(std::str::Chars<'_>, std::str::Chars<'_>)> = None;
        loop {
            let name_before = name.clone();
            let fits = match (pattern.next(), name.next()) {
                (None, None) => return true,
                (Some('*'), _) => {
                    name = name_before.clone();
                    last_star = Some((pattern.clone(), name_before));
                    continue;
                }
                (Some('?'), Some(_)) => true,
                (Some(expected), Some(found)) => expected == found,
                _ => false,
            };
            if fits {
                continue;
            }
            let Some((after, mut from)) = last_star else { return false };
            if from.next().is_none() {
                return false;
            }
            pattern = after.clone();
            name = from.clone();
            last_star = Some((after, from));
        }
    }

    /// The pattern as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Glob {
    type Err = GlobError;

    fn from_str(text: &str) -> Result<Self, GlobError> {
        Self::new(text)
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(pattern: &str, name: &str, expected: bool) {
        assert_eq!(Glob::new(pattern).unwrap().matches(name), expected, "{pattern} {name}");
    }

    #[test]
    fn a_whole_name_matches_or_not() {
        for (pattern, name) in [
            ("*", ""),
            ("*", "a"),
            ("a*", "a"),
            ("a*c", "abbc"),
            ("a*b*c", "aXbYbZc"),
            ("?", "é"),
            ("a?c", "abc"),
            ("**", "x"),
            ("shop.*", "shop.list"),
            ("*.list", "shop.list"),
            ("[a]", "[a]"),
        ] {
            check(pattern, name, true);
        }
        for (pattern, name) in [
            ("a", ""),
            ("a", "ab"),
            ("a*", "ba"),
            ("?", ""),
            ("?", "ab"),
            ("a*c", "abd"),
            ("A", "a"),
            ("shop.*", "shop"),
            ("*.list", "shop.list2"),
            ("[a]", "a"),
            ("\\*", "*"),
        ] {
            check(pattern, name, false);
        }
    }

    #[test]
    fn patterns_are_bounded_and_never_slow() {
        assert_eq!(Glob::new(""), Err(GlobError::Empty));
        assert_eq!(Glob::new(&"a".repeat(MAX_GLOB_BYTES + 1)), Err(GlobError::TooLong));
        let pattern = "*a".repeat(MAX_GLOB_BYTES / 2);
        check(&pattern, &format!("{}b", "a".repeat(10_000)), false);
    }

    /// The definition.
    fn by_definition(pattern: &[char], name: &[char]) -> bool {
        match pattern.split_first() {
            None => name.is_empty(),
            Some(('*', rest)) => (0..=name.len()).any(|skip| by_definition(rest, &name[skip..])),
            Some((first, rest)) => name.split_first().is_some_and(|(found, name)| {
                (*first == '?' || first == found) && by_definition(rest, name)
            }),
        }
    }

    proptest! {
        #[test]
        fn matches_as_defined(pattern in "[ab*?é]{1,8}", name in "[abé]{0,10}") {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            let expected = by_definition(&chars(&pattern), &chars(&name));
            prop_assert_eq!(Glob::new(&pattern).unwrap().matches(&name), expected);
        }
    }
}
