//! Medians, with their range; percentiles.

use std::time::Duration;

/// The middle of some numbers, with their range.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "taken apart by reports")]
pub struct Spread {
    /// The middle; between the two of an even number.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
}

impl Spread {
    /// Of these numbers; `None` if there is none.
    #[must_use]
    pub fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_unstable_by(f64::total_cmp);
        let (&min, &max) = (values.first()?, values.last()?);
        let upper = *values.get(values.len() / 2)?;
        let lower = *values.get((values.len() - 1) / 2)?;
        Some(Self { median: f64::midpoint(lower, upper), min, max })
    }
}

/// The middle and the slowest hundredth, in milliseconds.
#[must_use]
pub fn percentiles(mut took: Vec<Duration>) -> (f64, f64) {
    took.sort_unstable();
    let at = |hundredths: usize| {
        let place = (took.len() * hundredths / 100).min(took.len().saturating_sub(1));
        took.get(place).map_or(f64::NAN, |took| took.as_secs_f64() * 1e3)
    };
    (at(50), at(99))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_is_between() {
        let spread = Spread::of(vec![4.0, 1.0, 2.0, 3.0]);
        assert_eq!(spread, Some(Spread { median: 2.5, min: 1.0, max: 4.0 }));
        assert_eq!(Spread::of(vec![]), None);
    }

    #[test]
    fn percentiles_of_few_values() {
        let took = (1..=100).map(Duration::from_millis).collect();
        assert_eq!(percentiles(took), (51.0, 100.0));
        assert_eq!(percentiles(vec![Duration::from_millis(7)]), (7.0, 7.0));
    }
}
