//! What must hold for every input: shared by fuzz targets and by the test that runs their corpus.

use llm::Api;
use llm::request::{Edits, PrefixHashes, Wanted, scan};
use llm::stream::{BodyEnd, EventReader, EventSplitter, Outcome, StreamState};

/// Request bodies: what is accepted stays accepted, and says what is wanted, after its splices.
pub fn request(body: &[u8]) {
    let Ok(request) = scan(body) else { return };
    let wanted = Wanted { model: Some("served"), include_usage: true, max_output: Some(10) };
    let after = Edits::of(&request, body, &wanted).apply(body);
    let again = scan(&after).expect("a splice keeps a body readable");
    assert_eq!(again.model(&after).as_deref(), Some("served"));
    assert!(Edits::of(&again, &after, &wanted).is_empty());
    assert!(PrefixHashes::of(&request, body, None, 0).as_slice().len() <= body.len() / 512);
}

/// Keys of the response cache: what has one is JSON, what means the same has the same, and what does not has another.
pub fn cache_key(body: &[u8]) {
    let key = |body: &[u8]| llm::cache_key::cache_key(b"team", b"/v1/chat/completions", b"m", body);
    let found = key(body);
    assert_eq!(found, key(&[b" \n", body, b"\t"].concat()), "white space around a value means nothing");
    if found.is_some() {
        assert!(llm::json::is_valid(body), "what has a key is JSON");
        assert_ne!(found, key(&[b"[", body, b"]"].concat()), "another value");
        assert_ne!(
            found,
            llm::cache_key::cache_key(b"other", b"/v1/chat/completions", b"m", body),
            "another partition"
        );
    }
}

fn run(api: Api, stream: &[u8], step: usize) -> (Vec<u8>, Outcome, llm::response::Usage) {
    let (mut splitter, mut reader) = (EventSplitter::new(), EventReader::new(api));
    let mut state = StreamState::new(api, 1, true);
    let mut out = Vec::new();
    for part in stream.chunks(step) {
        let mut at = 0;
        while let Some(piece) = splitter.next(part, &mut at) {
            out.extend_from_slice(piece.bytes);
            reader.read(piece.bytes);
            if piece.last {
                state.event(&reader.finish(), piece.bytes.len() as u64);
            }
        }
    }
    let in_event = splitter.finish().is_some_and(|piece| {
        out.extend_from_slice(piece.bytes);
        !piece.bytes.iter().all(|byte| matches!(byte, b'\r' | b'\n'))
    });
    let usage = *state.usage();
    (out, state.end(BodyEnd::Proper, in_event), usage)
}

/// Event streams: bytes leave unchanged, and what events say does not depend on how they arrive. The first byte chooses API and split.
pub fn stream(input: &[u8]) {
    let Some((&choice, stream)) = input.split_first() else { return };
    let api = Api::ALL[usize::from(choice) % Api::ALL.len()];
    let whole = run(api, stream, usize::MAX);
    let split = run(api, stream, 1 + usize::from(choice) / 16);
    assert_eq!(whole.0, stream);
    assert_eq!(whole, split);
}
