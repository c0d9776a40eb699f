//! The check of one value: subschemas are applied, and every step is counted.

use serde_json::Value;

use super::assertions;
use super::draft::Draft;
use super::evaluated::Evaluated;
use super::misfit::{Misfit, Token};
use super::steps::{NESTED_CHECKS_MAX, Over, Steps};
use super::table::{ForeignSchema, Keyword, Node, NodeId, ResourceId};

/// One check.
pub(super) struct Check<'a> {
    schema: &'a ForeignSchema,
    steps: &'a Steps,
    nested: usize,
    /// The resources that were entered, for dynamic references.
    scope: Vec<ResourceId>,
    /// The place in the value.
    path: Vec<Token<'a>>,
    /// Subschemas around this one that may fail although the value fits.
    trials: usize,
    misfit: Option<Misfit>,
}

impl<'a> Check<'a> {
    pub(super) fn new(schema: &'a ForeignSchema, steps: &'a Steps) -> Self {
        Self { schema, steps, nested: 0, scope: vec![], path: vec![], trials: 0, misfit: None }
    }

    /// Checks a value; gives the first fault.
    pub(super) fn run(mut self, value: &'a Value) -> Result<Option<Misfit>, Over> {
        let root = self.schema.root;
        match self.apply(root, value, None)? {
            true => Ok(None),
            false => Ok(Some(self.misfit.unwrap_or_default())),
        }
    }

    /// Applies a subschema to a value.
    fn apply(
        &mut self,
        id: NodeId,
        value: &'a Value,
        outer: Option<&mut Evaluated>,
    ) -> Result<bool, Over> {
        self.steps.take(1)?;
        if self.nested >= NESTED_CHECKS_MAX {
            return Err(Over);
        }
        let schema = self.schema;
        let node = schema.node(id).ok_or(Over)?;
        self.nested += 1;
        let enters = node.resource.filter(|own| self.scope.last() != Some(own));
        self.scope.extend(enters);
        let fits = match node.wants_evaluated {
            true => {
                let mut own = Evaluated::default();
                let fits = self.keywords(node, value, Some(&mut own))?;
                if let Some(outer) = outer {
                    self.steps.take(own.steps())?;
                    outer.merge(&own);
                }
                fits
            }
            false => self.keywords(node, value, outer)?,
        };
        if enters.is_some() {
            self.scope.pop();
        }
        self.nested -= 1;
        Ok(fits)
    }

    fn keywords(
        &mut self,
        node: &'a Node,
        value: &'a Value,
        mut evaluated: Option<&mut Evaluated>,
    ) -> Result<bool, Over> {
        let draft = node.resource.and_then(|id| self.schema.resource(id));
        let draft = draft.map_or(Draft::Draft202012, |resource| resource.draft);
        for keyword in &node.keywords {
            self.steps.take(1)?;
            let fits = match assertions::check(keyword, value, draft, self.steps)? {
                Some(fits) => fits,
                None => self.applicator(keyword, value, evaluated.as_deref_mut())?,
            };
            if !fits {
                self.note(keyword);
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Remembers the first fault, unless the value may fit in spite of it.
    fn note(&mut self, keyword: &Keyword) {
        if self.trials == 0 && self.misfit.is_none() {
            self.misfit = Some(Misfit::new(&self.path, assertions::fault(keyword)));
        }
    }

    fn applicator(
        &mut self,
        keyword: &'a Keyword,
        value: &'a Value,
        evaluated: Option<&mut Evaluated>,
    ) -> Result<bool, Over> {
        match keyword {
            Keyword::Members { .. } | Keyword::PropertyNames(_) => {
                self.members(keyword, value, evaluated)
            }
            Keyword::Items { first, rest } => self.items(first, *rest, value, evaluated),
            Keyword::Contains { .. } => self.contains(keyword, value, evaluated),
            Keyword::AllOf(all) => self.all(all, value, evaluated),
            Keyword::AnyOf(any) => self.any(any, value, evaluated),
            Keyword::OneOf(all) => self.one(all, value, evaluated),
            Keyword::Not(id) => self.trial(*id, value, None).map(|fits| !fits),
            Keyword::If { .. } => self.conditional(keyword, value, evaluated),
            Keyword::DependentSchemas(all) => self.dependent(all, value, evaluated),
            Keyword::Ref(id) => self.apply(*id, value, evaluated),
            Keyword::DynamicRef(first, name) => {
                let id = self.dynamic(*first, name.as_deref())?;
                self.apply(id, value, evaluated)
            }
            Keyword::RecursiveRef(first) => {
                let id = self.recursive(*first)?;
                self.apply(id, value, evaluated)
            }
            Keyword::UnevaluatedItems(id) => self.unevaluated_items(*id, value, evaluated),
            Keyword::UnevaluatedProperties(id) => self.unevaluated_members(*id, value, evaluated),
            // All others are assertions.
            _ => Err(Over),
        }
    }

    /// Applies a subschema that may fail although the value fits.
    fn trial(
        &mut self,
        id: NodeId,
        value: &'a Value,
        evaluated: Option<&mut Evaluated>,
    ) -> Result<bool, Over> {
        self.trials += 1;
        let fits = self.apply(id, value, evaluated);
        self.trials -= 1;
        fits
    }

    /// The same; what was evaluated counts only if the subschema fits.
    fn merged_trial(
        &mut self,
        id: NodeId,
        value: &'a Value,
        evaluated: Option<&mut Evaluated>,
    ) -> Result<bool, Over> {
        let Some(evaluated) = evaluated else { return self.trial(id, value, None) };
        let mut own = Evaluated::default();
        let fits = self.trial(id, value, Some(&mut own))?;
        if fits {
            self.steps.take(own.steps())?;
            evaluated.merge(&own);
        }
        Ok(fits)
    }

    fn child(&mut self, id: NodeId, token: Token<'a>, value: &'a Value) -> Result<bool, Over> {
        self.path.push(token);
        let fits = self.apply(id, value, None)?;
        self.path.pop();
        Ok(fits)
    }

    fn members(
        &mut self,
        keyword: &'a Keyword,
        value: &'a Value,
        mut evaluated: Option<&mut Evaluated>,
    ) -> Result<bool, Over> {
        let Value::Object(members) = value else { return Ok(true) };
        if let Keyword::PropertyNames(id) = keyword {
            return self.names(*id, members.keys());
        }
        let Keyword::Members { named, patterns, other } = keyword else { return Err(Over) };
        for (index, (name, value)) in members.iter().enumerate() {
            self.steps.take(1 + name.len() as u64 / 64)?;
            let mut is_known = false;
            if let Some(id) = named.get(name) {
                is_known = true;
                if !self.child(*id, Token::Name(name), value)? {
                    return Ok(false);
                }
            }
            for (pattern, id) in patterns {
                if pattern.is_match(name, self.steps)? {
                    is_known = true;
                    if !self.child(*id, Token::Name(name), value)? {
                        return Ok(false);
                    }
                }
            }
            if let Some(id) = other.filter(|_| !is_known) {
                is_known = true;
                if !self.child(id, Token::Name(name), value)? {
                    return Ok(false);
                }
            }
            if let Some(evaluated) = evaluated.as_deref_mut().filter(|_| is_known) {
                evaluated.add(index);
            }
        }
        Ok(true)
    }

    fn names<'n>(
        &mut self,
        id: NodeId,
        names: impl Iterator<Item = &'n String>,
    ) -> Result<bool, Over> {
        for name in names {
            self.steps.take(1 + name.len() as u64 / 64)?;
            // A name is no part of the value: it is checked on its own.
            let text = Value::String(name.clone());
            let inner = Check {
                nested: self.nested,
                scope: self.scope.clone(),
                trials: 1,
                ..Check::new(self.schema, self.steps)
            };
            if !inner.of_name(id, &text)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn of_name(mut self, id: NodeId, name: &'a Value) -> Result<bool, Over> {
        self.steps.take(self.scope.len() as u64)?;
        self.apply(id, name, None)
    }

    fn items(
        &mut self,
        first: &'a [NodeId],
        rest: Option<NodeId>,
        value: &'a Value,
        mut evaluated: Option<&mut Evaluated>,
    ) -> Result<bool, Over> {
        let Value::Array(items) = value else { return Ok(true) };
        for (index, item) in items.iter().enumerate() {
            let Some(id) = first.get(index).copied().or(rest) else { break };
            if !self.child(id, Token::Index(index), item)? {
                return Ok(false);
            }
            if let Some(evaluated) = evaluated.as_deref_mut() {
                evaluated.add(index);
            }
        }
        Ok(true)
    }

    fn contains(
        &mut self,
        keyword: &'a Keyword,
        value: &'a Value,
        mut evaluated: Option<&mut Evaluated>,
    ) -> Result<bool, Over> {
        let Keyword::Contains { item: id, min, max, evaluates } = keyword else {
            return Err(Over);
        };
        let Value::Array(items) = value else { return Ok(true) };
        let mut found = 0;
        for (index, item) in items.iter().enumerate() {
            if !self.trial(*id, item, None)? {
                continue;
            }
            found += 1;
            if max.is_some_and(|max| found > max) {
                return Ok(false);
            }
            match evaluated.as_deref_mut().filter(|_| *evaluates) {
                Some(evaluated) => evaluated.add(index),
                None if max.is_none() && found >= *min => return Ok(true),
                None => {}
            }
        }
        Ok(found >= *min)
    }

    fn all(
        &mut self,
        all: &'a [NodeId],
        value: &'a Value,
        mut evaluated: Option<&mut Evaluated>,
    ) -> Result<bool, Over> {
        for id in all {
            if !self.apply(*id, value, evaluated.as_deref_mut())? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn any(
        &mut self,
        any: &'a [NodeId],
        value: &'a Value,
        mut evaluated: Option<&mut Evaluated>,
    ) -> Result<bool, Over> {
        let mut fits = false;
        for id in any {
            fits |= self.merged_trial(*id, value, evaluated.as_deref_mut())?;
            // The others count only for what they evaluate.
            if fits && evaluated.is_none() {
                return Ok(true);
            }
        }
        Ok(fits)
    }

    fn one(
        &mut self,
        all: &'a [NodeId],
        value: &'a Value,
        mut evaluated: Option<&mut Evaluated>,
    ) -> Result<bool, Over> {
        let mut fitting = 0;
        for id in all {
            fitting += usize::from(self.merged_trial(*id, value, evaluated.as_deref_mut())?);
            if fitting > 1 {
                return Ok(false);
            }
        }
        Ok(fitting == 1)
    }

    fn conditional(
        &mut self,
        keyword: &'a Keyword,
        value: &'a Value,
        mut evaluated: Option<&mut Evaluated>,
    ) -> Result<bool, Over> {
        let Keyword::If { condition, then, otherwise } = keyword else { return Err(Over) };
        let next = match self.merged_trial(*condition, value, evaluated.as_deref_mut())? {
            true => then,
            false => otherwise,
        };
        next.map_or(Ok(true), |id| self.apply(id, value, evaluated))
    }

    fn dependent(
        &mut self,
        all: &'a [(String, NodeId)],
        value: &'a Value,
        mut evaluated: Option<&mut Evaluated>,
    ) -> Result<bool, Over> {
        let Value::Object(members) = value else { return Ok(true) };
        for (name, id) in all {
            self.steps.take(1)?;
            let applies = members.contains_key(name);
            if applies && !self.apply(*id, value, evaluated.as_deref_mut())? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The outermost subschema with this dynamic anchor.
    fn dynamic(&self, first: NodeId, name: Option<&str>) -> Result<NodeId, Over> {
        let Some(name) = name else { return Ok(first) };
        self.steps.take(self.scope.len() as u64)?;
        let mut resources = self.scope.iter().filter_map(|id| self.schema.resource(*id));
        let outermost = resources.find_map(|resource| resource.dynamic_anchors.get(name));
        Ok(outermost.copied().unwrap_or(first))
    }

    /// The outermost resource that is recursive, if the first one is.
    fn recursive(&self, first: NodeId) -> Result<NodeId, Over> {
        self.steps.take(self.scope.len() as u64)?;
        let resource = self.schema.node(first).and_then(|node| node.resource);
        let resource = resource.and_then(|id| self.schema.resource(id));
        if !resource.is_some_and(|resource| resource.is_recursive && resource.root == first) {
            return Ok(first);
        }
        let mut resources = self.scope.iter().filter_map(|id| self.schema.resource(*id));
        let outermost = resources.find(|resource| resource.is_recursive);
        Ok(outermost.map_or(first, |resource| resource.root))
    }

    fn unevaluated_items(
        &mut self,
        id: NodeId,
        value: &'a Value,
        evaluated: Option<&mut Evaluated>,
    ) -> Result<bool, Over> {
        let (Value::Array(items), Some(evaluated)) = (value, evaluated) else { return Ok(true) };
        for (index, item) in items.iter().enumerate() {
            self.steps.take(1)?;
            if !evaluated.has(index) && !self.child(id, Token::Index(index), item)? {
                return Ok(false);
            }
        }
        evaluated.all();
        Ok(true)
    }

    fn unevaluated_members(
        &mut self,
        id: NodeId,
        value: &'a Value,
        evaluated: Option<&mut Evaluated>,
    ) -> Result<bool, Over> {
        let (Value::Object(members), Some(evaluated)) = (value, evaluated) else {
            return Ok(true);
        };
        for (index, (name, value)) in members.iter().enumerate() {
            self.steps.take(1)?;
            if !evaluated.has(index) && !self.child(id, Token::Name(name), value)? {
                return Ok(false);
            }
        }
        evaluated.all();
        Ok(true)
    }
}
