//! An archive of small text files (POSIX.1-1988 ustar), which every system unpacks.

/// Bytes of a block.
const BLOCK: usize = 512;

/// An archive of files, each with its path. Always the same bytes for the same files.
///
/// # Errors
/// The first path that the format cannot hold: more than 100 bytes.
pub(super) fn archive<'f>(files: impl IntoIterator<Item = (String, &'f [u8])>) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    for (path, content) in files {
        out.extend(head(&path, content.len())?);
        out.extend(content);
        out.resize(out.len().next_multiple_of(BLOCK), 0);
    }
    out.resize(out.len() + 2 * BLOCK, 0);
    Ok(out)
}

fn head(path: &str, length: usize) -> Result<[u8; BLOCK], String> {
    let mut head = [0; BLOCK];
    if path.is_empty() || path.len() > 100 {
        return Err(format!("`{path}` is too long a path for an archive"));
    }
    let mut put = |at: usize, text: &str| head[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, path);
    put(100, "0000644");
    put(108, "0000000");
    put(116, "0000000");
    put(124, &format!("{length:011o}"));
    put(136, "00000000000");
    // Blanks stand for the sum while it is made.
    put(148, "        ");
    put(156, "0");
    put(257, "ustar\x0000");
    let sum: u32 = head.iter().map(|byte| u32::from(*byte)).sum();
    head[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    Ok(head)
}

#[cfg(test)]
mod tests {
    use super::archive;

    #[test]
    fn tar_lists_and_unpacks_it() {
        let files = [("nginx/nginx.conf".to_owned(), &b"worker_processes 1;\n"[..]), ("empty".to_owned(), b"")];
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("x.tar");
        std::fs::write(&file, archive(files).expect("an archive")).expect("a file");
        let run = std::process::Command::new("tar").arg("xf").arg(&file).arg("-C").arg(folder.path()).output();
        let output = run.expect("tar runs");
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        let text = std::fs::read_to_string(folder.path().join("nginx/nginx.conf")).expect("unpacked");
        assert_eq!(text, "worker_processes 1;\n");
        assert!(folder.path().join("empty").is_file());
        assert!(archive([("x".repeat(101), &b""[..])]).is_err());
    }
}
