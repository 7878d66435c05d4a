//! The signature algorithms that are accepted (RFC 7518, section 3.1; RFC 8037).

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384,
    RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512,
    RsaParameters, VerificationAlgorithm,
};

/// An algorithm by its name in `alg`. `none` and encryption have no member here, so no configuration can allow them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names are those of RFC 7518")]
pub enum Algorithm {
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
    EdDsa,
    Hs256,
    Hs384,
    Hs512,
}

/// What a key must be for an algorithm (`kty` and `crv` of RFC 7517).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyType {
    Rsa,
    P256,
    P384,
    Ed25519,
    Secret,
}

impl Algorithm {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Rs256,
        Self::Rs384,
        Self::Rs512,
        Self::Ps256,
        Self::Ps384,
        Self::Ps512,
        Self::Es256,
        Self::Es384,
        Self::EdDsa,
        Self::Hs256,
        Self::Hs384,
        Self::Hs512,
    ];

    /// The name in `alg`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Rs384 => "RS384",
            Self::Rs512 => "RS512",
            Self::Ps256 => "PS256",
            Self::Ps384 => "PS384",
            Self::Ps512 => "PS512",
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::EdDsa => "EdDSA",
            Self::Hs256 => "HS256",
            Self::Hs384 => "HS384",
            Self::Hs512 => "HS512",
        }
    }

    /// The algorithm of a name; names are case-sensitive (RFC 7515, section 4.1.1).
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        // RFC 9864 names the curve; the key decides in both spellings.
        if name == "Ed25519" {
            return Some(Self::EdDsa);
        }
        Self::ALL.into_iter().find(|one| one.name() == name)
    }

    /// Whether the key is a secret that both sides share.
    #[must_use]
    pub fn is_symmetric(self) -> bool {
        self.key_type() == KeyType::Secret
    }

    pub(crate) fn key_type(self) -> KeyType {
        match self {
            Self::Rs256 | Self::Rs384 | Self::Rs512 | Self::Ps256 | Self::Ps384 | Self::Ps512 => KeyType::Rsa,
            Self::Es256 => KeyType::P256,
            Self::Es384 => KeyType::P384,
            Self::EdDsa => KeyType::Ed25519,
            Self::Hs256 | Self::Hs384 | Self::Hs512 => KeyType::Secret,
        }
    }

    /// RSA's padding, digest and key sizes: 2,048 bits at least.
    pub(crate) fn rsa(self) -> Option<&'static RsaParameters> {
        Some(match self {
            Self::Rs256 => &RSA_PKCS1_2048_8192_SHA256,
            Self::Rs384 => &RSA_PKCS1_2048_8192_SHA384,
            Self::Rs512 => &RSA_PKCS1_2048_8192_SHA512,
            Self::Ps256 => &RSA_PSS_2048_8192_SHA256,
            Self::Ps384 => &RSA_PSS_2048_8192_SHA384,
            Self::Ps512 => &RSA_PSS_2048_8192_SHA512,
            _ => return None,
        })
    }

    /// Elliptic curves, with signatures in the fixed form of RFC 7518, section 3.4.
    pub(crate) fn curve(self) -> Option<&'static dyn VerificationAlgorithm> {
        Some(match self {
            Self::Es256 => &ECDSA_P256_SHA256_FIXED,
            Self::Es384 => &ECDSA_P384_SHA384_FIXED,
            Self::EdDsa => &ED25519,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Algorithm;

    #[test]
    fn names_are_exact() {
        for one in Algorithm::ALL {
            assert_eq!(Algorithm::named(one.name()), Some(one));
            assert_eq!(Algorithm::named(&one.name().to_lowercase()), None);
        }
        for wrong in
            ["none", "None", "NONE", "nOnE", "", "RS1", "ES256K", "ES512", "A128KW", "dir", "RSA-OAEP", "HS256 "]
        {
            assert_eq!(Algorithm::named(wrong), None, "{wrong}");
        }
    }
}
