//! Credentials of a request.

use auth::{Refusal, field};
use h1::{Fields, Known};

use super::certificates::ClientCertificate;
use crate::config::CredentialPlace;

/// The part of a request that can hold credentials.
#[derive(Clone, Copy)]
pub struct Head<'a> {
    /// Its fields.
    pub fields: &'a Fields,
    /// What they were parsed from.
    pub buf: &'a [u8],
    /// The certificate that the client showed for its connection.
    pub certificate: Option<&'a ClientCertificate>,
}

/// Which bearer tokens are meant: a route may accept API keys and JSON Web Tokens there, which have three parts with dots between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Any,
    Jwt,
    Key,
}

impl<'a> Head<'a> {
    /// What `Authorization` holds behind a scheme.
    ///
    /// # Errors
    /// [`Refusal::Malformed`] when the field occurs twice: which one the upstream reads is not known.
    pub(super) fn authorization(&self, scheme: &str) -> Result<Option<&'a [u8]>, Refusal> {
        let mut values = self.fields.values(Known::Authorization, self.buf);
        let value = values.next();
        if values.next().is_some() {
            return Err(Refusal::Malformed("`Authorization` occurs twice"));
        }
        Ok(value.and_then(|value| field::credentials(value, scheme)))
    }

    /// A bearer token (RFC 6750) of this form.
    pub(super) fn bearer(&self, form: Form) -> Result<Option<&'a [u8]>, Refusal> {
        Ok(self.authorization("bearer")?.filter(|token| match form {
            Form::Any => true,
            Form::Jwt => field::is_jwt(token),
            Form::Key => !field::is_jwt(token),
        }))
    }

    /// An API key at the first of these places that has one.
    pub(super) fn api_key(&self, places: &[CredentialPlace], form: Form) -> Result<Option<&'a [u8]>, Refusal> {
        for place in places {
            let found = match place {
                CredentialPlace::Bearer => self.bearer(form)?,
                CredentialPlace::Header(name) => self.only(name)?,
            };
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// The one value of a field; spellings that a careless server would take for the name count as the field.
    fn only(&self, name: &str) -> Result<Option<&'a [u8]>, Refusal> {
        let mut values =
            self.fields.iter().filter(|field| Known::is_alias(field.name.of_buf(self.buf), name.as_bytes()));
        let first = values.next();
        if values.next().is_some() {
            return Err(Refusal::Malformed("the key occurs twice"));
        }
        Ok(first
            .filter(|field| field.name.of_buf(self.buf).eq_ignore_ascii_case(name.as_bytes()))
            .map(|field| field.value.of_buf(self.buf)))
    }
}
