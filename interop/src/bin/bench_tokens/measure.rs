//! Interleaved measuring.

use std::time::Instant;

/// Something to measure: one call is one round trip. Gives the length of the text it made.
pub struct Contender {
    pub name: &'static str,
    pub work: Box<dyn FnMut() -> usize>,
}

impl Contender {
    pub fn new(name: &'static str, work: impl FnMut() -> usize + 'static) -> Self {
        Self { name, work: Box::new(work) }
    }
}

/// How long to measure.
#[derive(Clone, Copy)]
pub struct Effort {
    rounds: usize,
    batch: u32,
    pub is_smoke: bool,
}

impl Effort {
    pub const FULL: Self = Self { rounds: 600, batch: 1000, is_smoke: false };
    pub const SMOKE: Self = Self { rounds: 3, batch: 10, is_smoke: true };
}

pub struct Measured {
    pub name: &'static str,
    pub characters: usize,
    pub min_ns: f64,
    pub median_ns: f64,
}

/// Every contender has its turn in every round; the first round only warms up.
pub fn run(mut contenders: Vec<Contender>, effort: Effort) -> Vec<Measured> {
    let mut times = vec![Vec::with_capacity(effort.rounds); contenders.len()];
    let mut characters = vec![0; contenders.len()];
    for round in 0..=effort.rounds {
        for (at, contender) in contenders.iter_mut().enumerate() {
            let start = Instant::now();
            for _ in 0..effort.batch {
                characters[at] = std::hint::black_box((contender.work)());
            }
            if round > 0 {
                times[at].push(start.elapsed().as_nanos() as f64 / f64::from(effort.batch));
            }
        }
    }
    contenders
        .iter()
        .zip(times)
        .zip(characters)
        .map(|((contender, mut times), characters)| {
            times.sort_by(f64::total_cmp);
            Measured {
                name: contender.name,
                characters,
                min_ns: times[0],
                median_ns: times[times.len() / 2],
            }
        })
        .collect()
}
