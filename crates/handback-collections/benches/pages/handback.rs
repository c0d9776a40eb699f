//! Handback over one collection: requests in, answers out.

use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use handback_page::Collection;
use handback_page::aql::{Call, Catalog, Endpoint, Engine, Settings};
use handback_page::shelf::MemoryShelf;
use handback_token::{
    Caller, Context, Cursor, KeyRing, Mode, Operation, Sealer, SealerConfig, UnixTime,
    args_fingerprint,
};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use crate::case::{Case, PAGE, STATUS, Way};
use crate::data::Shown;

const NOW: UnixTime = UnixTime::from_secs(1_800_000_000);

/// The collection's name.
const NAME: &str = "orders";

/// An engine, and what it needs to answer.
pub(crate) struct Handback {
    engine: Engine,
    sealer: Sealer,
    caller: Caller<'static>,
}

impl Handback {
    pub(crate) fn over(collection: Arc<dyn Collection>) -> Result<Self> {
        let mut catalog = Catalog::new();
        catalog.add(NAME, "", collection)?;
        let shelf = Arc::new(MemoryShelf::new(1 << 20));
        let ring = KeyRing::generate(&mut rand::rng(), Mode::Sealed, NOW);
        Ok(Self {
            engine: Engine::new(catalog, Settings::default(), shelf)?,
            sealer: Sealer::new(&ring, SealerConfig::default())?,
            caller: Caller::dangerous_identified("https://id.example", "alice"),
        })
    }

    /// The JSON of the answer to a request.
    pub(crate) fn ask(&self, request: &[u8]) -> Result<String> {
        let (endpoint, caller, sealer) = (Endpoint::Read, self.caller, &self.sealer);
        let call = Call { endpoint, caller, sealer, now: NOW, own: None, budget_bytes: None };
        let step = self.engine.answer_bytes(&call, request, &mut rand::rng());
        let answer = step.answer().context("the page waits")?;
        if !answer.is_success() || !answer.warnings().is_empty() {
            bail!("{}", answer.to_json());
        }
        Ok(answer.to_json())
    }

    /// The request for the page of a case.
    pub(crate) fn request(&self, case: &Case) -> Result<Vec<u8>> {
        let query = if case.filtered { json!({"filter": {"status": STATUS}}) } else { json!({}) };
        let place = [i128::from(case.place())];
        self.page(&query, case.way, (case.depth > 0).then_some(&place))
    }

    /// The request for a page of a query from this place on.
    pub(crate) fn page(&self, query: &Value, way: Way, place: Option<&[i128]>) -> Result<Vec<u8>> {
        let (size, cursor) = match way {
            Way::Forward => ("first", "after"),
            Way::Backward => ("last", "before"),
        };
        let mut params = query.clone();
        let members = params.as_object_mut().context("a query is an object")?;
        members.insert(size.to_owned(), PAGE.into());
        if let Some(place) = place {
            members.insert(cursor.to_owned(), self.cursor(query, place)?.into());
        }
        Ok(request("list_elements", &params))
    }

    /// The cursor of a place, as the engine would seal it.
    fn cursor(&self, query: &Value, place: &[i128]) -> Result<String> {
        let collection =
            self.engine.catalog().collection(NAME).context("the collection is there")?;
        let identity = collection.schema()?.identity();
        let bound_to =
            json!({"operation": "list_elements", "params": query, "collection": identity});
        let fingerprint = args_fingerprint(&bound_to);
        let context =
            Context::new(self.caller, Operation::Query).name(NAME).arguments(&fingerprint);
        let mut payload = vec![1];
        for value in place {
            payload.push(3);
            zigzag(*value, &mut payload);
        }
        let bound = self.sealer.bind::<Cursor>(&context)?;
        Ok(bound.seal(&mut rand::rng(), NOW, &payload)?.as_str().to_owned())
    }
}

/// A request about the collection.
pub(crate) fn request(operation: &str, params: &Value) -> Vec<u8> {
    let request = json!({"operation": operation, "element_type": NAME, "params": params});
    request.to_string().into_bytes()
}

/// The items of an answer, which has cursors at both ends.
pub(crate) fn items(answer: &str) -> Result<Vec<Shown<'_>>> {
    #[derive(Deserialize)]
    struct Answer<'a> {
        #[serde(borrow)]
        data: Data<'a>,
    }
    #[derive(Deserialize)]
    struct Data<'a> {
        #[serde(borrow)]
        items: Vec<Shown<'a>>,
        #[serde(rename = "pageInfo")]
        _page_info: PageInfo,
    }
    #[derive(Deserialize)]
    struct PageInfo {
        #[serde(rename = "startCursor")]
        _start_cursor: IgnoredAny,
        #[serde(rename = "endCursor")]
        _end_cursor: IgnoredAny,
    }
    Ok(serde_json::from_str::<Answer<'_>>(answer)?.data.items)
}

fn zigzag(value: i128, out: &mut Vec<u8>) {
    let mut rest = ((value << 1) ^ (value >> 127)).cast_unsigned();
    while rest >= 0x80 {
        out.push(0x80 | (rest & 0x7f).to_le_bytes()[0]);
        rest >>= 7;
    }
    out.push(rest.to_le_bytes()[0]);
}
