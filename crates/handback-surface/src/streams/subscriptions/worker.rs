//! The work of one slice for one owner.

use std::sync::Arc;

use super::book::{After, Book, Full, Scan, Todo};
use super::manager::Subscriptions;
use super::owners::Owner;
use super::slices::Budget;
use super::state::{Link, Position};
use super::tails::position;
use crate::streams::directory::Change;

/// Paths that are read from the directory at a time: some microseconds under its lock.
const PATHS_PER_PAGE: usize = 256;

/// Changed streams that are taken from the directory at a time.
const CHANGES_PER_TAKE: usize = 256;

/// Steps of a look at a subscription, which may write to the store after the slice: 20 looks follow a
/// slice at most.
const LOOK_STEPS: u64 = 10_000;

/// Steps of a look for each stream that is followed: its end is looked up, and it is stored with the
/// wake.
const LINK_STEPS: u64 = 200;

/// Steps of a path that is not matched.
const PATH_STEPS: u64 = 4;

/// Works for an owner until the budget is spent.
pub(super) struct Worker<'a> {
    pub(super) all: &'a Arc<Subscriptions>,
    pub(super) owner: &'a Owner,
    pub(super) book: &'a mut Book,
    pub(super) budget: &'a mut Budget,
    /// Work that comes after the slice.
    pub(super) after: &'a mut Vec<After>,
}

impl Worker<'_> {
    /// Does what there is to do. Returns whether there is more.
    pub(super) fn run(&mut self) -> bool {
        while !self.budget.is_spent() {
            if self.book.todo.is_empty() {
                self.take_changes();
            }
            if self.book.todo.is_empty() {
                self.book.retry_incomplete();
            }
            let Some(todo) = self.book.todo.pop_front() else { return false };
            match todo {
                Todo::Match { path, after } => {
                    if after.is_none() {
                        self.renew(&path);
                    }
                    let next = match self.match_new(&path, after) {
                        Some(after) => Todo::Match { path, after: Some(after) },
                        None => Todo::Grown(path),
                    };
                    self.book.todo.push_front(next);
                }
                Todo::Grown(path) => {
                    self.budget.spend(PATH_STEPS);
                    for id in self.book.of_path(&path) {
                        let look = Todo::Look { id, path: Some(Arc::clone(&path)) };
                        self.book.todo.push_front(look);
                    }
                }
                Todo::Look { id, path } => {
                    self.budget.spend(LOOK_STEPS + self.links_of_look(&id) * LINK_STEPS);
                    self.after.push(After::Look { id, path });
                }
                Todo::Ended(path) => self.renew(&path),
                Todo::Renew { id, after } => {
                    if let Some(after) = self.renew_links(&id, after) {
                        self.book.todo.push_front(Todo::Renew { id, after: Some(after) });
                    }
                }
                Todo::Scan(scan) => self.rescan(scan),
            }
        }
        true
    }

    /// The streams that a look may go through. A look at a subscription that somebody works on is short.
    fn links_of_look(&self, id: &str) -> u64 {
        let idle = self.book.get(id).filter(|known| !known.is_busy() || known.is_unannounced());
        idle.map_or(0, |subscription| subscription.links.len() as u64)
    }

    fn take_changes(&mut self) {
        if self.owner.namespace.take_lost_ends() {
            let ids = self.book.ids().into_iter();
            self.book.todo.extend(ids.map(|id| Todo::Renew { id, after: None }));
        }
        let changes = self.owner.namespace.take_changes(CHANGES_PER_TAKE);
        self.book.todo.extend(changes.into_iter().map(|(path, change)| match change {
            Change::Created => Todo::Match { path, after: None },
            Change::Grown => Todo::Grown(path),
            Change::Ended => Todo::Ended(path),
        }));
    }

    /// Has those who follow a path follow the stream that is there now.
    fn renew(&mut self, path: &str) {
        let position = self.position(path);
        for id in self.book.of_path(path) {
            self.budget.spend(LINK_STEPS);
            self.book.renew(&id, path, position);
        }
    }

    /// The same for the paths of a subscription after one of them. Returns the last one if the budget
    /// is spent.
    fn renew_links(&mut self, id: &str, mut after: Option<String>) -> Option<String> {
        loop {
            let path = self.book.next_link(id, after.as_deref())?.to_owned();
            self.budget.spend(LINK_STEPS);
            self.book.renew(id, &path, self.position(&path));
            if self.budget.is_spent() {
                return Some(path);
            }
            after = Some(path);
        }
    }

    fn position(&self, path: &str) -> Option<Position> {
        position(&self.all.streams, self.owner.namespace.owner(), path)
    }

    /// Matches a new stream with the patterns of subscriptions after one of them. Returns the last one
    /// if the budget is spent.
    fn match_new(&mut self, path: &str, mut after: Option<String>) -> Option<String> {
        loop {
            let (id, covers) = {
                let (id, pattern) = self.book.next_pattern(after.as_deref())?;
                self.budget.spend(PATH_STEPS);
                (id.to_owned(), self.budget.matches(pattern, path))
            };
            if covers {
                let _ = self.link_at_start(&id, path);
            }
            if self.budget.is_spent() {
                return Some(id);
            }
            after = Some(id);
        }
    }

    /// Follows a stream from its first record on: all of it is new.
    fn link_at_start(&mut self, id: &str, path: &str) -> Result<(), Full> {
        let Some(position) = self.position(path) else { return Ok(()) };
        let linked = self.book.link(id, path, Link::from_start(position));
        linked.inspect_err(|_| self.book.mark_incomplete(id))
    }

    /// Continues with the streams that a stored subscription may not know yet, or that had no room,
    /// until one of them finds no room.
    fn rescan(&mut self, mut scan: Scan) {
        let id = scan.id.clone();
        let is_done = self.scan(&mut scan, &mut |this, path| this.link_at_start(&id, path));
        if is_done == Ok(false) {
            self.book.todo.push_back(Todo::Scan(scan));
            return;
        }
        let now = self.all.streams.now();
        let is_news = self.book.mark_complete(&scan) || scan.has_matched;
        if let Some(subscription) = self.book.get_mut(&id).filter(|_| is_news) {
            // Streams that were created since then are matched one by one.
            subscription.matched_ms = self.all.opened_ms.min(now);
            self.budget.spend(LOOK_STEPS);
            self.after.push(After::Store { id: id.clone() });
        }
        self.book.todo.push_back(Todo::Look { id, path: None });
    }

    /// Follows the streams that a new subscription names.
    pub(super) fn link_named(&mut self, id: &str) -> Result<(), Full> {
        let Some(entry) = self.book.entry(id) else { return Ok(()) };
        for path in entry.subscription.config.streams.clone() {
            self.budget.spend(PATH_STEPS);
            self.book.link(id, &path, Link::from_end(true, self.position(&path)))?;
        }
        Ok(())
    }

    /// Follows streams that are there and that a new subscription covers, each from its end on.
    /// Returns whether the scan is done.
    pub(super) fn link_existing(&mut self, scan: &mut Scan) -> Result<bool, Full> {
        let id = scan.id.clone();
        self.scan(scan, &mut |this, path| match this.position(path) {
            Some(position) => this.book.link(&id, path, Link::from_end(false, Some(position))),
            None => Ok(()),
        })
    }

    /// Goes on with a scan until the budget is spent. Returns whether it is done.
    fn scan(
        &mut self,
        scan: &mut Scan,
        link: &mut dyn FnMut(&mut Self, &str) -> Result<(), Full>,
    ) -> Result<bool, Full> {
        let entry = self.book.entry(&scan.id);
        let Some(pattern) = entry.and_then(|entry| entry.pattern.clone()) else { return Ok(true) };
        loop {
            let (prefix, after) = (pattern.literal_prefix(), scan.after.as_deref());
            let page = self.owner.namespace.page(prefix, after, PATHS_PER_PAGE);
            if page.is_empty() {
                return Ok(true);
            }
            for (path, created) in page {
                if self.budget.is_spent() {
                    return Ok(false);
                }
                self.budget.spend(PATH_STEPS);
                scan.after = Some(Arc::clone(&path));
                let Some(entry) = self.book.entry(&scan.id) else { return Ok(true) };
                let is_linked = entry.subscription.links.contains_key(&*path);
                if created >= scan.since && !is_linked {
                    scan.has_matched = true;
                    if self.budget.matches(&pattern, &path) {
                        link(self, &path)?;
                    }
                }
            }
        }
    }
}
