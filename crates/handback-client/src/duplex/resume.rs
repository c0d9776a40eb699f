//! What a restart finds: resumed, or cleared.

use std::path::{Path, PathBuf};

use super::{Duplex, DuplexError, DuplexOptions};
use crate::state::{Chunk, Ended, Folder, Saved, StateDir, StateError};

/// All duplexes of an application.
#[derive(Debug)]
#[non_exhaustive]
pub struct Duplexes;

/// What was found when all were resumed.
#[derive(Debug, Default)]
#[non_exhaustive]
#[must_use]
pub struct Resumed {
    /// Those that go on.
    pub resumed: Vec<Duplex>,
    /// Those of which everything was removed.
    pub cleared: Vec<Cleared>,
    /// Those that were left as they are.
    pub left: Vec<Left>,
}

/// A duplex of which everything was removed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cleared {
    /// Its key, if that was known.
    pub idempotency_key: Option<String>,
    /// Where it was.
    pub folder: PathBuf,
    /// Why.
    pub why: Why,
}

/// Why a duplex was cleared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Why {
    /// It came to its end.
    Finished,
    /// The server did not resume it in time.
    Expired,
    /// The server did not know it any more.
    Invalid,
    /// Another connection took over.
    Superseded,
    /// It was interrupted before the window, or is from the future.
    TooOld,
    /// It was never saved: a crash while it was made.
    NeverStarted,
}

/// A duplex that was left as it is.
#[derive(Debug)]
#[non_exhaustive]
pub struct Left {
    /// Where it is.
    pub folder: PathBuf,
    /// Why: it is in use, damaged, or stopped for a reason that somebody should look at.
    pub why: DuplexError,
}

impl Duplexes {
    /// Resumes what was interrupted inside the window, and clears what is finished or too old.
    ///
    /// `options` are for all of them, as far as they do not say themselves how they were started:
    /// server, handler, keys and format are theirs. Without
    /// [`persist_idempotent_stream_state`](super::Settings) nothing is resumed or cleared.
    ///
    /// ```no_run
    /// # async fn run() -> Result<(), handback_client::duplex::DuplexError> {
    /// use handback_client::duplex::{DuplexOptions, Duplexes, Settings};
    ///
    /// let directory = std::path::Path::new("/var/lib/app/streams");
    /// let options = DuplexOptions::new("http://127.0.0.1:8420")
    ///     .state(directory, Settings::persistent());
    /// let found = Duplexes::resume_all(directory, &options).await?;
    /// for duplex in &found.resumed {
    ///     println!("{} goes on", duplex.idempotency_key());
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`DuplexError`] if the directory cannot be used at all.
    pub async fn resume_all(
        directory: &Path,
        options: &DuplexOptions,
    ) -> Result<Resumed, DuplexError> {
        options.settings.check()?;
        let mut found = Resumed::default();
        if !options.settings.persist_idempotent_stream_state {
            return Ok(found);
        }
        let now_ms = options.clock.now_ms();
        let window_ms = options.settings.retry_lookback_window_ms;
        let root = directory.to_owned();
        let seen = tokio::task::spawn_blocking(move || look(&root, now_ms, window_ms));
        let seen = seen.await.map_err(|_| DuplexError::Stopped)??;
        for seen in seen {
            match seen {
                Seen::Clear(cleared) => found.cleared.push(cleared),
                Seen::Leave(left) => found.left.push(left),
                Seen::Resume(interrupted) => resume(options, *interrupted, &mut found),
            }
        }
        Ok(found)
    }
}

fn resume(options: &DuplexOptions, interrupted: Interrupted, found: &mut Resumed) {
    let Interrupted { saved, chunks, folder } = interrupted;
    let path = folder.path().to_owned();
    let mut left = |why| found.left.push(Left { folder: path.clone(), why });
    let stream_key = match folder.stream_key() {
        Ok(key) => key,
        Err(why) => return left(why.into()),
    };
    if saved.has_stream_key && stream_key.is_none() {
        return left(DuplexError::Options("its stream key is gone"));
    }
    let Some(options) = options.of_saved(&saved, stream_key) else {
        return left(DuplexError::Options("its keys are none"));
    };
    match Duplex::start(options, saved, chunks, Some(folder)) {
        Ok(duplex) => found.resumed.push(duplex),
        Err(why) => left(why),
    }
}

struct Interrupted {
    saved: Saved,
    chunks: Vec<Chunk>,
    folder: Folder,
}

enum Seen {
    Resume(Box<Interrupted>),
    Clear(Cleared),
    Leave(Left),
}

fn look(root: &Path, now_ms: u64, window_ms: u64) -> Result<Vec<Seen>, StateError> {
    let state = StateDir::open(root)?;
    let mut seen = Vec::new();
    for id in state.ids()? {
        let folder = root.join("duplex").join(&id);
        seen.push(
            look_at(&state, &id, now_ms, window_ms)
                .unwrap_or_else(|why| Seen::Leave(Left { folder, why: why.into() })),
        );
    }
    state.clear_keys_alone()?;
    state.clear_finished(now_ms)?;
    Ok(seen)
}

fn look_at(state: &StateDir, id: &str, now_ms: u64, window_ms: u64) -> Result<Seen, StateError> {
    let mut folder = state.take(id)?;
    let path = folder.path().to_owned();
    if let Some(finished) = folder.finished()? {
        folder.clear()?;
        let (idempotency_key, why) = (Some(finished.idempotency_key), Why::Finished);
        return Ok(Seen::Clear(Cleared { idempotency_key, folder: path, why }));
    }
    let Some(saved) = folder.saved()? else {
        folder.clear()?;
        let why = Why::NeverStarted;
        return Ok(Seen::Clear(Cleared { idempotency_key: None, folder: path, why }));
    };
    // A clock that was set back makes everything look new: what is from the future is not.
    let is_old = now_ms.abs_diff(saved.updated_ms) > window_ms;
    let why = match saved.ended {
        Some(Ended::Finished | Ended::Aborted) => Some(Why::Finished),
        Some(Ended::Expired) => Some(Why::Expired),
        Some(Ended::Invalid) => Some(Why::Invalid),
        Some(Ended::Superseded) => Some(Why::Superseded),
        _ if is_old => Some(Why::TooOld),
        Some(Ended::Failed) => {
            let why = DuplexError::Options("it stopped for a reason to be looked at");
            return Ok(Seen::Leave(Left { folder: path, why }));
        }
        None => None,
    };
    if let Some(why) = why {
        folder.clear()?;
        let idempotency_key = Some(saved.idempotency_key);
        return Ok(Seen::Clear(Cleared { idempotency_key, folder: path, why }));
    }
    match folder.load()? {
        Some((saved, chunks)) => Ok(Seen::Resume(Box::new(Interrupted { saved, chunks, folder }))),
        None => Err(StateError::Broken),
    }
}
