//! apidoc
