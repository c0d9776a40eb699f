//! What goes wrong, in words that carry neither statements, nor values, nor addresses.

use std::error::Error as _;
use std::io;

use deadpool_postgres::{PoolError, TimeoutType};
use handback_page::CollectionError;
use tokio_postgres::error::{DbError, SqlState};

/// Why a source or a table was not opened. The texts are for operators.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PostgresError {
    /// The connection URL cannot be read. It may hold a password, so that nothing of it is said.
    #[error("the connection URL is not of the form postgres://user:password@host:port/database")]
    BadUrl,
    /// The URL asks for TLS.
    #[error("TLS to a database is not available in this build: use sslmode=disable or prefer")]
    TlsUnavailable,
    /// The runtime has no threads of its own, so that nothing would move while a call waits.
    #[error("the runtime must be a multi-threaded one")]
    UnfitRuntime,
    /// There is no such table or view, or it may not be looked at.
    #[error("there is no table or view {schema}.{table}")]
    NotFound {
        /// The schema that was looked into.
        schema: String,
        /// What was looked for.
        table: String,
    },
    /// The database user may read none of its columns.
    #[error("the database user may not read {table}: it needs SELECT on it")]
    Denied {
        /// Which table or view.
        table: String,
    },
    /// Nothing tells rows apart.
    #[error("rows of {table} cannot be told apart")]
    NoKey {
        /// Which table or view.
        table: String,
        /// What would help.
        hint: String,
    },
    /// The key that was given does not tell rows apart.
    #[error("the key of {table} does not tell rows apart")]
    BadKey {
        /// Which table or view.
        table: String,
        /// What is wrong with it.
        hint: String,
    },
    /// The server could not be asked.
    #[error(transparent)]
    Source(CollectionError),
}

/// What a statement came back with, before it is known whose fault it is.
#[derive(Debug)]
pub(super) enum Fault {
    /// The connection is gone: on a new one the statement may work.
    Lost,
    /// The table is not what it was when it was looked at.
    Stale(String),
    /// A value is not one of its type: the number of the parameter (from 1), if the server said it.
    BadInput { parameter: Option<usize>, state: String },
    /// Something that trying again does not change.
    Final(CollectionError),
}

impl Fault {
    pub(super) fn unavailable(text: &str) -> Self {
        Self::Final(CollectionError::Unavailable(text.to_owned()))
    }

    pub(super) fn from_pool(error: PoolError) -> Self {
        let text = match error {
            PoolError::Timeout(TimeoutType::Wait) => "all connections are in use",
            PoolError::Timeout(_) => "connecting took too long",
            PoolError::Backend(error) => return Self::Final(of_connecting(&error)),
            _ => "no connection can be made",
        };
        Self::unavailable(text)
    }

    /// Returns `true` if the table was changed since it was looked at.
    pub(super) const fn is_of_old_layout(&self) -> bool {
        use CollectionError::{ColumnGone, Gone};
        matches!(self, Self::Stale(_) | Self::Final(Gone(_) | ColumnGone { .. }))
    }

    /// What is left to say when trying again did not help.
    pub(super) fn into_error(self) -> CollectionError {
        match self {
            Self::Lost => CollectionError::Unavailable("the connection was lost".to_owned()),
            Self::Stale(state) => damaged("the table or view does not work", &state),
            Self::BadInput { state, .. } => damaged("a value cannot be computed", &state),
            Self::Final(error) => error,
        }
    }
}

impl From<CollectionError> for Fault {
    fn from(error: CollectionError) -> Self {
        Self::Final(error)
    }
}

impl From<tokio_postgres::Error> for Fault {
    fn from(error: tokio_postgres::Error) -> Self {
        let Some(found) = error.as_db_error() else {
            let is_io = error.source().is_some_and(|cause| cause.is::<io::Error>());
            if error.is_closed() || is_io {
                return Self::Lost;
            }
            let text = "a value is not of the form that it should have".to_owned();
            return Self::Final(CollectionError::Damaged(text));
        };
        of_statement(found)
    }
}

fn of_connecting(error: &tokio_postgres::Error) -> CollectionError {
    let text = match error.as_db_error() {
        Some(found) => match found.code().code() {
            "28P01" | "28000" => "the server refused the user or the password".to_owned(),
            "3D000" => "the server has no such database".to_owned(),
            "53300" => "the server has too many connections".to_owned(),
            "57P03" => "the server is starting or stopping".to_owned(),
            state => format!("the server refused the connection (SQLSTATE {state})"),
        },
        None => match error.source().and_then(|cause| cause.downcast_ref::<io::Error>()) {
            // The text of the error itself may name an address; that of its kind does not.
            Some(cause) => format!("cannot connect: {}", cause.kind()),
            None => "cannot connect: the login failed".to_owned(),
        },
    };
    CollectionError::Unavailable(text)
}

fn of_statement(found: &DbError) -> Fault {
    let state = found.code().code();
    let unavailable = |text: &str| Fault::unavailable(&format!("{text} (SQLSTATE {state})"));
    match state {
        "57014" => unavailable("the statement took too long"),
        "55P03" => unavailable("the table is locked"),
        "42501" => unavailable("the database user may not read it"),
        "25006" => Fault::Final(damaged("reading it would write", state)),
        "57P01" | "57P02" | "57P03" | "57P05" | "25P03" | "25P04" | "26000" => Fault::Lost,
        "42P01" | "42703" | "0A000" | "42704" | "42804" | "42883" | "3F000" => {
            Fault::Stale(state.to_owned())
        }
        // Overflow, text that is no number, text that is no date, text with a byte that is none.
        "22003" | "22P02" | "22P03" | "22007" | "22008" | "22021" => {
            Fault::BadInput { parameter: parameter(found), state: state.to_owned() }
        }
        _ if *found.code() == SqlState::INTERNAL_ERROR => unavailable("the server has a problem"),
        _ => match state.get(..2) {
            Some("08") => Fault::Lost,
            Some("40" | "53" | "54" | "55" | "57" | "58") => {
                unavailable("the server cannot answer")
            }
            _ if parameter(found).is_some() => {
                Fault::BadInput { parameter: parameter(found), state: state.to_owned() }
            }
            _ => Fault::Final(damaged("it cannot be read", state)),
        },
    }
}

/// The parameter that the server complains about: `unnamed portal parameter $2`, in whatever
/// language.
fn parameter(found: &DbError) -> Option<usize> {
    parameter_in(found.where_()?)
}

fn parameter_in(context: &str) -> Option<usize> {
    // Only the outermost line is about the statement; a function's own come before it.
    let (_, number) = context.lines().last()?.split_once('$')?;
    let digits = number.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok().filter(|number| *number > 0)
}

fn damaged(text: &str, state: &str) -> CollectionError {
    CollectionError::Damaged(format!("{text} (SQLSTATE {state})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_parameter_is_found_in_the_context() {
        assert_eq!(parameter_in("unnamed portal parameter $12"), Some(12));
        assert_eq!(parameter_in("unbenanntes Portal, Parameter $3 = '...'"), Some(3));
        assert_eq!(parameter_in("PL/pgSQL function ex.f() line 3 at RETURN"), None);
        assert_eq!(parameter_in("SQL statement \"SELECT $1\"\nPL/pgSQL function f()"), None);
        assert_eq!(parameter_in(""), None);
    }
}
