//! Keys whose feature is not built yet. They are refused with their line, never accepted and ignored.

use super::problem::Problem;
use super::raw::File;

/// One problem for each target that needs TLS.
pub(super) fn refuse(file: &File) -> Vec<Problem> {
    let targets = file.upstreams.iter().flat_map(|(_, upstream)| upstream.targets.iter());
    targets
        .filter(|target| target.url.tls)
        .map(|target| Problem::new(target.origin, "an `https://` target is not supported yet"))
        .collect()
}
