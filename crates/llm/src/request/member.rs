//! The members that are read, and the names that another parser could take for them.

/// A member that is read: at the top level, or one level down where it says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Member {
    /// `model`, a string.
    Model,
    /// `stream`, a boolean.
    Stream,
    /// `stream_options`, an object.
    StreamOptions,
    /// `max_tokens`, a number.
    MaxTokens,
    /// `max_completion_tokens`, a number; wins over `max_tokens`.
    MaxCompletionTokens,
    /// `max_output_tokens` of the Responses API, a number.
    MaxOutputTokens,
    /// `n`, a number.
    N,
    /// `best_of`, a number: completions.
    BestOf,
    /// `store`, a boolean.
    Store,
    /// `previous_response_id`, a string: state of the Responses API.
    PreviousResponseId,
    /// `conversation`, a string or an object: state of the Responses API.
    Conversation,
    /// `background`, a boolean: state of the Responses API.
    Background,
    /// `temperature`, a number.
    Temperature,
    /// `seed`, a number.
    Seed,
    /// `prompt_cache_key`, a string.
    PromptCacheKey,
    /// `messages`, an array: chat and Anthropic.
    Messages,
    /// `system`: Anthropic.
    System,
    /// `input`: Responses and embeddings.
    Input,
    /// `instructions`: Responses.
    Instructions,
    /// `prompt`: completions.
    Prompt,
    /// `contents`: Gemini.
    Contents,
    /// `systemInstruction` or `system_instruction`: Gemini.
    SystemInstruction,
    /// `tools`, an array.
    Tools,
    /// `generationConfig` or `generation_config`, an object: Gemini.
    GenerationConfig,
    /// `include_usage` in `stream_options`, a boolean.
    IncludeUsage,
    /// `maxOutputTokens` or `max_output_tokens` in `generationConfig`, a number.
    ConfigMaxOutputTokens,
    /// `candidateCount` or `candidate_count` in `generationConfig`, a number.
    ConfigCandidateCount,
    /// `temperature` in `generationConfig`, a number.
    ConfigTemperature,
    /// `seed` in `generationConfig`, a number.
    ConfigSeed,
}

/// JSON types that a member may have. `null` always means that the member is absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expected {
    String,
    Bool,
    Number,
    Array,
    Object,
    StringOrObject,
    Any,
}

/// Name, member, expected type. Protocol-buffer JSON reads both spellings of Gemini's members.
const TOP: [(&str, Member); 26] = [
    ("model", Member::Model),
    ("stream", Member::Stream),
    ("stream_options", Member::StreamOptions),
    ("max_tokens", Member::MaxTokens),
    ("max_completion_tokens", Member::MaxCompletionTokens),
    ("max_output_tokens", Member::MaxOutputTokens),
    ("n", Member::N),
    ("best_of", Member::BestOf),
    ("store", Member::Store),
    ("previous_response_id", Member::PreviousResponseId),
    ("conversation", Member::Conversation),
    ("background", Member::Background),
    ("temperature", Member::Temperature),
    ("seed", Member::Seed),
    ("prompt_cache_key", Member::PromptCacheKey),
    ("messages", Member::Messages),
    ("system", Member::System),
    ("input", Member::Input),
    ("instructions", Member::Instructions),
    ("prompt", Member::Prompt),
    ("contents", Member::Contents),
    ("systemInstruction", Member::SystemInstruction),
    ("system_instruction", Member::SystemInstruction),
    ("tools", Member::Tools),
    ("generationConfig", Member::GenerationConfig),
    ("generation_config", Member::GenerationConfig),
];

const OPTIONS: [(&str, Member); 1] = [("include_usage", Member::IncludeUsage)];

const CONFIG: [(&str, Member); 6] = [
    ("maxOutputTokens", Member::ConfigMaxOutputTokens),
    ("max_output_tokens", Member::ConfigMaxOutputTokens),
    ("candidateCount", Member::ConfigCandidateCount),
    ("candidate_count", Member::ConfigCandidateCount),
    ("temperature", Member::ConfigTemperature),
    ("seed", Member::ConfigSeed),
];

impl Member {
    /// How many there are.
    pub(super) const COUNT: usize = Member::ConfigSeed as usize + 1;

    /// The name in messages: with its parent where it has one.
    pub fn name(self) -> &'static str {
        match self {
            Member::IncludeUsage => "stream_options.include_usage",
            Member::ConfigMaxOutputTokens => "generationConfig.maxOutputTokens",
            Member::ConfigCandidateCount => "generationConfig.candidateCount",
            Member::ConfigTemperature => "generationConfig.temperature",
            Member::ConfigSeed => "generationConfig.seed",
            _ => TOP.iter().find(|(_, member)| *member == self).map_or("", |(name, _)| name),
        }
    }

    pub(super) fn expected(self) -> Expected {
        match self {
            Member::Model | Member::PreviousResponseId | Member::PromptCacheKey => Expected::String,
            Member::Stream | Member::Store | Member::Background | Member::IncludeUsage => Expected::Bool,
            Member::MaxTokens
            | Member::MaxCompletionTokens
            | Member::MaxOutputTokens
            | Member::N
            | Member::BestOf
            | Member::Temperature
            | Member::Seed
            | Member::ConfigMaxOutputTokens
            | Member::ConfigCandidateCount
            | Member::ConfigTemperature
            | Member::ConfigSeed => Expected::Number,
            Member::Messages | Member::Contents | Member::Tools => Expected::Array,
            Member::StreamOptions | Member::GenerationConfig => Expected::Object,
            Member::Conversation => Expected::StringOrObject,
            Member::System | Member::Input | Member::Instructions | Member::Prompt | Member::SystemInstruction => {
                Expected::Any
            }
        }
    }

    /// Whether its strings are part of the prompt.
    pub(super) fn is_prompt(self) -> bool {
        matches!(
            self,
            Member::Messages
                | Member::System
                | Member::Input
                | Member::Instructions
                | Member::Prompt
                | Member::Contents
                | Member::SystemInstruction
                | Member::Tools
        )
    }
}

/// What a name is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lookup {
    Member(Member),
    /// Parsers that ignore case (Go's `encoding/json`) would read this member.
    CaseVariant(Member),
    Unknown,
}

/// The member that `name` (escapes resolved) is, in the object that `parent` holds.
pub(super) fn lookup(parent: Option<Member>, name: &[u8]) -> Lookup {
    let table: &[(&str, Member)] = match parent {
        None => &TOP,
        Some(Member::StreamOptions) => &OPTIONS,
        Some(Member::GenerationConfig) => &CONFIG,
        Some(_) => return Lookup::Unknown,
    };
    if let Some((_, member)) = table.iter().find(|(known, _)| known.as_bytes() == name) {
        return Lookup::Member(*member);
    }
    match table.iter().find(|(known, _)| folds_to(name, known.as_bytes())) {
        Some((_, member)) => Lookup::CaseVariant(*member),
        None => Lookup::Unknown,
    }
}

/// Whether `name` is `known` when case is ignored. Two letters outside ASCII fold into it: U+017F to `s`, U+212A to `k`.
fn folds_to(name: &[u8], known: &[u8]) -> bool {
    if name.len() < known.len() {
        return false;
    }
    let mut rest = name;
    for letter in known {
        let width = match (rest, letter.to_ascii_lowercase()) {
            ([first, ..], lower) if first.to_ascii_lowercase() == lower => 1,
            ([0xC5, 0xBF, ..], b's') => 2,
            ([0xE2, 0x84, 0xAA, ..], b'k') => 3,
            _ => return false,
        };
        rest = &rest[width..];
    }
    rest.is_empty()
}
