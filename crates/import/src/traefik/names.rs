//! Names of options. Traefik compares them without regard to upper and lower case, in YAML and in TOML: `Rule`, `healthcheck`.

/// Those that the import looks at, as Traefik's documentation writes them.
#[rustfmt::skip]
pub(super) const OPTIONS: [&str; 166] = [
    "accessControlAllowCredentials", "accessControlAllowHeaders", "accessControlAllowMethods",
    "accessControlAllowOriginList", "accessControlAllowOriginListRegex", "accessControlExposeHeaders",
    "accessControlMaxAge", "accessLog", "addAuthCookiesToResponse", "addPrefix", "addVaryHeader", "address",
    "algorithm", "amount", "api", "attempts", "authRequestHeaders", "authResponseHeaders", "authResponseHeadersRegex",
    "average", "basicAuth", "browserXssFilter", "buffering", "burst", "chain", "circuitBreaker", "compress",
    "contentSecurityPolicy", "contentType", "contentTypeNosniff", "cookie", "customBrowserXSSValue",
    "customFrameOptionsValue", "customRequestHeaders", "customResponseHeaders", "defaultEncoding", "depth",
    "dialTimeout", "digestAuth", "encodings", "entryPoints", "errors", "excludedContentTypes", "excludedIPs",
    "failover", "fallback", "followRedirects", "forceSTSHeader", "forceSlash", "forwardAuth", "forwardBody",
    "forwardingTimeouts", "frameDeny", "global", "grpcWeb", "headerField", "headers", "healthCheck",
    "highestRandomWeight", "hostname", "hrw", "http", "httpOnly", "idleConnTimeout", "inFlightReq",
    "includedContentTypes", "initialInterval", "insecureSkipVerify", "interval", "ipAllowList", "ipStrategy",
    "ipWhiteList", "leasttime", "loadBalancer", "log", "maxAge", "maxBodySize", "maxIdleConnsPerHost",
    "maxRequestBodyBytes", "maxResponseBodyBytes", "maxResponseBodySize", "memRequestBodyBytes",
    "memResponseBodyBytes", "method", "metrics", "middlewares", "minResponseBodyBytes", "mirrorBody", "mirroring",
    "mirrors", "mode", "name", "observability", "options", "parentRefs", "passHostHeader", "passTLSClientCert",
    "path", "percent", "period", "permanent", "permissionsPolicy", "ping", "plugin", "port", "prefix", "prefixes",
    "preserveLocationHeader", "preservePath", "preserveRequestMethod", "priority", "providers", "rateLimit", "realm",
    "redirectRegex", "redirectScheme", "redis", "referrerPolicy", "regex", "rejectStatusCode", "removeHeader",
    "replacePath", "replacePathRegex", "replacement", "requestHeaderName", "requestHost", "responseForwarding",
    "responseHeaderTimeout", "retry", "rootCAs", "routers", "rule", "ruleSyntax", "sameSite", "scheme", "secure",
    "serverName", "servers", "serversTransport", "serversTransports", "service", "services", "sourceCriterion",
    "sourceRange", "sslProxyHeaders", "status", "sticky", "strategy", "stripPrefix", "stripPrefixRegex",
    "stsIncludeSubdomains", "stsPreload", "stsSeconds", "tcp", "timeout", "tls", "tracing", "trustForwardHeader",
    "udp", "unhealthyInterval", "url", "users", "usersFile", "weight", "weighted", "wrr",
];

/// Options whose keys are names that users chose.
pub(super) const OF_USERS: [&str; 9] = [
    "routers",
    "services",
    "middlewares",
    "serversTransports",
    "entryPoints",
    "customRequestHeaders",
    "customResponseHeaders",
    "sslProxyHeaders",
    "plugin",
];
