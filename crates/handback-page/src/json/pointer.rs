//! RFC 6901: which value inside a document.

use std::fmt;
use std::str::FromStr;

/// A JSON pointer: empty for the whole document, or `/` and the name of a member, or the number of
/// an element from 0, for each level.
///
/// ```
/// use handback_page::json::Pointer;
///
/// let pointer: Pointer = "/result/a~1b".parse()?;
/// assert_eq!(pointer.tokens(), ["result", "a/b"]);
/// assert_eq!(pointer.to_string(), "/result/a~1b");
/// # Ok::<_, handback_page::json::PointerError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Pointer(Vec<String>);

/// Text that is no JSON pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PointerError {
    /// It is not empty, and does not start with a slash.
    #[error("a JSON pointer starts with '/'")]
    NoSlash,
    /// RFC 6901, section 3: "escaped = "~" ( "0" / "1" )".
    #[error("'~' in a JSON pointer is followed by 0 or 1")]
    BadEscape,
}

impl Pointer {
    /// The whole document.
    #[must_use]
    pub const fn whole() -> Self {
        Self(Vec::new())
    }

    /// The value that these names and numbers lead to, from the outside in.
    #[must_use]
    pub fn from_tokens(tokens: impl IntoIterator<Item = String>) -> Self {
        Self(tokens.into_iter().collect())
    }

    /// An element of what it leads to.
    #[must_use]
    pub fn element(mut self, number: u64) -> Self {
        self.0.push(number.to_string());
        self
    }

    /// The names and numbers from the outside in.
    #[must_use]
    pub fn tokens(&self) -> &[String] {
        &self.0
    }
}

impl FromStr for Pointer {
    type Err = PointerError;

    fn from_str(text: &str) -> Result<Self, PointerError> {
        if text.is_empty() {
            return Ok(Self::whole());
        }
        let tokens = text.strip_prefix('/').ok_or(PointerError::NoSlash)?;
        tokens.split('/').map(unescape).collect::<Result<_, _>>().map(Self)
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|token| write!(f, "/{}", token.replace('~', "~0").replace('/', "~1")))
    }
}

fn unescape(token: &str) -> Result<String, PointerError> {
    let mut parts = token.split('~');
    let mut name = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (escaped, rest) = match (part.strip_prefix('0'), part.strip_prefix('1')) {
            (Some(rest), _) => ('~', rest),
            (_, Some(rest)) => ('/', rest),
            _ => return Err(PointerError::BadEscape),
        };
        name.push(escaped);
        name.push_str(rest);
    }
    Ok(name)
}

/// The number of an element, as RFC 6901, section 4, spells it: without leading zeros.
pub(super) fn element_number(token: &str) -> Option<u64> {
    let plain = token.bytes().all(|byte| byte.is_ascii_digit())
        && (token == "0" || !token.starts_with('0'));
    if plain { token.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_are_read_and_written_as_rfc_6901_says() {
        for (text, tokens) in [
            ("", vec![]),
            ("/", vec![""]),
            ("/foo/0", vec!["foo", "0"]),
            ("/a~1b", vec!["a/b"]),
            ("/m~0n", vec!["m~n"]),
            ("/~01", vec!["~1"]),
            ("//x/", vec!["", "x", ""]),
        ] {
            let pointer: Pointer = text.parse().unwrap();
            assert_eq!(pointer.tokens(), tokens, "{text}");
            assert_eq!(pointer.to_string(), text);
            assert_eq!(Pointer::from_tokens(tokens.into_iter().map(str::to_owned)), pointer);
        }
        for (text, error) in [
            ("a", PointerError::NoSlash),
            ("#/a", PointerError::NoSlash),
            ("/~", PointerError::BadEscape),
            ("/~2", PointerError::BadEscape),
            ("/a~/b", PointerError::BadEscape),
        ] {
            assert_eq!(text.parse::<Pointer>(), Err(error), "{text}");
        }
    }

    #[test]
    fn element_numbers_have_one_spelling() {
        assert_eq!(element_number("0"), Some(0));
        assert_eq!(element_number("10"), Some(10));
        for token in ["", "-", "01", "00", "+1", "-1", "1.0", "99999999999999999999"] {
            assert_eq!(element_number(token), None, "{token}");
        }
    }
}
