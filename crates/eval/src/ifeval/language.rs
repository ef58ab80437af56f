//! Which language a text is in.
//!
//! Trigrams and scripts decide (the `whatlang` crate), among the languages that the published
//! checker's detector knows; but first function words do for English, which trigrams miss in texts
//! of few words, and for Swahili, which `whatlang` does not know. Invariant: the case of letters
//! doesn't matter.

use whatlang::{Detector, Lang, Script};

use super::{Finding, words};

/// A language that a response can be asked in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Language {
    code: &'static str,
}

/// What was seen of a text's language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Detected {
    /// ISO 639-1 code.
    Language(&'static str),
    /// No letters.
    Unclear,
}

const SWAHILI: &str = "sw";

/// Codes as the published data write them, with the detector's name.
const LANGUAGES: [(&str, Lang); 51] = [
    ("af", Lang::Afr),
    ("ar", Lang::Ara),
    ("bg", Lang::Bul),
    ("bn", Lang::Ben),
    ("ca", Lang::Cat),
    ("cs", Lang::Ces),
    ("cy", Lang::Cym),
    ("da", Lang::Dan),
    ("de", Lang::Deu),
    ("el", Lang::Ell),
    ("en", Lang::Eng),
    ("es", Lang::Spa),
    ("et", Lang::Est),
    ("fa", Lang::Pes),
    ("fi", Lang::Fin),
    ("fr", Lang::Fra),
    ("gu", Lang::Guj),
    ("he", Lang::Heb),
    ("hi", Lang::Hin),
    ("hr", Lang::Hrv),
    ("hu", Lang::Hun),
    ("id", Lang::Ind),
    ("it", Lang::Ita),
    ("ja", Lang::Jpn),
    ("kn", Lang::Kan),
    ("ko", Lang::Kor),
    ("lt", Lang::Lit),
    ("lv", Lang::Lav),
    ("mk", Lang::Mkd),
    ("ml", Lang::Mal),
    ("mr", Lang::Mar),
    ("ne", Lang::Nep),
    ("nl", Lang::Nld),
    ("no", Lang::Nob),
    ("pa", Lang::Pan),
    ("pl", Lang::Pol),
    ("pt", Lang::Por),
    ("ro", Lang::Ron),
    ("ru", Lang::Rus),
    ("sk", Lang::Slk),
    ("sl", Lang::Slv),
    ("sv", Lang::Swe),
    ("ta", Lang::Tam),
    ("te", Lang::Tel),
    ("th", Lang::Tha),
    ("tl", Lang::Tgl),
    ("tr", Lang::Tur),
    ("uk", Lang::Ukr),
    ("ur", Lang::Urd),
    ("vi", Lang::Vie),
    ("zh", Lang::Cmn),
];

/// Frequent words that no other language of the list has among its frequent ones.
const ENGLISH_WORDS: [&str; 43] = [
    "the", "of", "and", "to", "that", "for", "it", "with", "are", "this", "by", "from", "or",
    "not", "have", "you", "your", "we", "they", "his", "her", "its", "can", "my", "our", "their",
    "there", "which", "these", "has", "been", "would", "should", "could", "when", "what", "how",
    "who", "about", "yes", "here", "more", "all",
];
const SWAHILI_WORDS: [&str; 42] = [
    "na", "ya", "wa", "kwa", "ni", "katika", "cha", "vya", "kama", "pia", "hii", "hiyo", "huo",
    "yake", "wake", "kuwa", "sana", "lakini", "ili", "watu", "mimi", "wewe", "yeye", "sisi", "wao",
    "hayo", "yao", "yangu", "yako", "wako", "kila", "bila", "baada", "kwenye", "hivyo", "huu",
    "hizi", "hizo", "wangu", "yetu", "wetu", "ndiyo",
];
/// Share of a text's words that must be function words. Running text has 0.3 to 0.5 of them.
const ENOUGH: f64 = 0.15;

impl Language {
    /// The language of an ISO 639-1 code; none where it can't be told from others here.
    pub fn from_code(code: &str) -> Option<Self> {
        let code = if code.starts_with("zh-") { "zh" } else { code };
        let codes = LANGUAGES.iter().map(|(known, _)| *known).chain([SWAHILI]);
        codes.into_iter().find(|known| *known == code).map(|code| Self { code })
    }

    /// Its ISO 639-1 code.
    pub fn code(self) -> &'static str {
        self.code
    }

    /// The text is in this language. One without letters speaks against none.
    pub(super) fn check(self, text: &str) -> Finding {
        match detect(text) {
            Detected::Language(code) => {
                let message = format!("language `{code}`, `{}` asked", self.code);
                Finding::new(code == self.code, message)
            }
            Detected::Unclear => Finding::new(true, "in no language that shows"),
        }
    }
}

/// The one language that the text is in, or mostly in.
pub(super) fn detect(text: &str) -> Detected {
    let text = text.to_lowercase();
    let detector = Detector::with_allowlist(LANGUAGES.iter().map(|(_, lang)| *lang).collect());
    // Without letters there is nothing to tell from.
    let Some(found) = detector.detect(&text) else { return Detected::Unclear };
    if found.script() == Script::Latin
        && let Some(code) = by_function_words(&text, found.is_reliable())
    {
        return Detected::Language(code);
    }
    let known = LANGUAGES.iter().find(|(_, known)| *known == found.lang());
    // A script of one language that is not on the list: still a language.
    Detected::Language(known.map_or_else(|| found.lang().code(), |(code, _)| code))
}

/// English or Swahili by their function words; any English one will do where trigrams are in doubt.
fn by_function_words(text: &str, trigrams_are_sure: bool) -> Option<&'static str> {
    let all: Vec<&str> = text.split(|it| !words::is_word(it)).filter(|it| !it.is_empty()).collect();
    let share = |list: &[&str]| {
        all.iter().filter(|word| list.contains(word)).count() as f64 / all.len().max(1) as f64
    };
    let (english, swahili) = (share(&ENGLISH_WORDS), share(&SWAHILI_WORDS));
    if english.max(swahili) >= ENOUGH {
        return Some(if english >= swahili { "en" } else { SWAHILI });
    }
    (english > 0.0 && !trigrams_are_sure).then_some("en")
}
