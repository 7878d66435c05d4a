//! Hosts of listeners and routes: which requests they have in common.

/// What a listener's host (any without it) and a route's have in common: the narrower of the two, or nothing.
pub(super) fn intersection(listener: Option<&str>, route: &str) -> Option<String> {
    let route = route.to_ascii_lowercase();
    let Some(listener) = listener.map(str::to_ascii_lowercase) else { return Some(route) };
    if covers(&listener, &route) {
        Some(route)
    } else if covers(&route, &listener) {
        Some(listener)
    } else {
        None
    }
}

/// Whether every host that `narrow` stands for is one that `wide` stands for.
pub(super) fn covers(wide: &str, narrow: &str) -> bool {
    if wide == narrow {
        return true;
    }
    // `*.example.com` stands for names with one or more labels in front.
    wide.strip_prefix('*').is_some_and(|suffix| {
        narrow.strip_prefix('*').unwrap_or(narrow).ends_with(suffix) && {
            let name = narrow.strip_prefix('*').unwrap_or(narrow);
            name.len() > suffix.len()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::intersection;

    #[test]
    fn the_narrower_of_two_hosts_is_what_they_share() {
        for (listener, route, expected) in [
            (None, "A.example.com", Some("a.example.com")),
            (Some("a.example.com"), "a.example.com", Some("a.example.com")),
            (Some("*.example.com"), "a.example.com", Some("a.example.com")),
            (Some("*.example.com"), "a.b.example.com", Some("a.b.example.com")),
            (Some("a.example.com"), "*.example.com", Some("a.example.com")),
            (Some("*.example.com"), "*.b.example.com", Some("*.b.example.com")),
            (Some("*.b.example.com"), "*.example.com", Some("*.b.example.com")),
            (Some("*.example.com"), "example.com", None),
            (Some("*.example.com"), "aexample.com", None),
            (Some("a.example.com"), "b.example.com", None),
        ] {
            assert_eq!(intersection(listener, route).as_deref(), expected, "{listener:?} {route}");
        }
    }
}
