//! Patterns over paths: `*` is one segment, `**` is any number of them.

/// Whether a path matches. The time grows with the product of their lengths at most.
pub(super) fn matches(pattern: &str, path: &str) -> bool {
    let pattern: Vec<_> = pattern.split('/').collect();
    let path: Vec<_> = path.split('/').collect();
    // For each number of segments that were matched so far, whether that can be.
    let mut can = vec![false; path.len() + 1];
    if let Some(first) = can.first_mut() {
        *first = true;
    }
    for part in pattern {
        let mut next = vec![false; path.len() + 1];
        let mut any = false;
        for (count, before) in can.iter().enumerate() {
            any |= *before;
            if part == "**" {
                if let Some(place) = next.get_mut(count) {
                    *place = any;
                }
            } else if *before
                && let (Some(segment), Some(place)) = (path.get(count), next.get_mut(count + 1))
                && (part == "*" || part == *segment)
            {
                *place = true;
            }
        }
        can = next;
    }
    can.last().copied().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn stars_are_segments() {
        for (pattern, path) in [
            ("events/*", "events/a"),
            ("**", "a/b/c"),
            ("events/**", "events"),
            ("events/**", "events/a/b"),
            ("**/z", "a/b/z"),
            ("a/**/z", "a/z"),
            ("a", "a"),
        ] {
            assert!(matches(pattern, path), "{pattern} {path}");
        }
        for (pattern, path) in [
            ("events/*", "events"),
            ("events/*", "events/a/b"),
            ("a", "b"),
            ("a*", "ab"),
            ("a/**/z", "a/b"),
            ("*", "a/b"),
        ] {
            assert!(!matches(pattern, path), "{pattern} {path}");
        }
        let long = vec!["**"; 200].join("/");
        assert!(!matches(&format!("{long}/z"), &vec!["a"; 200].join("/")));
    }
}
