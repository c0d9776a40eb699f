//! A reader whose connection is cut: from reconnecting with the last offset until it has all that it
//! missed.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use bench_kit::server::Running;
use bench_kit::spread::percentiles;

use super::{Effort, Meter, name};
use crate::sample::Sample;
use crate::stream::{Kind, Stream, next_offset};

/// Events between a cut and the reader's return.
const MISSED: u64 = 10;

/// Cuts in a run, at most and at least.
const CUTS_MAX: usize = 200;
const CUTS_MIN: usize = 5;

pub(super) async fn run(server: &Running, effort: &Effort) -> Result<Sample> {
    let address = server.address();
    let stream = Stream::create(address, &name(address, "resume", 0), Kind::Text).await?;
    let mut producer = stream.producer(0).await?;
    let first = producer.append().await?;
    let mut offset = next_offset(&first).context("an append gave no next offset")?;
    let deadline = Instant::now() + effort.time;
    let mut took = Vec::new();
    let before = Meter::read(server)?;
    while took.len() < CUTS_MAX && (took.len() < CUTS_MIN || Instant::now() < deadline) {
        let (_, missed_from) = producer.acked();
        // What a reader has: an open read that has caught up. Then it has none.
        drop(stream.tail(&offset).await?);
        let mut last = None;
        for _ in 0..MISSED {
            last = next_offset(&producer.append().await?);
        }
        let start = Instant::now();
        let mut tail = stream.tail(&offset).await?;
        let mut next = missed_from;
        while next < missed_from + MISSED {
            let mut order = Ok(());
            tail.next(|id| {
                if id.number != next {
                    order = Err(anyhow::anyhow!("{id:?} came instead of {next}"));
                }
                next += 1;
            })
            .await?;
            order?;
        }
        took.push(start.elapsed());
        ensure!(next == missed_from + MISSED, "more events came than were missed");
        offset = last.context("an append gave no next offset")?;
    }
    let after = Meter::read(server)?;
    producer.repeat().await?;
    stream.check([producer.acked()]).await?;
    let count = took.len() as f64;
    let (p50, p99) = percentiles(took);
    Ok(Sample {
        rate: None,
        p50_ms: Some(p50),
        p99_ms: Some(p99),
        cpu_us: Some(before.cpu_us_per(after, count)),
    })
}
