//! Requests that the gateway makes by itself and that a worker has in flight, by service.

use std::cell::RefCell;
use std::sync::Arc;

/// How many requests are in flight to each service, by its name. A service that is slow holds its own share, not that of the others; a reload
/// begins no new count.
#[derive(Debug, Default)]
pub struct InFlight(RefCell<Vec<(Arc<str>, usize)>>);

impl InFlight {
    /// Counts one request, as long as the result lives. None if there are `most` already.
    pub fn acquire(&self, service: &Arc<str>, most: usize) -> Option<InFlightSlot<'_>> {
        let mut services = self.0.borrow_mut();
        match services.iter_mut().find(|(name, _)| name == service) {
            Some((_, count)) if *count >= most => return None,
            Some((_, count)) => *count += 1,
            None => services.push((service.clone(), 1)),
        }
        Some(InFlightSlot(self, service.clone()))
    }
}

/// One request in flight.
pub struct InFlightSlot<'w>(&'w InFlight, Arc<str>);

impl Drop for InFlightSlot<'_> {
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
        let held: Vec<_> = (0..9).map(|_| in_flight.acquire(&slow, 9).expect("room")).collect();
        assert!(in_flight.acquire(&slow, 9).is_none());
        let one = in_flight.acquire(&other, 9).expect("room for another service");
        drop(held);
        assert!(in_flight.acquire(&slow, 9).is_some());
        drop(one);
        assert!(in_flight.0.borrow().is_empty(), "no count of idle services");
    }
}
