//! What a tiny model practises on: tasks that need a tool, and demonstrations of its use.
