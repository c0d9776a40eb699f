//! A reader who starts from the beginning: how fast it gets everything.

use std::time::Instant;

use anyhow::Result;
use bench_kit::server::Running;

use super::{Effort, Meter, name};
use crate::event::EVENT_LEN;
use crate::sample::Sample;
use crate::stream::{Kind, Stream};

/// Events of a request that fills the stream.
const BATCH: u64 = 256;

pub(super) async fn run(server: &Running, effort: &Effort) -> Result<Sample> {
    let address = server.address();
    let stream = Stream::create(address, &name(address, "catch-up", 0), Kind::Json).await?;
    let mut producer = stream.producer(0).await?;
    for _ in 0..effort.catch_up_requests {
        producer.append_many(BATCH).await?;
    }
    // This also warms up.
    stream.check([producer.acked()]).await?;
    let mut connection = stream.connect().await?;
    let before = Meter::read(server)?;
    let mut bytes = 0;
    while bytes == 0 || before.at.elapsed() < effort.time {
        bytes += stream.catch_up(&mut connection, |_| ()).await?;
    }
    let end = Instant::now();
    let after = Meter { at: end, ..Meter::read(server)? };
    let (bytes, event) = (bytes as f64, EVENT_LEN as f64);
    Ok(Sample {
        rate: Some(bytes / 1e6 / before.seconds(after)),
        p50_ms: None,
        p99_ms: None,
        cpu_us: Some(before.cpu_us_per(after, bytes / event)),
    })
}
