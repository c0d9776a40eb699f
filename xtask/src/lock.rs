//! One version of each dependency across the workspaces.
//!
//! `interop/` and `fuzz/` have lock files of their own. A test there says something about the
//! product only if it runs against the same versions.

use anyhow::{Context, Result};
use std::fs;
use std::path::Path;

const ROOT: &str = "Cargo.lock";

/// The lock files that must agree with the root's.
pub(crate) const OTHERS: [&str; 2] = ["interop/Cargo.lock", "fuzz/Cargo.lock"];

/// Compares one of the other lock files with the root's.
pub(crate) fn compare(root: &Path, other: &str) -> Result<Vec<String>> {
    let read = |name: &str| {
        fs::read_to_string(root.join(name)).with_context(|| format!("failed to read {name}"))
    };
    Ok(differences(&packages(&read(ROOT)?), &packages(&read(other)?)))
}

#[derive(Debug, PartialEq, Eq)]
struct Package {
    name: String,
    version: String,
}

/// Reads the packages of a lock file that come from a registry. Cargo writes the file, so its
/// shape is fixed: `[[package]]`, then one `key = "value"` per line.
fn packages(lock: &str) -> Vec<Package> {
    lock.split("[[package]]").skip(1).filter_map(package).collect()
}

fn package(section: &str) -> Option<Package> {
    let value = |key: &str| {
        section.lines().find_map(|line| {
            let value = line.strip_prefix(key)?.strip_prefix(" = \"")?;
            value.strip_suffix('"').map(str::to_owned)
        })
    };
    value("source")?;
    Some(Package { name: value("name")?, version: value("version")? })
}

fn differences(root: &[Package], other: &[Package]) -> Vec<String> {
    other.iter().filter_map(|package| difference(root, package)).collect()
}

fn difference(root: &[Package], other: &Package) -> Option<String> {
    let compatible: Vec<&str> = root
        .iter()
        .filter(|package| package.name == other.name)
        .map(|package| package.version.as_str())
        .filter(|version| compatibility(version) == compatibility(&other.version))
        .collect();
    if compatible.is_empty() || compatible.contains(&other.version.as_str()) {
        return None;
    }
    Some(format!(
        "{} {} should be {}, as in {ROOT}",
        other.name,
        other.version,
        compatible.join(" or ")
    ))
}

/// The leading numbers that versions share if Cargo takes one for the other: up to and including
/// the first that is not zero.
fn compatibility(version: &str) -> Vec<&str> {
    let numbers = version.split(['-', '+']).next().unwrap_or(version);
    let mut shared = Vec::new();
    for number in numbers.split('.') {
        shared.push(number);
        if number != "0" {
            break;
        }
    }
    shared
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(root: &[(&str, &str)], other: (&str, &str), expected: Option<&str>) {
        let package = |&(name, version): &(&str, &str)| Package {
            name: name.to_owned(),
            version: version.to_owned(),
        };
        let root: Vec<Package> = root.iter().map(package).collect();
        assert_eq!(difference(&root, &package(&other)).as_deref(), expected);
    }

    #[test]
    fn reads_packages_that_have_a_source() {
        let lock = "version = 4\n\n\
            [[package]]\nname = \"own\"\nversion = \"0.1.0\"\ndependencies = [\n \"hmac\",\n]\n\n\
            [[package]]\nname = \"hmac\"\nversion = \"0.13.0\"\nsource = \"registry\"\n";
        assert_eq!(packages(lock), [Package { name: "hmac".into(), version: "0.13.0".into() }]);
    }

    #[test]
    fn accepts_equal_versions() {
        check(&[("hmac", "0.13.0")], ("hmac", "0.13.0"), None);
    }

    #[test]
    fn refuses_compatible_but_different_versions() {
        check(
            &[("serde", "1.0.2")],
            ("serde", "1.0.3"),
            Some("serde 1.0.3 should be 1.0.2, as in Cargo.lock"),
        );
        check(
            &[("hmac", "0.13.1")],
            ("hmac", "0.13.0"),
            Some("hmac 0.13.0 should be 0.13.1, as in Cargo.lock"),
        );
    }

    #[test]
    fn accepts_incompatible_and_unknown_versions() {
        check(&[("hmac", "0.13.0")], ("hmac", "0.12.1"), None);
        check(&[("rand", "1.0.0")], ("rand", "2.0.0"), None);
        check(&[("tiny", "0.0.1")], ("tiny", "0.0.2"), None);
        check(&[("rand", "1.0.0")], ("other", "1.0.1"), None);
    }

    #[test]
    fn accepts_any_of_several_versions() {
        check(&[("hmac", "0.12.1"), ("hmac", "0.13.0")], ("hmac", "0.12.1"), None);
    }
}
