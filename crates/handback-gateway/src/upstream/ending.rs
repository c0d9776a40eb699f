//! How all lines of a gateway end together.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::aside::Aside;
use super::child::UNTIL_KILLED;

/// How long the end of all lines may take: as long as the most stubborn program has, and a bit more.
const ENDING_TIME: Duration = UNTIL_KILLED.saturating_add(Duration::from_secs(1));

/// The end of all lines that were opened under it. Clones are the same one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ending {
    over: CancellationToken,
    hurry: CancellationToken,
    /// How many programs and sessions have not ended yet.
    lasting: Arc<watch::Sender<usize>>,
    /// What all lines have in files, which they have in common as they have their end.
    aside: Aside,
    /// Whether a line was wanted, and whether one came about.
    wanted: Arc<AtomicBool>,
    is_up: Arc<AtomicBool>,
}

impl Ending {
    /// Ends all lines, and waits until their programs have ended and their sessions were taken leave
    /// of. Once `hurry` resolves, programs are left less time.
    pub(crate) async fn end(&self, hurry: impl Future<Output = ()>) {
        self.over.cancel();
        let mut lasting = self.lasting.subscribe();
        let ended = async { lasting.wait_for(|lasting| *lasting == 0).await.is_ok() };
        let ended = timeout(ENDING_TIME, ended);
        let hurried = async {
            hurry.await;
            self.hurry.cancel();
            std::future::pending().await
        };
        let is_in_time = tokio::select! {
            ended = ended => ended == Ok(true),
            () = hurried => false,
        };
        if !is_in_time {
            tracing::warn!("servers behind this one were left that did not end in time");
        }
    }

    /// Notes that a line is wanted.
    pub(crate) fn wants(&self) {
        self.wanted.store(true, Ordering::Relaxed);
    }

    /// Notes that a line came about.
    pub(crate) fn came_up(&self) {
        self.is_up.store(true, Ordering::Relaxed);
    }

    /// Whether a line was wanted, and none ever came about.
    pub(crate) fn never_came_up(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) && !self.is_up.load(Ordering::Relaxed)
    }

    /// Whether no line is wanted any more.
    pub(crate) fn is_over(&self) -> bool {
        self.over.is_cancelled()
    }

    /// What ends one line, and is cancelled with all of them.
    pub(super) fn of_line(&self) -> CancellationToken {
        self.over.child_token()
    }

    /// Says that whoever waits for the end is in a hurry.
    pub(super) fn hurry(&self) -> CancellationToken {
        self.hurry.clone()
    }

    /// What all lines have in files.
    pub(super) const fn aside(&self) -> &Aside {
        &self.aside
    }

    /// Something that the end is not there before.
    pub(super) fn lasting(&self) -> Lasting {
        self.lasting.send_modify(|lasting| *lasting += 1);
        Lasting(Arc::clone(&self.lasting))
    }
}

/// Something that the end of all lines waits for, until this is dropped.
#[derive(Debug)]
pub(super) struct Lasting(Arc<watch::Sender<usize>>);

impl Drop for Lasting {
    fn drop(&mut self) {
        self.0.send_modify(|lasting| *lasting = lasting.saturating_sub(1));
    }
}
