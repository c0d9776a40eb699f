//! Bearer tokens from a file: who has which, hashed at rest.
//!
//! ```text
//! handback-identities 1
//! # digest of the token, when it ends (or -), subject, scopes
//! sha256:8d70…e1 -                    alice     read write
//! sha256:5f2c…09 2027-01-01T00:00:00Z ci-runner read
//! ```
//!
//! The first line names the format and its version. Of the others, empty ones and those that start
//! with `#` say nothing; each of the rest is one token. Fields are separated by spaces or tabs. The
//! digest is SHA-256 over the text of the token, in 64 lower-case hexadecimal digits, so that
//! `printf %s TOKEN | sha256sum` tells the same. A subject may have several tokens, for instance
//! while one takes the place of another.
//!
//! # Design
//!
//! * **A token is `hbt_` and 43 characters, which are 32 random bytes** in base64url. One that
//!   looks otherwise is refused before it is hashed. So a plain hash is enough: nobody can guess
//!   256 random bits, and a password that somebody chose is not of that form. Rejected: Argon2,
//!   which makes guessing slow where there is nothing to guess, and every request with it.
//! * **Digests are compared in constant time**, all of them, whichever is the right one.
//! * **The principal is (`static:` and the server id, subject).** It does not depend on the token,
//!   so a new token for the same subject finds everything that the old one had.
//! * A file with one bad line is refused whole. Whoever reads it again keeps the one before.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use rand_core::CryptoRng;
use sha2::{Digest as _, Sha256};
use subtle::{Choice, ConditionallySelectable as _, ConstantTimeEq as _};
use thiserror::Error;
use zeroize::Zeroizing;

use crate::bearer::Bearer;
use crate::caller::{Caller, Refusal};
use crate::principal::{InvalidIdentity, Issuer, STATIC_ISSUER_PREFIX, Subject, VerifiedPrincipal};
use crate::scopes::{InvalidScopes, Scopes};

/// The largest file, in bytes: [`MAX_ENTRIES`] lines of ordinary length.
pub const MAX_ROSTER_BYTES: usize = 1 << 20;

/// The most tokens of a file. Every request compares with all of them.
pub const MAX_ENTRIES: usize = 4_096;

/// The longest subject in a file, in bytes.
pub const MAX_NAME_BYTES: usize = 256;

/// The first line of a file.
pub const FIRST_LINE: &str = "handback-identities 1";

const TOKEN_PREFIX: &str = "hbt_";
const TOKEN_BYTES: usize = 32;
const TOKEN_CHARACTERS: usize = TOKEN_PREFIX.len() + 43;
const DIGEST_PREFIX: &str = "sha256:";
const DIGEST_BYTES: usize = 32;
const NEVER: &str = "-";

/// A new bearer token. It is shown once, and never stored.
pub struct NewToken(Zeroizing<String>);

impl NewToken {
    /// Makes one.
    #[must_use]
    pub fn generate(rng: &mut (impl CryptoRng + ?Sized)) -> Self {
        let mut bytes = Zeroizing::new([0; TOKEN_BYTES]);
        rng.fill_bytes(bytes.as_mut());
        let mut text = Zeroizing::new(String::with_capacity(TOKEN_CHARACTERS));
        text.push_str(TOKEN_PREFIX);
        URL_SAFE_NO_PAD.encode_string(bytes.as_slice(), &mut text);
        Self(text)
    }

    /// The text, for the one to whom it is given.
    #[must_use]
    pub fn dangerous_text(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for NewToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewToken").finish_non_exhaustive()
    }
}

/// One line of a file: a token's digest, and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    digest: [u8; DIGEST_BYTES],
    expires_at: Option<u64>,
    name: String,
    scopes: Scopes,
}

impl Entry {
    /// The entry for a token, of somebody, with these scopes, until then (in seconds since the UNIX
    /// epoch) or for good.
    ///
    /// # Errors
    ///
    /// [`EntryError`] if it could not be written in a file.
    pub fn new(
        token: &NewToken,
        name: &str,
        scopes: &[impl AsRef<str>],
        expires_at: Option<u64>,
    ) -> Result<Self, EntryError> {
        check_name(name)?;
        if let Some(at) = expires_at {
            timestamp(at).ok_or(EntryError::Expiry)?;
        }
        let scopes = Scopes::new(scopes).map_err(EntryError::Scopes)?;
        Ok(Self { digest: digest(token.dangerous_text()), expires_at, name: name.into(), scopes })
    }

    /// Whose it is.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it grants.
    #[must_use]
    pub const fn scopes(&self) -> &Scopes {
        &self.scopes
    }

    /// When it ends, in seconds since the UNIX epoch.
    #[must_use]
    pub const fn expires_at(&self) -> Option<u64> {
        self.expires_at
    }

    /// The first digits of the digest: enough to name a line, useless to anybody else.
    #[must_use]
    pub fn short_digest(&self) -> String {
        self.digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect()
    }

    fn parse(line: &str) -> Result<Self, EntryError> {
        let mut fields = line.split([' ', '\t']).filter(|field| !field.is_empty());
        let digest = fields.next().and_then(parse_digest).ok_or(EntryError::Digest)?;
        let expires_at = match fields.next().ok_or(EntryError::Expiry)? {
            NEVER => None,
            text => Some(parse_time(text).ok_or(EntryError::Expiry)?),
        };
        let name = fields.next().ok_or(EntryError::Name)?;
        check_name(name)?;
        let scopes = Scopes::new(fields).map_err(EntryError::Scopes)?;
        Ok(Self { digest, expires_at, name: name.to_owned(), scopes })
    }
}

/// As a line of a file, without its end.
impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(DIGEST_PREFIX)?;
        for byte in self.digest {
            write!(f, "{byte:02x}")?;
        }
        match self.expires_at.and_then(timestamp) {
            Some(at) => write!(f, " {at} ")?,
            None => write!(f, " {NEVER} ")?,
        }
        f.write_str(&self.name)?;
        self.scopes.iter().try_for_each(|scope| write!(f, " {scope}"))
    }
}

/// What is wrong with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EntryError {
    /// The digest.
    #[error("it does not start with {DIGEST_PREFIX} and 64 hexadecimal digits in lower case")]
    Digest,
    /// When it ends.
    #[error("its second field is neither - nor a time such as 2027-01-01T00:00:00Z")]
    Expiry,
    /// The subject.
    #[error("its subject is missing, too long, or has a character that is not allowed")]
    Name,
    /// The scopes.
    #[error(transparent)]
    Scopes(InvalidScopes),
}

/// Why a file of tokens is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RosterError {
    /// The server id can not be part of a principal.
    #[error("the server id is not usable")]
    Issuer(#[from] InvalidIdentity),
    /// It is larger than [`MAX_ROSTER_BYTES`].
    #[error("it has more than {MAX_ROSTER_BYTES} bytes")]
    TooLarge,
    /// It is not text.
    #[error("it is not UTF-8")]
    NotText,
    /// It does not start with [`FIRST_LINE`].
    #[error("its first line is not {FIRST_LINE:?}")]
    Format,
    /// It has more than [`MAX_ENTRIES`].
    #[error("it has more than {MAX_ENTRIES} tokens")]
    TooMany,
    /// A line is wrong.
    #[error("line {line} is not an entry")]
    Entry {
        /// Which one, from 1.
        line: usize,
        /// What is wrong with it.
        #[source]
        source: EntryError,
    },
    /// One token is there twice, so it would not name one caller.
    #[error("line {line} has the token of an earlier line")]
    Twice {
        /// Which one, from 1.
        line: usize,
    },
}

/// All tokens of a file, by which callers are identified.
#[derive(Clone)]
pub struct Roster {
    issuer: Issuer,
    entries: Vec<Entry>,
}

impl Roster {
    /// Reads a file, for the server of this id.
    ///
    /// # Errors
    ///
    /// [`RosterError`] if anything in it is not understood. No error repeats what is in the file.
    pub fn parse(text: &[u8], server_id: &str) -> Result<Self, RosterError> {
        crate::binding::check_half(server_id).map_err(InvalidIdentity::from)?;
        let issuer = Issuer::new(&format!("{STATIC_ISSUER_PREFIX}{server_id}"))?;
        if text.len() > MAX_ROSTER_BYTES {
            return Err(RosterError::TooLarge);
        }
        let text = std::str::from_utf8(text).map_err(|_| RosterError::NotText)?;
        let mut lines = (1..).zip(text.lines());
        if lines.next().is_none_or(|(_, line)| line.trim_end() != FIRST_LINE) {
            return Err(RosterError::Format);
        }
        let mut seen = std::collections::HashSet::new();
        let mut entries = Vec::new();
        for (line, text) in lines {
            let text = text.trim();
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            if entries.len() >= MAX_ENTRIES {
                return Err(RosterError::TooMany);
            }
            let entry = Entry::parse(text).map_err(|source| RosterError::Entry { line, source })?;
            if !seen.insert(entry.digest) {
                return Err(RosterError::Twice { line });
            }
            entries.push(entry);
        }
        Ok(Self { issuer, entries })
    }

    /// Who presents this token, at the time `now`, in seconds since the UNIX epoch.
    ///
    /// # Errors
    ///
    /// [`Refusal`], whose text is the same for all causes.
    pub fn identify(&self, bearer: Bearer<'_>, now: u64) -> Result<Caller, Refusal> {
        let token = bearer.dangerous_text();
        if !has_form(token) {
            return Err(Refusal::Unknown);
        }
        let presented = digest(token);
        let mut found = Choice::from(0);
        let mut place = 0_u32;
        for (index, entry) in (0_u32..).zip(&self.entries) {
            let is_same = entry.digest.ct_eq(&presented);
            place.conditional_assign(&index, is_same);
            found |= is_same;
        }
        let entry = usize::try_from(place).ok().and_then(|place| self.entries.get(place));
        let entry = entry.filter(|_| found.into()).ok_or(Refusal::Unknown)?;
        if entry.expires_at.is_some_and(|at| now >= at) {
            return Err(Refusal::Expired);
        }
        let principal = VerifiedPrincipal::identified(
            &self.issuer,
            &Subject::new(&entry.name).map_err(|_| Refusal::Unknown)?,
        );
        Ok(Caller::new(principal, entry.scopes.clone(), entry.expires_at))
    }

    /// The tokens, in the order of the file.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }
}

impl fmt::Debug for Roster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Roster").field("entries", &self.entries.len()).finish_non_exhaustive()
    }
}

fn has_form(token: &str) -> bool {
    token.len() == TOKEN_CHARACTERS && token.starts_with(TOKEN_PREFIX)
}

fn digest(token: &str) -> [u8; DIGEST_BYTES] {
    Sha256::digest(token).into()
}

fn parse_digest(text: &str) -> Option<[u8; DIGEST_BYTES]> {
    let digits = text.strip_prefix(DIGEST_PREFIX)?.as_bytes();
    if digits.len() != 2 * DIGEST_BYTES {
        return None;
    }
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; DIGEST_BYTES];
    for (byte, pair) in bytes.iter_mut().zip(digits.as_chunks::<2>().0) {
        let [high, low] = *pair;
        *byte = digit(high)? << 4 | digit(low)?;
    }
    Some(bytes)
}

fn parse_time(text: &str) -> Option<u64> {
    let time: Timestamp = text.parse().ok()?;
    u64::try_from(time.as_second()).ok()
}

fn timestamp(seconds: u64) -> Option<Timestamp> {
    Timestamp::from_second(i64::try_from(seconds).ok()?).ok()
}

fn check_name(name: &str) -> Result<(), EntryError> {
    let is_allowed = |character: char| !character.is_whitespace() && !character.is_control();
    if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.chars().all(is_allowed) {
        return Err(EntryError::Name);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::SeedableRng as _;
    use rand::rngs::StdRng;

    use super::*;

    const NOW: u64 = 1_800_000_000;

    fn token(seed: u64) -> NewToken {
        NewToken::generate(&mut StdRng::seed_from_u64(seed))
    }

    fn file(entries: &[Entry]) -> String {
        let lines = entries.iter().map(|entry| format!("{entry}\n"));
        format!("{FIRST_LINE}\n{}", lines.collect::<String>())
    }

    fn roster(text: &str) -> Result<Roster, RosterError> {
        Roster::parse(text.as_bytes(), "s")
    }

    fn identify(roster: &Roster, token: &str) -> Result<Caller, Refusal> {
        let header = format!("Bearer {token}");
        let bearer = Bearer::find([header.as_bytes()]).unwrap();
        roster.identify(bearer, NOW)
    }

    #[test]
    fn every_token_finds_its_own_subject() {
        let tokens: Vec<_> = (0..5).map(token).collect();
        let entries: Vec<_> = (0..)
            .zip(&tokens)
            .map(|(n, token)| Entry::new(token, &format!("user{n}"), &["read"], None).unwrap())
            .collect();
        let known = roster(&file(&entries)).unwrap();
        for (n, token) in (0..).zip(&tokens) {
            let caller = identify(&known, token.dangerous_text()).unwrap();
            assert_eq!(caller.principal().subject(), Some(format!("user{n}").as_str()));
            assert_eq!(caller.principal().issuer(), Some("static:s"));
            assert!(caller.scopes().iter().eq(["read"]));
        }
        let other = token(9);
        assert_eq!(identify(&known, other.dangerous_text()), Err(Refusal::Unknown));
        let empty = roster(&file(&[])).unwrap();
        assert_eq!(identify(&empty, other.dangerous_text()), Err(Refusal::Unknown));
    }

    #[test]
    fn no_changed_token_is_known() {
        let good = token(1);
        let entry = Entry::new(&good, "alice", &[] as &[&str], None).unwrap();
        let roster = roster(&file(&[entry])).unwrap();
        let text = good.dangerous_text();
        assert!(identify(&roster, text).is_ok());
        for end in 1..text.len() {
            assert_eq!(identify(&roster, &text[..end]), Err(Refusal::Unknown));
        }
        for at in 0..text.len() {
            let mut changed = text.as_bytes().to_vec();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            assert_eq!(identify(&roster, &changed), Err(Refusal::Unknown), "{at}");
        }
        assert_eq!(identify(&roster, &format!("{text}A")), Err(Refusal::Unknown));
    }

    #[test]
    fn a_token_ends_when_its_line_says() {
        let good = token(1);
        for (at, expected) in [(NOW + 1, true), (NOW, false), (NOW - 1, false)] {
            let entry = Entry::new(&good, "alice", &[] as &[&str], Some(at)).unwrap();
            let found = identify(&roster(&file(&[entry])).unwrap(), good.dangerous_text());
            assert_eq!(found.is_ok(), expected);
            match found {
                Ok(caller) => assert_eq!(caller.expires_at(), Some(at)),
                Err(refusal) => assert_eq!(refusal, Refusal::Expired),
            }
        }
    }

    #[test]
    fn comments_spaces_and_line_ends_are_free() {
        let line = Entry::new(&token(1), "alice", &["a", "b"], None).unwrap().to_string();
        let spaced = line.replace(' ', " \t ");
        let text = format!("{FIRST_LINE}\r\n\r\n# note\r\n  # note\r\n  {spaced}  \r\n");
        assert_eq!(roster(&text).unwrap().entries()[0].to_string(), line);
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        let line = Entry::new(&token(1), "alice", &["read"], None).unwrap().to_string();
        let entry = |line: &str| roster(&format!("{FIRST_LINE}\n{line}\n")).unwrap_err();
        let wrong = |text: &str, source| {
            assert_eq!(entry(text), RosterError::Entry { line: 2, source }, "{text}");
        };
        wrong(&line.replace("sha256", "sha512"), EntryError::Digest);
        wrong(&line.replace("sha256:", "sha256:0"), EntryError::Digest);
        wrong(&line.to_uppercase(), EntryError::Digest);
        wrong(line.split(' ').next().unwrap(), EntryError::Expiry);
        wrong(&line.replace(" - ", " soon "), EntryError::Expiry);
        wrong(&line.replace(" - ", " 1969-01-01T00:00:00Z "), EntryError::Expiry);
        wrong(line.strip_suffix(" alice read").unwrap(), EntryError::Name);
        wrong(&line.replace("alice", &"a".repeat(257)), EntryError::Name);
        wrong(&line.replace("alice", "al\u{7}ice"), EntryError::Name);
        wrong(&line.replace("read", "re\"ad"), EntryError::Scopes(InvalidScopes::Malformed));
        assert_eq!(entry(&format!("{line}\n{line}")), RosterError::Twice { line: 3 });
        assert_eq!(roster("").unwrap_err(), RosterError::Format);
        assert_eq!(roster(&line).unwrap_err(), RosterError::Format);
        assert_eq!(roster("handback-identities 2\n").unwrap_err(), RosterError::Format);
        assert_eq!(Roster::parse(b"\xff", "s").unwrap_err(), RosterError::NotText);
        let large = format!("{FIRST_LINE}\n{}", "#".repeat(MAX_ROSTER_BYTES));
        assert_eq!(roster(&large).unwrap_err(), RosterError::TooLarge);
        assert!(Roster::parse(FIRST_LINE.as_bytes(), "").is_err());
    }

    #[test]
    fn the_number_of_tokens_is_bounded() {
        let lines = |count: usize| {
            let lines = (0..count).map(|n| format!("sha256:{n:064x} - a\n"));
            format!("{FIRST_LINE}\n{}", lines.collect::<String>())
        };
        assert_eq!(roster(&lines(MAX_ENTRIES)).unwrap().entries().len(), MAX_ENTRIES);
        assert_eq!(roster(&lines(MAX_ENTRIES + 1)).unwrap_err(), RosterError::TooMany);
    }

    #[test]
    fn neither_tokens_nor_people_are_shown() {
        let token = token(1);
        let entry = Entry::new(&token, "alice", &["read"], None).unwrap();
        let roster = roster(&file(&[entry])).unwrap();
        let shown = format!("{token:?} {roster:?}");
        assert!(!shown.contains("alice") && !shown.contains("hbt_"), "{shown}");
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(
            seed: u64,
            name in "[^\\s\\p{Cc}]{1,40}",
            scopes in proptest::collection::btree_set("[!#-\\[\\]-~]{1,12}", 0..6),
            expires_at in proptest::option::of(0_u64..250_000_000_000),
        ) {
            let scopes: Vec<_> = scopes.into_iter().collect();
            let entry = Entry::new(&token(seed), &name, &scopes, expires_at).unwrap();
            let read = roster(&file(std::slice::from_ref(&entry))).unwrap();
            prop_assert_eq!(read.entries(), [entry]);
        }

        #[test]
        fn any_text_is_read_or_refused(text in "\\PC*") {
            let _ = roster(&format!("{FIRST_LINE}\n{text}"));
        }
    }
}
