//! How long an answer is waited for.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// What a limit is that cannot be added to the time.
const FAR: Duration = Duration::from_secs(86400 * 365 * 30);

/// Timers that are set again only when they have run out. Setting one for every answer goes through
/// the runtime's timers each time, and may wake the thread that keeps them.
#[derive(Debug)]
pub(super) struct Alarms {
    limit: Duration,
    /// Those that nobody uses: as many as answers were waited for at a time.
    unused: Mutex<Vec<Pin<Box<Sleep>>>>,
}

impl Alarms {
    pub(super) const fn new(limit: Duration) -> Self {
        Self { limit, unused: Mutex::new(Vec::new()) }
    }

    /// What comes of `work`; nothing if it takes longer than the limit.
    pub(super) async fn wait<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let now = Instant::now();
        let end = now.checked_add(self.limit).unwrap_or(now + FAR);
        let unused = self.unused.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut alarm = unused.unwrap_or_else(|| Box::pin(sleep_until(end)));
        let mut work = pin!(work);
        let result = poll_fn(|context| {
            if let Poll::Ready(result) = work.as_mut().poll(context) {
                return Poll::Ready(Some(result));
            }
            while alarm.as_mut().poll(context).is_ready() {
                if Instant::now() >= end {
                    return Poll::Ready(None);
                }
                // It was set for an answer before, so never later than for this one.
                alarm.as_mut().reset(end);
            }
            Poll::Pending
        });
        let result = result.await;
        self.unused.lock().unwrap_or_else(PoisonError::into_inner).push(alarm);
        result
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::time::sleep;

    use super::*;

    #[test]
    fn an_alarm_serves_one_answer_after_the_other() {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build().unwrap();
        let (limit, part) = (Duration::from_millis(200), Duration::from_millis(120));
        let alarms = Alarms::new(limit);
        // Together they take longer than the limit.
        for number in 0..3 {
            let answer = runtime.block_on(alarms.wait(async {
                sleep(part).await;
                number
            }));
            assert_eq!(answer, Some(number));
        }
        for _ in 0..2 {
            let start = Instant::now();
            assert_eq!(runtime.block_on(alarms.wait(pending::<()>())), None);
            assert!(start.elapsed() >= limit);
        }
        assert_eq!(alarms.unused.lock().unwrap().len(), 1);
        assert_eq!(runtime.block_on(Alarms::new(Duration::MAX).wait(async { 1 })), Some(1));
    }
}
