//! A certificate authority of one test, and a server certificate from it, made with the `openssl` program.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::command::{install, run};
use crate::{Process, dirs};

/// Files in PEM form, in a directory that is removed with this. Valid for two days.
#[derive(Debug)]
pub struct Certificates {
    dir: TempDir,
}

impl Certificates {
    /// An authority and a certificate for localhost, 127.0.0.1 and ::1.
    #[track_caller]
    pub fn localhost() -> Self {
        Self::for_names("DNS:localhost,IP:127.0.0.1,IP:::1")
    }

    /// An authority and a certificate for these names, in the form of openssl's subjectAltName: `DNS:a.test,IP:127.0.0.1`.
    #[track_caller]
    pub fn for_names(names: &str) -> Self {
        let dir = dirs::temporary("certificates");
        let openssl = |args: &[&str]| {
            run(Process::builder("openssl").args(args).current_dir(dir.path()).hint(install("openssl")));
        };
        let key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
        openssl(
            &[
                &["req", "-x509", "-days", "2", "-subj", "/CN=test authority", "-keyout", "ca.key", "-out", "ca.pem"],
                &key[..],
            ]
            .concat(),
        );
        openssl(
            &[&["req", "-new", "-subj", "/CN=test server", "-keyout", "key.pem", "-out", "request.pem"], &key[..]]
                .concat(),
        );
        let extensions = format!(
            "subjectAltName={names}\nbasicConstraints=critical,CA:FALSE\nextendedKeyUsage=serverAuth,clientAuth\n"
        );
        fs::write(dir.path().join("extensions"), extensions).expect("a file in the temporary directory");
        openssl(&[
            "x509",
            "-req",
            "-in",
            "request.pem",
            "-CA",
            "ca.pem",
            "-CAkey",
            "ca.key",
            "-CAcreateserial",
            "-days",
            "2",
            "-extfile",
            "extensions",
            "-out",
            "cert.pem",
        ]);
        Self { dir }
    }

    /// The authority's certificate: what a client must trust.
    pub fn authority(&self) -> PathBuf {
        self.file("ca.pem")
    }

    /// The server's certificate.
    pub fn certificate(&self) -> PathBuf {
        self.file("cert.pem")
    }

    /// The server's private key.
    pub fn key(&self) -> PathBuf {
        self.file("key.pem")
    }

    fn file(&self, name: &str) -> PathBuf {
        Path::join(self.dir.path(), name)
    }
}
