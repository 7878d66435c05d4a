//! Fields that carry credentials wherever they occur.

/// Their names, in lower case. Those that HTTP itself defines (`Authorization`, `Cookie` and so on) are not among them.
pub const FIELDS: [&str; 10] = [
    "api-key",
    "apikey",
    "x-access-token",
    "x-amz-security-token",
    "x-api-key",
    "x-auth-token",
    "x-csrf-token",
    "x-goog-api-key",
    "x-goog-iap-jwt-assertion",
    "x-xsrf-token",
];
