//! What must hold for any bytes that arrive as a request of the native API.
//!
//! Shared by the fuzz target `request` and by the replay of its corpus in an ordinary test.

use rocstar_jail::{
    Kind, Limits, MAX_FILES, MAX_PROGRAM_BYTES, Request, ResolvedLimits, inside_private_directory,
};

/// Panics where a request that was accepted could do harm, or is not what was sent.
pub(crate) fn check(data: &[u8]) {
    let Ok(request) = serde_json::from_slice::<Request>(data) else { return };
    let written = serde_json::to_vec(&request).expect("a request can be written");
    let read: Request = serde_json::from_slice(&written).expect("what was written can be read");
    assert_eq!(request, read, "a request survives writing and reading");
    Kind::of_program(&request.program);
    limits_stay_in_bounds(&request.limits);
    match request.validate() {
        Ok(()) => accepted(&request),
        Err(invalid) => assert!(!invalid.field.is_empty(), "a refusal names its field"),
    }
}

fn accepted(request: &Request) {
    assert!(request.program.len() <= MAX_PROGRAM_BYTES);
    assert!(!request.program.contains('\0'));
    assert!(request.argv.iter().all(|argument| !argument.contains('\0')));
    assert!(request.files.len() <= MAX_FILES && request.fetch.len() <= MAX_FILES);
    let paths = request.files.iter().map(|file| &file.path).chain(&request.fetch);
    for path in paths {
        let inside = inside_private_directory(path).expect("an accepted path is inside");
        assert!(!inside.starts_with('/') && !inside.contains('\0'), "{inside:?}");
        assert!(inside.split('/').all(|part| !matches!(part, "" | "." | "..")), "{inside:?}");
        assert_eq!(inside_private_directory(&inside).as_ref(), Ok(&inside), "the path is settled");
    }
}

fn limits_stay_in_bounds(limits: &Limits) {
    let maximum = ResolvedLimits::MAXIMUM;
    match limits.resolve(&ResolvedLimits::default(), &maximum) {
        Ok(resolved) => {
            for (value, most) in [
                (resolved.wall_ms, maximum.wall_ms),
                (resolved.cpu_ms, maximum.cpu_ms),
                (resolved.memory_bytes, maximum.memory_bytes),
                (resolved.processes, maximum.processes),
                (resolved.file_bytes, maximum.file_bytes),
                (resolved.tmp_bytes, maximum.tmp_bytes),
                (resolved.output_bytes, maximum.output_bytes),
                (resolved.kept_bytes, maximum.kept_bytes),
            ] {
                assert!((1..=most).contains(&value), "{value} is not in 1..={most}");
            }
        }
        Err(invalid) => assert!(invalid.field.starts_with("limits."), "{}", invalid.field),
    }
}
