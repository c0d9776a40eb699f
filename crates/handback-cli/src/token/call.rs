//! The call that a token belongs to, as flags: ring, purpose, the context's fields, and the time.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use handback_token::{
    ArgsFingerprint, Caller, Context, Operation, Sealer, SealerConfig, UnixTime,
    args_fingerprint_of_text, args_fingerprint_without,
};

use crate::args::RingArgs;
use crate::error::Failure;
use crate::{clock, rings, text};

/// The longest file of arguments that is read: a call of a megabyte is far beyond any tool's limit.
const MAX_ARGS_BYTES: usize = 1 << 20;

/// What tokens are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum PurposeName {
    /// Where a walk over a collection goes on
    Cursor,
    /// What an unfinished exchange must remember
    State,
    /// Which duplex, as whom, from which event
    Resume,
}

impl PurposeName {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Cursor => "cursor",
            Self::State => "state",
            Self::Resume => "resume",
        }
    }
}

/// How the fingerprint of arguments is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ArgsAs {
    /// From the parsed value, as a tool does that acts on it
    Value,
    /// From the text itself, as a gateway does that relays it
    Text,
}

#[derive(Debug, Args)]
pub(super) struct CallArgs {
    #[command(flatten)]
    ring: RingArgs,

    /// What the token is for
    #[arg(long, value_enum)]
    pub(super) purpose: PurposeName,

    /// The time of the call, as RFC 3339 or as seconds since 1970 [default: now]
    #[arg(long, value_name = "TIME", value_parser = text::parse_time)]
    at: Option<UnixTime>,

    #[command(flatten)]
    fields: FieldArgs,
}

/// The fields of the context. A field that is not given is absent, which is not the same as empty.
#[derive(Debug, Args)]
#[command(next_help_heading = "Context")]
struct FieldArgs {
    /// Whom tokens are for [default: the ring's id]
    #[arg(long)]
    audience: Option<String>,

    /// What the caller asks for; request state can be bound to less
    #[arg(long, value_parser = operations())]
    operation: Option<Operation>,

    /// The tool, prompt, URI or collection
    #[arg(long)]
    name: Option<String>,

    /// The issuer of the caller's identity; without one the caller is unauthenticated
    #[arg(long, requires = "subject")]
    issuer: Option<String>,

    /// The subject of the caller's identity
    #[arg(long, requires = "issuer")]
    subject: Option<String>,

    /// A file with the call's arguments, in JSON
    #[arg(long, value_name = "FILE", conflicts_with = "args_fingerprint")]
    args: Option<PathBuf>,

    /// How the fingerprint of the arguments is taken
    #[arg(
        long,
        value_name = "HOW",
        value_enum,
        default_value_t = ArgsAs::Value,
        requires = "args"
    )]
    args_as: ArgsAs,

    /// A member of the arguments that may differ; can be given several times
    #[arg(long, value_name = "MEMBER", requires = "args")]
    args_exclude: Vec<String>,

    /// The fingerprint of the arguments, if it is known: 64 hexadecimal digits
    #[arg(long, value_name = "HEX", value_parser = parse_fingerprint)]
    args_fingerprint: Option<ArgsFingerprint>,

    /// The tenant
    #[arg(long)]
    tenant: Option<String>,

    /// The upstream server
    #[arg(long)]
    upstream: Option<String>,

    /// What the client calls itself
    #[arg(long)]
    client: Option<String>,
}

/// A call, ready to be bound.
#[derive(Debug)]
pub(super) struct Call<'a> {
    pub(super) sealer: Sealer,
    pub(super) ring: String,
    pub(super) now: UnixTime,
    fields: &'a FieldArgs,
    arguments: Option<ArgsFingerprint>,
}

impl CallArgs {
    /// Reads what the flags name: the ring, the arguments, the clock.
    pub(super) fn prepare(&self) -> Result<Call<'_>, Failure> {
        let ring = rings::find(&self.ring)?.ring;
        let audience = self.fields.audience.clone();
        Ok(Call {
            sealer: Sealer::new(&ring, SealerConfig { audience, ..SealerConfig::default() })?,
            ring: ring.id().to_string(),
            now: self.at.unwrap_or_else(clock::now),
            fields: &self.fields,
            arguments: self.fields.arguments()?,
        })
    }
}

impl Call<'_> {
    /// What the token is bound to.
    pub(super) fn context(&self) -> Context<'_> {
        let FieldArgs { operation, name, tenant, upstream, client, .. } = self.fields;
        let caller = match (&self.fields.issuer, &self.fields.subject) {
            (Some(issuer), Some(subject)) => Caller::dangerous_identified(issuer, subject),
            _ => Caller::UNAUTHENTICATED,
        };
        let mut context = match *operation {
            Some(operation) => Context::new(caller, operation),
            None => Context::bare(caller),
        };
        if let Some(name) = name {
            context = context.name(name);
        }
        if let Some(arguments) = &self.arguments {
            context = context.arguments(arguments);
        }
        if let Some(tenant) = tenant {
            context = context.tenant(tenant);
        }
        if let Some(upstream) = upstream {
            context = context.upstream(upstream);
        }
        if let Some(client) = client {
            context = context.client(client);
        }
        context
    }
}

impl FieldArgs {
    fn arguments(&self) -> Result<Option<ArgsFingerprint>, Failure> {
        let Some(path) = &self.args else { return Ok(self.args_fingerprint) };
        let json = read_bounded(path)?;
        let excluded: Vec<&str> = self.args_exclude.iter().map(String::as_str).collect();
        let unusable = |error: String| {
            Failure::new(format!("cannot take the fingerprint of {}: {error}", path.display()))
        };
        let fingerprint = match self.args_as {
            ArgsAs::Text => args_fingerprint_of_text(&json, &excluded)
                .map_err(|error| unusable(error.to_string()))?,
            ArgsAs::Value => {
                let value =
                    serde_json::from_slice(&json).map_err(|error| unusable(error.to_string()))?;
                args_fingerprint_without(&value, &excluded)
            }
        };
        Ok(Some(fingerprint))
    }
}

fn read_bounded(path: &Path) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MAX_ARGS_BYTES as u64 + 1).read_to_end(&mut bytes))
        .map_err(|error| Failure::new(format!("cannot read {}: {error}", path.display())))?;
    if bytes.len() > MAX_ARGS_BYTES {
        return Err(Failure::new(format!(
            "{} has more than {MAX_ARGS_BYTES} bytes, which is more than is read",
            path.display()
        ))
        .hint("--args-fingerprint takes a fingerprint that was computed elsewhere"));
    }
    Ok(bytes)
}

fn operations() -> impl TypedValueParser<Value = Operation> {
    PossibleValuesParser::new(Operation::ALL.map(Operation::as_str)).map(|name| {
        Operation::ALL
            .into_iter()
            .find(|operation| operation.as_str() == name)
            .unwrap_or(Operation::Call)
    })
}

fn parse_fingerprint(digits: &str) -> Result<ArgsFingerprint, String> {
    let bytes = text::parse_hex(digits)?;
    <[u8; 32]>::try_from(bytes)
        .map(ArgsFingerprint::from_bytes)
        .map_err(|bytes| format!("a fingerprint has 32 bytes, not {}", bytes.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_has_64_digits() {
        let digits = "0f".repeat(32);
        assert_eq!(parse_fingerprint(&digits).unwrap().to_string(), digits);
        for wrong in ["", "0f", &digits[1..], &"0f".repeat(33), &"zz".repeat(32)] {
            assert!(parse_fingerprint(wrong).is_err(), "{wrong}");
        }
    }
}
