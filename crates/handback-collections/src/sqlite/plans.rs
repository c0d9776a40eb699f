//! Plans that are kept from page to page.

use std::sync::{Arc, Mutex, PoisonError};

use handback_page::{CollectionError, Query, Scalar};

use super::dialect::looks_numeric;
use super::plan::{Plan, Shape, Way};
use super::source::Source;

/// How many plans a table keeps: as many walks as go on at a time over one table.
const PLANS_MAX: usize = 32;

/// Plans of one table, the last used first.
#[derive(Debug, Default)]
pub(super) struct Plans(Mutex<Vec<(Made, Arc<Plan>)>>);

/// What a plan was made for.
#[derive(Debug)]
struct Made {
    query: Query,
    columns: Option<Vec<String>>,
    way: Way,
    place: Option<Vec<Class>>,
    /// As in the plan.
    fixed: Vec<Option<Scalar>>,
}

/// What matters about a value of a place for the text of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// What the filter demands of it.
    Fixed,
    Null,
    Number,
    Text,
    NumericText,
    Blob,
}

impl Plans {
    /// The plan for a shape.
    pub(super) fn plan(
        &self,
        source: &Source,
        shape: Shape<'_>,
    ) -> Result<Arc<Plan>, CollectionError> {
        let mut plans = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(number) = plans.iter().position(|(made, _)| made.is_for(shape)) {
            if let Some(upto) = plans.get_mut(..=number) {
                upto.rotate_right(1);
            }
            if let Some((_, plan)) = plans.first() {
                return Ok(Arc::clone(plan));
            }
        }
        drop(plans);
        let plan = Arc::new(Plan::new(source, shape)?);
        if !plan.is_kept() {
            return Ok(plan);
        }
        let mut plans = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        plans.truncate(PLANS_MAX - 1);
        plans.insert(0, (Made::new(shape, &plan.fixed), Arc::clone(&plan)));
        Ok(plan)
    }
}

impl Made {
    fn new(shape: Shape<'_>, fixed: &[Option<Scalar>]) -> Self {
        let (way, place) = shape.walk.split();
        Self {
            query: shape.query.clone(),
            columns: shape.columns.map(<[String]>::to_vec),
            way,
            place: place.map(|place| classes(place, fixed).collect()),
            fixed: fixed.to_vec(),
        }
    }

    fn is_for(&self, shape: Shape<'_>) -> bool {
        let (way, place) = shape.walk.split();
        let same_place = match (&self.place, place) {
            (None, None) => true,
            (Some(made_for), Some(place)) => {
                made_for.iter().copied().eq(classes(place, &self.fixed))
            }
            _ => false,
        };
        self.way == way
            && same_place
            && self.columns.as_deref() == shape.columns
            && self.query == *shape.query
    }
}

fn classes(place: &[Scalar], fixed: &[Option<Scalar>]) -> impl Iterator<Item = Class> {
    let fixed = fixed.iter().map(Option::as_ref).chain(std::iter::repeat(None));
    place.iter().zip(fixed).map(|(value, fixed)| Class::of(value, fixed))
}

impl Class {
    fn of(value: &Scalar, fixed: Option<&Scalar>) -> Self {
        match value {
            _ if fixed == Some(value) => Self::Fixed,
            Scalar::Null => Self::Null,
            Scalar::Bool(_) | Scalar::Int(_) | Scalar::Real(_) | Scalar::Decimal(_) => Self::Number,
            Scalar::Text(text) if looks_numeric(text) => Self::NumericText,
            Scalar::Text(_) => Self::Text,
            Scalar::Blob(_) => Self::Blob,
        }
    }
}

#[cfg(test)]
mod tests {
    use handback_page::{Direction, FieldPath, Filter, Nulls, Search, SortKey};
    use rusqlite::Connection;

    use super::super::introspect;
    use super::super::options::Key;
    use super::super::plan::Walk;
    use super::*;

    #[test]
    fn a_plan_is_made_once_for_a_walk() {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT); CREATE INDEX i ON t(a)")
            .unwrap();
        let source = Source::new(introspect::describe(&db, "t", &Key::Declared).unwrap().table);
        let key = SortKey {
            field: FieldPath::name("a"),
            direction: Direction::Ascending,
            nulls: Nulls::Last,
            nullable: true,
        };
        let order = source.schema.total_order(vec![key]);
        let query = Query { filter: Filter::EVERYTHING, search: Search::default(), order };
        let plans = Plans::default();
        let plan = |place: &[Scalar], columns| {
            let shape = Shape { query: &query, columns, walk: Walk::Forward(Some(place)) };
            plans.plan(&source, shape).unwrap()
        };
        let first = plan(&[Scalar::Int(1), Scalar::Int(1)], None);
        let second = plan(&[Scalar::Int(7), Scalar::Int(9)], None);
        assert!(Arc::ptr_eq(&first, &second));
        let null = plan(&[Scalar::Null, Scalar::Int(9)], None);
        assert_ne!(first.walk.len(), null.walk.len());
        let columns = ["a".to_owned()];
        let narrow = plan(&[Scalar::Int(7), Scalar::Int(9)], Some(&columns));
        assert!(!Arc::ptr_eq(&first, &narrow));
        for number in 0..100 {
            let search = Search::new(&format!("w{number}"));
            let query = Query { search, ..query.clone() };
            let shape = Shape { query: &query, columns: None, walk: Walk::Offset };
            plans.plan(&source, shape).unwrap();
        }
        assert_eq!(plans.0.lock().unwrap().len(), PLANS_MAX);
    }
}
