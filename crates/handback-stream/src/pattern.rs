//! Patterns over paths of streams.
//!
//! `*` is one segment, `**` any number of segments, and every other segment is itself: `a*` is a stream
//! of that name. A pattern has the bounds and the alphabet of a path, and a run of `**` is one `**`.
//!
//! Only the last `**` is tried again after a mismatch: the leftmost match of the part before it leaves
//! the most for the rest. So a match takes at most as many steps as the product of the segments.
//! Rejected: a table of states for each pattern, which is linear and takes more memory than the
//! pattern, for ten thousand patterns at a time.

use std::fmt;
use std::str::FromStr;

use crate::name::{NameError, check_path};

/// The segment that stands for one segment.
const ONE: &str = "*";

/// The segment that stands for any number of segments.
const ANY: &str = "**";

/// A pattern over paths.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PathPattern(String);

impl FromStr for PathPattern {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // The length comes first: a text of megabytes is not taken apart.
        check_path(text)?;
        let mut segments: Vec<&str> = text.split('/').collect();
        segments.dedup_by(|next, before| *next == ANY && *before == ANY);
        Ok(Self(segments.join("/")))
    }
}

impl PathPattern {
    /// The text in its shortest form.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text with which every path that matches begins.
    #[must_use]
    pub fn literal_prefix(&self) -> &str {
        let mut end = 0;
        for segment in self.0.split('/') {
            match segment {
                // `a/**` matches `a`, which has no slash.
                ANY => return self.0.get(..end).unwrap_or_default().trim_end_matches('/'),
                ONE => return self.0.get(..end).unwrap_or_default(),
                literal => end += literal.len() + 1,
            }
        }
        &self.0
    }

    /// Whether a path matches.
    #[must_use]
    pub fn matches(&self, path: &str) -> bool {
        self.matches_counted(path, &mut 0)
    }

    /// The same. Adds the comparisons of segments to `steps`, so that a caller with many patterns can
    /// pause between two of them.
    #[must_use]
    pub fn matches_counted(&self, path: &str, steps: &mut u64) -> bool {
        if !path.starts_with(self.literal_prefix()) {
            // The prefix was looked for in the whole pattern, 16 bytes in the time of a comparison.
            *steps += 1 + (self.0.len() / 16) as u64;
            return false;
        }
        let pattern: Vec<&str> = self.0.split('/').collect();
        let path: Vec<&str> = path.split('/').collect();
        *steps += (pattern.len() + path.len()) as u64;
        let (mut next, mut at) = (0, 0);
        // The segment after the last `**`, and the first segment of the path that it was tried at.
        let mut retry: Option<(usize, usize)> = None;
        while let Some(segment) = path.get(at) {
            *steps += 1;
            match pattern.get(next) {
                Some(&ANY) => {
                    next += 1;
                    retry = Some((next, at));
                }
                Some(wanted) if *wanted == ONE || wanted == segment => {
                    next += 1;
                    at += 1;
                }
                _ => {
                    let Some((after, tried)) = retry else { return false };
                    next = after;
                    at = tried + 1;
                    retry = Some((after, at));
                }
            }
        }
        pattern.get(next..).is_some_and(|rest| rest.iter().all(|segment| *segment == ANY))
    }
}

impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::name::MAX_PATH_BYTES;

    fn pattern(text: &str) -> PathPattern {
        text.parse().unwrap()
    }

    /// The definition, without a thought about time.
    fn reference(pattern: &[&str], path: &[&str]) -> bool {
        match (pattern, path) {
            ([], path) => path.is_empty(),
            (["**", rest @ ..], path) => (0..=path.len()).any(|at| reference(rest, &path[at..])),
            ([_, ..], []) => false,
            ([one, rest @ ..], [segment, path @ ..]) => {
                (*one == "*" || one == segment) && reference(rest, path)
            }
        }
    }

    #[test]
    fn stars_are_segments() {
        for (text, path) in [
            ("events/*", "events/a"),
            ("**", "a/b/c"),
            ("events/**", "events"),
            ("events/**", "events/a/b"),
            ("**/z", "a/b/z"),
            ("**/z", "z"),
            ("a/**/z", "a/z"),
            ("**/a/*/z", "a/a/a/z"),
            ("a", "a"),
            ("a*", "a*"),
            ("***", "***"),
        ] {
            assert!(pattern(text).matches(path), "{text} {path}");
        }
        for (text, path) in [
            ("events/*", "events"),
            ("events/*", "events/a/b"),
            ("a", "b"),
            ("a*", "ab"),
            ("a/**/z", "a/b"),
            ("*", "a/b"),
            ("***", "a"),
        ] {
            assert!(!pattern(text).matches(path), "{text} {path}");
        }
    }

    #[test]
    fn a_pattern_has_the_bounds_of_a_path() {
        for text in ["", "/a", "a//b", "a/", "..", "a/./b", "a\0", &"x".repeat(MAX_PATH_BYTES + 1)]
        {
            assert!(text.parse::<PathPattern>().is_err(), "{text:?}");
        }
        assert!("x".repeat(MAX_PATH_BYTES).parse::<PathPattern>().is_ok());
        let long = vec!["**"; 1_000_000].join("/");
        assert_eq!(long.parse::<PathPattern>(), Err(NameError::TooLong));
    }

    #[test]
    fn repeated_double_stars_are_one() {
        for (text, short) in [
            ("**/**", "**"),
            ("a/**/**/**/b/**/**", "a/**/b/**"),
            ("**/*/**", "**/*/**"),
            ("*/*", "*/*"),
        ] {
            assert_eq!(pattern(text).as_str(), short);
        }
    }

    #[test]
    fn the_prefix_ends_before_the_first_star() {
        for (text, prefix) in [
            ("a/b", "a/b"),
            ("a/*/b", "a/"),
            ("a/**", "a"),
            ("a/b/**/c", "a/b"),
            ("**", ""),
            ("*", ""),
            ("a*/b/*", "a*/b/"),
        ] {
            assert_eq!(pattern(text).literal_prefix(), prefix, "{text}");
        }
    }

    #[test]
    fn a_path_outside_of_a_long_prefix_has_its_price() {
        let long = pattern(&(vec!["a"; 500].join("/") + "/*"));
        let mut steps = 0;
        assert!(!long.matches_counted("b", &mut steps));
        assert!(steps > 60, "{steps}");
    }

    /// The most expensive pairs: each part of the pattern nearly matches everywhere.
    #[test]
    fn steps_stay_within_the_product_of_the_segments() {
        let path = vec!["a"; 512].join("/");
        for text in [
            format!("**/{}/b", vec!["a"; 250].join("/")),
            format!("**/{}/b", vec!["*"; 250].join("/")),
            vec!["**/a"; 200].join("/") + "/b",
            vec!["**/*"; 200].join("/") + "/b",
            vec!["**"; 300].join("/") + "/b",
        ] {
            let pattern = pattern(&text);
            let segments = text.split('/').count() as u64;
            let mut steps = 0;
            assert!(!pattern.matches_counted(&path, &mut steps), "{text}");
            assert!(steps <= (segments + 2) * 514, "{steps} {text}");
        }
    }

    proptest! {
        #[test]
        fn a_pattern_matches_what_the_definition_says(
            parts in prop::collection::vec(prop::sample::select(vec!["a", "b", "*", "**"]), 1..8),
            path in prop::collection::vec(prop::sample::select(vec!["a", "b", "c"]), 1..10),
        ) {
            let text = parts.join("/");
            let pattern = pattern(&text);
            let path_text = path.join("/");
            let expected = reference(&parts, &path);
            prop_assert_eq!(pattern.matches(&path_text), expected);
            prop_assert!(!expected || path_text.starts_with(pattern.literal_prefix()));
        }
    }
}
