//! The JSON of headers, claims and key sets, read strictly.

use std::{fmt, marker::PhantomData};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{
    Deserialize, Deserializer,
    de::{self, DeserializeOwned, IgnoredAny, value::MapAccessDeserializer},
};

/// The most audiences that one token may list. Tokens for more than a few services are a mistake.
pub const MAX_AUDIENCES: usize = MAX_LIST_ENTRIES;

/// The latest instant that a token may state: the end of the year 9999.
///
/// Beyond it lie times in milliseconds, which would make tokens that practically never expire.
pub const MAX_NUMERIC_DATE: u64 = 253_402_300_799;

/// The most entries of any list in a token.
const MAX_LIST_ENTRIES: usize = 256;

/// The parts of a header that are looked at.
///
/// Everything else, and above all `jwk`, `jku`, `x5c` and `x5u`, is skipped.
#[derive(Deserialize)]
pub(super) struct Header {
    pub(super) alg: String,
    #[serde(default, deserialize_with = "not_null")]
    pub(super) kid: Option<String>,
    #[serde(default, deserialize_with = "not_null")]
    pub(super) typ: Option<String>,
    /// Whether the member is there, whatever it holds.
    #[serde(default, deserialize_with = "present")]
    pub(super) crit: bool,
}

/// The claims that are looked at.
#[derive(Deserialize)]
pub(super) struct Claims {
    #[serde(default, deserialize_with = "not_null")]
    pub(super) iss: Option<String>,
    #[serde(default, deserialize_with = "not_null")]
    pub(super) sub: Option<String>,
    #[serde(default, deserialize_with = "not_null")]
    pub(super) aud: Option<OneOrMany>,
    #[serde(default, deserialize_with = "not_null")]
    pub(super) exp: Option<NumericDate>,
    #[serde(default, deserialize_with = "not_null")]
    pub(super) nbf: Option<NumericDate>,
    #[serde(default, deserialize_with = "not_null")]
    pub(super) iat: Option<NumericDate>,
    #[serde(default, deserialize_with = "not_null")]
    pub(super) scope: Option<OneOrMany>,
    #[serde(default, deserialize_with = "not_null")]
    pub(super) scp: Option<OneOrMany>,
}

/// Decodes base64url without padding, in its one canonical spelling.
pub(super) fn base64url(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}

/// Decodes one part of a token: base64url of a JSON object.
pub(super) fn decode_part<T: DeserializeOwned>(part: &str) -> Option<T> {
    decode_object(&base64url(part)?)
}

/// Decodes a JSON object; nothing but white space may follow it.
pub(super) fn decode_object<T: DeserializeOwned>(json: &[u8]) -> Option<T> {
    serde_json::from_slice(json).ok().map(|Object(value)| value)
}

/// A value that must be written as an object.
///
/// A derived `Deserialize` also reads an array, by position. It refuses a second member of the same
/// name, which an array or a map would not.
pub(super) struct Object<T>(pub(super) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor(PhantomData)).map(Self)
    }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> de::Visitor<'de> for ObjectVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map))
    }
}

/// One string or a list of them.
#[derive(Debug)]
pub(super) enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl OneOrMany {
    pub(super) fn into_vec(self) -> Vec<String> {
        match self {
            Self::One(value) => vec![value],
            Self::Many(values) => values,
        }
    }
}

impl<'de> Deserialize<'de> for OneOrMany {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OneOrManyVisitor)
    }
}

struct OneOrManyVisitor;

impl<'de> de::Visitor<'de> for OneOrManyVisitor {
    type Value = OneOrMany;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a string or a list of at most {MAX_LIST_ENTRIES} strings")
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<OneOrMany, E> {
        Ok(OneOrMany::One(value.to_owned()))
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut list: A) -> Result<OneOrMany, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = list.next_element()? {
            if values.len() >= MAX_LIST_ENTRIES {
                return Err(de::Error::invalid_length(values.len() + 1, &self));
            }
            values.push(value);
        }
        Ok(OneOrMany::Many(values))
    }
}

/// Seconds since the UNIX epoch, between zero and [`MAX_NUMERIC_DATE`].
///
/// RFC 7519 (section 2) allows fractions. They are dropped, as the time to compare with has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NumericDate(pub(super) u64);

impl<'de> Deserialize<'de> for NumericDate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Asking for a float makes `serde_json` hand over any number in its own type, also when it
        // was built to keep numbers as text.
        deserializer.deserialize_f64(NumericDateVisitor)
    }
}

struct NumericDateVisitor;

impl de::Visitor<'_> for NumericDateVisitor {
    type Value = NumericDate;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seconds between 0 and {MAX_NUMERIC_DATE}")
    }

    fn visit_u64<E: de::Error>(self, seconds: u64) -> Result<NumericDate, E> {
        if seconds > MAX_NUMERIC_DATE {
            return Err(E::invalid_value(de::Unexpected::Unsigned(seconds), &self));
        }
        Ok(NumericDate(seconds))
    }

    fn visit_i64<E: de::Error>(self, seconds: i64) -> Result<NumericDate, E> {
        let Ok(seconds) = u64::try_from(seconds) else {
            return Err(E::invalid_value(de::Unexpected::Signed(seconds), &self));
        };
        self.visit_u64(seconds)
    }

    fn visit_f64<E: de::Error>(self, seconds: f64) -> Result<NumericDate, E> {
        // The bound is far below 2^53, so it is exact as a float. A NaN is in no range.
        #[expect(clippy::cast_precision_loss, reason = "the bound is below 2^53")]
        let range = 0.0..=MAX_NUMERIC_DATE as f64;
        if !range.contains(&seconds) {
            return Err(E::invalid_value(de::Unexpected::Float(seconds), &self));
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the range was checked, and fractions are meant to be dropped"
        )]
        let whole = seconds as u64;
        self.visit_u64(whole)
    }
}

/// Reads a member that may be absent but not `null`.
fn not_null<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(deserializer).map(Some)
}

fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    IgnoredAny::deserialize(deserializer).map(|_| true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn date(json: &str) -> Option<u64> {
        serde_json::from_str::<NumericDate>(json).ok().map(|NumericDate(seconds)| seconds)
    }

    fn header(json: &str) -> Option<Header> {
        decode_object(json.as_bytes())
    }

    fn claims(json: &str) -> Option<Claims> {
        decode_object(json.as_bytes())
    }

    #[test]
    fn reads_sensible_dates() {
        assert_eq!(date("0"), Some(0));
        assert_eq!(date("-0"), Some(0));
        assert_eq!(date("1800000000"), Some(1_800_000_000));
        assert_eq!(date("1.8e9"), Some(1_800_000_000));
        assert_eq!(date("1800000000.9"), Some(1_800_000_000));
        assert_eq!(date("253402300799"), Some(MAX_NUMERIC_DATE));
    }

    #[test]
    fn refuses_other_dates() {
        for json in [
            "-1",
            "-0.5",
            "-1e300",
            "253402300800",
            "253402300799.5",
            "1800000000000",
            "18446744073709551615",
            "18446744073709551616",
            "1e30",
            "1e308",
            "1e400",
            "NaN",
            "Infinity",
            "\"1800000000\"",
            "true",
            "null",
            "[1800000000]",
            "{}",
        ] {
            assert_eq!(date(json), None, "{json}");
        }
    }

    #[test]
    fn refuses_a_member_given_twice() {
        assert!(header(r#"{"alg":"RS256"}"#).is_some());
        assert!(header(r#"{"alg":"RS256","alg":"RS256"}"#).is_none());
        assert!(header(r#"{"alg":"none","\u0061lg":"RS256"}"#).is_none());
        assert!(header(r#"{"alg":"RS256","kid":"a","kid":"b"}"#).is_none());
        assert!(claims(r#"{"sub":"a","sub":"b"}"#).is_none());
        assert!(claims(r#"{"exp":1,"exp":9}"#).is_none());
        assert!(claims(r#"{"aud":"a","aud":["b"]}"#).is_none());
    }

    #[test]
    fn refuses_what_is_not_an_object() {
        for json in [r#"["RS256","a",null,true]"#, "\"RS256\"", "null", "", "7", r#"{"alg":"x"} x"#]
        {
            assert!(header(json).is_none(), "{json}");
        }
        assert!(claims(r#"["iss","sub"]"#).is_none());
    }

    #[test]
    fn refuses_null_members() {
        assert!(header(r#"{"alg":null}"#).is_none());
        assert!(header(r#"{"alg":"RS256","kid":null}"#).is_none());
        assert!(claims(r#"{"exp":null}"#).is_none());
        assert!(claims(r#"{"aud":null}"#).is_none());
    }

    #[test]
    fn notices_crit_whatever_it_holds() {
        for crit in ["[]", "null", "[\"b64\"]", "false", "{\"a\":[1]}"] {
            assert!(header(&format!(r#"{{"alg":"RS256","crit":{crit}}}"#)).unwrap().crit, "{crit}");
        }
        assert!(!header(r#"{"alg":"RS256"}"#).unwrap().crit);
    }

    #[test]
    fn audience_is_text_or_a_bounded_list_of_text() {
        let aud =
            |json: &str| claims(&format!(r#"{{"aud":{json}}}"#))?.aud.map(OneOrMany::into_vec);
        assert_eq!(aud("\"a\""), Some(vec!["a".to_owned()]));
        assert_eq!(aud("[\"a\",\"b\"]"), Some(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(aud("[]"), Some(vec![]));
        assert_eq!(aud("[1]"), None);
        assert_eq!(aud("[[\"a\"]]"), None);
        assert_eq!(aud("{\"a\":\"a\"}"), None);
        let list = |count| format!("[{}]", vec!["\"a\""; count].join(","));
        assert_eq!(aud(&list(MAX_AUDIENCES)).unwrap().len(), MAX_AUDIENCES);
        assert_eq!(aud(&list(MAX_AUDIENCES + 1)), None);
    }

    #[test]
    fn deep_nesting_costs_no_stack() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(header(&format!(r#"{{"alg":"RS256","x":{deep}}}"#)).is_some());
        assert!(header(&format!(r#"{{"alg":"RS256","crit":{deep}}}"#)).unwrap().crit);
        assert!(header(&format!(r#"{{"alg":{deep}}}"#)).is_none());
        assert!(claims(&format!(r#"{{"aud":{deep}}}"#)).is_none());
        assert!(claims(&format!(r#"{{"exp":{deep}}}"#)).is_none());
    }

    #[test]
    fn base64_has_one_spelling() {
        assert_eq!(base64url("_-8"), Some(vec![0xff, 0xef]));
        for text in ["_-9", "_-8=", "/+8", "_-8 ", "_", "_-\n8"] {
            assert_eq!(base64url(text), None, "{text:?}");
        }
    }
}
