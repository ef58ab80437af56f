"""Writes verl.parquet: two rows in the layout of verl's data sets."""

import pyarrow as pa
import pyarrow.parquet as pq

rows = [
    {
        "data_source": "math",
        "prompt": [{"role": "user", "content": problem}],
        "ability": "math",
        "reward_model": {"style": "rule", "ground_truth": answer},
        "extra_info": {"index": index, "split": "train"},
    }
    for index, (problem, answer) in enumerate([("What is 6 · 7?", "42"), ("What is 2 · 2?", "4")])
]
pq.write_table(pa.Table.from_pylist(rows), "verl.parquet", compression="zstd")
