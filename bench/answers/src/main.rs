//! `cargo xtask bench answers`: what it costs to answer questions about large results of tools.
//!
//! `bench-answers data` tells what the data is, and with `--dump FOLDER` writes it down.

#![expect(clippy::print_stdout, reason = "the report is what this program is for")]

mod data;
mod known;
mod plain;
mod prose;
mod question;
mod random;

use std::path::Path;

use anyhow::{Result, bail};

use crate::data::DataSet;
use crate::known::Known;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["data"] => tell_data(None),
        ["data", "--dump", folder] => tell_data(Some(Path::new(folder))),
        _ => bail!("there is no `{}`", args.join(" ")),
    }
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
