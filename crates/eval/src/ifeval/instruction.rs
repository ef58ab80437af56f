//! The 25 types of instruction with their parameters, and how they are read from a row.
//!
//! Invariant: an instruction that was read can be checked; nothing about it is made up. The
//! published reader draws a parameter that is missing at random; here that is an error.

use serde_json::{Map, Value};

use super::{Finding, Language, case, combination, content, format, keywords, length, start_end};

/// One instruction. Each variant says which identity it has in the data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Instruction {
    /// `keywords:existence`: each of these is in the response.
    KeywordsExist(Vec<String>),
    /// `keywords:frequency`: how often this is in the response.
    KeywordFrequency(String, Bound),
    /// `keywords:forbidden_words`: none of these is in the response as a whole word.
    ForbiddenWords(Vec<String>),
    /// `keywords:letter_frequency`: how often this character is in the response, in either case.
    LetterFrequency(char, Bound),
    /// `language:response_language`: the language of the whole response.
    ResponseLanguage(Language),
    /// `length_constraints:number_sentences`.
    SentenceCount(Bound),
    /// `length_constraints:number_paragraphs`: exactly so many, separated by `***`.
    ParagraphCount(usize),
    /// `length_constraints:number_words`.
    WordCount(Bound),
    /// `length_constraints:nth_paragraph_first_word`.
    NthParagraphFirstWord {
        /// Exactly so many, separated by a blank line.
        paragraphs: usize,
        /// Which of them, from 1.
        nth: usize,
        /// How it starts, in small letters.
        first_word: String,
    },
    /// `detectable_content:number_placeholders`: at least so many `[…]`.
    Placeholders(usize),
    /// `detectable_content:postscript`: a postscript with this marker.
    Postscript(String),
    /// `detectable_format:number_bullet_lists`: exactly so many bullet points.
    BulletPoints(usize),
    /// `detectable_format:constrained_response`: one of three sentences.
    ConstrainedResponse,
    /// `detectable_format:number_highlighted_sections`: at least so many `*…*`.
    HighlightedSections(usize),
    /// `detectable_format:multiple_sections`: at least so many, each marked by a word and a number.
    Sections {
        /// The word.
        marker: String,
        /// How many.
        at_least: usize,
    },
    /// `detectable_format:json_format`: the whole response is JSON.
    Json,
    /// `detectable_format:title`: a title in `<<…>>`.
    Title,
    /// `combination:two_responses`: two different ones, separated by `******`.
    TwoResponses,
    /// `combination:repeat_prompt`: the response starts with this.
    RepeatPrompt(String),
    /// `startend:end_checker`: the response ends with this.
    EndPhrase(String),
    /// `startend:quotation`: the response stands in double quotation marks.
    Quotation,
    /// `change_case:capital_word_frequency`: how many words are in capitals.
    CapitalWords(Bound),
    /// `change_case:english_capital`: English, in capitals.
    EnglishCapital,
    /// `change_case:english_lowercase`: English, in small letters.
    EnglishLowercase,
    /// `punctuation:no_comma`.
    NoComma,
}

/// How a count is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// `at least`.
    AtLeast,
    /// `less than`.
    LessThan,
}

/// What a count must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bound {
    /// How it is compared.
    pub relation: Relation,
    /// With what.
    pub threshold: usize,
}

/// What is wrong with an instruction of a row: with an argument of it, or its identity.
#[derive(Debug)]
pub(super) struct Wrong {
    pub(super) argument: Option<&'static str>,
    pub(super) message: String,
}

impl Bound {
    /// Whether `count` is within it, said in words with `unit` in the plural.
    pub(super) fn judge(self, count: usize, unit: &str) -> Finding {
        let (followed, relation) = match self.relation {
            Relation::AtLeast => (count >= self.threshold, "at least"),
            Relation::LessThan => (count < self.threshold, "less than"),
        };
        Finding::new(followed, format!("{count} {unit}, {relation} {} asked", self.threshold))
    }
}

impl Instruction {
    /// Its identity in the data.
    pub fn id(&self) -> &'static str {
        match self {
            Self::KeywordsExist(_) => "keywords:existence",
            Self::KeywordFrequency(..) => "keywords:frequency",
            Self::ForbiddenWords(_) => "keywords:forbidden_words",
            Self::LetterFrequency(..) => "keywords:letter_frequency",
            Self::ResponseLanguage(_) => "language:response_language",
            Self::SentenceCount(_) => "length_constraints:number_sentences",
            Self::ParagraphCount(_) => "length_constraints:number_paragraphs",
            Self::WordCount(_) => "length_constraints:number_words",
            Self::NthParagraphFirstWord { .. } => "length_constraints:nth_paragraph_first_word",
            Self::Placeholders(_) => "detectable_content:number_placeholders",
            Self::Postscript(_) => "detectable_content:postscript",
            Self::BulletPoints(_) => "detectable_format:number_bullet_lists",
            Self::ConstrainedResponse => "detectable_format:constrained_response",
            Self::HighlightedSections(_) => "detectable_format:number_highlighted_sections",
            Self::Sections { .. } => "detectable_format:multiple_sections",
            Self::Json => "detectable_format:json_format",
            Self::Title => "detectable_format:title",
            Self::TwoResponses => "combination:two_responses",
            Self::RepeatPrompt(_) => "combination:repeat_prompt",
            Self::EndPhrase(_) => "startend:end_checker",
            Self::Quotation => "startend:quotation",
            Self::CapitalWords(_) => "change_case:capital_word_frequency",
            Self::EnglishCapital => "change_case:english_capital",
            Self::EnglishLowercase => "change_case:english_lowercase",
            Self::NoComma => "punctuation:no_comma",
        }
    }

    /// Reads the instruction of this identity.
    pub(super) fn read(id: &str, kwargs: &Map<String, Value>) -> Result<Self, Wrong> {
        let given = Arguments(kwargs);
        Ok(match id {
            "keywords:existence" => Self::KeywordsExist(given.texts("keywords")?),
            "keywords:frequency" => Self::KeywordFrequency(
                given.text("keyword")?,
                given.bound("relation", "frequency")?,
            ),
            "keywords:forbidden_words" => Self::ForbiddenWords(given.texts("forbidden_words")?),
            "keywords:letter_frequency" => Self::LetterFrequency(
                given.character("letter")?,
                given.bound("let_relation", "let_frequency")?,
            ),
            "language:response_language" => Self::ResponseLanguage(given.language("language")?),
            "length_constraints:number_sentences" => {
                Self::SentenceCount(given.bound("relation", "num_sentences")?)
            }
            "length_constraints:number_paragraphs" => {
                Self::ParagraphCount(given.count("num_paragraphs")?)
            }
            "length_constraints:number_words" => {
                Self::WordCount(given.bound("relation", "num_words")?)
            }
            "length_constraints:nth_paragraph_first_word" => given.nth_paragraph()?,
            "detectable_content:number_placeholders" => {
                Self::Placeholders(given.count("num_placeholders")?)
            }
            "detectable_content:postscript" => Self::Postscript(given.text("postscript_marker")?),
            "detectable_format:number_bullet_lists" => {
                Self::BulletPoints(given.count("num_bullets")?)
            }
            "detectable_format:constrained_response" => Self::ConstrainedResponse,
            "detectable_format:number_highlighted_sections" => {
                Self::HighlightedSections(given.count("num_highlights")?)
            }
            "detectable_format:multiple_sections" => Self::Sections {
                marker: given.text("section_spliter")?,
                at_least: given.count("num_sections")?,
            },
            "detectable_format:json_format" => Self::Json,
            "detectable_format:title" => Self::Title,
            "combination:two_responses" => Self::TwoResponses,
            "combination:repeat_prompt" => Self::RepeatPrompt(given.text("prompt_to_repeat")?),
            "startend:end_checker" => Self::EndPhrase(given.text("end_phrase")?),
            "startend:quotation" => Self::Quotation,
            "change_case:capital_word_frequency" => {
                Self::CapitalWords(given.bound("capital_relation", "capital_frequency")?)
            }
            "change_case:english_capital" => Self::EnglishCapital,
            "change_case:english_lowercase" => Self::EnglishLowercase,
            "punctuation:no_comma" => Self::NoComma,
            _ => {
                let message = format!("names `{id}`, which is none of IFEval's 25 instructions");
                return Err(Wrong { argument: None, message });
            }
        })
    }

    /// Whether `text`, which is not blank, follows it.
    pub(super) fn check(&self, text: &str) -> Finding {
        match self {
            Self::KeywordsExist(keywords) => keywords::exist(keywords, text),
            Self::KeywordFrequency(keyword, bound) => keywords::frequency(keyword, *bound, text),
            Self::ForbiddenWords(words) => keywords::forbidden(words, text),
            Self::LetterFrequency(letter, bound) => keywords::letter(*letter, *bound, text),
            Self::ResponseLanguage(language) => language.check(text),
            Self::SentenceCount(bound) => length::sentences(*bound, text),
            Self::ParagraphCount(count) => length::paragraphs(*count, text),
            Self::WordCount(bound) => length::words(*bound, text),
            Self::NthParagraphFirstWord { paragraphs, nth, first_word } => {
                length::nth_paragraph(*paragraphs, *nth, first_word, text)
            }
            Self::Placeholders(at_least) => content::placeholders(*at_least, text),
            Self::Postscript(marker) => content::postscript(marker, text),
            Self::BulletPoints(count) => format::bullet_points(*count, text),
            Self::ConstrainedResponse => format::constrained(text),
            Self::HighlightedSections(at_least) => format::highlights(*at_least, text),
            Self::Sections { marker, at_least } => format::sections(marker, *at_least, text),
            Self::Json => format::json(text),
            Self::Title => format::title(text),
            Self::TwoResponses => combination::two_responses(text),
            Self::RepeatPrompt(prompt) => combination::repeat_prompt(prompt, text),
            Self::EndPhrase(phrase) => start_end::end_phrase(phrase, text),
            Self::Quotation => start_end::quotation(text),
            Self::CapitalWords(bound) => case::capital_words(*bound, text),
            Self::EnglishCapital => case::english_capital(text),
            Self::EnglishLowercase => case::english_lowercase(text),
            Self::NoComma => {
                let commas = text.matches(',').count();
                Finding::new(commas == 0, format!("{commas} commas"))
            }
        }
    }
}

/// Arguments of an instruction, read with their types.
struct Arguments<'a>(&'a Map<String, Value>);

impl Arguments<'_> {
    fn value(&self, name: &'static str) -> Result<&Value, Wrong> {
        let value = self.0.get(name).filter(|value| !value.is_null());
        value.ok_or_else(|| wrong(name, "is missing"))
    }

    fn text(&self, name: &'static str) -> Result<String, Wrong> {
        let text = self.value(name)?.as_str().map(str::trim).filter(|text| !text.is_empty());
        text.map(str::to_owned).ok_or_else(|| wrong(name, "must be a text that is not blank"))
    }

    fn texts(&self, name: &'static str) -> Result<Vec<String>, Wrong> {
        let fault = || wrong(name, "must be a list of texts, one at least");
        let list = self.value(name)?.as_array().filter(|list| !list.is_empty());
        let texts = list.ok_or_else(fault)?.iter().map(|it| it.as_str().map(str::to_owned));
        texts.collect::<Option<Vec<_>>>().ok_or_else(fault)
    }

    fn character(&self, name: &'static str) -> Result<char, Wrong> {
        let text = self.text(name)?;
        let mut lower = text.chars().flat_map(char::to_lowercase);
        match (lower.next(), lower.next()) {
            (Some(one), None) => Ok(one),
            _ => Err(wrong(name, "must be one character")),
        }
    }

    /// A whole number; some copies of the data write `3.0`.
    fn count(&self, name: &'static str) -> Result<usize, Wrong> {
        let number = self.value(name)?.as_f64().filter(|it| it.fract() == 0.0);
        let count = number.filter(|it| (0.0..=1e9).contains(it)).map(|it| it as usize);
        count.ok_or_else(|| wrong(name, "must be a whole number, 0 at least"))
    }

    fn bound(&self, relation: &'static str, threshold: &'static str) -> Result<Bound, Wrong> {
        let relation = match self.value(relation)?.as_str() {
            Some("at least") => Relation::AtLeast,
            Some("less than") => Relation::LessThan,
            _ => return Err(wrong(relation, "must be `at least` or `less than`")),
        };
        Ok(Bound { relation, threshold: self.count(threshold)? })
    }

    fn language(&self, name: &'static str) -> Result<Language, Wrong> {
        let code = self.text(name)?;
        Language::from_code(&code)
            .ok_or_else(|| wrong(name, &format!("is `{code}`, a language that is not known here")))
    }

    fn nth_paragraph(&self) -> Result<Instruction, Wrong> {
        let paragraphs = self.count("num_paragraphs")?;
        let nth = self.count("nth_paragraph")?;
        if nth == 0 || nth > paragraphs {
            let message = format!("must be from 1 to `num_paragraphs`, {paragraphs}");
            return Err(wrong("nth_paragraph", &message));
        }
        let first_word = self.text("first_word")?.to_lowercase();
        Ok(Instruction::NthParagraphFirstWord { paragraphs, nth, first_word })
    }
}

fn wrong(argument: &'static str, message: &str) -> Wrong {
    Wrong { argument: Some(argument), message: message.to_owned() }
}
