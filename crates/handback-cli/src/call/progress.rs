//! How far it is, on stderr.

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use handback_client::tools::Event;
use indicatif::{HumanBytes, ProgressBar, ProgressStyle};

use crate::output::Output;
use crate::text;

/// Where it is told.
#[derive(Clone, Debug)]
pub(super) enum Meter {
    /// To nobody.
    Hidden,
    /// On a terminal: one line, which is gone afterwards.
    Terminal(ProgressBar),
    /// Elsewhere: one line for each event.
    Lines(Output),
}

impl Meter {
    pub(super) fn new(is_wanted: bool, output: Output) -> Self {
        if !output.is_for_people() {
            return Self::Hidden;
        }
        match (io::stderr().is_terminal(), is_wanted) {
            (true, _) => Self::Terminal(spinner()),
            (false, true) => Self::Lines(output),
            (false, false) => Self::Hidden,
        }
    }

    /// What a tool tells.
    pub(super) fn hear(&self, event: &Event) {
        match event {
            Event::Progress { done, total, message } => {
                let of = total.map(|total| format!("/{total}")).unwrap_or_default();
                let message = message.as_deref().unwrap_or_default();
                self.tell("progress", &format!("{done}{of} {message}"));
            }
            Event::Log { level, data } => self.tell("log", &format!("{level} {data}")),
            Event::Page { pages, bytes } => {
                self.tell("page", &format!("{pages}, {} so far", HumanBytes(*bytes)));
            }
            Event::Again { why } => self.tell("trying again", why),
            _ => {}
        }
    }

    /// Leaves the terminal as it was.
    pub(super) fn clear(&self) {
        if let Self::Terminal(bar) = self {
            bar.finish_and_clear();
        }
    }

    fn tell(&self, label: &str, what: &str) {
        let plain = text::one_line(what);
        match self {
            Self::Hidden => {}
            Self::Terminal(bar) => {
                bar.enable_steady_tick(Duration::from_millis(200));
                bar.set_message(format!("{label}: {plain}"));
            }
            Self::Lines(output) => output.note(label, &plain),
        }
    }
}

fn spinner() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
        bar.set_style(style);
    }
    bar
}
