//! `handback collections`, and the collections that a command line names.

mod open;
mod spec;

use std::fmt;
use std::sync::Arc;

use clap::Args;
use handback_collections::shelf::FileShelf;
use handback_page::aql::{Catalog, Engine, Settings};
use handback_page::{Collection, CollectionError};
use serde::Serialize;
use unicode_width::UnicodeWidthStr as _;

use crate::config;
use crate::error::Failure;
use crate::exit::Exit;
use crate::output::Output;

/// The collections of a command.
#[derive(Debug, Args)]
pub(crate) struct CollectionArgs {
    /// A collection: NAME=sqlite:FILE#TABLE, NAME=postgres://…/DB#TABLE, NAME=json:FILE#POINTER,
    /// NAME=jsonl:FILE, NAME=csv:FILE or NAME=text:FILE; can be given several times
    #[arg(long = "collection", value_name = "NAME=SOURCE", required = true)]
    collections: Vec<String>,

    /// Refuse orders that no index serves, instead of reading everything that matches
    #[arg(long)]
    require_index: bool,
}

/// Show collections: their columns, keys, sizes and indexes
#[derive(Debug, Args)]
#[command(after_long_help = "\
Sources:
  sqlite:FILE#TABLE        a table or view of a SQLite database, opened read-only
  postgres://…/DB#TABLE    a table or view of a Postgres database, in read-only transactions;
                           a password comes from the URL or, better, from PGPASSWORD
  json:FILE#POINTER        an array in a JSON file, by JSON pointer (RFC 6901)
  jsonl:FILE               one JSON value per line
  csv:FILE                 comma-separated values with a header
  text:FILE                lines

Options, after the last # and a ?:
  key=COLUMN,…             what makes items unique, where the source does not say it
  order=rowid              read a SQLite table without a key in the order of its rowids

JSONL and CSV files are indexed once into the data directory, and again when they change.

JSON members:
  collections: name, source, items, bytes, key, columns (name, type, nullable), indexes

Examples:
  handback collections --collection orders=sqlite:shop.db#orders
  handback collections --collection 'view=sqlite:shop.db#daily?key=day'")]
pub(crate) struct CollectionsArgs {
    #[command(flatten)]
    collections: CollectionArgs,
}

pub(crate) fn run(args: &CollectionsArgs, output: Output) -> Result<Exit, Failure> {
    let catalog = catalog(&args.collections, output)?;
    let shown = catalog
        .names()
        .filter_map(|name| Some((name, catalog.collection(name)?)))
        .map(|(name, collection)| {
            Shown::of(name, collection.as_ref())
                .map_err(|error| Failure::new(error).hint(format!("collection '{name}'")))
        })
        .collect::<Result<_, _>>()?;
    output.answer(&ShownCollections { collections: shown })?;
    Ok(Exit::OK)
}

/// Checks what a configuration says of a collection, without opening it.
pub(crate) fn check(name: &str, source: &str) -> Result<(), String> {
    spec::parse(&format!("{name}={source}")).map(drop)
}

/// An engine over the collections of a command, with its shelf in the data directory.
pub(crate) fn engine(
    args: &CollectionArgs,
    settings: Settings,
    output: Output,
) -> Result<Engine, Failure> {
    let shelf = FileShelf::new(config::data_directory()?.join("shelf"));
    let catalog = catalog(args, output)?;
    Engine::new(catalog, settings, Arc::new(shelf)).map_err(Failure::usage)
}

fn catalog(args: &CollectionArgs, output: Output) -> Result<Catalog, Failure> {
    let mut catalog = Catalog::new();
    // Read here and not by clap, whose errors repeat what was given: it may hold a password.
    for (number, text) in (1..).zip(&args.collections) {
        let spec = spec::parse(text).map_err(|why| {
            Failure::usage(format!("--collection number {number} is not NAME=SOURCE: {why}"))
                .hint("`handback collections --help` lists the sources")
        })?;
        let collection = open::open(&spec, args.require_index, output)?;
        catalog.add(&spec.name, "", collection).map_err(Failure::usage)?;
    }
    Ok(catalog)
}

/// The collections of a configuration.
pub(crate) fn configured<'a>(
    sources: impl Iterator<Item = (&'a str, &'a str)>,
    output: Output,
) -> Result<Catalog, Failure> {
    let mut catalog = Catalog::new();
    for (name, source) in sources {
        let spec = spec::parse(&format!("{name}={source}"));
        let spec = spec.map_err(|why| Failure::usage(format!("collections.{name}: {why}")))?;
        let collection = open::open(&spec, false, output)?;
        catalog.add(&spec.name, "", collection).map_err(Failure::usage)?;
    }
    Ok(catalog)
}

/// The user who runs this process.
#[cfg(unix)]
pub(crate) fn own_uid() -> u32 {
    rustix::process::getuid().as_raw()
}

/// Everybody is the same user where there are none.
#[cfg(not(unix))]
pub(crate) fn own_uid() -> u32 {
    0
}

/// Names from a source as a terminal can show them: escaped where they have something else than
/// characters that are seen. Quotes are no danger.
fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\'' | '"' => shown.push(c),
            c => shown.extend(c.escape_debug()),
        }
    }
    shown
}

#[derive(Debug, Serialize)]
struct ShownCollections {
    collections: Vec<Shown>,
}

#[derive(Debug, Serialize)]
struct Shown {
    name: String,
    source: String,
    items: Option<u64>,
    bytes: Option<u64>,
    key: Vec<String>,
    columns: Vec<ShownColumn>,
    indexes: Vec<String>,
}

#[derive(Debug, Serialize)]
struct ShownColumn {
    name: String,
    #[serde(rename = "type")]
    kind: String,
    nullable: bool,
}

impl Shown {
    fn of(name: &str, collection: &dyn Collection) -> Result<Self, CollectionError> {
        let (schema, about) = (collection.schema()?, collection.about()?);
        let columns = schema.columns().iter().map(|column| ShownColumn {
            name: column.name.clone(),
            kind: column.kind.name().to_owned(),
            nullable: column.nullable,
        });
        Ok(Self {
            name: name.to_owned(),
            source: about.source,
            items: about.items,
            bytes: about.bytes,
            key: schema.key().to_vec(),
            columns: columns.collect(),
            indexes: about.indexes,
        })
    }
}

impl fmt::Display for ShownCollections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, collection) in self.collections.iter().enumerate() {
            if number > 0 {
                writeln!(f)?;
            }
            collection.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.source)?;
        if let Some(items) = self.items {
            write!(f, ", {items} items")?;
        }
        if let Some(bytes) = self.bytes {
            write!(f, ", {bytes} bytes")?;
        }
        writeln!(f)?;
        match self.key.as_slice() {
            [] => writeln!(f, "  key      none: items are read in the order of the file")?,
            key => writeln!(f, "  key      {}", visible(&key.join(", ")))?,
        }
        for (number, index) in self.indexes.iter().enumerate() {
            let label = if number == 0 { "indexes" } else { "" };
            writeln!(f, "  {label:7}  {}", visible(index))?;
        }
        let width = self.columns.iter().map(|column| visible(&column.name).width()).max();
        let width = width.unwrap_or(0);
        for (number, column) in self.columns.iter().enumerate() {
            let label = if number == 0 { "columns" } else { "" };
            let name = visible(&column.name);
            let nullable = if column.nullable { ", or null" } else { "" };
            let padding = " ".repeat(width.saturating_sub(name.width()));
            writeln!(f, "  {label:7}  {name}{padding}  {}{nullable}", column.kind)?;
        }
        Ok(())
    }
}
