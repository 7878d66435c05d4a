//! How often slots of connections are looked at, for tests that what one poll does is in proportion to the streams that something has happened to.

#[cfg(test)]
thread_local! {
    static VISITS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Counts one look at a slot; nothing outside tests.
#[inline]
pub fn visit() {
    #[cfg(test)]
    VISITS.with(|visits| visits.set(visits.get() + 1));
}

/// Looks of this thread so far.
#[cfg(test)]
pub fn count() -> usize {
    VISITS.with(std::cell::Cell::get)
}
