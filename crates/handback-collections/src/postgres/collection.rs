//! A table or view as a collection.

use std::pin::pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use futures_util::TryStreamExt as _;
use handback_page::{
    About, Collection, CollectionError, Columns, Fetch, Fetched, Query, Row, Scalar, Schema,
    Served, Sink, Window,
};
use tokio_postgres::RowStream;

use super::call::Call;
use super::catalog::{self, Layout, LookError, Sort};
use super::error::{Fault, PostgresError};
use super::fit;
use super::pages::{Page, Told};
use super::rows::{Gathered, Selection};
use super::session::Session;
use super::settings::PostgresOptions;
use super::source::PostgresSource;
use super::statement::{self, Front, PageStatement, Probe};

/// How old what is known of a table may be when its schema is asked for. A change that breaks
/// statements is noticed at once; this is for new columns and indexes.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(30);

/// Tables that are believed to have no more rows are counted to tell how many: it takes some
/// milliseconds.
const COUNTED_ROWS_MAX: f64 = 50_000.0;

/// How many values are tried, to find one that the server refused without saying which.
const TRIED_VALUES_MAX: usize = 16;

/// A table or view of a [`PostgresSource`], made by [`open`](PostgresSource::open).
///
/// Its functions block and panic as described there.
#[derive(Debug)]
pub struct PostgresCollection {
    source: PostgresSource,
    schema: String,
    table: String,
    options: PostgresOptions,
    known: RwLock<Known>,
}

#[derive(Clone, Debug)]
struct Known {
    layout: Arc<Layout>,
    since: Instant,
}

impl PostgresCollection {
    pub(super) fn open(
        source: &PostgresSource,
        schema: &str,
        table: &str,
        options: PostgresOptions,
    ) -> Result<Self, PostgresError> {
        let name = || format!("{schema}.{table}");
        let layout = look(source, schema, table, &options).map_err(|error| match error {
            LookError::NotFound => {
                PostgresError::NotFound { schema: schema.to_owned(), table: table.to_owned() }
            }
            LookError::Denied => PostgresError::Denied { table: name() },
            LookError::NoKey { hint } => PostgresError::NoKey { table: name(), hint },
            LookError::BadKey { hint } => PostgresError::BadKey { table: name(), hint },
            LookError::Fault(fault) => PostgresError::Source(fault.into_error()),
        })?;
        if layout.key_is_unproven {
            prove_key(source, &layout, &name())?;
        }
        let known = RwLock::new(Known { layout: Arc::new(layout), since: Instant::now() });
        let (schema, table) = (schema.to_owned(), table.to_owned());
        Ok(Self { source: source.clone(), schema, table, options, known })
    }

    fn known(&self) -> Known {
        self.known.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Looks at the table again.
    fn look(&self) -> Result<Arc<Layout>, CollectionError> {
        let gone = |text: &str| CollectionError::Gone(text.to_owned());
        let found = look(&self.source, &self.schema, &self.table, &self.options);
        let layout = Arc::new(found.map_err(|error| match error {
            LookError::NotFound => gone("the table was dropped or renamed"),
            LookError::Denied => {
                CollectionError::Unavailable("the database user may not read it".to_owned())
            }
            LookError::NoKey { .. } | LookError::BadKey { .. } => {
                gone("the table has another key than before")
            }
            LookError::Fault(fault) => fault.into_error(),
        })?);
        let known = Known { layout: Arc::clone(&layout), since: Instant::now() };
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = known;
        Ok(layout)
    }

    /// Does something with what is known of the table; once more if that turns out to be old.
    fn with_layout<T>(
        &self,
        mut work: impl FnMut(&Layout) -> Result<T, Fault>,
    ) -> Result<T, CollectionError> {
        match work(&self.known().layout) {
            Err(fault) if fault.is_of_old_layout() => {
                let layout = self.look()?;
                work(&layout).map_err(Fault::into_error)
            }
            result => result.map_err(Fault::into_error),
        }
    }

    fn fetch_from(&self, layout: &Layout, fetch: &Fetch<'_>) -> Result<Fetched, Fault> {
        let offset = match fetch.window {
            // So that a limit can be added to it.
            Window::Offset { offset, .. } => [Scalar::Int(offset.min(1 << 62).into())],
            Window::Forward { .. } | Window::Backward { .. } => [Scalar::Null],
        };
        let place = match fetch.window {
            Window::Forward { after: place, .. } | Window::Backward { before: place, .. } => {
                place.unwrap_or_default()
            }
            Window::Offset { .. } => &offset,
        };
        if !fetch.total {
            // Of several rows at the place, all but one would come again on every page.
            let probe = if layout.key_is_unproven { Probe::Look } else { Probe::Meet };
            let mut page = layout.pages.page(layout, fetch, Told::Cheap(probe))?;
            if page.has_missed() {
                page = layout.pages.page(layout, fetch, Told::Cheap(Probe::Look))?;
            }
            if let Some(fetched) = self.fetch_page(layout, fetch, &page, place)? {
                return Ok(fetched);
            }
            if page.found_by.front == Front::Place {
                page.miss();
            }
        }
        let page = layout.pages.page(layout, fetch, Told::All { total: fetch.total })?;
        let fetched = self.fetch_page(layout, fetch, &page, place)?;
        fetched.ok_or_else(|| CollectionError::Damaged("a page has no head".to_owned()).into())
    }

    /// A page; nothing if it does not tell what is on its other side.
    fn fetch_page(
        &self,
        layout: &Layout,
        fetch: &Fetch<'_>,
        page: &Page,
        place: &[Scalar],
    ) -> Result<Option<Fetched>, Fault> {
        let served = &page.found_by.served;
        if let (Served::ByScan { hint }, true) = (served, self.options.require_index) {
            return Err(CollectionError::NotIndexed { hint: hint.clone() }.into());
        }
        let call = page.found_by.statement.at(place);
        let found = self
            .source
            .run(async |session| {
                read_page(session, page, session.last_call(call).await?, fetch).await
            })
            .map_err(|fault| self.blame(fault, call, &page.query, layout))?;
        Ok(found.map(|found| found.into_fetched(fetch.window, served.clone())))
    }

    /// Whose value the server refused.
    fn blame(&self, fault: Fault, call: Call<'_>, query: &Query, layout: &Layout) -> Fault {
        let Fault::BadInput { parameter, .. } = fault else { return fault };
        let refused = match parameter {
            Some(number) => call.values().nth(number - 1),
            None => self.refused(call),
        };
        let Some((value, sql_type)) = refused else { return fault };
        // A value that is not in the filter is from the place.
        Fault::Final(match fit::column_of(value, sql_type, query, layout) {
            Some(column) => fit::bad_value(column),
            None => CollectionError::BadPlace,
        })
    }

    /// The first value that the server does not take. Only those of types that are not the system's
    /// are read so late that it does not say which one it is.
    fn refused<'a>(&self, call: Call<'a>) -> Option<(&'a Scalar, &'a str)> {
        let late = call.values().filter(|(_, sql_type)| sql_type.contains("::"));
        late.take(TRIED_VALUES_MAX).find(|(value, sql_type)| {
            let sql = format!("SELECT $1::{sql_type} IS NULL");
            let tried = self.source.run(async |session| {
                let rows = session.query(&sql, std::iter::once(*value)).await?;
                pin!(rows).try_next().await?;
                Ok(())
            });
            matches!(tried, Err(Fault::BadInput { .. }))
        })
    }

    fn count_in(&self, layout: &Layout, query: &Query) -> Result<u64, Fault> {
        let query = fit::query(query, layout)?;
        let statement = statement::count(layout, &query)?;
        let counted = self.source.run(async |session| {
            let rows = session.call(statement.at(&[])).await?;
            let row = pin!(rows).try_next().await?;
            let count: i64 = row.map_or(Ok(0), |row| row.try_get(0))?;
            Ok(u64::try_from(count).unwrap_or(0))
        });
        counted.map_err(|fault| self.blame(fault, statement.at(&[]), &query, layout))
    }
}

impl Collection for PostgresCollection {
    fn schema(&self) -> Result<Arc<Schema>, CollectionError> {
        let known = self.known();
        if known.since.elapsed() < LOOK_AGAIN_AFTER {
            return Ok(Arc::clone(&known.layout.schema));
        }
        Ok(Arc::clone(&self.look()?.schema))
    }

    fn fetch(&self, fetch: &Fetch<'_>) -> Result<Fetched, CollectionError> {
        self.with_layout(|layout| self.fetch_from(layout, fetch))
    }

    fn count(&self, query: &Query) -> Result<u64, CollectionError> {
        self.with_layout(|layout| self.count_in(layout, query))
    }

    fn scan(&self, query: &Query, sink: Sink<'_>) -> Result<(), CollectionError> {
        let mut given = false;
        let mut scan = |layout: &Layout| {
            let query = fit::query(query, layout)?;
            let selection = Selection::new(layout, None, &query.order)?;
            let statement = statement::scan(layout, &selection, &query)?;
            let mut stale = None;
            let call = statement.at(&[]);
            let result = self.source.scan(call, &mut |row| {
                let row = selection.row(row).map_err(|fault| match fault {
                    Fault::Stale(state) => {
                        stale = Some(state);
                        CollectionError::Unavailable("the table was changed".to_owned())
                    }
                    fault => fault.into_error(),
                })?;
                given = true;
                let bytes = row.item.len();
                sink(row).map(|()| bytes)
            });
            if let Some(state) = stale {
                if !given {
                    return Err(Fault::Stale(state));
                }
                // For whoever tries again.
                self.look()?;
            }
            result.map_err(|fault| match self.blame(fault, call, &query, layout) {
                // Not from the start again, after rows were given.
                fault if given && fault.is_of_old_layout() => Fault::Final(fault.into_error()),
                fault => fault,
            })
        };
        self.with_layout(&mut scan)
    }

    fn about(&self) -> Result<About, CollectionError> {
        let layout = self.look()?;
        let relation = &layout.relation;
        let mut source = format!("postgres {}", relation.sort.name());
        let items = match relation.rows_estimated {
            Some(rows) if rows <= COUNTED_ROWS_MAX && relation.sort != Sort::Foreign => {
                Some(self.with_layout(|layout| {
                    let order = layout.schema.total_order(vec![]);
                    let (filter, search) = (handback_page::Filter::EVERYTHING, Default::default());
                    self.count_in(layout, &Query { filter, search, order })
                })?)
            }
            Some(rows) if rows > 0.0 => {
                source = format!("{source}, about {rows:.0} rows");
                None
            }
            _ => None,
        };
        let bytes = self.source.run(async |session| bytes(session, relation.oid).await);
        Ok(About {
            source,
            items,
            bytes: bytes.map_err(Fault::into_error)?.filter(|bytes| *bytes > 0),
            indexes: layout.table.indexes.iter().map(ToString::to_string).collect(),
        })
    }
}

fn look(
    source: &PostgresSource,
    schema: &str,
    table: &str,
    options: &PostgresOptions,
) -> Result<Layout, LookError> {
    // Only a fault is for the source to handle; the rest is what was found.
    source.run(async |session| match catalog::look(session, schema, table, options).await {
        Err(LookError::Fault(fault)) => Err(fault),
        other => Ok(other),
    })?
}

async fn bytes(session: &Session, relation: u32) -> Result<Option<u64>, Fault> {
    const BYTES: &str = "\
SELECT (SELECT sum(pg_table_size(p.relid)) FROM pg_partition_tree($1::oid::regclass) p)::bigint, \
    pg_table_size($1::oid)";
    let rows = session.look(BYTES, &[&relation]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let parts: Option<i64> = row.try_get(0)?;
    let own: Option<i64> = row.try_get(1)?;
    Ok(parts.filter(|parts| *parts > 0).or(own).and_then(|bytes| bytes.try_into().ok()))
}

fn prove_key(source: &PostgresSource, layout: &Layout, table: &str) -> Result<(), PostgresError> {
    let sql = statement::key_check(layout);
    let found = source.run(async |session| {
        let rows = session.look(&sql, &[]).await?;
        let row = rows.first().ok_or(Fault::Lost)?;
        Ok((row.try_get(0)?, row.try_get(1)?))
    });
    let hint = match found.map_err(|fault| PostgresError::Source(fault.into_error()))? {
        (true, _) => "some rows have null in it",
        (false, true) => "some rows have the same",
        (false, false) => return Ok(()),
    };
    Err(PostgresError::BadKey { table: table.to_owned(), hint: hint.to_owned() })
}

/// The rows of a page, nearest first.
struct Found {
    rows: Vec<Row>,
    /// Whether there are more behind them.
    more: bool,
    /// Whether there is anything on the other side.
    others: bool,
    /// How many match.
    total: Option<u64>,
}

impl Found {
    fn into_fetched(mut self, window: Window<'_>, served: Served) -> Fetched {
        let (more_before, more_after) = match window {
            Window::Forward { .. } => (self.others, self.more),
            Window::Backward { .. } => {
                self.rows.reverse();
                (self.more, self.others)
            }
            Window::Offset { .. } => (self.others, self.more),
        };
        let (rows, columns, total) = (self.rows, Columns::Asked, self.total);
        Fetched { rows, more_before, more_after, served, columns, total }
    }
}

/// What a page found; nothing if it does not tell what is on its other side.
async fn read_page(
    session: &Session,
    page: &Page,
    stream: RowStream,
    fetch: &Fetch<'_>,
) -> Result<Option<Found>, Fault> {
    let PageStatement { front, is_checked, .. } = &page.found_by;
    let (limit, budget_bytes) = (fetch.window.limit(), fetch.budget_bytes);
    let mut stream = pin!(stream);
    let mut row = stream.try_next().await?;
    let flag = match &row {
        Some(row) => match row.try_get(0)? {
            Some(flag) => flag,
            None => {
                session.spoil();
                return Err(Fault::Stale("23502".to_owned()));
            }
        },
        None if *front == Front::Nothing && !*is_checked => false,
        None => return Ok(None),
    };
    let (mut total, others) = (None, *front == Front::Skipped || flag);
    if let (Front::Head { total: Some(column) }, Some(head)) = (front, &row) {
        let count: Option<i64> = head.try_get(*column)?;
        total = count.and_then(|count| count.try_into().ok());
    }
    if let Front::Place | Front::Head { .. } = front {
        if *front == Front::Place && !flag {
            return Ok(None);
        }
        row = stream.try_next().await?;
    }
    let mut rows = Gathered::new(&page.selection, limit, fetch.places);
    let mut more = false;
    while let Some(found) = row {
        if *front == Front::Place && found.try_get::<_, Option<bool>>(0)? == Some(true) {
            // What told rows apart does so no longer.
            session.spoil();
            return Err(Fault::Stale("23505".to_owned()));
        }
        if rows.len() == limit || (rows.bytes() > budget_bytes && rows.len() > 0) {
            more = true;
            break;
        }
        rows.add(found)?;
        row = stream.try_next().await?;
    }
    // The one row too many is the last, unless the budget was exceeded before.
    if more && rows.len() < limit {
        session.spoil();
    }
    Ok(Some(Found { rows: rows.finish()?, more, others, total }))
}
