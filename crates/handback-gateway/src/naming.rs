//! Rules for the names of upstreams' tools and prompts.

use handback_tool::relayed_name;
use sha2::{Digest as _, Sha256};

/// Characters of the name of a tool at most, as the protocol has it.
pub(crate) const TOOL_NAME_CHARS_MAX: usize = 128;

/// Hexadecimal digits of the hash in a shortened name: two names of one server that begin alike share one
/// in 2^48 cases.
const HASH_DIGITS: usize = 12;

/// Names of servers' own that a refusal lists at most. There may be 64 servers.
pub(crate) const ALTERNATIVES_MAX: usize = 8;

/// The kinds of things that have names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    Tool,
    Prompt,
}

/// The reason why a name is not shown, if there is one. With `is_strict`, only the alphabet of the protocol
/// is: letters, digits, `_`, `-` and `.`.
pub(crate) fn fault(kind: Named, name: &str, is_strict: bool) -> Option<&'static str> {
    let is_of_protocol = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    match name {
        "" => Some("the name is empty"),
        // Fewer bytes are fewer characters.
        _ if kind == Named::Tool
            && name.len() > TOOL_NAME_CHARS_MAX
            && name.chars().count() > TOOL_NAME_CHARS_MAX =>
        {
            Some("the name has more than 128 characters")
        }
        _ if name.chars().any(is_invisible) => {
            Some("the name has control characters, or such that change the direction of text")
        }
        _ if is_strict && !name.chars().all(is_of_protocol) => {
            Some("the name has other characters than the protocol allows (names = \"strict\")")
        }
        _ => None,
    }
}

/// Whether a character is a control character, ends a line, or changes the direction of the text around it.
fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The name of a server's tool or prompt that goes by its server: `UPSTREAM__NAME`. Of a tool whose name
/// would be too long, the end is replaced by a hash of all of it, so that it is the same at every start.
pub(crate) fn prefixed(kind: Named, upstream: &str, name: &str) -> String {
    let full = relayed_name(upstream, name);
    if kind != Named::Tool || full.len() <= TOOL_NAME_CHARS_MAX {
        return full;
    }
    let mut cut = full.char_indices().skip(TOOL_NAME_CHARS_MAX - HASH_DIGITS - 1);
    if full.chars().count() <= TOOL_NAME_CHARS_MAX {
        return full;
    }
    let start = cut.next().map_or(full.len(), |(at, _)| at);
    let hash: String =
        Sha256::digest(full.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    let (start, hash) = (full.get(..start), hash.get(..HASH_DIGITS));
    format!("{}-{}", start.unwrap_or_default(), hash.unwrap_or_default())
}

/// The text of the refusal of a name that several servers have. None, if there are no names to use.
pub(crate) fn ambiguity(name: &str, names: &[String]) -> Option<String> {
    let quoted: Vec<_> =
        names.iter().take(ALTERNATIVES_MAX).map(|name| format!("`{name}`")).collect();
    let (last, rest) = quoted.split_last()?;
    let list = match (names.len().saturating_sub(quoted.len()), rest) {
        (0, []) => last.clone(),
        (0, rest) => format!("{} or {last}", rest.join(", ")),
        (more, _) => format!("{} or one of {more} more", quoted.join(", ")),
    };
    Some(format!("several servers have `{name}`: use {list}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn wound_a8_names_that_cannot_be_shown_are_left_out() {
        let long = "x".repeat(TOOL_NAME_CHARS_MAX + 1);
        for name in
            ["", "a\nb", "\u{1b}[2J", "a\u{202e}b", "\u{200f}", "\u{2066}x", "\u{85}", "\u{7f}"]
        {
            for kind in [Named::Tool, Named::Prompt] {
                assert!(fault(kind, name, false).is_some(), "{name:?}");
            }
        }
        assert!(fault(Named::Tool, &long, false).is_some());
        assert!(fault(Named::Prompt, &long, false).is_none(), "only tools have such a limit");
        let most = "é".repeat(TOOL_NAME_CHARS_MAX);
        for name in ["a", "get weather", "ü/β", "a:b", &most] {
            assert_eq!(fault(Named::Tool, name, false), None, "{name}");
        }
        for name in ["get weather", "ü", "a:b", "a/b"] {
            assert!(fault(Named::Tool, name, true).is_some(), "{name}");
        }
        assert_eq!(fault(Named::Tool, "aZ09_-.", true), None);
    }

    #[test]
    fn refusals_list_few_names() {
        let names = |count: usize| (0..count).map(|n| format!("s{n}__x")).collect::<Vec<_>>();
        assert_eq!(ambiguity("x", &names(0)), None);
        assert_eq!(ambiguity("x", &names(1)).unwrap(), "several servers have `x`: use `s0__x`");
        let two = ambiguity("x", &names(2)).unwrap();
        assert_eq!(two, "several servers have `x`: use `s0__x` or `s1__x`");
        let many = ambiguity("x", &names(64)).unwrap();
        assert!(many.ends_with("`s7__x` or one of 56 more") && many.len() < 200, "{many}");
    }

    proptest! {
        #[test]
        fn prefixed_names_keep_to_the_length(
            upstream in "[a-z]{1,32}",
            name in ".{1,128}",
            other in ".{1,128}",
        ) {
            let shown = prefixed(Named::Tool, &upstream, &name);
            prop_assert!(shown.chars().count() <= TOOL_NAME_CHARS_MAX);
            prop_assert_eq!(&shown, &prefixed(Named::Tool, &upstream, &name));
            prop_assert_eq!(shown == prefixed(Named::Tool, &upstream, &other), name == other);
            let full = relayed_name(&upstream, &name);
            prop_assert!(full.chars().count() > TOOL_NAME_CHARS_MAX || shown == full);
            prop_assert_eq!(prefixed(Named::Prompt, &upstream, &name), full);
        }

        #[test]
        fn names_without_fault_have_no_control_characters(name: String) {
            if fault(Named::Tool, &name, false).is_none() {
                prop_assert!(!name.is_empty() && !name.chars().any(char::is_control));
                prop_assert!(name.chars().count() <= TOOL_NAME_CHARS_MAX);
            }
        }
    }
}
