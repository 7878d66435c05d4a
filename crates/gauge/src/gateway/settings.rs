//! What configurations do beyond what a description says.

use std::net::SocketAddr;

use crate::profile::Profile;

/// Choices of the user; the default adds nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// What becomes of `%2F` in a path.
    pub encoded_slash: EncodedSlash,
    /// DNS server for gateways that cannot resolve names at run time without being told one.
    pub resolver: Option<SocketAddr>,
    /// What the gateway does beyond passing requests on.
    pub profile: Profile,
}

/// What becomes of `%2F` in a path, which some servers take for a slash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum EncodedSlash {
    /// It is a character of a parameter, where the gateway can tell it from a slash
    #[default]
    Pass,
    /// Such a request is refused, where the gateway can do that
    Reject,
}
