//! Which keys there are: those that the default file tells of.

use super::{DEFAULT_TEXT, UnknownKey};

/// How different a key may be to be the one that was meant.
const DISTANCE_MAX: usize = 3;

/// An unknown key, with the known one that is nearest to it.
pub(super) fn unknown(key: &str) -> UnknownKey {
    let plain = plain(key);
    let last = |key: &str| key.rsplit('.').next().unwrap_or_default().to_owned();
    let nearest = keys().into_iter().map(|known| {
        // Misspelled where it belongs, or spelled well where it does not.
        let whole = strsim::damerau_levenshtein(&plain, &known);
        let moved = if last(&plain) == last(&known) { 1 } else { usize::MAX };
        (whole.min(moved), known)
    });
    let meant = nearest.min().filter(|(distance, _)| *distance <= DISTANCE_MAX);
    UnknownKey { key: key.to_owned(), meant: meant.map(|(_, known)| known) }
}

/// The default file with nothing commented out.
pub(super) fn all_set() -> String {
    let is_key = |rest: &str| rest.starts_with(|c: char| c.is_ascii_lowercase() || c == '[');
    let lines = DEFAULT_TEXT.lines().map(|line| match line.strip_prefix('#') {
        Some(rest) if is_key(rest) => rest,
        _ => line,
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Every key, with its tables in front.
pub(super) fn keys() -> Vec<String> {
    let mut keys = Vec::new();
    if let Ok(table) = all_set().parse::<toml::Table>() {
        collect(&toml::Value::Table(table), "", &mut keys);
    }
    keys
}

fn collect(value: &toml::Value, path: &str, keys: &mut Vec<String>) {
    match value {
        toml::Value::Table(table) => {
            for (name, value) in table {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                keys.push(path.clone());
                collect(value, &path, keys);
            }
        }
        toml::Value::Array(values) => values.iter().for_each(|value| collect(value, path, keys)),
        _ => {}
    }
}

/// A key without the numbers of rules.
fn plain(key: &str) -> String {
    let is_name = |part: &&str| part.parse::<usize>().is_err();
    key.split('.').filter(is_name).collect::<Vec<_>>().join(".")
}
