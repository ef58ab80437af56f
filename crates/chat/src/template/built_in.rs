//! Templates of our own, in the same language as the models' own ones, so that a trained model can be
//! saved with the template it was trained on.

use crate::tokenizer::TemplateSources;

/// The format of rStar2-Agent.
pub(super) fn rstar2() -> TemplateSources {
    sources("built-in template `rstar2`", include_str!("built_in/rstar2.jinja"))
}

/// Plain ChatML with tools.
pub(super) fn chatml() -> TemplateSources {
    sources("built-in template `chatml`", include_str!("built_in/chatml.jinja"))
}

fn sources(name: &str, text: &str) -> TemplateSources {
    TemplateSources { file: name.to_owned(), usual: Some(text.to_owned()), with_tools: None }
}
