//! Requests that the gateway makes by itself and that a worker has in flight, by service.

use std::cell::RefCell;
use std::sync::Arc;

/// Requests of this kind that one worker has in flight to one service.
const MOST: usize = 256;
/// How many requests are in flight to each service, by its name. A service that is slow holds its own share, not that of the others; a reload
/// begins no new count.
#[derive(Debug, Default)]
pub struct InFlight(RefCell<Vec<(Arc<str>, usize)>>);

impl InFlight {
    /// Counts one request, as long as the result lives. None if there are too many.
    pub fn enter(&self, service: &Arc<str>) -> Option<Place<'_>> {
        let mut services = self.0.borrow_mut();
        match services.iter_mut().find(|(name, _)| name == service) {
            Some((_, count)) if *count >= MOST => return None,
            Some((_, count)) => *count += 1,
            None => services.push((service.clone(), 1)),
        }
        Some(Place(self, service.clone()))
    }
}

/// One request in flight.
pub struct Place<'w>(&'w InFlight, Arc<str>);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut services = self.0.0.borrow_mut();
        if let Some(at) = services.iter().position(|(name, _)| *name == self.1) {
            services[at].1 -= 1;
            if services[at].1 == 0 {
                services.swap_remove(at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_that_is_slow_leaves_the_others_their_share() {
        let in_flight = InFlight::default();
        let (slow, other): (Arc<str>, Arc<str>) = ("slow".into(), "other".into());
        let held: Vec<_> = (0..MOST).map(|_| in_flight.enter(&slow).expect("room")).collect();
        assert!(in_flight.enter(&slow).is_none());
        let one = in_flight.enter(&other).expect("room for another service");
        drop(held);
        assert!(in_flight.enter(&slow).is_some());
        drop(one);
        assert!(in_flight.0.borrow().is_empty(), "no count of idle services");
    }
}
