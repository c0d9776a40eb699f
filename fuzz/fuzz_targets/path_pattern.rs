//! A pattern over paths is read or refused; a match is what the definition says, within its steps.
#![no_main]

use handback_stream::{MAX_PATH_BYTES, PathPattern};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    // A pattern and a path, one on each line.
    let (pattern, path) = text.split_once('\n').unwrap_or((text, "a/b"));
    let Ok(pattern) = pattern.parse::<PathPattern>() else { return };
    assert!(pattern.as_str().len() <= MAX_PATH_BYTES);
    assert_eq!(pattern.as_str().parse(), Ok(pattern.clone()), "its shortest form is a pattern");
    let segments: Vec<&str> = pattern.as_str().split('/').collect();
    let path = path.get(..MAX_PATH_BYTES).unwrap_or(path);
    let path_segments: Vec<&str> = path.split('/').collect();
    let mut steps = 0;
    let covers = pattern.matches_counted(path, &mut steps);
    // A path outside of the prefix costs the search for the prefix.
    let prefix_steps = 1 + pattern.as_str().len() as u64 / 16;
    let match_steps = (segments.len() as u64 + 2) * (path_segments.len() as u64 + 2);
    assert!(steps <= match_steps.max(prefix_steps));
    assert_eq!(covers, reference(&segments, &path_segments));
    assert!(!covers || path.starts_with(pattern.literal_prefix()));
});

/// All prefixes of the pattern with all prefixes of the path.
fn reference(pattern: &[&str], path: &[&str]) -> bool {
    let mut before = vec![false; path.len() + 1];
    before[0] = true;
    for part in pattern {
        let mut next = vec![false; path.len() + 1];
        for at in 0..=path.len() {
            next[at] = match *part {
                "**" => before[at] || (at > 0 && next[at - 1]),
                _ => at > 0 && before[at - 1] && (*part == "*" || *part == path[at - 1]),
            };
        }
        before = next;
    }
    before[path.len()]
}
