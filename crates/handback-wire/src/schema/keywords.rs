//! From the members of a schema to its keywords.

use serde_json::{Map, Number, Value};

use super::draft::Draft;
use super::error::Unusable;
use super::read::{LISTED_OBJECTS_MAX, Reader};
use super::table::{Keyword, Limit, NodeId, ResourceId, Size, Types};
use super::values;

type Schema = Map<String, Value>;

impl<'v> Reader<'v, '_> {
    /// The keywords of a subschema; and that it wants to know what they evaluated.
    pub(super) fn keywords(
        &mut self,
        value: &'v Value,
        resource: ResourceId,
    ) -> Result<(Vec<Keyword>, bool), Unusable> {
        let schema = match value {
            Value::Bool(true) => return Ok((vec![], false)),
            Value::Bool(false) => return Ok((vec![Keyword::Never], false)),
            Value::Object(schema) => schema,
            _ => return Err(Unusable::Malformed),
        };
        let draft = self.draft(resource);
        let mut out = Vec::new();
        if draft.ref_stands_alone() && schema.contains_key("$ref") {
            self.references(schema, resource, &mut out)?;
            return Ok((out, false));
        }
        self.listed_objects += listed_objects(schema);
        if self.listed_objects > LISTED_OBJECTS_MAX {
            return Err(Unusable::TooLarge);
        }
        assertions(schema, draft, &mut out)?;
        if let Some(pattern) = schema.get("pattern") {
            out.push(Keyword::Pattern(self.pattern(text(pattern)?)?));
        }
        self.children(schema, draft, resource, &mut out)?;
        self.combinations(schema, draft, resource, &mut out)?;
        self.references(schema, resource, &mut out)?;
        let before = out.len();
        for (keyword, make) in [
            ("unevaluatedItems", Keyword::UnevaluatedItems as fn(NodeId) -> Keyword),
            ("unevaluatedProperties", Keyword::UnevaluatedProperties),
        ] {
            if let Some(id) = self.optional(schema, keyword, draft, resource)? {
                out.push(make(id));
            }
        }
        let wants_evaluated = out.len() > before;
        Ok((out, wants_evaluated))
    }

    fn optional(
        &mut self,
        schema: &'v Schema,
        keyword: &str,
        draft: Draft,
        resource: ResourceId,
    ) -> Result<Option<NodeId>, Unusable> {
        match schema.get(keyword).filter(|_| draft.has(keyword)) {
            Some(value) => self.schema(value, resource).map(Some),
            None => Ok(None),
        }
    }

    fn schema(&mut self, value: &'v Value, resource: ResourceId) -> Result<NodeId, Unusable> {
        match value {
            Value::Bool(_) | Value::Object(_) => self.subschema(value, resource),
            _ => Err(Unusable::Malformed),
        }
    }

    fn schemas(&mut self, value: &'v Value, of: ResourceId) -> Result<Vec<NodeId>, Unusable> {
        let items = value.as_array().ok_or(Unusable::Malformed)?;
        items.iter().map(|item| self.schema(item, of)).collect()
    }

    /// Keywords about members and items.
    fn children(
        &mut self,
        schema: &'v Schema,
        draft: Draft,
        of: ResourceId,
        out: &mut Vec<Keyword>,
    ) -> Result<(), Unusable> {
        let mut named = Vec::new();
        for (name, value) in members(schema.get("properties"))? {
            named.push((name.clone(), self.schema(value, of)?));
        }
        let mut patterns = Vec::new();
        for (pattern, value) in members(schema.get("patternProperties"))? {
            patterns.push((self.pattern(pattern)?, self.schema(value, of)?));
        }
        let other = self.optional(schema, "additionalProperties", draft, of)?;
        if !named.is_empty() || !patterns.is_empty() || other.is_some() {
            let named = named.into_iter().collect();
            out.push(Keyword::Members { named, patterns, other });
        }
        if let Some(names) = self.optional(schema, "propertyNames", draft, of)? {
            out.push(Keyword::PropertyNames(names));
        }
        let (first, rest) = match schema.get("items") {
            Some(list @ Value::Array(_)) if draft <= Draft::Draft201909 => {
                (self.schemas(list, of)?, self.optional(schema, "additionalItems", draft, of)?)
            }
            items => {
                let first = schema.get("prefixItems").filter(|_| draft.has("prefixItems"));
                let first = first.map(|first| self.schemas(first, of)).transpose()?;
                let rest = items.map(|items| self.schema(items, of)).transpose()?;
                (first.unwrap_or_default(), rest)
            }
        };
        if !first.is_empty() || rest.is_some() {
            out.push(Keyword::Items { first, rest });
        }
        if let Some(item) = self.optional(schema, "contains", draft, of)? {
            let limit = |keyword: &str| match schema.get(keyword) {
                Some(value) if draft >= Draft::Draft201909 => count(value).map(Some),
                _ => Ok(None),
            };
            let (min, max) = (limit("minContains")?.unwrap_or(1), limit("maxContains")?);
            let evaluates = draft >= Draft::Draft202012;
            out.push(Keyword::Contains { item, min, max, evaluates });
        }
        Ok(())
    }

    /// Keywords that apply other schemas to the same value.
    fn combinations(
        &mut self,
        schema: &'v Schema,
        draft: Draft,
        of: ResourceId,
        out: &mut Vec<Keyword>,
    ) -> Result<(), Unusable> {
        for (keyword, make) in [
            ("allOf", Keyword::AllOf as fn(Vec<NodeId>) -> Keyword),
            ("anyOf", Keyword::AnyOf),
            ("oneOf", Keyword::OneOf),
        ] {
            if let Some(list) = schema.get(keyword) {
                let all = self.schemas(list, of)?;
                // The meta-schemas want at least one.
                if all.is_empty() {
                    return Err(Unusable::Malformed);
                }
                out.push(make(all));
            }
        }
        if let Some(id) = self.optional(schema, "not", draft, of)? {
            out.push(Keyword::Not(id));
        }
        if let Some(condition) = self.optional(schema, "if", draft, of)? {
            let then = self.optional(schema, "then", draft, of)?;
            let otherwise = self.optional(schema, "else", draft, of)?;
            out.push(Keyword::If { condition, then, otherwise });
        }
        let mut dependent = Vec::new();
        let newer = schema.get("dependentSchemas").filter(|_| draft.has("dependentSchemas"));
        for (name, value) in members(newer)? {
            dependent.push((name.clone(), self.schema(value, of)?));
        }
        for (name, value) in members(schema.get("dependencies"))? {
            if !value.is_array() {
                dependent.push((name.clone(), self.schema(value, of)?));
            }
        }
        if !dependent.is_empty() {
            out.push(Keyword::DependentSchemas(dependent));
        }
        Ok(())
    }

    fn references(
        &mut self,
        schema: &'v Schema,
        of: ResourceId,
        out: &mut Vec<Keyword>,
    ) -> Result<(), Unusable> {
        let draft = self.draft(of);
        if let Some(reference) = schema.get("$ref") {
            let target = self.target(of, text(reference)?)?;
            out.push(Keyword::Ref(target.node));
        }
        if let Some(reference) = schema.get("$dynamicRef").filter(|_| draft >= Draft::Draft202012) {
            let target = self.target(of, text(reference)?)?;
            out.push(Keyword::DynamicRef(target.node, target.dynamic_anchor));
        }
        if let Some(reference) = schema.get("$recursiveRef").filter(|_| draft == Draft::Draft201909)
        {
            let target = self.target(of, text(reference)?)?;
            out.push(Keyword::RecursiveRef(target.node));
        }
        Ok(())
    }
}

/// Keywords that have no subschemas, the cheap ones first.
/// The number of objects in the values that a schema lists.
fn listed_objects(schema: &Schema) -> usize {
    let listed = ["const", "enum"].iter().filter_map(|keyword| schema.get(*keyword));
    listed.map(values::objects).sum()
}

fn assertions(schema: &Schema, draft: Draft, out: &mut Vec<Keyword>) -> Result<(), Unusable> {
    if let Some(types) = schema.get("type") {
        out.push(Keyword::Type(Types::read(types)?));
    }
    limits(schema, draft, out)?;
    for (keyword, size) in [
        ("minLength", Size::MinLength),
        ("maxLength", Size::MaxLength),
        ("minItems", Size::MinItems),
        ("maxItems", Size::MaxItems),
        ("minProperties", Size::MinProperties),
        ("maxProperties", Size::MaxProperties),
    ] {
        if let Some(value) = schema.get(keyword) {
            out.push(Keyword::Size(size, count(value)?));
        }
    }
    if let Some(required) = schema.get("required") {
        out.push(Keyword::Required(texts(required)?));
    }
    let mut dependent = Vec::new();
    let newer = schema.get("dependentRequired").filter(|_| draft >= Draft::Draft201909);
    for (name, names) in members(newer)? {
        dependent.push((name.clone(), texts(names)?));
    }
    for (name, names) in members(schema.get("dependencies"))? {
        if names.is_array() {
            dependent.push((name.clone(), texts(names)?));
        }
    }
    if !dependent.is_empty() {
        out.push(Keyword::DependentRequired(dependent));
    }
    if let Some(value) = schema.get("const").filter(|_| draft >= Draft::Six) {
        out.push(Keyword::OneOfValues(vec![value.clone()], values::size(value)));
    }
    if let Some(list) = schema.get("enum") {
        let list = list.as_array().ok_or(Unusable::Malformed)?;
        out.push(Keyword::OneOfValues(list.clone(), list.iter().map(values::size).sum()));
    }
    match schema.get("uniqueItems") {
        Some(Value::Bool(true)) => out.push(Keyword::UniqueItems),
        None | Some(Value::Bool(false)) => {}
        Some(_) => return Err(Unusable::Malformed),
    }
    Ok(())
}

fn limits(schema: &Schema, draft: Draft, out: &mut Vec<Keyword>) -> Result<(), Unusable> {
    for (keyword, exclusive, limit, strict) in [
        ("minimum", "exclusiveMinimum", Limit::Least, Limit::Above),
        ("maximum", "exclusiveMaximum", Limit::Most, Limit::Below),
    ] {
        let is_strict = draft == Draft::Four && schema.get(exclusive) == Some(&Value::Bool(true));
        if let Some(value) = schema.get(keyword) {
            out.push(Keyword::Limit(if is_strict { strict } else { limit }, number(value)?));
        }
        if let Some(value) = schema.get(exclusive).filter(|_| draft > Draft::Four) {
            out.push(Keyword::Limit(strict, number(value)?));
        }
    }
    if let Some(value) = schema.get("multipleOf") {
        let of = number(value)?;
        if of.as_f64().is_none_or(|of| of <= 0.0) {
            return Err(Unusable::Malformed);
        }
        out.push(Keyword::MultipleOf(of));
    }
    Ok(())
}

impl Types {
    fn read(value: &Value) -> Result<Self, Unusable> {
        match value {
            Value::String(name) => Self::named(name),
            Value::Array(names) if !names.is_empty() => {
                names.iter().try_fold(Self::default(), |all, name| {
                    Ok(Self(all.0 | Self::named(text(name)?)?.0))
                })
            }
            _ => Err(Unusable::Malformed),
        }
    }

    fn named(name: &str) -> Result<Self, Unusable> {
        let at = Self::NAMES.iter().position(|known| *known == name);
        at.map(|at| Self(1 << at)).ok_or(Unusable::Malformed)
    }

    const NAMES: [&str; 7] = ["null", "boolean", "number", "string", "array", "object", "integer"];

    /// Reports that the type of a value is among these.
    pub(super) fn has(self, value: &Value, draft: Draft) -> bool {
        let at = match value {
            Value::Null => 0,
            Value::Bool(_) => 1,
            Value::Number(_) => 2,
            Value::String(_) => 3,
            Value::Array(_) => 4,
            Value::Object(_) => 5,
        };
        let is_integer = |number: &Number| match draft {
            Draft::Four => number.is_i64() || number.is_u64(),
            _ => values::is_integer(number),
        };
        self.0 & (1 << at) != 0
            || (self.0 & (1 << 6) != 0 && value.as_number().is_some_and(is_integer))
    }

    /// The names of these types, for messages.
    pub(super) fn names(self) -> String {
        let names = Self::NAMES.iter().enumerate().filter(|(at, _)| self.0 & (1 << at) != 0);
        names.map(|(_, name)| *name).collect::<Vec<_>>().join(" or ")
    }
}

fn text(value: &Value) -> Result<&str, Unusable> {
    value.as_str().ok_or(Unusable::Malformed)
}

fn texts(value: &Value) -> Result<Vec<String>, Unusable> {
    let items = value.as_array().ok_or(Unusable::Malformed)?;
    items.iter().map(|item| text(item).map(str::to_owned)).collect()
}

fn number(value: &Value) -> Result<Number, Unusable> {
    value.as_number().cloned().ok_or(Unusable::Malformed)
}

/// A size: an integer that is not negative, also one with a fraction of zero.
fn count(value: &Value) -> Result<u64, Unusable> {
    if let Some(count) = value.as_u64() {
        return Ok(count);
    }
    let count = value.as_f64().filter(|count| *count >= 0.0 && count.fract() == 0.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
    count.map(|count| count as u64).ok_or(Unusable::Malformed)
}

/// The members of an object, and none where it is absent.
fn members(value: Option<&Value>) -> Result<Vec<(&String, &Value)>, Unusable> {
    match value {
        None => Ok(vec![]),
        Some(Value::Object(members)) => Ok(members.iter().collect()),
        Some(_) => Err(Unusable::Malformed),
    }
}
