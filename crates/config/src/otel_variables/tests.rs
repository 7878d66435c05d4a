use super::*;
use crate::{Loaded, load_text};

const BOTH: &str = "telemetry: {traces: {}, metrics: {}}";

/// Loads a file with this line; what is wrong in one text.
fn load(telemetry: &str, variables: &[(&str, &str)]) -> Result<Loaded, String> {
    let text =
        format!("listen: 127.0.0.1:0\n{telemetry}\nroutes: [{{match: {{path: /}}, respond: {{status: 200}}}}]\n");
    let environment =
        |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
    load_text("weir.yaml", &text, &environment).map_err(|problems| problems.to_string())
}

#[track_caller]
fn good(telemetry: &str, variables: &[(&str, &str)]) -> crate::Telemetry {
    load(telemetry, variables).unwrap_or_else(|problems| panic!("{problems}")).config.telemetry
}

/// URLs of traces and metrics.
fn urls(telemetry: &crate::Telemetry) -> (&str, &str) {
    let (traces, metrics) = (telemetry.traces.as_ref().unwrap(), telemetry.metrics.as_ref().unwrap());
    (&traces.collector.endpoint, &metrics.collector.endpoint)
}

#[test]
fn the_general_endpoint_is_a_base_and_that_of_a_signal_is_taken_as_it_is() {
    for (base, expected) in [
        ("http://c:4318", ("http://c:4318/v1/traces", "http://c:4318/v1/metrics")),
        (" http://c:4318/ ", ("http://c:4318/v1/traces", "http://c:4318/v1/metrics")),
        ("https://c/otlp//", ("https://c/otlp/v1/traces", "https://c/otlp/v1/metrics")),
        ("https://c/otlp?a=b", ("https://c/otlp/v1/traces?a=b", "https://c/otlp/v1/metrics?a=b")),
    ] {
        assert_eq!(urls(&good(BOTH, &[(ENDPOINT, base)])), expected);
    }
    let own = [(ENDPOINT, "http://c:4318"), (TRACES.endpoint, "http://t:9/"), (METRICS.endpoint, "http://m:9/x")];
    assert_eq!(urls(&good(BOTH, &own)), ("http://t:9/", "http://m:9/x"));
    let one = [(ENDPOINT, "http://c:4318"), (METRICS.endpoint, "")];
    assert_eq!(urls(&good(BOTH, &one)).1, "http://c:4318/v1/metrics", "an empty variable is as good as not set");
}

#[test]
fn what_the_file_says_holds_and_nothing_is_switched_on() {
    let all = [
        (ENDPOINT, "http://c:4318"),
        (HEADERS, "a=1"),
        (TIMEOUT, "1"),
        (SERVICE_NAME, "other"),
        (RESOURCE_ATTRIBUTES, "team=other,region=north"),
        (SAMPLER, "always_on"),
    ];
    assert_eq!(good("", &all), good("", &[]));
    let file = "telemetry: {resource: {service.name: mine, team: edge}, traces: {endpoint: 'http://f:1/t', headers: {b: 2}, timeout: 3s, sample: 7%}}";
    let telemetry = good(file, &all);
    let traces = telemetry.traces.unwrap();
    assert_eq!(traces.collector, good(file, &[]).traces.unwrap().collector);
    assert_eq!((traces.share, traces.collector.timeout.as_secs()), (0.07, 3));
    assert_eq!(telemetry.metrics, None);
    let named = |key: &str| {
        telemetry.resource.iter().filter(|(name, _)| name == key).map(|(_, value)| &**value).collect::<Vec<_>>()
    };
    assert_eq!((named("service.name"), named("team"), named("region")), (vec!["mine"], vec!["edge"], vec!["north"]));
    // What is malformed and not read is no error.
    let malformed = [(ENDPOINT, ":"), (HEADERS, "a"), (TIMEOUT, "x"), (SAMPLER, "x"), (PROTOCOL, "grpc")];
    good(file, &malformed);
    good("", &malformed);
}

#[test]
fn headers_and_attributes_are_decoded() {
    let variables = [
        (ENDPOINT, "http://c:4318"),
        (HEADERS, " Authorization = Bearer%20a%3Db%2Cc , x-team=e=f,"),
        (METRICS.headers, "x-only=metrics"),
        (SERVICE_NAME, "edge"),
        (RESOURCE_ATTRIBUTES, "service.name=lost,place=H%C3%B6lle%20%31,empty="),
    ];
    let telemetry = good(BOTH, &variables);
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let headers = telemetry.traces.as_ref().unwrap().collector.headers.clone();
    assert_eq!(headers, [pair("Authorization", "Bearer a=b,c"), pair("x-team", "e=f")]);
    assert_eq!(telemetry.metrics.as_ref().unwrap().collector.headers, [pair("x-only", "metrics")]);
    let (configured, version) = telemetry.resource.split_at(3);
    assert_eq!(configured, [pair("service.name", "edge"), pair("place", "Hölle 1"), pair("empty", "")]);
    assert_eq!(version[0].0, "service.version");
}

#[test]
fn compression_is_that_of_the_signal_or_of_all() {
    let variables = [(ENDPOINT, "http://c:4318"), (COMPRESSION, "gzip"), (METRICS.compression, "none")];
    let telemetry = good(BOTH, &variables);
    assert!(telemetry.traces.unwrap().collector.is_compressed);
    assert!(!telemetry.metrics.unwrap().collector.is_compressed);
    let file = "telemetry: {traces: {compression: none}}";
    assert!(!good(file, &variables).traces.unwrap().collector.is_compressed, "the file holds");
}

#[test]
fn samplers_are_shares() {
    for (sampler, argument, share) in [
        ("always_on", "", 1.0),
        ("parentbased_always_on", "nonsense", 1.0),
        ("always_off", "1", 0.0),
        ("parentbased_always_off", "", 0.0),
        ("traceidratio", "0.07", 0.07),
        ("parentbased_traceidratio", "1e-3", 0.001),
        ("traceidratio", "", 1.0),
        ("", "0.5", 0.1),
    ] {
        let variables = [(ENDPOINT, "http://c:4318"), (SAMPLER, sampler), (SAMPLER_ARG, argument)];
        assert_eq!(good(BOTH, &variables).traces.unwrap().share, share, "{sampler} {argument}");
    }
}

#[test]
fn what_cannot_be_understood_is_refused_by_name_and_no_credential_is_shown() {
    for (name, value, why) in [
        (ENDPOINT, "collector:4317", "expected a URL such as `http://127.0.0.1:4318/`, found `collector:4317`"),
        (ENDPOINT, "grpc://c:4317", "OTLP over gRPC is not supported; collectors take HTTP at port 4318"),
        (ENDPOINT, "http://u:s3cr3t@c:4318", "put credentials into `OTEL_EXPORTER_OTLP_HEADERS`"),
        (ENDPOINT, "htp://u:s3cr3t@c/?token=s3cr3t", "found `htp://[redacted]@c/`"),
        (TRACES.endpoint, "c", "expected a URL such as `http://127.0.0.1:4318/v1/traces`, found `c`"),
        (METRICS.endpoint, "c", "expected a URL such as `http://127.0.0.1:4318/v1/metrics`, found `c`"),
        (PROTOCOL, "grpc", "`grpc` is not supported; the protocol has to be `http/protobuf`"),
        (METRICS.protocol, "http/json", "`http/json` is not supported"),
        (HEADERS, "s3cr3t", "entry 1 has no `=`; expected `name=value,name=value`"),
        (HEADERS, "a=b,Bearer s3cr3t=", "field 2: its name is not that of a header field"),
        (HEADERS, "a=b,=s3cr3t", "entry 2 has no name"),
        (HEADERS, "a=s3cr3t%2", "entry 1 has a `%` that begins no escape"),
        (HEADERS, "a=s3cr3t%ff", "is not UTF-8 behind its escapes"),
        (HEADERS, "a=s3cr3t%0d%0ab: c", "may not hold a control character"),
        (HEADERS, "a=1,A=s3cr3t", "entry 2 has the name of another entry"),
        (TRACES.headers, "s3cr3t", "entry 1 has no `=`"),
        (TIMEOUT, "10s", "expected a number of milliseconds above 0, such as `10000`, found `10s`"),
        (TIMEOUT, "0", "found `0`"),
        (METRICS.timeout, "-1", "found `-1`"),
        (TRACES.timeout, "99999999999999999999", "found `99999999999999999999`"),
        (COMPRESSION, "zstd", "expected `gzip` or `none`, found `zstd`"),
        (TRACES.compression, "GZIP", "found `GZIP`"),
        (RESOURCE_ATTRIBUTES, "team=a,s3cr3t", "entry 2 has no `=`"),
        (SAMPLER, "jaeger_remote", "the sampler `jaeger_remote` is not known; there are always_on"),
        (SAMPLER_ARG, "1.1", "expected a ratio from 0 to 1, such as `0.1`, found `1.1`"),
        (SAMPLER_ARG, "NaN", "found `NaN`"),
    ] {
        let mut variables = vec![(name, value)];
        if !name.ends_with("ENDPOINT") {
            variables.push((ENDPOINT, "http://c:4318"));
        } else if name != ENDPOINT {
            variables.extend([(TRACES.endpoint, "http://c/"), (METRICS.endpoint, "http://c/")]);
        }
        if name == SAMPLER_ARG {
            variables.push((SAMPLER, "traceidratio"));
        }
        let problems = load(BOTH, &variables).expect_err(name);
        assert!(problems.starts_with(&format!("{name}: ")) && problems.contains(why), "{name}={value}: {problems}");
        assert_eq!(problems.lines().count(), 1, "{problems}");
        assert!(!problems.contains("s3cr3t"), "{problems}");
    }
    let missing = load("telemetry: {traces: {}}", &[]).unwrap_err();
    assert!(missing.contains("weir.yaml:2:") && missing.contains("`endpoint` is missing"), "{missing}");
    assert!(missing.contains(ENDPOINT), "{missing}");
}

#[test]
fn what_is_in_force_is_printed_and_means_the_same_without_variables() {
    let variables = [
        (ENDPOINT, "http://c:4318/?token=s3cr3t"),
        (HEADERS, "authorization=s3cr3t"),
        (TIMEOUT, "1500"),
        (SERVICE_NAME, "edge: \"1\""),
        (SAMPLER, "traceidratio"),
        (SAMPLER_ARG, "0.25"),
    ];
    let loaded = load(BOTH, &variables).unwrap();
    let shown = loaded.file.to_yaml_without_secrets();
    assert!(!shown.contains("s3cr3t"), "{shown}");
    for line in ["http://c:4318/v1/traces?token=[redacted]", "authorization:", "1500ms", "edge: ", "25%"] {
        assert!(shown.contains(line), "`{line}` in {shown}");
    }
    let again = load_text("printed", &loaded.file.to_yaml(), &|_| None).unwrap();
    assert_eq!((again.config, again.file), (loaded.config, loaded.file));
}
