//! A database: its connections, and how statements are sent through them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{
    ClientWrapper, Hook, HookError, Manager, ManagerConfig, Pool, RecyclingMethod, Runtime,
    Timeouts,
};
use handback_page::CollectionError;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio_postgres::config::{ChannelBinding, SslMode, SslNegotiation};
use tokio_postgres::{Config, NoTls, Row};

use super::alarm::Alarms;
use super::call::Call;
use super::collection::PostgresCollection;
use super::error::{Fault, PostgresError};
use super::session::{Session, Transactions};
use super::settings::{PostgresOptions, PostgresSettings};

/// Rows of a scan that are asked for at first, and at most.
const CHUNK_ROWS: (i32, i32) = (64, 4096);

/// What a chunk of a scan should be long: it is in memory as a whole.
const CHUNK_BYTES: usize = 1 << 20;

/// Time to tell a server that a statement is given up.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

/// A database, and connections to it that its collections share.
///
/// Cloning it is cheap, and gives the same connections.
///
/// # Panics
///
/// Its functions, and those of its collections, block until the server has answered. They panic
/// where blocking is not allowed: inside of `async` code. A server calls them by
/// `tokio::task::spawn_blocking`.
#[derive(Clone)]
pub struct PostgresSource {
    shared: Arc<Shared>,
}

struct Shared {
    pool: Pool,
    runtime: Handle,
    settings: PostgresSettings,
    transactions: Arc<Transactions>,
    /// For answers that do not come.
    alarms: Alarms,
}

impl PostgresSource {
    /// Connects to the database that `url` names, once, to see whether it can be done. More
    /// connections are made when they are needed.
    ///
    /// `runtime` is where connections live; it must be a multi-threaded one.
    ///
    /// # Errors
    ///
    /// [`PostgresError`] if the URL cannot be used, or the server cannot be reached or refuses.
    pub fn connect(url: &str, runtime: &Handle) -> Result<Self, PostgresError> {
        Self::connect_with(url, &PostgresSettings::default(), runtime)
    }

    /// [`connect`](Self::connect), with other limits than the default.
    ///
    /// # Errors
    ///
    /// As above.
    pub fn connect_with(
        url: &str,
        settings: &PostgresSettings,
        runtime: &Handle,
    ) -> Result<Self, PostgresError> {
        if runtime.runtime_flavor() == RuntimeFlavor::CurrentThread {
            return Err(PostgresError::UnfitRuntime);
        }
        let config = config(url, settings)?;
        let recycling_method = RecyclingMethod::Fast;
        let manager = Manager::from_config(config, NoTls, ManagerConfig { recycling_method });
        let (connections_max, patience) = settings.limits();
        let timeouts =
            Timeouts { wait: Some(patience), create: Some(patience), recycle: Some(patience) };
        let pool = Pool::builder(manager)
            .max_size(connections_max)
            .timeouts(timeouts)
            .post_create(Hook::async_fn(|client: &mut ClientWrapper, _| {
                Box::pin(async {
                    client.batch_execute(&Transactions::prepare()).await.map_err(HookError::Backend)
                })
            }))
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|_| PostgresError::UnfitRuntime)?;
        let alarms = Alarms::new(settings.answer_timeout());
        let transactions = Arc::new(Transactions::new(settings));
        let (runtime, settings) = (runtime.clone(), settings.clone());
        let shared = Shared { pool, runtime, settings, transactions, alarms };
        let source = Self { shared: Arc::new(shared) };
        source.run(async |_| Ok(())).map_err(|fault| PostgresError::Source(fault.into_error()))?;
        Ok(source)
    }

    /// Opens a table or view.
    ///
    /// # Errors
    ///
    /// [`PostgresError`] if there is none, if nothing tells its rows apart, or if the server does
    /// not answer.
    pub fn open(
        &self,
        schema: &str,
        table: &str,
        options: PostgresOptions,
    ) -> Result<PostgresCollection, PostgresError> {
        PostgresCollection::open(self, schema, table, options)
    }

    /// Does some work in a read-only transaction, within the time that an answer may take; on a new
    /// connection once more if the connection turns out to be dead.
    pub(super) fn run<T>(
        &self,
        work: impl AsyncFn(&Session) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        self.shared.runtime.block_on(async {
            match self.attempt(&work).await {
                Err(Fault::Lost) => {
                    // What killed one connection (a restart) has killed the others as well.
                    self.shared.pool.retain(|_, _| false);
                    self.attempt(&work).await
                }
                other => other,
            }
        })
    }

    async fn attempt<T>(
        &self,
        work: &impl AsyncFn(&Session) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let session = self.session().await?;
        let read = session.read(work);
        let result = self.shared.alarms.wait(read).await.unwrap_or_else(|| {
            self.cancel(&session);
            Err(no_answer())
        });
        session.give_back(result)
    }

    /// Gives a connection up, and tells the server to end its statement. A function can turn
    /// `statement_timeout` off for the statement that called the function.
    fn cancel(&self, session: &Session) {
        session.spoil();
        let token = session.cancel_token();
        self.shared.runtime.spawn(async move {
            let _ = tokio::time::timeout(CANCEL_TIMEOUT, token.cancel_query(NoTls)).await;
        });
    }

    async fn session(&self) -> Result<Session, Fault> {
        let client = self.shared.pool.get().await.map_err(Fault::from_pool)?;
        Ok(Session::new(client, Arc::clone(&self.shared.transactions)))
    }

    /// Gives the rows of one statement to `sink`, in chunks: a portal of a transaction keeps the
    /// snapshot while `sink`, which may take its time, is at work.
    pub(super) fn scan(
        &self,
        call: Call<'_>,
        sink: &mut dyn FnMut(&Row) -> Result<usize, CollectionError>,
    ) -> Result<(), Fault> {
        match self.scan_once(call, sink) {
            (0, Err(Fault::Lost)) => {
                self.shared.pool.retain(|_, _| false);
                self.scan_once(call, sink).1
            }
            (_, result) => result,
        }
    }

    /// How many rows `sink` got, and how it ended.
    fn scan_once(
        &self,
        call: Call<'_>,
        sink: &mut dyn FnMut(&Row) -> Result<usize, CollectionError>,
    ) -> (u64, Result<(), Fault>) {
        let mut given = 0;
        let mut session = match self.shared.runtime.block_on(self.session()) {
            Ok(session) => session,
            Err(fault) => return (given, Err(fault)),
        };
        let result = self.scan_in(&mut session, call, &mut |row| {
            given += 1;
            sink(row)
        });
        if result.is_err() {
            // A portal may be open, with more rows than anyone wants.
            session.spoil();
        }
        (given, session.give_back(result))
    }

    fn scan_in(
        &self,
        session: &mut Session,
        call: Call<'_>,
        sink: &mut dyn FnMut(&Row) -> Result<usize, CollectionError>,
    ) -> Result<(), Fault> {
        // `sink` runs outside of the runtime: it may block, or wait for the runtime itself.
        let (transaction, portal) = self.wait(session.portal(call))?;
        let mut rows_max = CHUNK_ROWS.0;
        loop {
            let rows =
                self.wait(async { Ok(transaction.query_portal(&portal, rows_max).await?) })?;
            let mut bytes = 0;
            for row in &rows {
                bytes += sink(row)?;
            }
            if rows.len() < usize::try_from(rows_max).unwrap_or(usize::MAX) {
                break;
            }
            rows_max = next_chunk(rows.len(), bytes);
        }
        self.wait(async { Ok(transaction.rollback().await?) })?;
        self.wait(async {
            session.end().await;
            Ok(())
        })
    }

    fn wait<T>(&self, work: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
        let result = self.shared.runtime.block_on(self.shared.alarms.wait(work));
        result.unwrap_or_else(|| Err(no_answer()))
    }
}

impl fmt::Debug for PostgresSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresSource")
            .field("settings", &self.shared.settings)
            .finish_non_exhaustive()
    }
}

fn no_answer() -> Fault {
    Fault::unavailable("the server did not answer in time")
}

/// As many rows as would have been [`CHUNK_BYTES`] long, judging by the last ones.
fn next_chunk(rows: usize, bytes: usize) -> i32 {
    let wanted = rows.saturating_mul(CHUNK_BYTES) / bytes.max(1);
    i32::try_from(wanted).unwrap_or(i32::MAX).clamp(1, CHUNK_ROWS.1)
}

fn config(url: &str, settings: &PostgresSettings) -> Result<Config, PostgresError> {
    // The driver has no word for these two.
    if url.contains("sslmode=verify-") {
        return Err(PostgresError::TlsUnavailable);
    }
    let mut config: Config = url.parse().map_err(|_| PostgresError::BadUrl)?;
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        return Err(PostgresError::BadUrl);
    }
    if config.get_ssl_mode() == SslMode::Require
        || config.get_ssl_negotiation() == SslNegotiation::Direct
        || config.get_channel_binding() == ChannelBinding::Require
    {
        return Err(PostgresError::TlsUnavailable);
    }
    let options = match config.get_options() {
        // The last word is ours.
        Some(given) => format!("{given} {}", settings.startup_options()),
        None => settings.startup_options(),
    };
    config.ssl_mode(SslMode::Disable).options(options).application_name("handback");
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_that_wants_tls_is_refused_by_name() {
        let settings = PostgresSettings::default();
        let config = |url: &str| config(url, &settings);
        for mode in ["require", "verify-ca", "verify-full"] {
            let url = format!("postgres://me:secret@db.example/x?sslmode={mode}");
            assert!(matches!(config(&url), Err(PostgresError::TlsUnavailable)), "{mode}");
        }
        for mode in ["prefer", "disable"] {
            let url = format!("postgres://me:secret@db.example/x?sslmode={mode}");
            assert_eq!(config(&url).unwrap().get_ssl_mode(), SslMode::Disable);
        }
        for url in ["", "postgres://", "mysql://me:secret@db/x", "postgres://me:secret@db:secret/x"]
        {
            let error = config(url).unwrap_err();
            assert!(matches!(error, PostgresError::BadUrl), "{url}");
            assert!(!format!("{error} {error:?}").contains("secret"));
        }
    }

    #[test]
    fn options_of_the_url_come_before_ours() {
        let url = "postgres://db/x?options=-c%20role%3Dreader";
        let config = config(url, &PostgresSettings::default()).unwrap();
        let options = config.get_options().unwrap();
        assert!(options.starts_with("-c role=reader -c statement_timeout="), "{options}");
        assert_eq!(config.get_application_name(), Some("handback"));
    }

    #[test]
    fn a_chunk_grows_until_it_is_long_enough() {
        assert_eq!(next_chunk(64, 0), CHUNK_ROWS.1);
        assert_eq!(next_chunk(64, 64 * 1024), 1024);
        assert_eq!(next_chunk(64, usize::MAX), 1);
    }
}
