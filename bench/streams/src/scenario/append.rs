//! Appends as fast as they are acked: one request at a time on each connection.
//!
//! Servers that are compared are there at the same time and have turns of a moment each; whoever has
//! none is stopped. So whatever else the machine does hits all of them alike: it changes its mind in
//! seconds.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use bench_kit::server::Running;
use bench_kit::spread::percentiles;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use super::{Effort, Meter, name};
use crate::sample::Sample;
use crate::stream::{Kind, Producer, Stream};

/// How long a turn is.
const TURN: Duration = Duration::from_millis(100);

/// So many streams on each server, and so many connections to each of them.
pub(super) async fn run(
    servers: &[Running],
    effort: &Effort,
    streams: u32,
    connections: u32,
) -> Vec<Result<Sample>> {
    let mut lanes = Vec::new();
    for server in servers {
        lanes.push(Lane::open(server, streams, connections).await);
    }
    let are_several = servers.len() > 1;
    if are_several {
        servers.iter().for_each(Running::pause);
    }
    let warm_up = turns(effort.warm_up);
    for number in 0..warm_up + turns(effort.time) {
        // Each is the first one as often as the others.
        let first = number % lanes.len().max(1);
        for at in (first..lanes.len()).chain(0..first) {
            let Some(lane) = lanes.get_mut(at) else { continue };
            let turn = match lane {
                Ok(lane) => lane.turn(number >= warm_up, are_several).await,
                Err(_) => continue,
            };
            if let Err(error) = turn {
                *lane = Err(error);
            }
        }
    }
    servers.iter().for_each(Running::go_on);
    let mut samples = Vec::new();
    for lane in lanes {
        samples.push(match lane {
            Ok(lane) => lane.finish().await,
            Err(error) => Err(error),
        });
    }
    samples
}

fn turns(time: Duration) -> usize {
    usize::try_from(time.as_millis().div_ceil(TURN.as_millis())).unwrap_or(usize::MAX).max(1)
}

/// Whether producers append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gate {
    Closed,
    Open { is_counted: bool },
    Over,
}

/// One server, with all who append to it.
struct Lane<'s> {
    server: &'s Running,
    streams: Vec<Stream>,
    producers: JoinSet<Result<(usize, Produced)>>,
    gate: watch::Sender<Gate>,
    /// Each producer that appends has one of these.
    busy: Arc<Semaphore>,
    count: u32,
    /// When the first turn began that counts.
    before: Option<Meter>,
    /// All turns that count together.
    time: Duration,
}

impl<'s> Lane<'s> {
    async fn open(server: &'s Running, streams: u32, connections: u32) -> Result<Self> {
        let address = server.address();
        let mut all = Vec::new();
        for number in 0..streams {
            all.push(Stream::create(address, &name(address, "append", number), Kind::Bytes).await?);
        }
        let count = streams * connections;
        let (gate, opened) = watch::channel(Gate::Closed);
        let busy = Arc::new(Semaphore::new(usize::try_from(count)?));
        let mut producers = JoinSet::new();
        for (at, stream) in all.iter().enumerate() {
            for number in 0..connections {
                let producer = stream.producer(number).await?;
                let (opened, busy) = (opened.clone(), Arc::clone(&busy));
                producers.spawn(async move { Ok((at, produce(producer, opened, busy).await?)) });
            }
        }
        let (before, time) = (None, Duration::ZERO);
        Ok(Self { server, streams: all, producers, gate, busy, count, before, time })
    }

    /// Has everyone append for a moment, and waits until all is acked.
    async fn turn(&mut self, is_counted: bool, pauses: bool) -> Result<()> {
        if pauses {
            self.server.go_on();
        }
        if is_counted && self.before.is_none() {
            self.before = Some(Meter::read(self.server)?);
        }
        let start = Instant::now();
        self.gate.send_replace(Gate::Open { is_counted });
        tokio::time::sleep(TURN).await;
        self.gate.send_replace(Gate::Closed);
        drop(self.busy.acquire_many(self.count).await?);
        if is_counted {
            self.time += start.elapsed();
        }
        if pauses {
            self.server.pause();
        }
        Ok(())
    }

    /// What was measured, if the server kept its word.
    async fn finish(self) -> Result<Sample> {
        let after = Meter::read(self.server)?;
        let before = self.before.context("nothing was counted")?;
        self.gate.send_replace(Gate::Over);
        let (mut acked, mut latencies) = (vec![Vec::new(); self.streams.len()], Vec::new());
        for done in self.producers.join_all().await {
            let (at, (count, took)) = done?;
            acked.get_mut(at).context("a stream is unknown")?.push(count);
            latencies.extend(took);
        }
        for (stream, acked) in self.streams.iter().zip(acked) {
            stream.check(acked).await?;
        }
        ensure!(!latencies.is_empty(), "nothing was acked in time");
        let count = latencies.len() as f64;
        let (p50, p99) = percentiles(latencies);
        Ok(Sample {
            rate: Some(count / self.time.as_secs_f64()),
            p50_ms: Some(p50),
            p99_ms: Some(p99),
            cpu_us: Some(before.cpu_us_per(after, count)),
        })
    }
}

/// Who appended, and how many were acked in all; how long those took that count.
type Produced = ((u32, u64), Vec<Duration>);

async fn produce(
    mut producer: Producer,
    mut gate: watch::Receiver<Gate>,
    busy: Arc<Semaphore>,
) -> Result<Produced> {
    let mut took = Vec::with_capacity(4096);
    loop {
        let opened = gate.wait_for(|gate| *gate != Gate::Closed).await;
        if *opened.map_err(|_| anyhow!("the run was given up"))? == Gate::Over {
            break;
        }
        let _busy = busy.acquire().await?;
        while let Gate::Open { is_counted } = now(&gate) {
            let start = Instant::now();
            producer.append().await?;
            if is_counted {
                took.push(start.elapsed());
            }
        }
    }
    producer.repeat().await?;
    Ok((producer.acked(), took))
}

fn now(gate: &watch::Receiver<Gate>) -> Gate {
    *gate.borrow()
}
