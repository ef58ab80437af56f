"""What TensorBoard itself reads from a folder of event files: tag -> [[step, value], ...], as JSON.

The folder is the only argument. TensorBoard's own rules apply: files in the order of their names,
what a later session says supersedes, records are checked against their checksums."""

import json
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0})
events.Reload()
scalars = {
    tag: [[event.step, event.value] for event in events.Scalars(tag)]
    for tag in events.Tags()["scalars"]
}
print(json.dumps({"version": events.file_version, "scalars": scalars}, sort_keys=True))
