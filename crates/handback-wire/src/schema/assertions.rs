//! Keywords that look at the value itself.

use std::cmp::Ordering;

use serde_json::{Map, Value};

use super::draft::Draft;
use super::steps::{Over, Steps};
use super::table::{Keyword, Limit, Size};
use super::values;

/// Steps for a division of decimals, which writes both numbers.
const DECIMAL_STEPS: u64 = 16;

/// Checks a value by a keyword. Nothing for a keyword that applies other schemas.
pub(super) fn check(
    keyword: &Keyword,
    value: &Value,
    draft: Draft,
    steps: &Steps,
) -> Result<Option<bool>, Over> {
    Ok(Some(match keyword {
        Keyword::Never => false,
        Keyword::Type(types) => types.has(value, draft),
        Keyword::Limit(limit, number) => value.as_number().is_none_or(|value| {
            let order = values::compare(value, number);
            match limit {
                Limit::Least => order != Ordering::Less,
                Limit::Most => order != Ordering::Greater,
                Limit::Above => order == Ordering::Greater,
                Limit::Below => order == Ordering::Less,
            }
        }),
        Keyword::MultipleOf(of) => match value {
            Value::Number(number) => {
                steps.take(DECIMAL_STEPS)?;
                values::is_multiple(number, of)
            }
            _ => true,
        },
        Keyword::Size(size, limit) => has_size(*size, *limit, value, steps)?,
        Keyword::Required(names) => match value {
            Value::Object(members) => has_all(members, names, steps)?,
            _ => true,
        },
        Keyword::DependentRequired(all) => match value {
            Value::Object(members) => depends(members, all, steps)?,
            _ => true,
        },
        Keyword::OneOfValues(allowed, size) => {
            steps.take(*size)?;
            allowed.iter().any(|allowed| values::equal(allowed, value))
        }
        Keyword::Pattern(pattern) => match value {
            Value::String(text) => pattern.is_match(text, steps)?,
            _ => true,
        },
        Keyword::UniqueItems => match value {
            Value::Array(items) => are_unique(items, steps)?,
            _ => true,
        },
        _ => return Ok(None),
    }))
}

fn has_size(size: Size, limit: u64, value: &Value, steps: &Steps) -> Result<bool, Over> {
    let count = match (size, value) {
        (Size::MinLength | Size::MaxLength, Value::String(text)) => {
            steps.take(text.len() as u64 / 64)?;
            text.chars().count()
        }
        (Size::MinItems | Size::MaxItems, Value::Array(items)) => items.len(),
        (Size::MinProperties | Size::MaxProperties, Value::Object(members)) => members.len(),
        _ => return Ok(true),
    } as u64;
    Ok(match size {
        Size::MinLength | Size::MinItems | Size::MinProperties => count >= limit,
        Size::MaxLength | Size::MaxItems | Size::MaxProperties => count <= limit,
    })
}

fn has_all(members: &Map<String, Value>, names: &[String], steps: &Steps) -> Result<bool, Over> {
    steps.take(names.len() as u64)?;
    Ok(names.iter().all(|name| members.contains_key(name)))
}

fn depends(
    members: &Map<String, Value>,
    all: &[(String, Vec<String>)],
    steps: &Steps,
) -> Result<bool, Over> {
    for (name, names) in all {
        steps.take(1)?;
        if members.contains_key(name) && !has_all(members, names, steps)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Sorts the items, which compares each of them with as many others as a sorting does.
fn are_unique(items: &[Value], steps: &Steps) -> Result<bool, Over> {
    let size = items.iter().map(values::size).sum::<u64>();
    let rounds = u64::from(items.len().max(1).ilog2()) + 1;
    steps.take(size.saturating_mul(rounds))?;
    let mut sorted: Vec<_> = items.iter().collect();
    sorted.sort_by(|a, b| values::order(a, b));
    Ok(sorted.iter().zip(sorted.iter().skip(1)).all(|(a, b)| values::order(a, b).is_ne()))
}

/// A message for a value that does not fit a keyword. Nothing of the value is repeated.
pub(super) fn fault(keyword: &Keyword) -> String {
    match keyword {
        Keyword::Never => "nothing is allowed here".to_owned(),
        Keyword::Type(types) => format!("the value is not of type {}", types.names()),
        Keyword::Limit(limit, number) => match limit {
            Limit::Least => format!("the value is less than {number}"),
            Limit::Most => format!("the value is more than {number}"),
            Limit::Above => format!("the value is not more than {number}"),
            Limit::Below => format!("the value is not less than {number}"),
        },
        Keyword::MultipleOf(number) => format!("the value is not a multiple of {number}"),
        Keyword::Size(size, limit) => match size {
            Size::MinLength => format!("the value has less than {limit} characters"),
            Size::MaxLength => format!("the value has more than {limit} characters"),
            Size::MinItems => format!("the value has less than {limit} items"),
            Size::MaxItems => format!("the value has more than {limit} items"),
            Size::MinProperties => format!("the value has less than {limit} members"),
            Size::MaxProperties => format!("the value has more than {limit} members"),
        },
        Keyword::Required(names) => {
            let names: Vec<_> = names.iter().take(8).map(|name| format!("`{name}`")).collect();
            format!("a required member is missing, of {}", names.join(", "))
        }
        Keyword::DependentRequired(_) => "a member that another one requires is missing".to_owned(),
        Keyword::OneOfValues(..) => "the value is not one of those allowed".to_owned(),
        Keyword::Pattern(_) => "the text does not match the pattern".to_owned(),
        Keyword::UniqueItems => "an item is there twice".to_owned(),
        Keyword::PropertyNames(_) => "the name of a member is not allowed".to_owned(),
        Keyword::Contains { .. } => "the number of items that fit `contains` is wrong".to_owned(),
        Keyword::AnyOf(_) => "the value fits none of the schemas of `anyOf`".to_owned(),
        Keyword::OneOf(_) => "the value does not fit exactly one schema of `oneOf`".to_owned(),
        Keyword::Not(_) => "the value fits the schema of `not`".to_owned(),
        _ => "the value does not fit the schema".to_owned(),
    }
}
