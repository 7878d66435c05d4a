//! hey: one request, over and over.

use std::ffi::OsString;

use super::{ExternalError, Invocation, Single, Tool, absolute, full_path};
use crate::load::workload::{Arrivals, Body, Rates, Span, Workload};

pub(super) fn invocation(workload: &Workload) -> Result<Invocation, ExternalError> {
    let tool = Tool::Hey;
    let [operation] = &workload.operations[..] else { return Err(tool.cannot("more than one operation")) };
    if !operation.params.is_empty() || !operation.capture.is_empty() {
        return Err(tool.cannot("values that change from request to request"));
    }
    let mut args: Vec<OsString> = Vec::new();
    let mut arg = |name: &str, value: String| args.extend([name.into(), value.into()]);
    match tool.single(workload)? {
        Single::Closed(closed) => {
            let Span::Constant(users) = closed.users else { return Err(tool.cannot("a changing number of users")) };
            if closed.think.is_some() {
                return Err(tool.cannot("think times"));
            }
            match (closed.iterations, closed.duration) {
                (Some(requests), None) if requests % u64::from(users) == 0 => arg("-n", requests.to_string()),
                (Some(_), None) => return Err(tool.cannot("a number of requests that its users cannot share evenly")),
                (None, Some(duration)) => arg("-z", format!("{}s", duration.as_secs_f64())),
                _ => return Err(tool.cannot("both iterations and a duration")),
            }
            arg("-c", users.to_string());
        }
        Single::Open(open) => {
            let (Rates::Constant(rate), Arrivals::Constant) = (open.rate, open.arrivals) else {
                return Err(tool.cannot("anything but a constant rate"));
            };
            arg("-z", format!("{}s", open.duration.as_secs_f64()));
            arg("-c", open.connections.to_string());
            // Its rate is that of each user.
            arg("-q", (rate / f64::from(open.connections)).to_string());
        }
    }
    // It knows whole seconds, and 0 is no time-out at all.
    arg("-t", workload.timeout.as_secs().max(1).to_string());
    arg("-m", operation.method.clone());
    for (name, value) in &operation.headers {
        // Its own default would win over a header of that name.
        if name.eq_ignore_ascii_case("content-type") {
            arg("-T", value.clone());
        } else if name.eq_ignore_ascii_case("host") {
            arg("-host", value.clone());
        } else {
            arg("-H", format!("{name}: {value}"));
        }
    }
    match &operation.body {
        None => {}
        Some(Body::Text(text)) => arg("-d", text.clone()),
        Some(Body::File(file)) => args.extend(["-D".into(), absolute(file)?.into()]),
        Some(Body::Base64(_)) => return Err(tool.cannot("a body of bytes; put them into a file")),
        Some(Body::Lines(_)) => {
            return Err(tool.cannot("bodies that differ, such as events; use gauge's own generator"));
        }
    }
    let url = tool.authority(workload)?;
    args.push(format!("http://{}{}", url.authority, full_path(workload, operation)?).into());
    Ok(Invocation { program: tool.name().into(), args, env: Vec::new(), result: None })
}
