//! Appends as fast as they are acked: one request at a time on each connection.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use tokio::task::JoinSet;

use super::{Effort, Meter, name};
use crate::contender::Running;
use crate::sample::{Sample, percentiles};
use crate::stream::{Kind, Producer, Stream};

/// So many streams, and so many connections to each of them.
pub(super) async fn run(
    server: &Running,
    effort: &Effort,
    streams: u32,
    connections: u32,
) -> Result<Sample> {
    let address = server.address();
    let mut all = Vec::new();
    for number in 0..streams {
        all.push(Stream::create(address, &name(address, "append", number), Kind::Bytes).await?);
    }
    let mut producers = Vec::new();
    for (at, stream) in (0..).zip(&all) {
        for number in 0..connections {
            producers.push((at, stream.producer(number).await?));
        }
    }
    let from = Instant::now() + effort.warm_up;
    let window = Window { from, until: from + effort.time };
    let mut tasks = JoinSet::new();
    for (at, producer) in producers {
        tasks.spawn(async move { anyhow::Ok((at, produce(producer, window).await?)) });
    }
    tokio::time::sleep_until(window.from.into()).await;
    let before = Meter::read(server)?;
    tokio::time::sleep_until(window.until.into()).await;
    let after = Meter::read(server)?;
    let (mut acked, mut latencies) = (vec![Vec::new(); all.len()], Vec::new());
    for done in tasks.join_all().await {
        let (at, (count, took)) = done?;
        acked.get_mut(at).context("a stream is unknown")?.push(count);
        latencies.extend(took);
    }
    for (stream, acked) in all.iter().zip(acked) {
        stream.check(acked).await?;
    }
    ensure!(!latencies.is_empty(), "nothing was acked in time");
    let count = latencies.len() as f64;
    let (p50, p99) = percentiles(latencies);
    Ok(Sample {
        rate: Some(count / before.seconds(after)),
        p50_ms: Some(p50),
        p99_ms: Some(p99),
        cpu_us: Some(before.cpu_us_per(after, count)),
    })
}

/// When appends count.
#[derive(Clone, Copy, Debug)]
struct Window {
    from: Instant,
    until: Instant,
}

/// Who appended, and how many were acked in all; how long those took that count.
type Produced = ((u32, u64), Vec<Duration>);

async fn produce(mut producer: Producer, window: Window) -> Result<Produced> {
    let mut took = Vec::with_capacity(4096);
    let mut now = Instant::now();
    while now < window.until {
        let start = now;
        producer.append().await?;
        now = Instant::now();
        if now >= window.from && now < window.until {
            took.push(now - start);
        }
    }
    producer.repeat().await?;
    Ok((producer.acked(), took))
}
