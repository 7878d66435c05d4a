//! `split_clients`: requests that are shared between upstreams by weight.

use super::action::{has_variable, target};
use super::http::Importer;
use super::parse::Directive;
use super::settings::Settings;
use super::upstream::Origin;
use crate::document::{Route, Value, text, texts, word};

/// A share is a percentage with two places.
const WHOLE: u64 = 10_000;
/// Shares of one split.
const MOST: usize = 64;

/// The targets of a `proxy_pass` whose URL a `split_clients` decides.
pub(super) struct Split<'d> {
    /// Weight and URL of each.
    members: Vec<(u64, String)>,
    /// What keeps requests together, as Weir has it.
    by: Option<String>,
    directive: &'d Directive,
}

impl Split<'_> {
    /// Where the first one goes: what is about the path is the same for all.
    pub(super) fn first(&self) -> Result<(Origin, Option<String>), String> {
        let (_, url) = self.members.first().ok_or("a split without shares has no equivalent")?;
        target(url)
    }
}

impl<'d> Importer<'d> {
    /// The split that decides a URL, if one does. In words, why it has no equivalent.
    pub(super) fn split_of(&self, url: &str) -> Result<Option<Split<'d>>, String> {
        let found = self.splits.iter().find(|(name, _)| {
            let is_longer = |rest: &str| rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
            url.contains(&format!("${{{name}}}")) || url.split(&format!("${name}")).skip(1).any(|rest| !is_longer(rest))
        });
        let Some((name, directive)) = found else { return Ok(None) };
        let entries = directive.block.as_deref().unwrap_or_default();
        if entries.len() > MOST {
            return Err(format!("a split into more than {MOST} shares has no equivalent"));
        }
        let mut left = WHOLE;
        let mut members = Vec::new();
        for entry in entries {
            let share = if entry.name == "*" { Some(left) } else { share(&entry.name) };
            let share = share.ok_or_else(|| format!("`{}` is not a share", entry.name))?;
            left = left.checked_sub(share).ok_or("the shares of the split are more than 100%")?;
            let url = url.replace(&format!("${{{name}}}"), entry.arg(0)).replace(&format!("${name}"), entry.arg(0));
            if has_variable(&url) {
                return Err("a target that depends on a variable has no equivalent".to_owned());
            }
            members.push((share, url));
        }
        if left > 0 {
            return Err("a split without a share for the rest (`*`) has no equivalent".to_owned());
        }
        Ok(Some(Split { members, by: by(directive.arg(0))?, directive }))
    }

    /// Writes the upstreams of a split and the key of the route.
    pub(super) fn write_split(
        &mut self,
        route: &mut Route,
        split: &Split<'d>,
        settings: &Settings<'d>,
        pass: &'d Directive,
    ) -> Result<(), String> {
        let (first, path) = split.first()?;
        let mut upstreams: Vec<(String, u64)> = Vec::new();
        let mut backups = Vec::new();
        let mut hosts_differ = false;
        for (weight, url) in &split.members {
            let (origin, own) = target(url)?;
            if own != path || origin.base != first.base {
                return Err("a split whose targets have different paths has no equivalent".to_owned());
            }
            hosts_differ |= origin.authority != first.authority;
            let made = self.upstream(&origin, settings, &pass.place)?;
            backups.extend(made.backup.filter(|backup| !backups.contains(backup)));
            match upstreams.iter_mut().find(|(name, _)| *name == made.name) {
                Some((_, known)) => *known += weight,
                None => upstreams.push((made.name, *weight)),
            }
        }
        let divisor = upstreams.iter().map(|(_, weight)| *weight).fold(0, crate::units::common_divisor).max(1);
        let weights = upstreams
            .into_iter()
            .map(|(name, weight)| (name, word(weight / divisor)))
            .collect::<Vec<(String, Value)>>();
        let mut value = vec![("upstreams".to_owned(), Value::Map(weights))];
        value.extend(split.by.as_ref().map(|by| ("by".to_owned(), text(by))));
        route.set("split", Value::Map(value));
        if !backups.is_empty() {
            route.set("fallback", texts(backups));
        }
        let how = "`split` of the routes: the shares are the same, who is in which is not";
        self.doc.report.differs(&split.directive.place, split.directive.shown(), how);
        if hosts_differ && settings.all("proxy_set_header").iter().all(|one| !one.arg(0).eq_ignore_ascii_case("host")) {
            let how = "nginx sends the host of the target that is picked, Weir that of the first";
            self.doc.report.differs(&pass.place, pass.shown(), how);
        }
        Ok(())
    }
}

/// `12.5%` in hundredths of a percent.
fn share(written: &str) -> Option<u64> {
    let (whole, part) = written.strip_suffix('%').map(|number| number.split_once('.').unwrap_or((number, "")))?;
    let is_number = |text: &str| text.len() <= 3 && text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || part.len() > 2 || !is_number(whole) || !is_number(part) {
        return None;
    }
    let part: u64 = format!("{part:0<2}").parse().ok()?;
    Some(whole.parse::<u64>().ok()? * 100 + part).filter(|share| *share <= WHOLE)
}

/// What keeps requests with the same target: the one variable of a text.
fn by(key: &str) -> Result<Option<String>, String> {
    let mut parts = key.split('$');
    let (Some(_), Some(variable), None) = (parts.next(), parts.next(), parts.next()) else {
        return Err(format!("a split by `{key}` has no equivalent"));
    };
    let name = variable.strip_prefix('{').and_then(|rest| rest.split_once('}')).map_or_else(
        || {
            let end = variable.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(variable.len());
            &variable[..end]
        },
        |(name, _)| name,
    );
    match (name, name.strip_prefix("cookie_"), name.strip_prefix("http_")) {
        ("remote_addr" | "binary_remote_addr", ..) => Ok(Some("client_ip".to_owned())),
        ("remote_user", ..) => Ok(Some("consumer".to_owned())),
        ("request_id", ..) => Ok(None),
        (_, Some(cookie), _) if !cookie.is_empty() => Ok(Some(format!("cookie:{cookie}"))),
        (_, _, Some(field)) if !field.is_empty() => Ok(Some(format!("header:{}", field.replace('_', "-")))),
        _ => Err(format!("a split by `${name}` has no equivalent")),
    }
}

#[cfg(test)]
mod tests {
    use super::{by, share};

    #[test]
    fn shares_are_percentages_with_two_places() {
        for (written, expected) in
            [("0.5%", Some(50)), ("20%", Some(2000)), ("12.34%", Some(1234)), ("100%", Some(10_000))]
        {
            assert_eq!(share(written), expected, "{written}");
        }
        for wrong in ["20", "%", "1.234%", "101%", "-1%", "a%"] {
            assert_eq!(share(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn one_variable_keeps_requests_together() {
        assert_eq!(by("${remote_addr}AAA"), Ok(Some("client_ip".to_owned())));
        assert_eq!(by("$cookie_uid"), Ok(Some("cookie:uid".to_owned())));
        assert_eq!(by("$http_x_user_id"), Ok(Some("header:x-user-id".to_owned())));
        assert_eq!(by("$request_id"), Ok(None));
        for unknown in ["", "AAA", "$remote_addr$http_user_agent", "$date_gmt"] {
            assert!(by(unknown).is_err(), "{unknown}");
        }
    }
}
