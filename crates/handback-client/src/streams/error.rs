use std::path::PathBuf;
use std::sync::Arc;

use handback_stream::{NameError, VerifyError};

use crate::http::{Answer, HttpError, UrlError};
use crate::keys::KeysError;

/// Why something with a stream did not work.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StreamsError {
    /// The address of the server is none.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// The path of the stream is none.
    #[error("the path of the stream is not right")]
    Path(#[source] NameError),

    /// There is no answer.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// There are no public keys.
    #[error(transparent)]
    Keys(#[from] KeysError),

    /// The server refused.
    #[error("the server answered {status} {code}: {message}")]
    Refused {
        /// The status.
        status: u16,
        /// For programs.
        code: String,
        /// For people.
        message: String,
    },
    /// Another producer of this id has a later epoch.
    #[error("the producer was fenced off by epoch {epoch}")]
    Fenced {
        /// The epoch that counts.
        epoch: u64,
    },

    /// The server broke the protocol.
    #[error("the server broke the protocol: {0}")]
    Misbehaved(&'static str),
    /// Records are not what was signed.
    #[error("the records are not proved")]
    Unproved(#[from] VerifyError),
    /// The head that was kept does not come again.
    #[error("the stream has gone back: record {number} is not what was proved before")]
    RolledBack {
        /// The record.
        number: u64,
    },
    /// What was kept is about another stream of this name.
    #[error("the name has another stream now: what was proved before is gone")]
    OtherStream,

    /// The file of a kept head.
    #[error("failed to read or write {}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// What came of it.
        source: Arc<std::io::Error>,
    },
    /// The file holds something else.
    #[error("{} holds no kept head", .0.display())]
    NoHead(PathBuf),
}

impl StreamsError {
    pub(super) fn refused(answer: &Answer) -> Self {
        let (code, message) = answer.error();
        Self::Refused { status: answer.status.as_u16(), code, message }
    }

    /// Whether it is about proofs: the server, or who pretends to be it, does not keep its word.
    #[must_use]
    pub const fn is_about_proofs(&self) -> bool {
        matches!(self, Self::Unproved(_) | Self::RolledBack { .. } | Self::OtherStream)
    }
}
