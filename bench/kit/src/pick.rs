//! Those of a list that are named.

use anyhow::{Result, bail};

/// Those of a list whose keys are named, separated by commas, in the order of the list.
///
/// # Errors
/// If a name is nobody's key.
pub fn named<T: Copy>(all: &[T], key: fn(T) -> &'static str, names: &str) -> Result<Vec<T>> {
    let names: Vec<&str> = names.split(',').collect();
    if let Some(unknown) = names.iter().find(|name| all.iter().all(|&one| key(one) != **name)) {
        let known: Vec<_> = all.iter().map(|&one| key(one)).collect();
        bail!("there is no `{unknown}`; there are {}", known.join(", "));
    }
    Ok(all.iter().copied().filter(|&one| names.contains(&key(one))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_those_that_are_named_in_the_order_of_the_list() {
        let all = ["a", "b", "c"];
        assert_eq!(named(&all, |one| one, "c,a").unwrap(), ["a", "c"]);
        let error = named(&all, |one| one, "a,x").unwrap_err();
        assert_eq!(error.to_string(), "there is no `x`; there are a, b, c");
    }
}
