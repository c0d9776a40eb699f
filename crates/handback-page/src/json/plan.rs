//! What a query needs of every item, and whether an item is one of it.

use std::cell::OnceCell;
use std::collections::HashMap;

use super::listing::Items;
use super::pick::{Found, Wanted};
use super::sort_key;
use crate::collection::{CollectionError, Query};
use crate::filter::{Member, Test};
use crate::scalar::Scalar;
use crate::schema::FieldPath;

/// What a query needs of every item.
pub(super) struct Plan<'q> {
    pub(super) query: &'q Query,
    /// Whether the order is another one than that of the source.
    pub(super) is_sorted: bool,
    /// The members that are sorted by and tested.
    fields: Vec<&'q FieldPath>,
    /// Where they are, in the same order.
    pub(super) wanted: Wanted,
    /// Which of them are sorted by.
    pub(super) sorted: Vec<usize>,
    /// What is tested of each of them.
    tested: Vec<Tested<'q>>,
    /// The number of each field, where there are too many to look through.
    numbers: HashMap<&'q FieldPath, usize>,
}

/// What is tested of a member.
#[derive(Default)]
struct Tested<'q> {
    /// How often.
    times: usize,
    /// What it is to contain, if it is a list: sorted, each once.
    asked: Vec<&'q Scalar>,
}

impl<'q> Plan<'q> {
    /// So many fields are looked through faster than they are hashed.
    const FEW: usize = 8;

    pub(super) fn new(
        query: &'q Query,
        is_sorted: bool,
        path_of: impl Fn(&FieldPath) -> FieldPath,
    ) -> Self {
        let mut fields = vec![];
        let mut numbers = HashMap::new();
        let mut number_of = |field: &'q FieldPath| {
            *numbers.entry(field).or_insert_with(|| {
                fields.push(field);
                fields.len() - 1
            })
        };
        let sorted = query.order.keys().iter().map(|key| number_of(&key.field)).collect();
        let mut tests = vec![];
        query.filter.for_each_field(&mut |field, test| tests.push((number_of(field), test)));
        let mut tested: Vec<_> = fields.iter().map(|_| Tested::default()).collect();
        for (number, test) in tests {
            let Some(tested) = tested.get_mut(number) else { continue };
            tested.times += 1;
            tested.asked.extend(match test {
                Test::Contains(value) => Some(value),
                _ => None,
            });
        }
        for Tested { asked, .. } in &mut tested {
            asked.sort_by(|a, b| a.order(b));
            asked.dedup();
        }
        let wanted = Wanted::new(fields.iter().map(|field| path_of(field)).collect());
        Self { query, is_sorted, fields, wanted, sorted, tested, numbers }
    }

    pub(super) fn takes_all(&self) -> bool {
        self.query.filter.is_everything() && self.query.search.is_empty()
    }

    /// Whether an item is one of the query; with what was found of it.
    pub(super) fn matches<'t>(
        &self,
        items: &impl Items,
        number: u32,
        text: &'t str,
        found: &mut Vec<Found<'t>>,
    ) -> Result<bool, CollectionError> {
        if !self.fields.is_empty() {
            items.find(number, text, &self.wanted, found)?;
        }
        Ok(self.passes(found) && self.is_hit(items, text)?)
    }

    /// Whether an item passes the filter of which this was found.
    fn passes(&self, found: &[Found<'_>]) -> bool {
        // A member may be long: what is tested more than once is made a value of once.
        let is_kept = self.tested.iter().any(|tested| tested.times > 1);
        let kept = if is_kept { self.fields.len() } else { 0 };
        let kept: Vec<OnceCell<Member<'static>>> = (0..kept).map(|_| OnceCell::new()).collect();
        self.query.filter.matches(&|field: &FieldPath| self.member(field, found, &kept))
    }

    fn member<'k>(
        &self,
        field: &FieldPath,
        found: &[Found<'_>],
        kept: &'k [OnceCell<Member<'static>>],
    ) -> Member<'k> {
        let number = self.number_of(field).unwrap_or(usize::MAX);
        let asked = self.tested.get(number).map_or([].as_slice(), |tested| &tested.asked);
        let member = || found.get(number).unwrap_or(&Found::Missing).member(asked);
        match kept.get(number) {
            Some(kept) => kept.get_or_init(member).borrowed(),
            None => member(),
        }
    }

    /// What is known of an item without reading it.
    pub(super) fn outside(&self, items: &impl Items, number: u32) -> Vec<Found<'static>> {
        let found = |path| items.outside(number, path).unwrap_or(Found::Missing);
        self.wanted.paths().iter().map(found).collect()
    }

    /// Whether an item is one of the query of which no more was found. What is not known of it is not
    /// taken for missing: it would pass a test that says `not`.
    pub(super) fn matches_outside(&self, items: &impl Items, found: &[Found<'_>]) -> bool {
        let mut tested = self.wanted.paths().iter().zip(&self.tested);
        let is_known =
            tested.all(|(path, tested)| tested.times == 0 || items.outside(0, path).is_some());
        self.query.search.is_empty() && is_known && self.passes(found)
    }

    /// Whether it needs anything of what is in an item.
    pub(super) fn looks_into(&self, items: &impl Items) -> bool {
        let is_inside = |path| items.outside(0, path).is_none();
        !self.query.search.is_empty() || self.wanted.paths().iter().any(is_inside)
    }

    fn is_hit(&self, items: &impl Items, text: &str) -> Result<bool, CollectionError> {
        let search = &self.query.search;
        Ok(search.is_empty() || items.is_hit(text, search)?)
    }

    fn number_of(&self, field: &FieldPath) -> Option<usize> {
        if self.fields.len() > Self::FEW {
            return self.numbers.get(field).copied();
        }
        self.fields.iter().position(|other| *other == field)
    }

    /// The values that an item is sorted by.
    pub(super) fn sort_values(&self, found: &[Found<'_>]) -> impl Iterator<Item = Scalar> {
        let values = self.sorted.iter().map(|field| found.get(*field));
        values.map(|value| value.map_or(Scalar::Null, Found::scalar))
    }

    /// Appends the bytes that an item is sorted by.
    pub(super) fn write_key(&self, found: &[Found<'_>], out: &mut Vec<u8>) {
        sort_key::write(&self.query.order, self.sort_values(found), out);
    }
}
