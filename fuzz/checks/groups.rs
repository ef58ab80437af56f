//! What must hold for any bytes that claim to be a group of episodes: one that is taken for good
//! hangs together, and is written as it was read.
//!
//! Shared by the fuzz target `groups` and by ordinary tests.

use rocstar_record::episode::Group;

/// Panics where a group passes its check and does not hang together.
pub(crate) fn check(data: &[u8]) {
    let Ok(group) = serde_json::from_slice::<Group>(data) else { return };
    if let Err(misfit) = group.check() {
        assert!(!misfit.to_string().is_empty());
        return;
    }
    for (episode, _) in group.episodes() {
        let mask = episode.loss_mask();
        assert_eq!(mask.len(), episode.tokens.len());
        let trained = mask.iter().filter(|is_trained| **is_trained).count();
        assert_eq!(trained, episode.log_probs.len());
        assert!(trained <= episode.response_tokens());
        assert!(episode.response_tokens() <= episode.tokens.len());
    }
    let written = serde_json::to_vec(&group).expect("what was read can be written");
    let again: Group = serde_json::from_slice(&written).expect("what was written can be read");
    assert_eq!(again, group);
}
