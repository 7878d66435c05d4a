//! JMeter 5.6: a plan with one thread group, run without its window, and its results file.

use std::fmt::Write;
use std::path::Path;

use super::{ExternalError, Invocation, Options, Piece, Single, Tool, absolute, full_path, pieces, write};
use crate::load::Url;
use crate::load::workload::{
    Arrivals, Body, Capture, Closed, Open, Operation, Order, Pick, Rates, Scope, Source, Span, Statuses, Vary, Workload,
};

pub(super) fn invocation(workload: &Workload, options: &Options, folder: &Path) -> Result<Invocation, ExternalError> {
    let tool = Tool::Jmeter;
    let url = tool.authority(workload)?;
    let host = url.authority.rsplit_once(':').map_or(url.authority.as_str(), |(host, _)| host);
    let text = match &options.script {
        Some(script) => std::fs::read_to_string(script)
            .map_err(|error| ExternalError::File { file: script.clone(), error })?
            .replace("@URL@", &xml(&workload.base))
            .replace("@HOST@", &xml(host))
            .replace("@PORT@", &url.port.to_string()),
        None => plan(workload)?,
    };
    let plan = absolute(&write(folder, "plan.jmx", &text)?)?;
    let result = absolute(&folder.join("results.jtl"))?;
    // It adds to a file that is there.
    let _ = std::fs::remove_file(&result);
    let mut args: Vec<std::ffi::OsString> =
        vec!["-n".into(), "-t".into(), plan.into(), "-l".into(), result.clone().into()];
    args.extend(["-j".into(), absolute(&folder.join("jmeter.log"))?.into()]);
    for (name, value) in [("URL", workload.base.as_str()), ("HOST", host), ("PORT", &url.port.to_string())] {
        args.push(format!("-J{name}={value}").into());
    }
    for (name, value) in [
        ("output_format", "csv"),
        ("print_field_names", "true"),
        ("timestamp_format", "ms"),
        ("bytes", "true"),
        ("sent_bytes", "true"),
        ("thread_counts", "true"),
    ] {
        args.push(format!("-Jjmeter.save.saveservice.{name}={value}").into());
    }
    // Without retries and stale checks a request is one request.
    args.push("-Jhttpclient4.retrycount=0".into());
    Ok(Invocation { program: tool.name().into(), args, env: Vec::new(), result: Some(result) })
}

/// An element with its properties; JMeter's files are trees in which each element is followed by a `hashTree` with its children.
#[derive(Default)]
struct Element {
    kind: &'static str,
    gui: &'static str,
    name: String,
    properties: String,
}

impl Element {
    fn new(kind: &'static str, gui: &'static str, name: &str) -> Self {
        Element { kind, gui, name: name.to_owned(), properties: String::new() }
    }

    fn text(self, name: &str, value: &str) -> Self {
        self.property("stringProp", name, value)
    }

    fn flag(self, name: &str, value: bool) -> Self {
        self.property("boolProp", name, if value { "true" } else { "false" })
    }

    fn property(mut self, kind: &str, name: &str, value: &str) -> Self {
        // Writing to a string cannot fail, here and below.
        let _ = write!(self.properties, "<{kind} name=\"{name}\">{}</{kind}>", xml(value));
        self
    }

    /// XML as it is.
    fn raw(mut self, text: &str) -> Self {
        self.properties.push_str(text);
        self
    }

    fn with(self, children: &str) -> String {
        let Element { kind, gui, name, properties } = self;
        format!(
            "<{kind} guiclass=\"{gui}\" testclass=\"{kind}\" testname=\"{}\" enabled=\"true\">{properties}</{kind}><hashTree>{children}</hashTree>\n",
            xml(&name)
        )
    }

    fn alone(self) -> String {
        self.with("")
    }
}

fn xml(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => {
                let _ = write!(out, "&#{};", c as u32);
            }
            // XML 1.0 has no other control characters.
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out
}

fn plan(workload: &Workload) -> Result<String, ExternalError> {
    let tool = Tool::Jmeter;
    let single = tool.single(workload)?;
    let mut children = String::new();
    let mut variables = String::new();
    for operation in &workload.operations {
        for (name, source) in &operation.params {
            children.push_str(&source_element(&variable(operation, name), source, &mut variables)?);
        }
    }
    let group = match single {
        Single::Closed(closed) => closed_group(closed, workload.order, workload.operations.len())?,
        Single::Open(open) => {
            children.push_str(&pace(open)?);
            group(open.connections, -1, Some(open.duration.as_secs_f64()))
        }
    };
    if let Single::Closed(Closed { think: Some(think), .. }) = single {
        let mean = think.mean.as_millis();
        children.push_str(&match think.vary {
            Vary::None => Element::new("ConstantTimer", "ConstantTimerGui", "think")
                .text("ConstantTimer.delay", &mean.to_string())
                .alone(),
            Vary::Uniform => Element::new("UniformRandomTimer", "UniformRandomTimerGui", "think")
                .text("ConstantTimer.delay", "0")
                .text("RandomTimer.range", &(2 * mean).to_string())
                .alone(),
            Vary::Exponential => return Err(tool.cannot("exponential think times")),
        });
    }
    let mut samplers = Vec::new();
    for operation in &workload.operations {
        samplers.push(sampler(workload, operation)?);
    }
    match (workload.order, &samplers[..]) {
        (_, [only]) => children.push_str(only),
        (Order::Sequence, all) => children.push_str(&all.concat()),
        (Order::Weighted, all) => {
            // A switch whose value is one of a list in which each operation's number stands as often as its weight says.
            let weights: Vec<f64> = workload.operations.iter().map(|operation| operation.weight).collect();
            let names: Vec<String> = interleave(&weights).into_iter().map(|index| format!("pick{index}")).collect();
            for index in 0..all.len() {
                variables.push_str(&argument(&format!("pick{index}"), &index.to_string()));
            }
            let value = format!("${{__RandomFromMultipleVars({})}}", names.join("|"));
            let switch = Element::new("SwitchController", "SwitchControllerGui", "operation")
                .text("SwitchController.value", &value);
            children.push_str(&switch.with(&all.concat()));
        }
    }
    let arguments = Element::new("Arguments", "ArgumentsPanel", "values")
        .raw(&format!("<collectionProp name=\"Arguments.arguments\">{variables}</collectionProp>"))
        .alone();
    let plan = Element::new("TestPlan", "TestPlanGui", "gauge")
        .raw("<elementProp name=\"TestPlan.user_defined_variables\" elementType=\"Arguments\" guiclass=\"ArgumentsPanel\" testclass=\"Arguments\"><collectionProp name=\"Arguments.arguments\"/></elementProp>")
        .flag("TestPlan.functional_mode", false)
        .flag("TestPlan.serialize_threadgroups", false)
        .with(&format!("{arguments}{}", group.with(&children)));
    Ok(format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<jmeterTestPlan version=\"1.2\" properties=\"5.0\" jmeter=\"5.6.3\"><hashTree>\n{plan}</hashTree></jmeterTestPlan>\n"
    ))
}

/// Weights as at most a hundred places, each operation in one at least if it has a weight.
fn interleave(weights: &[f64]) -> Vec<usize> {
    let sum: f64 = weights.iter().sum();
    let least = weights.iter().copied().filter(|weight| *weight > 0.0).fold(f64::INFINITY, f64::min);
    // The smallest weight once, if that takes no more than a hundred places.
    let places = (sum / least).min(100.0);
    let mut list = Vec::new();
    for (index, weight) in weights.iter().enumerate().filter(|(_, weight)| **weight > 0.0) {
        let count = (weight / sum * places).round().max(1.0) as usize;
        list.extend(std::iter::repeat_n(index, count));
    }
    list
}

fn argument(name: &str, value: &str) -> String {
    format!(
        "<elementProp name=\"{0}\" elementType=\"Argument\"><stringProp name=\"Argument.name\">{0}</stringProp><stringProp name=\"Argument.value\">{1}</stringProp><stringProp name=\"Argument.metadata\">=</stringProp></elementProp>",
        xml(name),
        xml(value)
    )
}

/// Threads, loops (-1: without limit) and seconds.
fn group(threads: u32, loops: i64, seconds: Option<f64>) -> Element {
    let controller = format!(
        "<elementProp name=\"ThreadGroup.main_controller\" elementType=\"LoopController\" guiclass=\"LoopControlPanel\" testclass=\"LoopController\"><boolProp name=\"LoopController.continue_forever\">false</boolProp><intProp name=\"LoopController.loops\">{loops}</intProp></elementProp>"
    );
    let group = Element::new("ThreadGroup", "ThreadGroupGui", "users")
        .text("ThreadGroup.on_sample_error", "continue")
        .raw(&controller)
        .text("ThreadGroup.num_threads", &threads.to_string())
        .text("ThreadGroup.ramp_time", "0")
        .flag("ThreadGroup.same_user_on_next_iteration", true)
        .flag("ThreadGroup.scheduler", seconds.is_some());
    // It knows whole seconds.
    match seconds {
        Some(seconds) => group.text("ThreadGroup.duration", &format!("{}", seconds.ceil())),
        None => group,
    }
}

fn closed_group(closed: &Closed, order: Order, operations: usize) -> Result<Element, ExternalError> {
    let tool = Tool::Jmeter;
    let Span::Constant(users) = closed.users else { return Err(tool.cannot("a changing number of users")) };
    let loops = match closed.iterations {
        None => -1,
        Some(requests) => {
            // A loop through a sequence sends all of its operations.
            let per_loop = if order == Order::Sequence { operations as u64 } else { 1 } * u64::from(users);
            if requests % per_loop != 0 {
                return Err(tool.cannot("a number of requests that its users cannot share evenly"));
            }
            i64::try_from(requests / per_loop).unwrap_or(i64::MAX)
        }
    };
    Ok(group(users, loops, closed.duration.map(|duration| duration.as_secs_f64())))
}

fn pace(open: &Open) -> Result<String, ExternalError> {
    let Rates::Constant(rate) = open.rate else { return Err(Tool::Jmeter.cannot("a changing rate")) };
    Ok(match open.arrivals {
        // 4: all active threads share the rate. It is per minute.
        Arrivals::Constant => Element::new("ConstantThroughputTimer", "TestBeanGUI", "pace")
            .property("intProp", "calcMode", "4")
            .raw(&format!(
                "<doubleProp><name>throughput</name><value>{}</value><savedValue>0.0</savedValue></doubleProp>",
                rate * 60.0
            ))
            .alone(),
        Arrivals::Poisson => Element::new("PreciseThroughputTimer", "TestBeanGUI", "pace")
            .raw(&format!(
                "<doubleProp><name>throughput</name><value>{rate}</value><savedValue>0.0</savedValue></doubleProp>"
            ))
            .property("intProp", "throughputPeriod", "1")
            .property("longProp", "duration", &format!("{}", open.duration.as_secs_f64().ceil()))
            .property("intProp", "batchSize", "1")
            .property("intProp", "batchThreadDelay", "0")
            .property("intProp", "exactLimit", "1000000")
            .property("doubleProp", "allowedThroughputSurplus", "1.0")
            .alone(),
    })
}

/// Values are variables of the plan; each operation has its own.
fn variable(operation: &Operation, name: &str) -> String {
    let clean = |text: &str| text.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
    format!("{}__{}", clean(&operation.id), clean(name))
}

fn source_element(variable: &str, source: &Source, variables: &mut String) -> Result<String, ExternalError> {
    let tool = Tool::Jmeter;
    let counter = |from: i64, to: i64| {
        Element::new("CounterConfig", "CounterConfigGui", variable)
            .text("CounterConfig.start", &from.to_string())
            .text("CounterConfig.end", &to.to_string())
            .text("CounterConfig.incr", "1")
            .text("CounterConfig.name", variable)
            .text("CounterConfig.format", "")
            .flag("CounterConfig.per_user", false)
            .alone()
    };
    Ok(match source {
        Source::Fixed(value) => {
            variables.push_str(&argument(variable, value));
            String::new()
        }
        Source::Int { from, to, pick: Pick::Random } => Element::new("RandomVariableConfig", "TestBeanGUI", variable)
            .text("minimumValue", &from.to_string())
            .text("maximumValue", &to.to_string())
            .text("variableName", variable)
            .text("outputFormat", "")
            .text("randomSeed", "")
            .flag("perThread", false)
            .alone(),
        Source::Int { from, to, pick: Pick::Sequence } => counter(*from, *to),
        Source::Counter(first) => counter(*first, i64::MAX),
        Source::Csv { file, column, pick: Pick::Sequence } => {
            let path = absolute(file)?;
            let mut reader = csv::Reader::from_path(&path)
                .map_err(|error| ExternalError::File { file: path.clone(), error: std::io::Error::other(error) })?;
            let headers = reader
                .headers()
                .map_err(|error| ExternalError::File { file: path.clone(), error: std::io::Error::other(error) })?;
            let names: Vec<String> =
                headers
                    .iter()
                    .map(|known| {
                        if known.trim() == column {
                            variable.to_owned()
                        } else {
                            format!("{variable}__{}", known.trim())
                        }
                    })
                    .collect();
            Element::new("CSVDataSet", "TestBeanGUI", variable)
                .text("filename", &path.to_string_lossy())
                .text("fileEncoding", "UTF-8")
                .text("variableNames", &names.join(","))
                .text("delimiter", ",")
                .flag("ignoreFirstLine", true)
                .flag("quotedData", true)
                .flag("recycle", true)
                .flag("stopThread", false)
                .text("shareMode", "shareMode.all")
                .alone()
        }
        Source::Csv { .. } => return Err(tool.cannot("random lines of a CSV file; say order: sequence")),
        Source::List { .. } => return Err(tool.cannot("values from a list; put them into a CSV file, order: sequence")),
        Source::Captured { name, or } => {
            // Until something is captured.
            if let Some(or) = or {
                variables.push_str(&argument(&captured(name), or));
            }
            String::new()
        }
    })
}

fn captured(name: &str) -> String {
    format!("captured__{}", name.replace(|c: char| !c.is_ascii_alphanumeric(), "_"))
}

/// A text with JMeter's references to variables; in a path their values are percent-encoded.
fn filled(text: &str, operation: &Operation, path: bool) -> String {
    pieces(text, operation)
        .into_iter()
        .map(|piece| match piece {
            // `${` begins a reference there.
            Piece::Literal(text) => text.replace("${", "\\${"),
            Piece::Value(name) => {
                let variable = match &operation.params[name] {
                    Source::Captured { name, .. } => captured(name),
                    _ => variable(operation, name),
                };
                if path { format!("${{__urlencode(${{{variable}}})}}") } else { format!("${{{variable}}}") }
            }
        })
        .collect()
}

fn sampler(workload: &Workload, operation: &Operation) -> Result<String, ExternalError> {
    let url = Url::parse(operation.base.as_deref().unwrap_or(&workload.base))?;
    let (host, _) = url.authority.rsplit_once(':').unwrap_or((&url.authority, ""));
    let path = full_path(workload, operation)?;
    let timeout = workload.timeout.as_millis().to_string();
    let body = match &operation.body {
        None => "<elementProp name=\"HTTPsampler.Arguments\" elementType=\"Arguments\" guiclass=\"HTTPArgumentsPanel\" testclass=\"Arguments\"><collectionProp name=\"Arguments.arguments\"/></elementProp>".to_owned(),
        Some(Body::Text(text)) => format!(
            "<boolProp name=\"HTTPSampler.postBodyRaw\">true</boolProp><elementProp name=\"HTTPsampler.Arguments\" elementType=\"Arguments\"><collectionProp name=\"Arguments.arguments\"><elementProp name=\"\" elementType=\"HTTPArgument\"><boolProp name=\"HTTPArgument.always_encode\">false</boolProp><stringProp name=\"Argument.value\">{}</stringProp><stringProp name=\"Argument.metadata\">=</stringProp></elementProp></collectionProp></elementProp>",
            xml(&filled(text, operation, false))
        ),
        Some(Body::File(file)) => format!(
            "<elementProp name=\"HTTPsampler.Files\" elementType=\"HTTPFileArgs\"><collectionProp name=\"HTTPFileArgs.files\"><elementProp name=\"file\" elementType=\"HTTPFileArg\"><stringProp name=\"File.path\">{}</stringProp><stringProp name=\"File.paramname\"></stringProp><stringProp name=\"File.mimetype\"></stringProp></elementProp></collectionProp></elementProp>",
            xml(&absolute(file)?.to_string_lossy())
        ),
        Some(Body::Base64(_)) => return Err(Tool::Jmeter.cannot("a body of bytes; put them into a file")),
        Some(Body::Lines(_)) => return Err(Tool::Jmeter.cannot("bodies that differ, such as events; use gauge's own generator")),
    };
    let mut children = String::new();
    if !operation.headers.is_empty() {
        let fields: String = operation
            .headers
            .iter()
            .map(|(name, value)| {
                format!(
                    "<elementProp name=\"\" elementType=\"Header\"><stringProp name=\"Header.name\">{}</stringProp><stringProp name=\"Header.value\">{}</stringProp></elementProp>",
                    xml(name),
                    xml(&filled(value, operation, false))
                )
            })
            .collect();
        let manager = Element::new("HeaderManager", "HeaderPanel", "headers")
            .raw(&format!("<collectionProp name=\"HeaderManager.headers\">{fields}</collectionProp>"));
        children.push_str(&manager.alone());
    }
    if !operation.expect.is_empty() {
        children.push_str(&assertion(&operation.expect));
    }
    for capture in &operation.capture {
        children.push_str(&extractor(capture)?);
    }
    Ok(Element::new("HTTPSamplerProxy", "HttpTestSampleGui", &operation.id)
        .raw(&body)
        .text("HTTPSampler.domain", host_name(host, &url.authority))
        .text("HTTPSampler.port", &url.port.to_string())
        .text("HTTPSampler.protocol", "http")
        .text("HTTPSampler.path", &filled(&path, operation, true))
        .text("HTTPSampler.method", &operation.method)
        .text("HTTPSampler.implementation", "HttpClient4")
        .text("HTTPSampler.connect_timeout", &timeout)
        .text("HTTPSampler.response_timeout", &timeout)
        .flag("HTTPSampler.follow_redirects", false)
        .flag("HTTPSampler.auto_redirects", false)
        .flag("HTTPSampler.use_keepalive", true)
        .with(&children))
}

fn host_name<'t>(host: &'t str, authority: &'t str) -> &'t str {
    if host.is_empty() { authority } else { host }
}

/// Statuses that are no error. "Ignore status" makes the sample good first, as JMeter's own rule fails everything from 400 on.
fn assertion(expect: &[Statuses]) -> String {
    let patterns: String = expect
        .iter()
        .map(|status| match status {
            Statuses::One(status) => format!("<stringProp name=\"p{status}\">{status}</stringProp>"),
            Statuses::Class(class) => format!("<stringProp name=\"p{class}\">{class}\\d\\d</stringProp>"),
        })
        .collect();
    // 1: the whole text matches; 32: any of them.
    Element::new("ResponseAssertion", "AssertionGui", "expected status")
        .raw(&format!("<collectionProp name=\"Asserion.test_strings\">{patterns}</collectionProp>"))
        .text("Assertion.test_field", "Assertion.response_code")
        .flag("Assertion.assume_success", true)
        .property("intProp", "Assertion.test_type", "33")
        .alone()
}

fn extractor(capture: &Capture) -> Result<String, ExternalError> {
    let tool = Tool::Jmeter;
    if capture.plus.is_some() {
        return Err(tool.cannot("values from responses with something added"));
    }
    if capture.scope == Scope::Run {
        return Err(tool.cannot("values from responses that all users share"));
    }
    let name = captured(&capture.name);
    match (&capture.json, &capture.header) {
        (Some(pointer), _) => {
            let steps: String = pointer
                .split('/')
                .skip(1)
                .map(|key| {
                    let key = key.replace("~1", "/").replace("~0", "~");
                    if key.bytes().all(|byte| byte.is_ascii_digit()) && !key.is_empty() {
                        format!("[{key}]")
                    } else {
                        format!("['{}']", key.replace('\'', "\\'"))
                    }
                })
                .collect();
            Ok(Element::new("JSONPostProcessor", "JSONPostProcessorGui", &capture.name)
                .text("JSONPostProcessor.referenceNames", &name)
                .text("JSONPostProcessor.jsonPathExprs", &format!("${steps}"))
                .text("JSONPostProcessor.match_numbers", "1")
                .alone())
        }
        (None, Some(header)) => {
            // Names of fields know no case.
            let pattern = header
                .chars()
                .map(|c| if c.is_ascii_alphanumeric() { c.to_string() } else { format!("\\{c}") })
                .collect::<String>();
            Ok(Element::new("RegexExtractor", "RegexExtractorGui", &capture.name)
                .text("RegexExtractor.useHeaders", "true")
                .text("RegexExtractor.refname", &name)
                .text("RegexExtractor.regex", &format!("(?im)^{pattern}:\\s*(.*?)\\s*$"))
                .text("RegexExtractor.template", "$1$")
                .text("RegexExtractor.match_number", "1")
                .alone())
        }
        (None, None) => Err(tool.cannot("a capture without json or header")),
    }
}
