//! Every metric.

/// A metric, as it is told to who reads it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Described {
    /// Its name.
    pub name: &'static str,
    /// What kind of number it is.
    pub kind: Kind,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// What it is, in one line.
    pub help: &'static str,
}

/// Kinds of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "others are not used here")]
pub enum Kind {
    /// A number that only grows while the process lives.
    Counter,
    /// A number as it is now.
    Gauge,
    /// How many times were within which bounds.
    Histogram,
}

impl Kind {
    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

const fn described(
    name: &'static str,
    kind: Kind,
    labels: &'static [&'static str],
    help: &'static str,
) -> Described {
    Described { name, kind, labels, help }
}

use Kind::{Counter, Gauge, Histogram};

/// All of them, in the order in which they are shown.
pub const TABLE: &[Described] = &[
    described(
        "handback_calls_total",
        Counter,
        &["surface", "outcome"],
        "Calls that ended, by where they came in and how they ended.",
    ),
    described(
        "handback_replays_total",
        Counter,
        &[],
        "Calls that were answered with what an earlier try gave.",
    ),
    described(
        "handback_joins_total",
        Counter,
        &[],
        "Calls that waited for one with the same key that was under way.",
    ),
    described(
        "handback_refusals_total",
        Counter,
        &["reason"],
        "What was refused, by the reason that the audit has.",
    ),
    described(
        "handback_unidentified_total",
        Counter,
        &[],
        "Requests whose credential was absent or wrong.",
    ),
    described(
        "handback_input_bytes_unfinished",
        Gauge,
        &[],
        "Bytes of requests and frames that have begun to arrive and are not complete.",
    ),
    described(
        "handback_inputs_refused_total",
        Counter,
        &["reason"],
        "Requests and frames that were refused before they were complete, by reason.",
    ),
    described(
        "handback_continuations_sealed_total",
        Counter,
        &["kind"],
        "Tokens that were handed out.",
    ),
    described(
        "handback_continuations_opened_total",
        Counter,
        &["kind"],
        "Tokens that came back and opened.",
    ),
    described(
        "handback_taken_bytes_total",
        Counter,
        &[],
        "Bytes of values that were put under handles.",
    ),
    described("handback_taken_values_total", Counter, &[], "Values that were put under handles."),
    described("handback_held_bytes", Gauge, &[], "Bytes of the values that are held now."),
    described("handback_held_values", Gauge, &[], "Values that are held now."),
    described(
        "handback_held_counted",
        Gauge,
        &[],
        "1 if all that is held was counted, 0 if there is more than was looked at.",
    ),
    described("handback_subscriptions", Gauge, &[], "Subscriptions of streams."),
    described(
        "handback_subscription_bytes",
        Gauge,
        &[],
        "Bytes of subscriptions, as the limit counts them.",
    ),
    described(
        "handback_bounded_results_total",
        Counter,
        &[],
        "Results of upstreams over the budget of their client.",
    ),
    described(
        "handback_bounded_result_bytes_total",
        Counter,
        &[],
        "Bytes of these results as the upstreams gave them.",
    ),
    described(
        "handback_bounded_given_bytes_total",
        Counter,
        &[],
        "Bytes that clients got in the place of these results.",
    ),
    described(
        "handback_saved_tokens_total",
        Counter,
        &[],
        "Tokens that clients were spared by that, by estimate.",
    ),
    described(
        "handback_read_bytes_total",
        Counter,
        &[],
        "Bytes of answers of the gateway's own tools, with which held results are read.",
    ),
    described(
        "handback_referenced_bytes_total",
        Counter,
        &[],
        "Bytes of held values that were put into arguments by reference.",
    ),
    described(
        "handback_overhead_seconds",
        Histogram,
        &[],
        "How long relayed calls were in the gateway and not at their upstream.",
    ),
    described(
        "handback_upstream_calls_total",
        Counter,
        &["upstream", "outcome"],
        "Calls that upstreams were asked, by what came of it.",
    ),
    described(
        "handback_upstream_seconds",
        Histogram,
        &["upstream"],
        "How long upstreams took to answer calls.",
    ),
    described(
        "handback_upstream_up",
        Gauge,
        &["upstream"],
        "1 if an upstream answered when it was asked last, 0 if not; absent until it was asked.",
    ),
    described(
        "handback_upstream_connections_total",
        Counter,
        &["upstream"],
        "Connections to upstreams, or programs, that came about.",
    ),
    described(
        "handback_upstream_reconnections_total",
        Counter,
        &["upstream"],
        "Of these, those in the place of one that was gone.",
    ),
    described(
        "handback_upstream_failed_connections_total",
        Counter,
        &["upstream"],
        "Connections to upstreams that did not come about.",
    ),
];
