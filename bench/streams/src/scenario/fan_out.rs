//! One producer at a steady pace, and many who read along: how long from the append to each receipt.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use bench_kit::server::Running;
use bench_kit::spread::percentiles;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::{Effort, Meter, name};
use crate::sample::Sample;
use crate::stream::{Kind, Stream, Tail};

/// Between two events: 50 a second.
const PACE: Duration = Duration::from_millis(20);

/// How long after its first answer a reader surely waits for events, if the server says nothing.
const SETTLE: Duration = Duration::from_millis(300);

pub(super) async fn run(server: &Running, effort: &Effort) -> Result<Sample> {
    let address = server.address();
    let stream = Stream::create(address, &name(address, "fan-out", 0), Kind::Text).await?;
    let events = (effort.time.as_millis() / PACE.as_millis()).max(5);
    let events = usize::try_from(events)?;
    let ready = Arc::new(Semaphore::new(0));
    let mut readers = JoinSet::new();
    for _ in 0..effort.readers {
        let (tail, ready) = (stream.tail("-1").await?, Arc::clone(&ready));
        readers.spawn(read(tail, events, ready));
    }
    // Those that had an answer say so; the others get some time.
    let all = u32::try_from(effort.readers)?;
    let _ = tokio::time::timeout(SETTLE, ready.acquire_many(all)).await;
    let mut producer = stream.producer(0).await?;
    let mut pace = tokio::time::interval(PACE);
    let mut sent = Vec::with_capacity(events);
    let before = Meter::read(server)?;
    for _ in 0..events {
        pace.tick().await;
        sent.push(Instant::now());
        producer.append().await?;
    }
    // Now, while the connection is in use: a server may close one that is idle.
    producer.repeat().await?;
    let mut latencies = Vec::with_capacity(events * effort.readers);
    for received in readers.join_all().await {
        for (number, at) in received?.into_iter().enumerate() {
            let sent = sent.get(number).context("an event was not sent")?;
            latencies.push(at.duration_since(*sent));
        }
    }
    let after = Meter::read(server)?;
    stream.check([producer.acked()]).await?;
    let count = latencies.len() as f64;
    let (p50, p99) = percentiles(latencies);
    Ok(Sample {
        rate: None,
        p50_ms: Some(p50),
        p99_ms: Some(p99),
        cpu_us: Some(before.cpu_us_per(after, count)),
    })
}

/// When each event came; each came once, in order.
async fn read(mut tail: Tail, events: usize, ready: Arc<Semaphore>) -> Result<Vec<Instant>> {
    let mut received = Vec::with_capacity(events);
    let mut is_ready = false;
    while received.len() < events {
        let mut order = Ok(());
        tail.next(|id| {
            if u64::try_from(received.len()).ok() != Some(id.number) {
                order = Err(anyhow::anyhow!("{id:?} came as number {}", received.len()));
            }
            received.push(Instant::now());
        })
        .await?;
        order?;
        if !is_ready {
            ready.add_permits(1);
            is_ready = true;
        }
    }
    ensure!(received.len() == events, "more events came than were sent");
    Ok(received)
}
