//! Limits of a source, and what every connection is told when it starts.

use std::time::Duration;

/// How long a statement may run by default: longer than any page that an index serves, shorter than
/// callers wait.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a statement waits for a lock by default: an `ALTER TABLE` that waits for a long report
/// must not make every page wait with it.
const LOCK_TIMEOUT: Duration = Duration::from_secs(3);

/// How long a scan may pause between two chunks by default: the rest of the copy is being written.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// How long connecting, and waiting for a free connection, may take by default.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Connections of a source by default: servers allow about a hundred to all of their clients.
const CONNECTIONS_MAX: usize = 8;

/// Limits of a [`PostgresSource`](super::PostgresSource).
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct PostgresSettings {
    statement_timeout: Duration,
    lock_timeout: Duration,
    idle_timeout: Duration,
    connect_timeout: Duration,
    connections_max: usize,
}

impl PostgresSettings {
    /// How long a statement may run; 10 s unless told.
    pub const fn statement_timeout(mut self, timeout: Duration) -> Self {
        self.statement_timeout = timeout;
        self
    }

    /// How long a statement waits for a lock; 3 s unless told.
    pub const fn lock_timeout(mut self, timeout: Duration) -> Self {
        self.lock_timeout = timeout;
        self
    }

    /// How long a scan may pause between two chunks; 60 s unless told.
    pub const fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle_timeout = timeout;
        self
    }

    /// How long connecting, and waiting for a free connection, may take; 5 s unless told.
    pub const fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// How many connections there are at most, at least one; 8 unless told.
    pub const fn connections_max(mut self, count: usize) -> Self {
        self.connections_max = if count == 0 { 1 } else { count };
        self
    }

    pub(super) const fn limits(&self) -> (usize, Duration) {
        (self.connections_max, self.connect_timeout)
    }

    /// When to give a connection up that does not answer: the server ends a statement by itself, so
    /// this is for servers that are gone without a word. A page prepares and executes.
    pub(super) fn answer_timeout(&self) -> Duration {
        self.statement_timeout.saturating_mul(2).saturating_add(self.connect_timeout)
    }

    /// Command-line options for the server process of a connection. Given at start, they are what
    /// `RESET ALL` goes back to.
    pub(super) fn startup_options(&self) -> String {
        let limits = self.time_limits().map(|(name, limit)| format!("-c {name}={limit}"));
        let constants = CONSTANTS.map(|(name, value)| format!("-c {name}={value}"));
        format!("{} {}", limits.join(" "), constants.join(" "))
    }

    /// The statement that sets the time of a statement for one transaction.
    pub(super) fn limit_of_statement(&self) -> String {
        let [(name, limit), ..] = self.time_limits();
        format!("SET LOCAL {name} = {limit}")
    }

    /// Statements that set all time limits for one transaction.
    pub(super) fn limits_of_transaction(&self) -> String {
        let limits = self.time_limits();
        limits.map(|(name, limit)| format!("SET LOCAL {name} = {limit}")).join("; ")
    }

    /// A query for the settings that a read must leave as they are, as one text.
    pub(super) fn query_of_settings() -> String {
        let own = Self::default().time_limits().map(|(name, _)| name);
        let constants = CONSTANTS.map(|(name, _)| name);
        let names = own.iter().chain(&constants).chain(&["role", "session_authorization"]);
        let settings = names.map(|name| format!("pg_catalog.current_setting('{name}')"));
        let settings: Vec<_> = settings.collect();
        format!("SELECT pg_catalog.concat_ws('\n', {})", settings.join(", "))
    }

    /// The names of the time limits, with their milliseconds.
    fn time_limits(&self) -> [(&'static str, u128); 3] {
        let limits = [
            ("statement_timeout", self.statement_timeout),
            ("lock_timeout", self.lock_timeout),
            ("idle_in_transaction_session_timeout", self.idle_timeout),
        ];
        // Zero would switch the limit off, and the server counts up to 2^31−1.
        limits.map(|(name, limit)| (name, limit.as_millis().clamp(1, i32::MAX as u128)))
    }
}

impl Default for PostgresSettings {
    fn default() -> Self {
        Self {
            statement_timeout: STATEMENT_TIMEOUT,
            lock_timeout: LOCK_TIMEOUT,
            idle_timeout: IDLE_TIMEOUT,
            connect_timeout: CONNECT_TIMEOUT,
            connections_max: CONNECTIONS_MAX,
        }
    }
}

/// What the text of values and the order of rows depend on, and that nothing is written.
///
/// Parallel workers would run the branches of a page in any order; `jit` costs more than a page.
/// By the cost of a random page on a disk that turns, reading by an index and then sorting seems
/// better than by the index that has the order, which is wrong when there are more ties than the
/// planner believes. A temporary table or type can not get in front of those of the system.
const CONSTANTS: [(&str, &str); 11] = [
    ("default_transaction_read_only", "on"),
    ("search_path", "pg_catalog,pg_temp"),
    ("TimeZone", "UTC"),
    ("DateStyle", "ISO"),
    ("IntervalStyle", "iso_8601"),
    ("extra_float_digits", "1"),
    ("bytea_output", "hex"),
    ("lc_monetary", "C"),
    ("max_parallel_workers_per_gather", "0"),
    ("random_page_cost", "1.1"),
    ("jit", "off"),
];

/// Settings of a [`PostgresCollection`](super::PostgresCollection).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct PostgresOptions {
    pub(super) key: Option<Vec<String>>,
    pub(super) require_index: bool,
}

impl PostgresOptions {
    /// The columns that tell rows apart, instead of what the table declares: the way to give a view
    /// a key. That they do, and hold no null, is checked once, when the collection is opened, by
    /// reading everything. Rows that break it later are skipped or met twice.
    pub fn key<N: Into<String>>(mut self, columns: impl IntoIterator<Item = N>) -> Self {
        self.key = Some(columns.into_iter().map(Into::into).collect());
        self
    }

    /// Whether orders that no index serves are refused, instead of read by a scan. A view has no
    /// indexes of its own, so that it is refused altogether.
    pub const fn require_index(mut self, require: bool) -> Self {
        self.require_index = require;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_never_switched_off() {
        let settings = PostgresSettings::default()
            .statement_timeout(Duration::ZERO)
            .lock_timeout(Duration::MAX)
            .connections_max(0);
        let options = settings.startup_options();
        assert!(options.contains("-c statement_timeout=1 "), "{options}");
        assert!(options.contains("-c lock_timeout=2147483647 "), "{options}");
        assert_eq!(settings.limits().0, 1);
        assert!(settings.answer_timeout() > Duration::ZERO);
    }
}
