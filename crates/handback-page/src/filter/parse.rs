//! From the JSON of a request to a [`Filter`].
//!
//! ```text
//! filter     = { member… }                            all members hold
//! member     = "and": [filter…] | "or": [filter…] | "not": filter
//!            | field: value                            equal; null: is null
//!            | field: { operator… }                    all operators hold
//! operator   = "eq" | "ne" | "gt" | "gte" | "lt" | "lte": value
//!            | "in" | "not_in": [value…] | "contains": value | "starts_with": text
//!            | "is_null": true | false
//! field      = a column, or a path of an open schema; "column:NAME" for a column called like
//!              one of the words above
//! ```

use serde_json::{Map, Value};

use super::{Filter, Test};
use crate::scalar::Scalar;
use crate::schema::{Column, FieldPath, Kind, Schema};

/// How deep filters may be nested: far deeper than anyone writes, and no danger to a stack. The
/// filter itself is the first level, one in its `and`, `or` or `not` the second.
pub const MAX_FILTER_DEPTH: usize = 16;

/// How many tests and connectives a filter may have together: each becomes a condition of a
/// statement. A test is one operator of a field, and a filter without members; a connective is one of
/// the words `and`, `or` and `not`.
pub const MAX_FILTER_NODES: usize = 256;

/// How many values `in` may have, over all of a filter.
pub const MAX_IN_VALUES: usize = 1000;

/// A filter that is refused. The texts go to the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FilterError {
    /// A member of the filter is not what it should be.
    Invalid {
        /// Which one: `filter.price`.
        param_name: String,
        /// What it should be.
        expected: String,
        /// What it is.
        actual: String,
    },
    /// No column has this name.
    UnknownField {
        /// The name.
        name: String,
    },
    /// The tree is too deep or too large.
    TooLarge {
        /// In what respect, for details.
        what: &'static str,
        /// How much is allowed.
        limit: usize,
        /// How much it is, as far as it was counted.
        actual: usize,
    },
}

impl Filter {
    /// Checks a caller's filter against the schema of its collection.
    ///
    /// # Errors
    ///
    /// [`FilterError`] for one fault: of its size, else of a type, else of a name.
    pub fn parse(value: &Value, schema: &Schema) -> Result<Self, FilterError> {
        let Value::Object(members) = value else {
            return Err(invalid("filter", "object", json_type(value)));
        };
        // What is parsed is small: recursion and work have an end.
        Size::default().members(members, 1)?;
        let mut parser = Parser { schema, unknown: None };
        let filter = parser.members(members)?;
        match parser.unknown {
            Some(name) => Err(FilterError::UnknownField { name }),
            None => Ok(filter),
        }
    }

    /// Whether a caller's filter has a size that is taken, whatever it says.
    pub(crate) fn check_size(value: &Value) -> Result<(), FilterError> {
        match value {
            Value::Object(members) => Size::default().members(members, 1),
            _ => Ok(()),
        }
    }
}

/// What was counted of a filter. What is not of its grammar is passed over.
#[derive(Default)]
struct Size {
    nodes: usize,
    values: usize,
}

impl Size {
    fn add(&mut self, nodes: usize) -> Result<(), FilterError> {
        self.nodes += nodes;
        within("filter_nodes", MAX_FILTER_NODES, self.nodes)
    }

    fn members(&mut self, members: &Map<String, Value>, depth: usize) -> Result<(), FilterError> {
        within("nesting_depth", MAX_FILTER_DEPTH, depth)?;
        if members.is_empty() {
            self.add(1)?;
        }
        for (name, value) in members {
            match (name.as_str(), value) {
                ("and" | "or", Value::Array(filters)) => {
                    self.add(1)?;
                    for members in filters.iter().filter_map(Value::as_object) {
                        self.members(members, depth + 1)?;
                    }
                }
                ("not", Value::Object(members)) => {
                    self.add(1)?;
                    self.members(members, depth + 1)?;
                }
                (_, Value::Object(operators)) if !is_tagged(operators) => {
                    self.add(operators.len())?;
                    let lists = ["in", "not_in"].map(|name| operators.get(name));
                    let lists = lists.into_iter().flatten().filter_map(Value::as_array);
                    self.values += lists.map(Vec::len).sum::<usize>();
                    within("array_elements", MAX_IN_VALUES, self.values)?;
                }
                _ => self.add(1)?,
            }
        }
        Ok(())
    }
}

const fn within(what: &'static str, limit: usize, actual: usize) -> Result<(), FilterError> {
    if actual > limit { Err(FilterError::TooLarge { what, limit, actual }) } else { Ok(()) }
}

struct Parser<'a> {
    schema: &'a Schema,
    /// The first name that no column has.
    unknown: Option<String>,
}

impl Parser<'_> {
    fn members(&mut self, members: &Map<String, Value>) -> Result<Filter, FilterError> {
        let mut filters = Vec::with_capacity(members.len());
        for (name, value) in members {
            filters.push(match name.as_str() {
                "and" => Filter::All(self.list("and", value)?),
                "or" => Filter::Any(self.list("or", value)?),
                "not" => match value {
                    Value::Object(inner) => Filter::Not(Box::new(self.members(inner)?)),
                    other => return Err(invalid("filter.not", "object", json_type(other))),
                },
                name => self.field(name, value)?,
            });
        }
        Ok(one_or(filters, Filter::All))
    }

    fn list(&mut self, word: &str, value: &Value) -> Result<Vec<Filter>, FilterError> {
        let Value::Array(filters) = value else {
            return Err(invalid(&format!("filter.{word}"), "array of objects", json_type(value)));
        };
        filters
            .iter()
            .map(|filter| match filter {
                Value::Object(members) => self.members(members),
                other => {
                    let name = format!("filter.{word}");
                    Err(invalid(&name, "array of objects", json_type(other)))
                }
            })
            .collect()
    }

    fn field(&mut self, name: &str, value: &Value) -> Result<Filter, FilterError> {
        let path = self.schema.resolve(name).unwrap_or_else(|| {
            // The rest is looked at as if it were a column of anything.
            self.unknown.get_or_insert_with(|| name.to_owned());
            FieldPath::name(name)
        });
        let field = Field {
            param_name: format!("filter.{name}"),
            column: path.column().and_then(|name| self.schema.column(name)).cloned(),
            path,
        };
        match value {
            Value::Object(operators)
                if Scalar::from_json(value).is_none() && !is_tagged(operators) =>
            {
                if operators.is_empty() {
                    return Err(invalid(&field.param_name, "value or operators", "empty object"));
                }
                let tests = operators
                    .iter()
                    .map(|(operator, value)| field.operator(operator, value))
                    .collect::<Result<Vec<_>, _>>()?;
                Ok(one_or(tests, Filter::All))
            }
            value => field.operator("eq", value),
        }
    }
}

struct Field {
    param_name: String,
    path: FieldPath,
    column: Option<Column>,
}

impl Field {
    fn operator(&self, operator: &str, value: &Value) -> Result<Filter, FilterError> {
        let param_name = format!("{}.{operator}", self.param_name);
        Ok(match operator {
            "eq" => self.equal(value)?,
            "ne" => not(self.equal(value)?),
            "gt" => self.test(Test::Greater(self.ordered(&param_name, value)?)),
            "gte" => self.test(Test::GreaterOrEqual(self.ordered(&param_name, value)?)),
            "lt" => self.test(Test::Less(self.ordered(&param_name, value)?)),
            "lte" => self.test(Test::LessOrEqual(self.ordered(&param_name, value)?)),
            "in" => self.one_of(&param_name, value)?,
            "not_in" => not(self.one_of(&param_name, value)?),
            "contains" => self.contains(&param_name, value)?,
            "starts_with" => match value {
                Value::String(start) => {
                    self.must_be_text(&param_name)?;
                    self.test(Test::StartsWith(start.clone()))
                }
                other => return Err(invalid(&param_name, "string", json_type(other))),
            },
            "is_null" => match value {
                Value::Bool(true) => self.test(Test::IsNull),
                Value::Bool(false) => not(self.test(Test::IsNull)),
                other => return Err(invalid(&param_name, "boolean", json_type(other))),
            },
            _ => {
                return Err(invalid(
                    &param_name,
                    "one of eq, ne, gt, gte, lt, lte, in, not_in, contains, starts_with, is_null",
                    "unknown operator",
                ));
            }
        })
    }

    fn one_of(&self, param_name: &str, value: &Value) -> Result<Filter, FilterError> {
        let Value::Array(values) = value else {
            return Err(invalid(param_name, "array of values", json_type(value)));
        };
        let mut scalars = Vec::with_capacity(values.len());
        let mut null = false;
        for value in values {
            match self.scalar(param_name, value)? {
                Scalar::Null => null = true,
                scalar => scalars.push(scalar),
            }
        }
        let among = self.test(Test::In(scalars));
        Ok(if null { Filter::Any(vec![among, self.test(Test::IsNull)]) } else { among })
    }

    fn test(&self, test: Test) -> Filter {
        Filter::Field(self.path.clone(), test)
    }

    fn equal(&self, value: &Value) -> Result<Filter, FilterError> {
        Ok(match self.scalar(&self.param_name, value)? {
            Scalar::Null => self.test(Test::IsNull),
            scalar => self.test(Test::Equal(scalar)),
        })
    }

    fn ordered(&self, param_name: &str, value: &Value) -> Result<Scalar, FilterError> {
        match self.scalar(param_name, value)? {
            Scalar::Null => Err(invalid(param_name, self.wanted(), "null")),
            scalar => Ok(scalar),
        }
    }

    fn contains(&self, param_name: &str, value: &Value) -> Result<Filter, FilterError> {
        match Scalar::from_json(value) {
            None | Some(Scalar::Null) => Err(invalid(param_name, "value", json_type(value))),
            Some(scalar @ Scalar::Text(_)) => {
                self.must_be_text(param_name)?;
                Ok(self.test(Test::Contains(scalar)))
            }
            Some(scalar) if *self.kind() == Kind::Any => Ok(self.test(Test::Contains(scalar))),
            Some(_) => Err(invalid(param_name, "string", json_type(value))),
        }
    }

    fn must_be_text(&self, param_name: &str) -> Result<(), FilterError> {
        match self.kind() {
            Kind::Any | Kind::Text => Ok(()),
            other => {
                let actual = format!("column of type {}", other.name());
                Err(invalid(param_name, "operator for this column", &actual))
            }
        }
    }

    fn kind(&self) -> &Kind {
        self.column.as_ref().map_or(&Kind::Any, |column| &column.kind)
    }

    /// What the column can be compared with, as error details call it.
    fn wanted(&self) -> &str {
        match self.kind() {
            Kind::Any => "string, number or boolean",
            Kind::Json => "null test for this column",
            kind => kind.name(),
        }
    }

    /// The scalar of a value, if the column can be compared with it.
    fn scalar(&self, param_name: &str, value: &Value) -> Result<Scalar, FilterError> {
        let kind = self.kind();
        let wrong = || {
            let actual = match value {
                Value::Object(members) if is_tagged(members) => "malformed or too large value",
                value => json_type(value),
            };
            invalid(param_name, self.wanted(), actual)
        };
        let scalar = Scalar::from_json(value).ok_or_else(wrong)?;
        let is_number = matches!(scalar, Scalar::Int(_) | Scalar::Real(_) | Scalar::Decimal(_));
        let fits = match kind {
            _ if scalar.is_null() => true,
            Kind::Any => true,
            Kind::Boolean => matches!(scalar, Scalar::Bool(_)),
            Kind::Integer | Kind::Number => is_number,
            Kind::Text | Kind::Named(_) => matches!(scalar, Scalar::Text(_)),
            Kind::Blob => matches!(scalar, Scalar::Blob(_)),
            Kind::Json => false,
        };
        if fits { Ok(scalar) } else { Err(wrong()) }
    }
}

/// Whether it is meant as a value that JSON does not hold. No operator starts like that.
fn is_tagged(members: &Map<String, Value>) -> bool {
    members.len() == 1 && members.keys().all(|name| name.starts_with('$'))
}

fn one_or(mut filters: Vec<Filter>, many: fn(Vec<Filter>) -> Filter) -> Filter {
    match (filters.len(), filters.pop()) {
        (1, Some(only)) => only,
        (_, Some(last)) => {
            filters.push(last);
            many(filters)
        }
        (_, None) => many(filters),
    }
}

fn not(filter: Filter) -> Filter {
    Filter::Not(Box::new(filter))
}

fn invalid(param_name: &str, expected: &str, actual: &str) -> FilterError {
    FilterError::Invalid {
        param_name: param_name.to_owned(),
        expected: expected.to_owned(),
        actual: actual.to_owned(),
    }
}

/// What a JSON value is called in error details.
pub(crate) const fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::{Preset, Shape};

    fn schema() -> Schema {
        let column = |name: &str, kind| Column {
            name: name.into(),
            kind,
            nullable: true,
            preset: Preset::Standard,
        };
        Schema::new(
            vec![
                column("id", Kind::Integer),
                column("name", Kind::Text),
                column("paid", Kind::Boolean),
                column("price", Kind::Number),
                column("day", Kind::Named("date".into())),
                column("data", Kind::Blob),
                column("doc", Kind::Json),
                column("or", Kind::Text),
                column("we\"ird.name", Kind::Any),
            ],
            vec!["id".into()],
            Shape::Closed,
        )
    }

    fn parse(value: &Value) -> Result<Filter, FilterError> {
        Filter::parse(value, &schema())
    }

    #[track_caller]
    fn refused(value: &Value) -> (String, String, String) {
        match parse(value) {
            Err(FilterError::Invalid { param_name, expected, actual }) => {
                (param_name, expected, actual)
            }
            other => panic!("{value}: {other:?}"),
        }
    }

    #[test]
    fn every_operator_is_read() {
        let field = |name: &str, test| Filter::Field(FieldPath::name(name), test);
        let int = Scalar::Int;
        let text = |text: &str| Scalar::Text(text.into());
        for (value, expected) in [
            (json!({}), Filter::EVERYTHING),
            (json!({"id": 5}), field("id", Test::Equal(int(5)))),
            (json!({"id": {"eq": 5}}), field("id", Test::Equal(int(5)))),
            (json!({"id": null}), field("id", Test::IsNull)),
            (json!({"id": {"ne": 5}}), not(field("id", Test::Equal(int(5))))),
            (json!({"id": {"gt": 5}}), field("id", Test::Greater(int(5)))),
            (json!({"id": {"gte": 5}}), field("id", Test::GreaterOrEqual(int(5)))),
            (json!({"id": {"lt": 5}}), field("id", Test::Less(int(5)))),
            (json!({"id": {"lte": 5}}), field("id", Test::LessOrEqual(int(5)))),
            (json!({"id": {"in": [1, 2]}}), field("id", Test::In(vec![int(1), int(2)]))),
            (
                json!({"id": {"in": [1, null]}}),
                Filter::Any(vec![field("id", Test::In(vec![int(1)])), field("id", Test::IsNull)]),
            ),
            (json!({"id": {"not_in": []}}), not(field("id", Test::In(vec![])))),
            (json!({"name": {"contains": "x"}}), field("name", Test::Contains(text("x")))),
            (json!({"name": {"starts_with": "x"}}), field("name", Test::StartsWith("x".into()))),
            (json!({"doc": {"is_null": false}}), not(field("doc", Test::IsNull))),
            (
                json!({"data": {"$blob": "aGk"}}),
                field("data", Test::Equal(Scalar::Blob(b"hi".into()))),
            ),
            (
                json!({"price": {"$decimal": "1.10"}}),
                field("price", Test::Equal(Scalar::Real(1.1))),
            ),
            (json!({"column:or": "x"}), field("or", Test::Equal(text("x")))),
            (json!({"we\"ird.name": 1}), field("we\"ird.name", Test::Equal(int(1)))),
            (
                json!({"or": [{"id": 1}, {"not": {"id": 2}}]}),
                Filter::Any(vec![
                    field("id", Test::Equal(int(1))),
                    not(field("id", Test::Equal(int(2)))),
                ]),
            ),
            (
                json!({"and": [{"id": 1}], "name": {"gt": "a", "lt": "b"}}),
                Filter::All(vec![
                    Filter::All(vec![field("id", Test::Equal(int(1)))]),
                    Filter::All(vec![
                        field("name", Test::Greater(text("a"))),
                        field("name", Test::Less(text("b"))),
                    ]),
                ]),
            ),
        ] {
            assert_eq!(parse(&value), Ok(expected), "{value}");
        }
    }

    #[test]
    fn a_value_that_does_not_fit_its_column_is_refused() {
        for value in [
            json!({"id": "5"}),
            json!({"id": true}),
            json!({"id": [1]}),
            json!({"id": {"gt": null}}),
            json!({"name": 5}),
            json!({"name": {"contains": 5}}),
            json!({"name": {"starts_with": null}}),
            json!({"paid": 1}),
            json!({"price": "1.10"}),
            json!({"day": 5}),
            json!({"data": "aGk"}),
            json!({"doc": {"gt": 1}}),
            json!({"doc": {"a": 1}}),
            json!({"id": {"contains": "1"}}),
            json!({"id": {"is_null": 1}}),
            json!({"id": {"in": 1}}),
            json!({"id": {"regex": ".*"}}),
            json!({"id": {}}),
            json!({"and": {"id": 1}}),
            json!({"or": [1]}),
            json!({"not": []}),
            json!([]),
            json!("id = 1"),
        ] {
            let (param_name, expected, actual) = refused(&value);
            assert!(param_name.starts_with("filter"), "{param_name}");
            assert!(!expected.is_empty() && !actual.is_empty());
        }
        // What is wanted is told, and is never what was given.
        let any = "string, number or boolean";
        let null = "null test for this column";
        for (value, expected, actual) in [
            (json!({"we\"ird.name": [1]}), any, "array"),
            (json!({"we\"ird.name": {"eq": {"a": 1}}}), any, "object"),
            (json!({"we\"ird.name": {"gt": null}}), any, "null"),
            (json!({"doc": {"eq": {"a": 1}}}), null, "object"),
            (json!({"doc": {"ne": [1]}}), null, "array"),
            (json!({"doc": {"lt": null}}), null, "null"),
            (json!({"doc": "x"}), null, "string"),
            (json!({"id": {"in": [1, [2]]}}), "integer", "array"),
        ] {
            let (_, wanted, got) = refused(&value);
            assert_eq!((wanted.as_str(), got.as_str()), (expected, actual), "{value}");
        }
        assert_eq!(
            parse(&json!({"nope": 1})),
            Err(FilterError::UnknownField { name: "nope".into() })
        );
    }

    /// A filter in so many words.
    fn nested(word: &str, levels: usize) -> Value {
        (0..levels).fold(json!({"id": 1}), |inner, _| match word {
            "not" => json!({"not": inner}),
            word => json!({ word: [inner] }),
        })
    }

    fn too_large(value: &Value) -> Option<(&'static str, usize)> {
        match parse(value) {
            Err(FilterError::TooLarge { what, actual, .. }) => Some((what, actual)),
            other => {
                other.unwrap();
                None
            }
        }
    }

    #[test]
    fn levels_are_those_of_filters_in_filters() {
        for word in ["and", "or", "not"] {
            assert_eq!(too_large(&nested(word, 15)), None);
            assert_eq!(too_large(&nested(word, 16)), Some(("nesting_depth", 17)));
            // However deep it is: the parser turns back.
            assert_eq!(too_large(&nested(word, 300)), Some(("nesting_depth", 17)));
        }
        let operators = json!({"and": [nested("or", 14), {"id": {"in": [1]}}]});
        assert_eq!(too_large(&operators), None);
    }

    #[test]
    fn tests_and_connectives_are_counted_together() {
        let open = Schema::new(vec![], vec![], Shape::Open);
        let members = |count: usize| -> Value {
            (0..count).map(|n| (format!("m{n}"), json!(n))).collect::<Map<_, _>>().into()
        };
        let list = |count: usize, filter: &Value| json!({"or": vec![filter.clone(); count]});
        let one = json!({"id": 1});
        let over = |value: &Value| match Filter::parse(value, &open) {
            Err(FilterError::TooLarge { what: "filter_nodes", limit: 256, actual }) => Some(actual),
            other => {
                other.unwrap();
                None
            }
        };
        assert_eq!(over(&members(256)), None);
        assert_eq!(over(&members(257)), Some(257));
        for filter in
            [&one, &json!({}), &json!({"id": {"gt": 1}}), &json!({"id": {"$real": "NaN"}})]
        {
            assert_eq!(over(&list(255, filter)), None, "{filter}");
            assert_eq!(over(&list(256, filter)), Some(257), "{filter}");
        }
        let two = json!({"id": {"gt": 1, "lt": 5}});
        assert_eq!(over(&list(127, &two)), None);
        assert_eq!(over(&list(128, &two)), Some(257));
        let not = json!({"not": one});
        assert_eq!(over(&list(127, &not)), None);
        assert_eq!(over(&list(128, &not)), Some(257));
    }

    #[test]
    fn values_of_in_are_counted_over_the_whole_filter() {
        let many = |count: usize| json!({"id": {"in": (0..count).collect::<Vec<_>>()}});
        assert_eq!(too_large(&many(1000)), None);
        assert_eq!(too_large(&many(1001)), Some(("array_elements", 1001)));
        let both = |count: usize| json!({"and": [many(500), {"id": {"not_in": vec![1; count]}}]});
        assert_eq!(too_large(&both(500)), None);
        assert_eq!(too_large(&both(501)), Some(("array_elements", 1001)));
    }

    #[test]
    fn size_is_before_types_and_types_are_before_names() {
        let wide: Vec<_> = (0..256).map(|id| json!({"id": id})).collect();
        let value = json!({"and": [{"nope": 1}, {"id": "text"}, {"or": wide}]});
        assert!(matches!(parse(&value), Err(FilterError::TooLarge { what: "filter_nodes", .. })));
        let value = json!({"nope": 1, "nor": {"gt": 2}, "and": [{"id": "text"}]});
        assert_eq!(refused(&value).0, "filter.id");
        let value = json!({"nope": {"like": 1}});
        assert_eq!(refused(&value).0, "filter.nope.like");
        let value = json!({"id": 1, "or": [{"nope": 1}, {"nor": 2}]});
        assert_eq!(parse(&value), Err(FilterError::UnknownField { name: "nope".into() }));
    }
}
