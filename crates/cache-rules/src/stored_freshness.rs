//! What the rules must know of a stored response to decide on its reuse, computed once when it is stored.

/// When a response was fetched; milliseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// The request was sent (RFC 9111 section 4.2.3, request_time).
    pub sent_ms: u64,
    /// The head of the response was read (response_time).
    pub received_ms: u64,
}

/// Where a freshness lifetime comes from (RFC 9111 section 4.2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum LifetimeSource {
    /// Configuration, mode `ttl`.
    Fixed = 0,
    /// `s-maxage`.
    SharedMaxAge = 1,
    /// `max-age`.
    MaxAge = 2,
    /// `Expires`.
    Expires = 3,
    /// `default_ttl` (section 4.2.2).
    Heuristic = 4,
    /// Nothing says that it is fresh at all.
    None = 5,
}

/// The terms on which a response is stored. Plain numbers, so that a store can keep them as it likes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Freshness {
    /// Status that is sent: 200 also for a 206 that held everything.
    pub status: u16,
    /// When it was received or last validated.
    pub received_ms: u64,
    /// Age at that time (RFC 9111 section 4.2.3, corrected_initial_age).
    pub initial_age_ms: u64,
    /// Freshness lifetime; fresh while the age is below it.
    pub lifetime_ms: u64,
    /// Where the lifetime comes from.
    pub source: LifetimeSource,
    /// May be used stale so long while it is fetched again (RFC 5861 section 3).
    pub stale_while_revalidate_ms: u64,
    /// May be used stale so long in place of an error (RFC 5861 section 4).
    pub stale_if_error_ms: u64,
    /// Its `Date`, else when its request was sent; decides which of several responses is the most recent (RFC 9111 section 4).
    pub date_ms: u64,
    /// Never used without validation: `no-cache`, or invalidated.
    pub always_validate: bool,
    /// Never used stale: `must-revalidate`, `proxy-revalidate`, an applicable `s-maxage`.
    pub never_stale: bool,
    /// May respond to requests with `Authorization` (RFC 9111 section 3.5).
    pub for_authorized: bool,
    /// May respond to requests with a cookie or a field that a limit keys on: the origin says expressly that it is for all.
    pub for_all: bool,
    /// Has an `ETag` or a `Last-Modified` to validate it by.
    pub has_validator: bool,
    /// Came with an `Age`: another cache had it before (RFC 9111 section 5.1).
    pub has_age: bool,
}

impl Freshness {
    /// Bytes of the packed form.
    pub const PACKED: usize = 52;

    /// Age (RFC 9111 section 4.2.3, current_age). A clock that was set back makes nothing younger than when it came.
    #[inline]
    pub fn age_ms(&self, now_ms: u64) -> u64 {
        self.initial_age_ms.saturating_add(now_ms.saturating_sub(self.received_ms))
    }

    /// Whether it is fresh (RFC 9111 section 4.2).
    #[inline]
    pub fn is_fresh(&self, now_ms: u64) -> bool {
        self.basis_ms(now_ms) < self.lifetime_ms
    }

    /// For how long it will be fresh; negative: for how long it has been stale.
    #[inline]
    pub fn ttl_ms(&self, now_ms: u64) -> i64 {
        let clamp = |ms: u64| i64::try_from(ms).unwrap_or(i64::MAX);
        clamp(self.lifetime_ms).saturating_sub(clamp(self.basis_ms(now_ms)))
    }

    /// For how long it has been stale; 0 while it is fresh.
    #[inline]
    pub fn staleness_ms(&self, now_ms: u64) -> u64 {
        self.basis_ms(now_ms).saturating_sub(self.lifetime_ms)
    }

    /// Whether it can be used at all, when it comes: fresh, or stale by someone's leave, or by validation.
    pub fn is_useful(&self) -> bool {
        let may_be_stale = !self.never_stale && (self.stale_while_revalidate_ms > 0 || self.stale_if_error_ms > 0);
        self.has_validator || (!self.always_validate && (may_be_stale || self.is_fresh(self.received_ms)))
    }

    /// When it is of no use to any rule any more, so that a store may forget it: fresh no more, past every allowance to use it stale,
    /// and, where it can be validated, `keep_ms` longer.
    pub fn useless_at_ms(&self, keep_ms: u64) -> u64 {
        let stale = if self.never_stale || self.always_validate {
            0
        } else {
            self.stale_while_revalidate_ms.max(self.stale_if_error_ms)
        };
        let stale = if self.has_validator { stale.max(keep_ms) } else { stale };
        let spent = if self.source == LifetimeSource::Fixed { 0 } else { self.initial_age_ms };
        self.received_ms.saturating_add(self.lifetime_ms.saturating_sub(spent)).saturating_add(stale)
    }

    /// Makes it stale from now on, as a soft purge does: allowances to use it stale count from here.
    pub fn expire(&mut self, now_ms: u64) {
        self.lifetime_ms = self.lifetime_ms.min(self.basis_ms(now_ms));
    }

    /// Makes it useless until it is validated (RFC 9111 section 4.4).
    pub fn invalidate(&mut self) {
        self.always_validate = true;
    }

    /// What the lifetime is compared with. A fixed time counts from when the response came, whatever its age was then.
    #[inline]
    fn basis_ms(&self, now_ms: u64) -> u64 {
        match self.source {
            LifetimeSource::Fixed => now_ms.saturating_sub(self.received_ms),
            _ => self.age_ms(now_ms),
        }
    }

    /// As bytes, for a store outside of this process; [`unpack`](Self::unpack) reads them.
    pub fn pack(&self) -> [u8; Self::PACKED] {
        let mut bytes = [0; Self::PACKED];
        bytes[..2].copy_from_slice(&self.status.to_be_bytes());
        bytes[2] = self.source as u8;
        let flags = [
            self.always_validate,
            self.never_stale,
            self.for_authorized,
            self.for_all,
            self.has_validator,
            self.has_age,
        ];
        bytes[3] = flags.iter().enumerate().fold(0, |byte, (bit, &flag)| byte | u8::from(flag) << bit);
        for (number, slot) in self.numbers().into_iter().zip(bytes[4..].chunks_exact_mut(8)) {
            slot.copy_from_slice(&number.to_be_bytes());
        }
        bytes
    }

    fn numbers(&self) -> [u64; 6] {
        [
            self.received_ms,
            self.initial_age_ms,
            self.lifetime_ms,
            self.stale_while_revalidate_ms,
            self.stale_if_error_ms,
            self.date_ms,
        ]
    }

    /// Reads what [`pack`](Self::pack) wrote; `None` for anything else.
    pub fn unpack(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::PACKED] = bytes.try_into().ok()?;
        let number = |index: usize| {
            let at = 4 + index * 8;
            bytes[at..at + 8].iter().fold(0, |number, &byte| number << 8 | u64::from(byte))
        };
        let flag = |bit: u8| bytes[3] >> bit & 1 == 1;
        Some(Freshness {
            status: u16::from_be_bytes([bytes[0], bytes[1]]),
            source: match bytes[2] {
                0 => LifetimeSource::Fixed,
                1 => LifetimeSource::SharedMaxAge,
                2 => LifetimeSource::MaxAge,
                3 => LifetimeSource::Expires,
                4 => LifetimeSource::Heuristic,
                5 => LifetimeSource::None,
                _ => return None,
            },
            received_ms: number(0),
            initial_age_ms: number(1),
            lifetime_ms: number(2),
            stale_while_revalidate_ms: number(3),
            stale_if_error_ms: number(4),
            date_ms: number(5),
            always_validate: flag(0),
            never_stale: flag(1),
            for_authorized: flag(2),
            for_all: flag(3),
            has_validator: flag(4),
            has_age: flag(5),
        })
    }
}
