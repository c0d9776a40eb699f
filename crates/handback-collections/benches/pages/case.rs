//! Which pages of a table are measured, and by whom.

use std::fmt;

use anyhow::{Result, ensure};

use crate::data::{STATUSES, Shown};
use crate::measure::{Effort, Times, Turn, interleave};

/// Items of a page.
pub(crate) const PAGE: usize = 20;

/// A table has a multiple of so many rows: then each depth is one of so many statuses.
pub(crate) const ROWS_STEP: i64 = 400;

/// One status of the four: every fourth row.
pub(crate) const STATUS: &str = STATUSES[0];

/// A page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) filtered: bool,
    pub(crate) way: Way,
    /// Rows of the table between the page and where its walk starts.
    pub(crate) depth: i64,
    rows: i64,
}

/// From which end of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Forward,
    Backward,
}

/// Who finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contender {
    Handback,
    Keyset,
    Offset,
}

impl Contender {
    pub(crate) const ALL: [Self; 3] = [Self::Handback, Self::Keyset, Self::Offset];
}

impl Case {
    pub(crate) fn all(rows: i64) -> Vec<Self> {
        let mut cases = Vec::new();
        for filtered in [false, true] {
            for way in [Way::Forward, Way::Backward] {
                let depths = [0, rows / 10, rows / 100 * 99];
                cases.extend(depths.map(|depth| Self { filtered, way, depth, rows }));
            }
        }
        cases
    }

    /// The id of the row that the page follows in its walk. Ids are 1 to the number of rows; a
    /// filtered walk meets those that four divides, and no cursor is of another row.
    pub(crate) const fn place(&self) -> i64 {
        let step = if self.filtered { 4 } else { 1 };
        match self.way {
            Way::Forward => self.depth,
            Way::Backward => self.rows + step - self.depth,
        }
    }

    /// `SELECT … WHERE status = STATUS AND id > PLACE …`, with these parameters.
    pub(crate) fn keyset_sql(&self, status: &str, place: &str) -> String {
        let filter = if self.filtered { format!("status = {status} AND ") } else { String::new() };
        let (operator, order) = self.way.words();
        format!("{SELECT} WHERE {filter}id {operator} {place} ORDER BY id{order} LIMIT {PAGE}")
    }

    /// The same page by `OFFSET`, which is written out so that a planner knows it.
    pub(crate) fn offset_sql(&self, status: &str) -> String {
        let filter =
            if self.filtered { format!(" WHERE status = {status}") } else { String::new() };
        let (_, order) = self.way.words();
        let statuses = if self.filtered { 4 } else { 1 };
        let offset = self.depth / statuses;
        format!("{SELECT}{filter} ORDER BY id{order} LIMIT {PAGE} OFFSET {offset}")
    }
}

const SELECT: &str = "SELECT id, status, customer, total, created_at, note FROM orders";

impl Way {
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Forward => (">", ""),
            Self::Backward => ("<", " DESC"),
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Forward => "forward",
            Self::Backward => "backward",
        })
    }
}

/// A table with all who find pages of it.
pub(crate) trait Table {
    /// The JSON of the page of this case, by its number.
    fn page(&mut self, contender: Contender, number: usize) -> Result<String>;
}

/// What was measured of a table.
pub(crate) struct Measured {
    pub(crate) title: String,
    /// In the order of [`Contender::ALL`].
    pub(crate) cases: Vec<(Case, [Times; 3])>,
}

impl Measured {
    pub(crate) fn run(
        title: String,
        cases: Vec<Case>,
        table: &mut dyn Table,
        effort: &Effort,
    ) -> Result<Self> {
        for (number, case) in cases.iter().enumerate() {
            check(table, number, case)?;
        }
        let everyone = cases.iter().enumerate().flat_map(|(number, case)| {
            Contender::ALL.map(|contender| (number, contender, case.depth))
        });
        let turns: Vec<_> = everyone
            .map(|(number, contender, depth)| {
                let is_slow = contender == Contender::Offset && depth > 0;
                ((contender, number), if is_slow { Turn::Seldom } else { Turn::Always })
            })
            .collect();
        let mut times =
            interleave(effort, &turns, |&(contender, number)| table.page(contender, number))?
                .into_iter();
        let cases = cases
            .into_iter()
            .map(|case| (case, Contender::ALL.map(|_| times.next().unwrap_or_default())));
        Ok(Self { title, cases: cases.collect() })
    }
}

/// Everyone finds the same rows, all of them, with the same values.
fn check(table: &mut dyn Table, number: usize, case: &Case) -> Result<()> {
    let mut pages = Vec::new();
    for contender in Contender::ALL {
        let text = table.page(contender, number)?;
        let mut page: Vec<Shown<'_>> = match contender {
            Contender::Handback => crate::handback::items(&text)?,
            Contender::Keyset | Contender::Offset => serde_json::from_str(&text)?,
        };
        page.sort_unstable_by_key(|row| row.id);
        let page: Vec<_> = page.into_iter().map(|row| row.to_string()).collect();
        ensure!(page.len() == PAGE, "{contender:?} found {} rows of {case:?}", page.len());
        pages.push(page);
    }
    ensure!(pages.array_windows().all(|[a, b]| a == b), "other rows of {case:?}: {pages:#?}");
    Ok(())
}
