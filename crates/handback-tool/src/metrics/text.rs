//! All of it as Prometheus reads it: the text format, version 0.0.4.

use std::fmt::{self, Write as _};
use std::sync::PoisonError;

use handback_token::Tallied;

use super::table::{Described, TABLE};
use super::upstream::UpstreamMetrics;
use super::{Counter, Elsewhere, Histogram, Metrics, OUTCOMES, REASONS, SURFACES};
use crate::InputBudget;

/// Tokens, in the order in which they are tallied.
const TOKENS: [&str; 3] = ["cursor", "state", "resume"];

impl Metrics {
    /// The text.
    pub(crate) fn text(&self, elsewhere: &Elsewhere) -> String {
        let mut text = Text(String::with_capacity(16 << 10));
        for described in TABLE {
            text.head(described);
            // Into a string, nothing fails.
            let _ = self.samples(described.name, &mut text, elsewhere);
        }
        text.0
    }

    fn samples(&self, name: &str, text: &mut Text, elsewhere: &Elsewhere) -> fmt::Result {
        let Elsewhere { tokens, held } = elsewhere;
        let one = |counter: &Counter| Some(counter.get());
        let number = match name {
            "handback_calls_total" => {
                for (surface, counters) in SURFACES.iter().zip(&self.calls) {
                    for (outcome, counter) in OUTCOMES.iter().zip(counters) {
                        let labels = [("surface", surface.as_str()), ("outcome", outcome)];
                        text.sample(name, &labels, counter.get())?;
                    }
                }
                None
            }
            "handback_replays_total" => Some(self.replays()),
            "handback_joins_total" => one(&self.joins),
            "handback_refusals_total" => {
                for (reason, counter) in REASONS.iter().zip(&self.refusals.0) {
                    text.sample(name, &[("reason", reason)], counter.get())?;
                }
                None
            }
            "handback_unidentified_total" => one(&self.unidentified),
            "handback_continuations_sealed_total" => {
                text.tokens(name, tokens, |tallied| tallied.sealed)?;
                None
            }
            "handback_continuations_opened_total" => {
                text.tokens(name, tokens, |tallied| tallied.opened)?;
                None
            }
            "handback_taken_bytes_total" => Some(held.taken_bytes),
            "handback_taken_values_total" => Some(held.taken_values),
            "handback_held_bytes" => Some(held.bytes),
            "handback_held_values" => Some(held.values),
            "handback_held_counted" => Some(u64::from(!held.has_more)),
            "handback_subscriptions" => Some(self.subscribed().0),
            "handback_subscription_bytes" => Some(self.subscribed().1),
            "handback_bounded_results_total" => one(&self.held_results),
            "handback_bounded_result_bytes_total" => one(&self.held_result_bytes),
            "handback_bounded_given_bytes_total" => one(&self.given_bytes),
            "handback_saved_tokens_total" => one(&self.saved_tokens),
            "handback_read_bytes_total" => one(&self.read_bytes),
            "handback_referenced_bytes_total" => one(&self.referenced_bytes),
            "handback_overhead_seconds" => {
                text.histogram(name, None, &self.overhead)?;
                None
            }
            name => {
                self.input.get().map_or(Ok(()), |input| of_input(name, input, text))?;
                let all = self.upstreams.read().unwrap_or_else(PoisonError::into_inner);
                for upstream in all.iter() {
                    of_upstream(name, upstream, text)?;
                }
                None
            }
        };
        number.map_or(Ok(()), |number| text.sample(name, &[], number))
    }

    /// The number of subscriptions and their bytes.
    fn subscribed(&self) -> (u64, u64) {
        self.subscriptions.get().map_or((0, 0), |(count, bytes)| (count.used(), bytes.used()))
    }
}

fn of_input(name: &str, input: &InputBudget, text: &mut Text) -> fmt::Result {
    match name {
        "handback_input_bytes_unfinished" => text.sample(name, &[], input.bytes()),
        "handback_inputs_refused_total" => input.refused().try_for_each(|(refusal, count)| {
            text.sample(name, &[("reason", refusal.as_str())], count)
        }),
        _ => Ok(()),
    }
}

fn of_upstream(name: &str, upstream: &UpstreamMetrics, text: &mut Text) -> fmt::Result {
    let label = ("upstream", upstream.name());
    match name {
        "handback_upstream_calls_total" => upstream.calls().try_for_each(|(outcome, number)| {
            text.sample(name, &[label, ("outcome", outcome)], number)
        }),
        "handback_upstream_seconds" => text.histogram(name, Some(label), upstream.seconds()),
        "handback_upstream_up" => match upstream.answers() {
            Some(answers) => text.sample(name, &[label], u64::from(answers)),
            None => Ok(()),
        },
        "handback_upstream_connections_total" => {
            text.sample(name, &[label], upstream.connections.get())
        }
        "handback_upstream_reconnections_total" => {
            text.sample(name, &[label], upstream.reconnections.get())
        }
        "handback_upstream_failed_connections_total" => {
            text.sample(name, &[label], upstream.failed_connections.get())
        }
        _ => Ok(()),
    }
}

struct Text(String);

impl Text {
    fn head(&mut self, described: &Described) {
        let Described { name, kind, help, .. } = described;
        let kind = kind.as_str();
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    fn sample(
        &mut self,
        name: &str,
        labels: &[(&str, &str)],
        number: impl fmt::Display,
    ) -> fmt::Result {
        self.0.push_str(name);
        for (at, (label, value)) in labels.iter().enumerate() {
            self.0.push(if at == 0 { '{' } else { ',' });
            write!(self.0, "{label}=\"{}\"", Escaped(value))?;
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        writeln!(self.0, " {number}")
    }

    fn tokens(
        &mut self,
        name: &str,
        tallied: &[Tallied; 3],
        of: impl Fn(&Tallied) -> u64,
    ) -> fmt::Result {
        let mut both = TOKENS.iter().zip(tallied);
        both.try_for_each(|(kind, tallied)| self.sample(name, &[("kind", kind)], of(tallied)))
    }

    fn histogram(
        &mut self,
        name: &str,
        label: Option<(&str, &str)>,
        histogram: &Histogram,
    ) -> fmt::Result {
        let mut count = 0;
        for (bound, within) in histogram.cumulative() {
            let bound = bound.map_or_else(|| "+Inf".to_owned(), |bound| seconds(bound).to_string());
            let labels: Vec<_> = label.into_iter().chain([("le", bound.as_str())]).collect();
            self.sample(&format!("{name}_bucket"), &labels, within)?;
            count = within;
        }
        let labels: Vec<_> = label.into_iter().collect();
        self.sample(&format!("{name}_sum"), &labels, seconds(histogram.sum_us()))?;
        self.sample(&format!("{name}_count"), &labels, count)
    }
}

#[expect(clippy::cast_precision_loss, reason = "a sum of times: 2^53 microseconds are 285 years")]
fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}

/// The value of a label. Names of upstreams are plain, which is not relied on here.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|character| match character {
            '\\' => f.write_str("\\\\"),
            '"' => f.write_str("\\\""),
            '\n' => f.write_str("\\n"),
            other => f.write_char(other),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use handback_token::Reason;

    use super::*;
    use crate::metrics::UpstreamOutcome;
    use crate::request::Refusal;

    fn full() -> Metrics {
        let metrics = Metrics::default();
        metrics.input.set(InputBudget::default()).unwrap();
        let upstream = metrics.upstream("shop");
        upstream.is_up(true);
        upstream.called(UpstreamOutcome::Answered, Duration::from_micros(70));
        metrics
    }

    #[test]
    fn every_metric_of_the_table_has_samples() {
        let text = full().text(&Elsewhere::default());
        for described in TABLE {
            let is_sample = |line: &&str| line.starts_with(described.name);
            let sample = text.lines().find(is_sample).unwrap_or_else(|| panic!("{described:?}"));
            for label in described.labels {
                assert!(sample.contains(&format!("{label}=\"")), "{sample}");
            }
        }
        assert!(
            text.contains("handback_upstream_seconds_bucket{upstream=\"shop\",le=\"0.00005\"} 0\n")
        );
        assert!(
            text.contains("handback_upstream_seconds_bucket{upstream=\"shop\",le=\"0.0001\"} 1\n")
        );
        assert!(text.contains("handback_upstream_seconds_sum{upstream=\"shop\"} 0.00007\n"));
        assert!(text.contains("handback_upstream_up{upstream=\"shop\"} 1\n"));
    }

    /// The guide has a row for each: its name, kind and labels.
    #[test]
    fn the_guide_has_every_metric() {
        let guide = include_str!("../../../../docs/guide/metrics.md");
        let rows: Vec<Vec<&str>> = guide
            .lines()
            .filter(|line| line.starts_with("| `handback_"))
            .map(|line| line.split('|').map(str::trim).skip(1).take(3).collect())
            .collect();
        let expected: Vec<Vec<String>> = TABLE
            .iter()
            .map(|Described { name, kind, labels, .. }| {
                let labels: Vec<_> = labels.iter().map(|label| format!("`{label}`")).collect();
                vec![format!("`{name}`"), kind.as_str().to_owned(), labels.join(", ")]
            })
            .collect();
        assert_eq!(rows, expected);
    }

    #[test]
    fn names_are_those_that_prometheus_expects() {
        for Described { name, kind, .. } in TABLE {
            assert!(name.starts_with("handback_"), "{name}");
            assert_eq!(name.ends_with("_total"), *kind == super::super::MetricKind::Counter);
            let once = TABLE.iter().filter(|other| other.name == *name).count();
            assert_eq!(once, 1, "{name}");
        }
    }

    #[test]
    fn every_reason_of_a_refusal_is_known() {
        let refusals = [
            Refusal::NotFound,
            Refusal::Busy,
            Refusal::TooFast,
            Refusal::Quota,
            Refusal::BadArguments(String::new()),
            Refusal::BadAnswers(String::new()),
            Refusal::BadKey,
            Refusal::Mismatch,
            Refusal::Ambiguous,
            Refusal::InFlight,
            Refusal::TimedOut,
            Refusal::Broken,
            Refusal::TooLarge,
            Refusal::Unavailable,
            Reason::TooLong.into(),
            Reason::Malformed.into(),
            Reason::UnknownSlot.into(),
            Reason::NotOpened.into(),
            Reason::RetiredKey.into(),
            Reason::Expired.into(),
            Reason::TooFar.into(),
            Reason::Revoked.into(),
            Reason::Replayed.into(),
        ];
        for refusal in refusals {
            assert!(REASONS.contains(&refusal.reason()), "{}", refusal.reason());
        }
    }

    #[test]
    fn labels_do_not_end_before_their_end() {
        let metrics = Metrics::default();
        metrics.upstream("a\"} 1\nb\\").is_up(false);
        let text = metrics.text(&Elsewhere::default());
        assert!(text.contains("handback_upstream_up{upstream=\"a\\\"} 1\\nb\\\\\"} 0\n"), "{text}");
    }

    #[test]
    fn there_are_so_many_upstreams_and_no_more() {
        let metrics = Metrics::default();
        for number in 0..1_000 {
            metrics.upstream(&number.to_string()).is_up(true);
        }
        let text = metrics.text(&Elsewhere::default());
        let shown = text.lines().filter(|line| line.starts_with("handback_upstream_up{")).count();
        assert_eq!(shown, crate::metrics::UPSTREAMS_MAX);
    }
}
