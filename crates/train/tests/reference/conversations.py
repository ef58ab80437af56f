"""Writes conversations.parquet and conversations_as_text.parquet with pyarrow, as data sets hold them:
messages as lists of structures (whose absent fields are null), and messages as JSON texts.

    python conversations.py
"""

import json
import pathlib

import pyarrow as pa
import pyarrow.parquet as pq

HERE = pathlib.Path(__file__).parent
TOOL = {
    "type": "function",
    "function": {
        "name": "python",
        "description": "Runs Python",
        "parameters": {"type": "object", "properties": {"code": {"type": "string"}}},
    },
}
CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "python", "arguments": json.dumps({"code": "print(6 * 7)"})},
}
ROWS = [
    [
        {"role": "user", "content": "What is 6 · 7?"},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "content": "42\n", "tool_call_id": "call_1", "name": "python"},
        {"role": "assistant", "content": "42"},
    ],
    [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Say hello"},
        {"role": "assistant", "content": "Hello"},
    ],
]
CALL_TYPE = pa.struct(
    [
        ("id", pa.string()),
        ("type", pa.string()),
        ("function", pa.struct([("name", pa.string()), ("arguments", pa.string())])),
    ]
)
MESSAGE_TYPE = pa.struct(
    [
        ("role", pa.string()),
        ("content", pa.string()),
        ("tool_calls", pa.list_(CALL_TYPE)),
        ("tool_call_id", pa.string()),
        ("name", pa.string()),
    ]
)
TOOLS = [json.dumps([TOOL]), None]


def write(name, messages, **options):
    columns = {
        "id": pa.array(range(len(ROWS)), pa.int64()),
        "seen": pa.array([0, 1], pa.timestamp("us")),
        "messages": messages,
        "tools": pa.array(TOOLS, pa.string()),
    }
    pq.write_table(pa.table(columns), HERE / name, write_page_index=False, **options)


write("conversations.parquet", pa.array(ROWS, pa.list_(MESSAGE_TYPE)), compression="snappy")
texts = pa.array([json.dumps(row) for row in ROWS], pa.string())
write("conversations_as_text.parquet", texts, compression="zstd")
