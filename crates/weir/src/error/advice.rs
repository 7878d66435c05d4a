//! What to do about each error: the last column of the tables in `docs/errors.md`, which is the one place that says it.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::Reason;

const PAGE: &str = include_str!("../../../../docs/errors.md");

/// By the label of the reason.
static ADVICE: LazyLock<HashMap<&str, String>> = LazyLock::new(|| {
    let rows = PAGE.lines().filter_map(|line| line.strip_prefix("| `")?.strip_suffix(" |")?.split_once("` | "));
    rows.filter_map(|(label, rest)| Some((label, without_links(rest.rsplit_once(" | ")?.1)))).collect()
});

impl Reason {
    /// What to do about it, for operators; code is between backticks.
    pub fn advice(self) -> &'static str {
        ADVICE.get(self.label()).map_or("", |advice| advice)
    }
}

/// `[text](target)` as `text`: the pages are elsewhere.
fn without_links(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, link)) = rest.split_once('[') {
        let Some((name, after)) = link.split_once("](") else { break };
        let Some((_, after)) = after.split_once(')') else { break };
        plain.push_str(before);
        plain.push_str(name);
        rest = after;
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_advice_without_links() {
        for reason in Reason::ALL {
            let advice = reason.advice();
            assert!(advice.len() >= 8 && !advice.contains("](") && !advice.contains('|'), "{reason}: {advice:?}");
        }
        assert_eq!(Reason::BadCredentials.advice(), "Send it once: Authentication");
        assert_eq!(without_links("a [b](c) [d] e"), "a b [d] e");
    }
}
