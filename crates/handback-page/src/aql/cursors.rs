//! Cursors of one request: opened under its context, and sealed under the same.

use handback_token::{Bound, Context, Cursor, Opened, Operation, Reason, UnixTime};
use rand_core::CryptoRng;
use sha2::{Digest as _, Sha256};

use super::engine::Call;
use super::failure::Failure;
use super::own::Own;
use super::params::Params;
use crate::place::Place;
use crate::scalar::Scalar;
use crate::schema::Schema;
use crate::shelf::{SHELF_ID_BYTES, Shelf, ShelfId};

/// A place that is longer than this is not kept: it would be a copy of the data.
const MAX_KEPT_PLACE_BYTES: usize = 1 << 20;

/// The longest life of a cursor: what it stands on is kept for at least that.
const LONGEST_CURSOR_S: u64 = 86_400;

/// For how long a place keeps its id. It is kept until the last cursor that is made in this time has
/// ended, so that it is written once in it and never prolonged.
const PLACE_PERIOD_S: u64 = 86_400;

/// A cursor with less life than this is sealed anew when a waiting page gives it back.
const RENEW_BELOW_S: u64 = 300;

/// Opens and seals the cursors of one request.
pub(crate) struct Cursors<'a> {
    bound: Bound<'a, Cursor>,
    shelf: &'a dyn Shelf,
    own: Option<&'a dyn Own>,
    now: UnixTime,
    opened: Option<(String, Opened<Cursor>)>,
}

impl<'a> Cursors<'a> {
    /// Binds operation, collection, parameters and caller; and what the collection is, unless the
    /// cursors are of a snapshot.
    pub(crate) fn bind(
        call: &Call<'a>,
        shelf: &'a dyn Shelf,
        collection: Option<&str>,
        params: &Params,
        schema: Option<&Schema>,
    ) -> Result<Self, Failure> {
        let fingerprint = params.fingerprint(schema);
        let context = Context::new(call.caller, Operation::Query).arguments(&fingerprint);
        let context = match collection {
            Some(name) => context.name(name),
            None => context,
        };
        let bound = call
            .sealer
            .bind::<Cursor>(&context)
            .map_err(|error| Failure::internal("cursors cannot be made", error.to_string()))?;
        Ok(Self { bound, shelf, own: call.own, now: call.now, opened: None })
    }

    /// Opens the cursor of a request. `at` is the time of the request.
    pub(crate) fn open(
        &mut self,
        param_name: &str,
        cursor: &str,
        at: UnixTime,
    ) -> Result<Place, Failure> {
        let refused = |refused| Failure::cursor(param_name, refused);
        let opened = self.bound.open(cursor, at).map_err(refused)?;
        if self.own.is_some_and(|own| own.is_revoked(opened.slot(), opened.expires_at())) {
            return Err(refused(Reason::Revoked.into()));
        }
        let malformed = || refused(Reason::Malformed.into());
        let place = Place::decode(opened.payload()).ok_or_else(malformed)?;
        let place = match place {
            Place::Kept(id) => {
                let kept = self.kept(id).map_err(|error| {
                    Failure::internal("the place of a cursor cannot be read", error.to_string())
                })?;
                let bytes = kept.ok_or_else(|| Failure::cursor_outlived(param_name))?;
                Place::decode(&bytes).ok_or_else(malformed)?
            }
            place => place,
        };
        self.opened = Some((cursor.to_owned(), opened));
        Ok(place)
    }

    fn kept(&self, id: ShelfId) -> Result<Option<Vec<u8>>, crate::CollectionError> {
        let Some(bytes) = self.shelf.open(id, self.now)? else { return Ok(None) };
        let len = bytes.size_bytes().min(MAX_KEPT_PLACE_BYTES as u64);
        Ok(Some(bytes.read(0..len)?.into_owned()))
    }

    /// Seals the cursor of a place; `snapshot` is what the place is in, if not the collection.
    pub(crate) fn seal(
        &self,
        place: &[Scalar],
        snapshot: Option<ShelfId>,
        rng: &mut dyn CryptoRng,
    ) -> Result<String, Failure> {
        let place = match snapshot {
            Some(id) => Place::InSnapshot(id, place.to_vec()),
            None => Place::Here(place.to_vec()),
        };
        let mut payload = place.encode();
        if payload.len() > self.bound.payload_capacity() {
            payload = Place::Kept(self.keep(&payload)?).encode();
        }
        let sealed = match &self.opened {
            Some((_, opened)) => self.bound.seal_after(opened, rng, self.now, &payload),
            None => self.bound.seal(rng, self.now, &payload),
        };
        sealed
            .map(|token| token.as_str().to_owned())
            .map_err(|error| Failure::internal("a cursor cannot be made", error.to_string()))
    }

    /// Keeps a place. The same one is kept once, however often its page is asked for.
    fn keep(&self, payload: &[u8]) -> Result<ShelfId, Failure> {
        let unkept = |error: crate::CollectionError| {
            let what = "there is no room to keep a long sort value; try again later, or sort by a \
                        shorter one";
            Failure::internal(what, error.to_string())
        };
        if payload.len() > MAX_KEPT_PLACE_BYTES {
            let (limit, actual) = (MAX_KEPT_PLACE_BYTES as u64, payload.len() as u64);
            return Err(Failure::too_large("sort_value", limit, Some(actual), "bytes"));
        }
        let period = self.now.as_secs() / PLACE_PERIOD_S;
        let id = id_of(payload, period);
        if self.shelf.open(id, self.now).map_err(unkept)?.is_some() {
            return Ok(id);
        }
        let end = period.saturating_add(1).saturating_mul(PLACE_PERIOD_S);
        let until = UnixTime::from_secs(end.saturating_add(LONGEST_CURSOR_S));
        let mut writer = self.shelf.put(id, self.now, until).map_err(unkept)?;
        writer.write(payload).map_err(unkept)?;
        writer.finish().map_err(unkept)?;
        Ok(id)
    }

    /// The cursor that was opened, to be given back by a page that waited for nothing: the same
    /// text, unless it would soon expire.
    pub(crate) fn again(&self, rng: &mut dyn CryptoRng) -> Result<Option<String>, Failure> {
        let Some((text, opened)) = &self.opened else { return Ok(None) };
        if opened.expires_at().as_secs() >= self.now.as_secs() + RENEW_BELOW_S {
            return Ok(Some(text.clone()));
        }
        let sealed = self.bound.seal_after(opened, rng, self.now, opened.payload());
        sealed
            .map(|token| Some(token.as_str().to_owned()))
            .map_err(|error| Failure::internal("a cursor cannot be made", error.to_string()))
    }
}

/// The id of a place: what it says and when, so that nobody finds another one under it.
fn id_of(payload: &[u8], period: u64) -> ShelfId {
    let digest = Sha256::new()
        .chain_update(b"handback kept place 2")
        .chain_update(period.to_be_bytes())
        .chain_update(payload);
    let digest: [u8; 32] = digest.finalize().into();
    let mut id = [0; SHELF_ID_BYTES];
    id.iter_mut().zip(digest).for_each(|(byte, digested)| *byte = digested);
    ShelfId::from_bytes(id)
}

pub(crate) fn random_id(rng: &mut dyn CryptoRng) -> ShelfId {
    let mut bytes = [0; SHELF_ID_BYTES];
    rng.fill_bytes(&mut bytes);
    ShelfId::from_bytes(bytes)
}
