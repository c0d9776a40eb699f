//! Statements of pages, kept from page to page.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use handback_page::{CollectionError, Fetch, Query, Scalar, Window};

use super::catalog::Layout;
use super::fit;
use super::rows::Selection;
use super::statement::{PageStatement, Probe, exact_page, page};

/// How many a table keeps: as many walks as go on at a time over one table.
const PAGES_MAX: usize = 32;

/// Longer ones are not kept: callers choose the shape of filters, and the values in them.
const KEPT_BYTES_MAX: usize = 64 * 1024;

/// What the pages of a walk have in common.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) found_by: PageStatement,
    pub(super) selection: Selection,
    /// In values that fit.
    pub(super) query: Query,
    missed: AtomicBool,
}

/// How much a page must tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// What is on the other side, if that is cheap to tell.
    Cheap(Probe),
    /// That in any case, and, if so, how many rows match.
    All { total: bool },
}

impl Page {
    fn new(layout: &Layout, fetch: &Fetch<'_>, told: Told) -> Result<Self, CollectionError> {
        let query = fit::query(fetch.query, layout)?;
        if let Some(place) = place(fetch.window) {
            fit::place(place, &query.order, layout)?;
        }
        let selection = Selection::new(layout, fetch.columns, &query.order)?;
        let found_by = match told {
            Told::Cheap(probe) => page(layout, &selection, &query, fetch.window, probe)?,
            Told::All { total } => exact_page(layout, &selection, &query, fetch.window, total)?,
        };
        Ok(Self { found_by, selection, query, missed: AtomicBool::new(false) })
    }

    /// Notes that the row at the place was gone. Where one goes, others go: rows that do not match
    /// any more when they are worked on, for example.
    pub(super) fn miss(&self) {
        self.missed.store(true, Ordering::Relaxed);
    }

    /// Whether the row at a place was gone before.
    pub(super) fn has_missed(&self) -> bool {
        self.missed.load(Ordering::Relaxed)
    }
}

/// Pages of one table, the last used first.
#[derive(Debug, Default)]
pub(super) struct Pages(Mutex<Vec<(Made, Arc<Page>)>>);

impl Pages {
    /// What finds a window, whose place is one that fits the query.
    pub(super) fn page(
        &self,
        layout: &Layout,
        fetch: &Fetch<'_>,
        told: Told,
    ) -> Result<Arc<Page>, CollectionError> {
        if let Some(page) = self.kept(fetch, told) {
            if let Some(place) = place(fetch.window) {
                fit::place(place, &page.query.order, layout)?;
            }
            return Ok(page);
        }
        let page = Arc::new(Page::new(layout, fetch, told)?);
        if page.found_by.statement.weight() <= KEPT_BYTES_MAX {
            let mut pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            pages.truncate(PAGES_MAX - 1);
            pages.insert(0, (Made::new(fetch, told), Arc::clone(&page)));
        }
        Ok(page)
    }

    fn kept(&self, fetch: &Fetch<'_>, told: Told) -> Option<Arc<Page>> {
        let mut pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let number = pages.iter().position(|(made, _)| made.is_for(fetch, told))?;
        pages.get_mut(..=number)?.rotate_right(1);
        pages.first().map(|(_, page)| Arc::clone(page))
    }
}

/// What a page was made for.
#[derive(Debug)]
struct Made {
    query: Query,
    columns: Option<Vec<String>>,
    way: Way,
    limit: usize,
    /// Which values of the place are null.
    nulls: Option<Vec<bool>>,
    told: Told,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Forward,
    Backward,
    Start,
    Offset,
}

impl Made {
    fn new(fetch: &Fetch<'_>, told: Told) -> Self {
        Self {
            query: fetch.query.clone(),
            columns: fetch.columns.map(<[String]>::to_vec),
            way: Way::of(fetch.window),
            limit: fetch.window.limit(),
            nulls: place(fetch.window).map(|place| nulls(place).collect()),
            told,
        }
    }

    fn is_for(&self, fetch: &Fetch<'_>, told: Told) -> bool {
        let same_nulls = match (&self.nulls, place(fetch.window)) {
            (None, None) => true,
            (Some(made_for), Some(place)) => made_for.iter().copied().eq(nulls(place)),
            _ => false,
        };
        same_nulls
            && self.way == Way::of(fetch.window)
            && self.limit == fetch.window.limit()
            && self.told == told
            && self.columns.as_deref() == fetch.columns
            && self.query == *fetch.query
    }
}

impl Way {
    const fn of(window: Window<'_>) -> Self {
        match window {
            Window::Forward { .. } => Self::Forward,
            Window::Backward { .. } => Self::Backward,
            Window::Offset { offset: 0, .. } => Self::Start,
            Window::Offset { .. } => Self::Offset,
        }
    }
}

const fn place(window: Window<'_>) -> Option<&[Scalar]> {
    match window {
        Window::Forward { after: place, .. } | Window::Backward { before: place, .. } => place,
        Window::Offset { .. } => None,
    }
}

fn nulls(place: &[Scalar]) -> impl Iterator<Item = bool> {
    place.iter().map(Scalar::is_null)
}
