//! How much one caller may have under way.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use handback_identity::VerifiedPrincipal;

use crate::request::Refusal;

/// Calls of one caller under way at a time.
pub const IN_FLIGHT_MAX: usize = 64;

/// Counts the calls of each caller.
#[derive(Debug)]
pub(crate) struct Places {
    max: usize,
    taken: Arc<Mutex<HashMap<String, usize>>>,
}

/// A call that counts until this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    taken: Arc<Mutex<HashMap<String, usize>>>,
    binding: String,
}

impl Places {
    pub(crate) fn new(max: usize) -> Self {
        Self { max, taken: Arc::default() }
    }

    pub(crate) fn take(&self, principal: &VerifiedPrincipal) -> Result<Place, Refusal> {
        let binding = principal.binding();
        let mut taken = lock(&self.taken);
        let count = taken.entry(binding.clone()).or_default();
        if *count >= self.max {
            return Err(Refusal::Busy);
        }
        *count += 1;
        Ok(Place { taken: Arc::clone(&self.taken), binding })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = lock(&self.taken);
        if let Some(count) = taken.get_mut(&self.binding) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.binding);
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_free_again_when_its_call_is_over() {
        let places = Places::new(2);
        let nobody = VerifiedPrincipal::unauthenticated();
        let one = places.take(&nobody).unwrap();
        let _two = places.take(&nobody).unwrap();
        assert_eq!(places.take(&nobody).unwrap_err(), Refusal::Busy);
        drop(one);
        let _three = places.take(&nobody).unwrap();
        assert_eq!(places.take(&nobody).unwrap_err(), Refusal::Busy);
    }
}
