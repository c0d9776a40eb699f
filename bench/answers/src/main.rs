//! `cargo xtask bench answers`: what it costs to answer questions about large results of tools.
//!
//! Every question is answered in four ways by fixed scripts: from everything, from what a harness
//! lets through, page by page, and by asking for what is wanted. Each run has servers of its own. What
//! is counted is what an agent has to read and write, and what goes over the wire for it. Pages and
//! searches go through the real `handback wrap`, with the upstream as a process of its own behind it.
//!
//! `bench-answers data` tells what the data is, and with `--dump FOLDER` writes it down;
//! `bench-answers upstream` is the server behind. With `--smoke` pages and
//! truncated results, which take long or prove little, are tried once for each set of data.

#![expect(clippy::print_stdout, reason = "the report is what this program is for")]
#![expect(clippy::print_stderr, reason = "progress goes to stderr")]

mod agent;
mod args;
mod client;
mod data;
mod front;
mod known;
mod plain;
mod prose;
mod question;
mod random;
mod reader;
mod report;
mod search;
mod strategy;
mod upstream;
mod vocabulary;

use std::path::Path;

use anyhow::{Context as _, Result, ensure};

use crate::args::{Bench, Command};
use crate::data::DataSet;
use crate::front::Programs;
use crate::known::Known;
use crate::question::Question;
use crate::report::{AIM, Report};
use crate::strategy::{Run, Strategy, Verdict};

fn main() -> Result<()> {
    match Command::parse(std::env::args().skip(1))? {
        Command::Bench(bench) => answer_all(&bench),
        Command::Data { folder } => tell_data(folder.as_deref()),
        Command::Upstream { record } => upstream::serve(record.as_deref()),
    }
}

fn answer_all(bench: &Bench) -> Result<()> {
    let programs = Programs { own: std::env::current_exe()?, handback: bench.handback.clone() };
    let mut questions = question::all()?;
    questions.retain(|question| bench.wants(&question.id));
    ensure!(!questions.is_empty(), "there is no such question");
    let mut runs = Vec::new();
    for (place, question) in questions.iter().enumerate() {
        let before = questions.get(..place).unwrap_or_default();
        let is_first = before.iter().all(|other| other.data != question.data);
        for way in Strategy::ALL {
            // What the aims are about is always there.
            let is_aim = matches!(way, Strategy::Everything | Strategy::Search);
            if bench.smoke && !is_aim && !is_first {
                continue;
            }
            runs.push(run(&programs, question, way)?);
        }
    }
    let report = Report { questions: &questions, runs: &runs, is_smoke: bench.smoke };
    let text = report.markdown();
    println!("{text}");
    if let Some(path) = &bench.write {
        report::replace_section(path, &text)?;
        eprintln!("written to {}", path.display());
    }
    judge(&runs, bench.only.is_none().then(|| report.parts_of_everything()))
}

fn run(programs: &Programs, question: &Question, way: Strategy) -> Result<Run> {
    let what = format!("{}, {}", question.id, way.title());
    let run = strategy::run(programs, question, way).with_context(|| what.clone())?;
    eprintln!("{what}: {:?}, {} tokens", run.verdict, run.cost.tokens());
    Ok(run)
}

/// What a truncated result gets wrong is in the report. What others get wrong is a failure: they could
/// have known. So is a sum over the whole set, in tokens or on the wire, that is above the aim.
fn judge(runs: &[Run], sums: Option<[f64; 2]>) -> Result<()> {
    let is_wrong =
        |run: &&Run| run.verdict == Verdict::Wrong && run.strategy != Strategy::Truncated;
    let wrong: Vec<_> = runs
        .iter()
        .filter(is_wrong)
        .map(|run| format!("{} by {}", run.question.id, run.strategy.title()))
        .collect();
    ensure!(wrong.is_empty(), "wrong answers: {}", wrong.join(", "));
    for (part, what) in sums.into_iter().flatten().zip(["tokens", "bytes on the wire"]) {
        ensure!(part <= AIM, "search first took {part:.3} of everything in {what}: over {AIM}");
    }
    Ok(())
}

/// Sizes and digests, and the plain answer to every question.
fn tell_data(folder: Option<&Path>) -> Result<()> {
    for data in DataSet::ALL {
        let text = data.text();
        let (name, about) = (data.name(), data.about());
        println!("{name}: {about}: {} bytes, {}", text.len(), data::digest(&text));
        if let Some(folder) = folder {
            std::fs::create_dir_all(folder)?;
            std::fs::write(folder.join(name), &text)?;
        }
        let known = Known::from_text(data, &text);
        for question in question::all()?.iter().filter(|question| question.data == data) {
            let answer = plain::answer(&question.id, &known);
            println!("  {}: {answer}\n    {}", question.id, question.asks);
            if let Some(why) = &question.hard {
                println!("    hard: {why}");
            }
            if answer != question.answer {
                println!("    the file has another answer: {}", question.answer);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(strategy: Strategy) -> Run {
        let question = question::all().unwrap().remove(0);
        let (cost, parts) = Default::default();
        Run { question, strategy, cost, parts, verdict: Verdict::Wrong }
    }

    #[test]
    fn only_what_was_cut_may_give_a_wrong_answer() {
        assert!(judge(&[wrong(Strategy::Truncated)], None).is_ok());
        for way in [Strategy::Everything, Strategy::Pages, Strategy::Search] {
            let why = judge(&[wrong(way)], None).unwrap_err().to_string();
            assert_eq!(why, format!("wrong answers: issues-first by {}", way.title()));
        }
    }

    #[test]
    fn a_sum_over_the_aim_is_a_failure() {
        assert!(judge(&[], Some([0.1, 0.1])).is_ok());
        assert!(judge(&[], None).is_ok());
        for sums in [[0.11, 0.1], [0.1, 0.11], [f64::NAN, 0.1]] {
            assert!(judge(&[], Some(sums)).is_err(), "{sums:?}");
        }
    }
}
