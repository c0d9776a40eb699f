use std::collections::BTreeSet;

use super::{JwtError, wire::OneOrMany};

/// Collects what `scope` and `scp` grant together.
///
/// As text, both are separated by spaces; as a list, each entry is one scope. Issuers differ in
/// which they use, and those that write both repeat themselves.
pub(super) fn collect(claims: [Option<OneOrMany>; 2]) -> Result<BTreeSet<String>, JwtError> {
    let mut scopes = BTreeSet::new();
    for claim in claims.into_iter().flatten() {
        match claim {
            OneOrMany::One(text) => {
                for scope in text.split(' ').filter(|scope| !scope.is_empty()) {
                    add(&mut scopes, scope)?;
                }
            }
            OneOrMany::Many(list) => {
                for scope in &list {
                    add(&mut scopes, scope)?;
                }
            }
        }
    }
    Ok(scopes)
}

fn add(scopes: &mut BTreeSet<String>, scope: &str) -> Result<(), JwtError> {
    crate::scopes::add(scopes, scope).map_err(|_| JwtError::InvalidScopes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scopes::{MAX_SCOPE_BYTES, MAX_SCOPES};

    fn one(text: &str) -> Option<OneOrMany> {
        Some(OneOrMany::One(text.to_owned()))
    }

    fn many(list: &[&str]) -> Option<OneOrMany> {
        Some(OneOrMany::Many(list.iter().map(ToString::to_string).collect()))
    }

    fn check(claims: [Option<OneOrMany>; 2], expected: &[&str]) {
        let scopes = collect(claims).unwrap();
        assert_eq!(scopes.iter().map(String::as_str).collect::<Vec<_>>(), expected);
    }

    fn check_refused(claims: [Option<OneOrMany>; 2]) {
        assert_eq!(collect(claims), Err(JwtError::InvalidScopes));
    }

    #[test]
    fn reads_text_and_lists() {
        check([None, None], &[]);
        check([one(""), None], &[]);
        check([one("read write"), None], &["read", "write"]);
        check([one("  read  read "), None], &["read"]);
        check([None, one("read write")], &["read", "write"]);
        check([None, many(&["write", "read"])], &["read", "write"]);
        check([None, many(&[])], &[]);
        check([one("read"), many(&["write"])], &["read", "write"]);
    }

    #[test]
    fn list_entry_is_never_split() {
        check_refused([None, many(&["read write"])]);
        check_refused([None, many(&[""])]);
    }

    #[test]
    fn refuses_characters_outside_the_grammar() {
        for scope in ["a\tb", "a\"b", "a\\b", "é", "a\nb", "a\0b", "\u{7f}"] {
            check_refused([one(scope), None]);
            check_refused([None, many(&[scope])]);
        }
    }

    #[test]
    fn number_and_length_are_bounded() {
        let text = |count| (0..count).map(|n| format!("s{n} ")).collect::<String>();
        assert_eq!(collect([one(&text(MAX_SCOPES)), None]).unwrap().len(), MAX_SCOPES);
        check_refused([one(&text(MAX_SCOPES + 1)), None]);
        assert!(collect([one(&"x".repeat(MAX_SCOPE_BYTES)), None]).is_ok());
        check_refused([one(&"x".repeat(MAX_SCOPE_BYTES + 1)), None]);
    }
}
