//! The vocabulary of a run, once it is saved.
//!
//! Invariant: a file is read once, whether it can be read or not, until another one is there.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rocstar_record::run::Reader;

use super::FileMark;
use crate::vocabulary::Vocabulary;

/// What was read last.
#[derive(Debug, Default)]
pub(super) struct Words {
    /// Which file.
    read: Option<(PathBuf, FileMark)>,
    vocabulary: Arc<Vocabulary>,
    notice: Option<String>,
}

impl Words {
    /// Looks for another file than was read last.
    pub(super) fn read_on(&mut self, reader: &Reader) {
        let found = saved(reader).and_then(|path| Some((path.clone(), FileMark::of(&path)?)));
        if found == self.read {
            return;
        }
        *self = Self { read: found, ..Self::default() };
        let Some((path, _)) = &self.read else { return };
        match Vocabulary::read(path) {
            Ok(vocabulary) => self.vocabulary = Arc::new(vocabulary),
            Err(error) => self.notice = Some(error.to_string()),
        }
    }

    /// The vocabulary; an empty one where there is none.
    pub(super) fn vocabulary(&self) -> Arc<Vocabulary> {
        Arc::clone(&self.vocabulary)
    }

    /// Why a vocabulary that was saved can't be read.
    pub(super) fn notice(&self) -> Option<&str> {
        self.notice.as_deref()
    }
}

/// The file that was saved at the start, or with the newest weights. A folder that is a link is none.
fn saved(reader: &Reader) -> Option<PathBuf> {
    let is_folder = |path: &Path| std::fs::symlink_metadata(path).is_ok_and(|it| it.is_dir());
    let steps = reader.checkpoint_steps().unwrap_or_default();
    let saved = steps.iter().rev().map(|step| reader.checkpoint(*step));
    std::iter::once(reader.tokenizer())
        .chain(saved)
        .filter(|folder| is_folder(folder) && folder.parent().is_some_and(is_folder))
        .map(|folder| folder.join("tokenizer.json"))
        .find(|path| std::fs::symlink_metadata(path).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_file_is_told_and_another_one_read() {
        let run = tempfile::tempdir().unwrap();
        std::fs::write(run.path().join("config.toml"), "").unwrap();
        let reader = Reader::open(run.path()).unwrap();
        let mut words = Words::default();
        words.read_on(&reader);
        assert!(words.vocabulary().is_empty() && words.notice().is_none());
        let path = run.path().join("tokenizer/tokenizer.json");
        std::fs::create_dir(run.path().join("tokenizer")).unwrap();
        std::fs::write(&path, "{").unwrap();
        words.read_on(&reader);
        assert!(words.vocabulary().is_empty());
        assert!(words.notice().is_some_and(|it| it.contains("tokenizer.json")), "{words:?}");
        std::fs::write(&path, r#"{"model":{"vocab":{"a":0}}}"#).unwrap();
        words.read_on(&reader);
        assert_eq!((words.vocabulary().text(&[0]).as_str(), words.notice()), ("a", None));
    }
}
