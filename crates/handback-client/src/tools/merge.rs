//! From pages to one value.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

/// How pages become one value. Whatever it is, a call with one page gives that page as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Merge {
    /// Pages are arrays: one array with all items.
    #[default]
    ConcatArray,
    /// Pages are objects with an array in this member: the last page, with the items of all there.
    ConcatField(String),
    /// The first page. No other is asked for.
    FirstPageOnly,
    /// The last page. The others are asked for, and dropped.
    LastPage,
}

/// Pages that do not go together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("page {page} cannot be merged: {reason}")]
#[non_exhaustive]
pub struct MergeError {
    /// Which page, from 1.
    pub page: u32,
    /// In words.
    pub reason: String,
}

/// Takes pages, and gives one value.
#[derive(Debug)]
pub struct Merger {
    policy: Merge,
    pages: u32,
    /// The first page, as long as it is the only one; of policies that keep one, that one.
    whole: Option<Box<RawValue>>,
    items: Vec<Box<RawValue>>,
    members: BTreeMap<String, Box<RawValue>>,
}

impl Merger {
    /// By a policy.
    #[must_use]
    pub const fn new(policy: Merge) -> Self {
        Self { policy, pages: 0, whole: None, items: Vec::new(), members: BTreeMap::new() }
    }

    /// Takes the next page.
    ///
    /// # Errors
    ///
    /// [`MergeError`] if it does not go with those before. These are still there.
    pub fn add(&mut self, page: Box<RawValue>) -> Result<(), MergeError> {
        let number = self.pages + 1;
        let bad = |reason: String| MergeError { page: number, reason };
        match (&self.policy, number) {
            (_, 1) | (Merge::LastPage, _) => self.whole = Some(page),
            (Merge::FirstPageOnly, _) => {}
            (Merge::ConcatArray, _) => {
                let next = array(&page).map_err(bad)?;
                if let Some(first) = self.whole.take() {
                    self.items = array(&first).map_err(|reason| MergeError { page: 1, reason })?;
                }
                self.items.extend(next);
            }
            (Merge::ConcatField(name), _) => {
                let (members, next) = object(&page, name).map_err(bad)?;
                if let Some(first) = self.whole.take() {
                    let first = object(&first, name);
                    self.items = first.map_err(|reason| MergeError { page: 1, reason })?.1;
                }
                self.items.extend(next);
                self.members = members;
            }
        }
        self.pages = number;
        Ok(())
    }

    /// What the pages come to; nothing if there was none.
    #[must_use]
    pub fn finish(mut self) -> Option<Box<RawValue>> {
        if self.pages == 0 || self.whole.is_some() {
            return self.whole;
        }
        let items = serde_json::value::to_raw_value(&self.items).ok()?;
        match self.policy {
            Merge::ConcatField(name) => {
                self.members.insert(name, items);
                serde_json::value::to_raw_value(&self.members).ok()
            }
            _ => Some(items),
        }
    }
}

fn array(page: &RawValue) -> Result<Vec<Box<RawValue>>, String> {
    serde_json::from_str(page.get()).map_err(|_| "it is no array".to_owned())
}

type Members = BTreeMap<String, Box<RawValue>>;

fn object(page: &RawValue, name: &str) -> Result<(Members, Vec<Box<RawValue>>), String> {
    let mut members: Members =
        serde_json::from_str(page.get()).map_err(|_| "it is no object".to_owned())?;
    let items = members.remove(name).ok_or_else(|| format!("it has no member \"{name}\""))?;
    let items = array(&items).map_err(|_| format!("its member \"{name}\" is no array"))?;
    Ok((members, items))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(policy: Merge, pages: &[&str], expected: Result<Option<&str>, u32>) {
        let mut merger = Merger::new(policy);
        let added = pages
            .iter()
            .try_for_each(|page| merger.add(RawValue::from_string((*page).to_owned()).unwrap()));
        let merged = added.map(|()| merger.finish()).map_err(|error| error.page);
        let merged = merged.as_ref().map(|merged| merged.as_ref().map(|raw| raw.get()));
        assert_eq!(merged, expected.as_ref().map(|expected| *expected));
    }

    #[test]
    fn pages_become_one_value() {
        check(Merge::ConcatArray, &[], Ok(None));
        check(Merge::ConcatArray, &["{\"a\": 1.0}"], Ok(Some("{\"a\": 1.0}")));
        check(Merge::ConcatArray, &["[1.50, 2]", "[]", "[3]"], Ok(Some("[1.50,2,3]")));
        check(Merge::ConcatArray, &["[1]", "2"], Err(2));
        check(Merge::ConcatArray, &["1", "[2]"], Err(1));
        let field = || Merge::ConcatField("x".to_owned());
        let (one, two) = (r#"{"n":1,"x":[1]}"#, r#"{"n":2,"x":[2]}"#);
        check(field(), &[one], Ok(Some(one)));
        check(field(), &[one, two], Ok(Some(r#"{"n":2,"x":[1,2]}"#)));
        check(field(), &[one, r#"{"n":2}"#], Err(2));
        check(field(), &[one, r#"{"x":2}"#], Err(2));
        check(field(), &["[]", two], Err(1));
        check(Merge::FirstPageOnly, &["[1]", "2"], Ok(Some("[1]")));
        check(Merge::LastPage, &["[1]", "2", "[3]"], Ok(Some("[3]")));
    }
}
