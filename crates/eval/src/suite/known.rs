//! The suites that have a name: what each is, where its data comes from, where it is looked for.
//!
//! Revisions are commits of the hub's data sets, so that a name always means the same bytes. Sums
//! stand where they could be confirmed from more than one public source.

use std::path::{Path, PathBuf};

use super::{DataPlaces, Prompt, Scorer, SuiteError};
use crate::bfcl::Category;

/// A suite with a name.
#[derive(Debug)]
pub struct Known {
    /// What it is called.
    pub name: &'static str,
    /// What it asks, in a line.
    pub summary: &'static str,
    /// What its answers are scored by.
    pub scorer: Scorer,
    /// How its problems are worded unless something else is asked for.
    pub prompt: Prompt,
    /// Problems that it has.
    pub problems: usize,
    /// The licence of its data.
    pub licence: &'static str,
    /// What its data holds.
    pub data: Data,
    /// Where the data comes from; `None` where it is made up.
    pub hub: Option<HubData>,
    /// Names of single files that hold the same problems as lines of `problem` and `answer`, and so
    /// on, looked for in a folder itself.
    own_files: &'static [&'static str],
}

/// What a suite's data holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Data {
    /// Problems with values.
    Problems,
    /// Questions with choices.
    Choices,
    /// Prompts with instructions.
    Instructions,
    /// Questions with functions and calls; parts are categories.
    Calls,
    /// Prompts with the answers of another model.
    Compared,
    /// Nothing: problems are drawn.
    MadeUp,
}

/// A data set of the hub.
#[derive(Debug, Clone, Copy)]
pub struct HubData {
    /// `owner/name`.
    pub dataset: &'static str,
    /// The commit.
    pub revision: &'static str,
    /// Whether its conditions must be accepted on its page first.
    pub is_gated: bool,
    /// Its files that are needed.
    pub files: &'static [HubFile],
}

/// A file of a data set.
#[derive(Debug, Clone, Copy)]
pub struct HubFile {
    /// Its path there.
    pub path: &'static str,
    /// SHA-256, in hexadecimal, where it is known for certain.
    pub sha256: Option<&'static str>,
}

const fn file(path: &'static str) -> HubFile {
    HubFile { path, sha256: None }
}

const fn summed(path: &'static str, sha256: &'static str) -> HubFile {
    HubFile { path, sha256: Some(sha256) }
}

/// All suites with names, in the order in which they are listed.
pub static KNOWN: [Known; 10] = [
    Known {
        name: "gsm8k",
        summary: "grade-school word problems with an integer as answer",
        scorer: Scorer::Math,
        prompt: Prompt::Boxed,
        problems: 1_319,
        licence: "MIT",
        data: Data::Problems,
        hub: Some(HubData {
            dataset: "openai/gsm8k",
            revision: "740312add88f781978c0658806c59bc2815b9866",
            is_gated: false,
            files: &[summed(
                "main/test-00000-of-00001.parquet",
                "ee7b8da9e381df27b9e3f7758a159ab2bdaa4dbaa910546cbbc47e0cb44e4f59",
            )],
        }),
        own_files: &["gsm8k_test.jsonl", "gsm8k.jsonl"],
    },
    Known {
        name: "math500",
        summary: "500 competition problems of the MATH test set",
        scorer: Scorer::Math,
        prompt: Prompt::Boxed,
        problems: 500,
        licence: "MIT (MATH)",
        data: Data::Problems,
        hub: Some(HubData {
            dataset: "HuggingFaceH4/MATH-500",
            revision: "6e4ed1a2a79af7d8630a6b768ec859cb5af4d3be",
            is_gated: false,
            files: &[summed(
                "test.jsonl",
                "35dc41080a3680858b27fa7e0533d2d547825316fc5dafe5d316f4ccc5a06132",
            )],
        }),
        own_files: &["math500.jsonl"],
    },
    Known {
        name: "aime24",
        summary: "both American Invitational Mathematics Examinations of 2024",
        scorer: Scorer::Math,
        prompt: Prompt::Boxed,
        problems: 30,
        licence: "not stated",
        data: Data::Problems,
        hub: Some(HubData {
            dataset: "HuggingFaceH4/aime_2024",
            revision: "2fe88a2f1091d5048c0f36abc874fb997b3dd99a",
            is_gated: false,
            files: &[file("data/train-00000-of-00001.parquet")],
        }),
        own_files: &["aime24.jsonl"],
    },
    Known {
        name: "aime25",
        summary: "both American Invitational Mathematics Examinations of 2025",
        scorer: Scorer::Math,
        prompt: Prompt::Boxed,
        problems: 30,
        licence: "MIT",
        data: Data::Problems,
        hub: Some(HubData {
            dataset: "opencompass/AIME2025",
            revision: "a6ad95f611d72cf628a80b58bd0432ef6638f958",
            is_gated: false,
            files: &[file("aime2025-I.jsonl"), file("aime2025-II.jsonl")],
        }),
        own_files: &["aime25.jsonl"],
    },
    Known {
        name: "hmmt25",
        summary: "the Harvard-MIT Mathematics Tournament of February 2025",
        scorer: Scorer::Math,
        prompt: Prompt::Boxed,
        problems: 30,
        licence: "CC-BY-NC-SA-4.0",
        data: Data::Problems,
        hub: Some(HubData {
            dataset: "MathArena/hmmt_feb_2025",
            revision: "6fdc4277120810ff75aa22d2d5489b91f7a262a1",
            is_gated: false,
            files: &[file("data/train-00000-of-00001.parquet")],
        }),
        own_files: &["hmmt25_feb.jsonl", "hmmt25.jsonl"],
    },
    Known {
        name: "gpqa-diamond",
        summary: "graduate questions of physics, chemistry and biology, four choices each",
        scorer: Scorer::Choice,
        prompt: Prompt::Boxed,
        problems: 198,
        licence: "CC-BY-4.0, not to be shown in plain text online",
        data: Data::Choices,
        hub: Some(HubData {
            dataset: "Idavidrein/gpqa",
            revision: "633f5ee89ab8ad4522a9f850766b73f62147ffdd",
            is_gated: true,
            files: &[file("gpqa_diamond.csv")],
        }),
        own_files: &["gpqa_diamond.csv", "gpqa_diamond.jsonl"],
    },
    Known {
        name: "ifeval",
        summary: "prompts with instructions that a program can check",
        scorer: Scorer::Instructions,
        prompt: Prompt::Plain,
        problems: 541,
        licence: "Apache-2.0",
        data: Data::Instructions,
        hub: Some(HubData {
            dataset: "google/IFEval",
            revision: "966cd89545d6b6acfd7638bc708b98261ca58e84",
            is_gated: false,
            files: &[file("ifeval_input_data.jsonl")],
        }),
        own_files: &["ifeval_input.jsonl", "ifeval_input_data.jsonl", "ifeval.jsonl"],
    },
    Known {
        name: "bfcl-v3",
        summary: "calls of functions, the categories that are compared and not run",
        scorer: Scorer::Calls,
        prompt: Prompt::Plain,
        problems: 3_491,
        licence: "Apache-2.0",
        data: Data::Calls,
        hub: Some(HubData {
            dataset: "gorilla-llm/Berkeley-Function-Calling-Leaderboard",
            revision: "61fc0608cfd831fcfbbaa676ebdfef0ed963eeda",
            is_gated: false,
            files: &[
                file("BFCL_v3_simple.json"),
                file("BFCL_v3_multiple.json"),
                file("BFCL_v3_parallel.json"),
                file("BFCL_v3_parallel_multiple.json"),
                file("BFCL_v3_irrelevance.json"),
                file("BFCL_v3_live_simple.json"),
                file("BFCL_v3_live_multiple.json"),
                file("BFCL_v3_live_parallel.json"),
                file("BFCL_v3_live_parallel_multiple.json"),
                file("BFCL_v3_live_irrelevance.json"),
                file("BFCL_v3_live_relevance.json"),
                file("possible_answer/BFCL_v3_simple.json"),
                file("possible_answer/BFCL_v3_multiple.json"),
                file("possible_answer/BFCL_v3_parallel.json"),
                file("possible_answer/BFCL_v3_parallel_multiple.json"),
                file("possible_answer/BFCL_v3_live_simple.json"),
                file("possible_answer/BFCL_v3_live_multiple.json"),
                file("possible_answer/BFCL_v3_live_parallel.json"),
                file("possible_answer/BFCL_v3_live_parallel_multiple.json"),
            ],
        }),
        own_files: &[],
    },
    Known {
        name: "arena-hard",
        summary: "hard prompts of users, compared with another model's answers by a judge",
        scorer: Scorer::Judge,
        prompt: Prompt::Plain,
        problems: 500,
        licence: "Apache-2.0",
        data: Data::Compared,
        hub: Some(HubData {
            dataset: "lmarena-ai/arena-hard-auto",
            revision: "15f3746e21432264ce9b453999bde4f3c946d2e6",
            is_gated: false,
            files: &[
                file("data/arena-hard-v0.1/question.jsonl"),
                file("data/arena-hard-v0.1/model_answer/gpt-4-0314.jsonl"),
                file("data/arena-hard-v2.0/question.jsonl"),
                file("data/arena-hard-v2.0/model_answer/o3-mini-2025-01-31.jsonl"),
                file("data/arena-hard-v2.0/model_answer/gemini-2.0-flash-001.jsonl"),
            ],
        }),
        own_files: &[],
    },
    Known {
        name: "practice",
        summary: "problems like those of the quickstart, held out from it; `practice/N` for N of them",
        scorer: Scorer::Math,
        prompt: Prompt::Plain,
        problems: super::practice::PROBLEMS,
        licence: "Apache-2.0",
        data: Data::MadeUp,
        hub: None,
        own_files: &[],
    },
];

impl Known {
    /// The suite of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        KNOWN.iter().find(|known| known.name == name)
    }

    /// The suite that `name_or_path` names, or names a part of. A file is one's own, also in a folder
    /// that is called like a suite.
    pub fn of(name_or_path: &str) -> Option<&'static Self> {
        let (name, has_part) = match name_or_path.split_once('/') {
            Some((name, _)) => (name, true),
            None => (name_or_path, false),
        };
        Self::named(name).filter(|_| !has_part || !Path::new(name_or_path).is_file())
    }

    /// The name that is most like `text`, if any is alike; in any case and with any separators.
    pub fn nearest(text: &str) -> Option<&'static str> {
        let plain = |text: &str| text.to_lowercase().replace(['_', ' ', '.'], "-");
        let text = plain(text);
        let likeness = |known: &Self| {
            let alike = strsim::normalized_damerau_levenshtein(&text, known.name);
            // A longer or shorter name of the same thing: `bfcl`, `gsm8k-test`.
            let begins = text.starts_with(known.name) || known.name.starts_with(&text);
            if begins && text.len() > 2 { alike.max(0.7) } else { alike }
        };
        let alike = KNOWN.iter().map(|known| (likeness(known), known.name));
        let best = alike.max_by(|left, right| left.0.total_cmp(&right.0));
        best.filter(|(likeness, _)| *likeness > 0.6).map(|(_, name)| name)
    }

    /// Names of its parts, where it has some.
    pub fn parts(&self) -> Vec<&'static str> {
        match self.data {
            Data::Calls => Category::ALL.map(Category::name).to_vec(),
            Data::Problems | Data::Choices | Data::Instructions | Data::Compared | Data::MadeUp => {
                Vec::new()
            }
        }
    }

    /// The folder of a fetched copy within a folder of data.
    pub const fn folder(&self) -> &'static str {
        self.name
    }

    /// The files that it is read from: of the first folder that has all of them, one's own single
    /// file before the hub's.
    ///
    /// # Errors
    /// The data is in none of the folders; the error lists what was looked for.
    pub(super) fn find(&self, places: &DataPlaces) -> Result<Found, SuiteError> {
        let mut looked_for = Vec::new();
        for folder in &places.folders {
            for own in self.own_files {
                let path = folder.join(own);
                if path.is_file() {
                    return Ok(Found { paths: vec![path], folder: None });
                }
                looked_for.push(path);
            }
            let Some(hub) = &self.hub else { continue };
            let fetched = folder.join(self.folder());
            let paths: Vec<PathBuf> =
                hub.files.iter().map(|file| fetched.join(file.path)).collect();
            if paths.iter().all(|path| path.is_file()) {
                return Ok(Found { paths, folder: Some(fetched) });
            }
            looked_for.push(fetched);
        }
        Err(SuiteError::Missing { name: self.name.to_owned(), looked_for })
    }
}

/// Where a suite's data is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Where {
    /// It needs none.
    MadeUp,
    /// Here.
    Here {
        /// The file, or the folder.
        path: PathBuf,
        /// Of a suite with parts or versions: those that are here.
        parts: Vec<&'static str>,
    },
    /// In none of the folders.
    Nowhere,
}

impl Known {
    /// Where its data is.
    pub fn place(&self, places: &DataPlaces) -> Where {
        let all: Vec<(&'static str, PathBuf)> = match self.data {
            Data::MadeUp => return Where::MadeUp,
            Data::Problems | Data::Choices | Data::Instructions => {
                let found = self.find(places).ok();
                let path = found.and_then(|found| match found.folder {
                    Some(folder) => Some(folder),
                    None => found.paths.into_iter().next(),
                });
                return path.map_or(Where::Nowhere, |path| Where::Here { path, parts: Vec::new() });
            }
            Data::Calls => super::bfcl::parts_here(self, places),
            Data::Compared => super::arena_hard::versions_here(self, places),
        };
        let parts = all.iter().map(|(part, _)| *part).collect();
        match all.into_iter().next() {
            Some((_, path)) => Where::Here { path, parts },
            None => Where::Nowhere,
        }
    }
}

/// Files of a suite.
#[derive(Debug)]
pub(super) struct Found {
    /// In the order in which they are read.
    pub(super) paths: Vec<PathBuf>,
    /// The fetched folder that they are in.
    pub(super) folder: Option<PathBuf>,
}
