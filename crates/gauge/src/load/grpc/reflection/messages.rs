//! The messages of reflection that are used (github.com/grpc/grpc-proto, grpc/reflection/v1/reflection.proto).

use prost::Message;

/// `ServerReflectionRequest`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Query {
    #[prost(oneof = "Wanted", tags = "3, 4, 7")]
    pub(crate) wanted: Option<Wanted>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum Wanted {
    #[prost(string, tag = "3")]
    File(String),
    #[prost(string, tag = "4")]
    Symbol(String),
    #[prost(string, tag = "7")]
    Services(String),
}

/// `ServerReflectionResponse`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ReflectionResponse {
    #[prost(oneof = "Content", tags = "4, 6, 7")]
    pub(crate) content: Option<Content>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum Content {
    #[prost(message, tag = "4")]
    Files(Files),
    #[prost(message, tag = "6")]
    Services(Services),
    #[prost(message, tag = "7")]
    Error(Error),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Files {
    #[prost(bytes = "vec", repeated, tag = "1")]
    pub(crate) files: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Services {
    #[prost(message, repeated, tag = "1")]
    pub(crate) services: Vec<Service>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Service {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Error {
    #[prost(int32, tag = "1")]
    pub(crate) code: i32,
    #[prost(string, tag = "2")]
    pub(crate) message: String,
}
