"""Drives a server through OpenAI's own client and checks what comes back.

Usage: client.py http://127.0.0.1:PORT/v1

The model on the other end answers every chat with some text and a call of the tool `add`.
"""

import json
import sys

import openai

client = openai.OpenAI(base_url=sys.argv[1], api_key="none", max_retries=0)
MODEL = client.models.list().data[0].id
MESSAGES = [{"role": "user", "content": "Hello"}]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "add",
            "description": "Adds two numbers",
            "parameters": {
                "type": "object",
                "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            },
        },
    }
]


def models():
    assert client.models.retrieve(MODEL).id == MODEL


def chat():
    answer = client.chat.completions.create(
        model=MODEL, messages=MESSAGES, temperature=0, n=2, logprobs=True, top_logprobs=2, seed=1
    )
    assert [choice.index for choice in answer.choices] == [0, 1]
    for choice in answer.choices:
        assert choice.message.role == "assistant"
        assert choice.message.content.startswith("Let me see. ")
        assert choice.finish_reason == "stop"
        assert len(choice.logprobs.content[0].top_logprobs) == 2
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert answer.usage.prompt_tokens_details.cached_tokens >= 0


def tools():
    answer = client.chat.completions.create(
        model=MODEL, messages=MESSAGES, tools=TOOLS, temperature=0
    )
    choice = answer.choices[0]
    assert choice.finish_reason == "tool_calls", choice
    (call,) = choice.message.tool_calls
    assert call.function.name == "add"
    assert json.loads(call.function.arguments) == {"a": 1, "b": 2}
    follow_up = [
        *MESSAGES,
        choice.message,
        {"role": "tool", "tool_call_id": call.id, "content": "3"},
    ]
    client.chat.completions.create(model=MODEL, messages=follow_up, tools=TOOLS, temperature=0)


def streaming():
    with client.chat.completions.stream(
        model=MODEL,
        messages=MESSAGES,
        tools=TOOLS,
        temperature=0,
        stream_options={"include_usage": True},
    ) as stream:
        for _ in stream:
            pass
        final = stream.get_final_completion()
    message = final.choices[0].message
    assert message.content == "Let me see.", message
    assert message.tool_calls[0].function.name == "add"
    assert final.choices[0].finish_reason == "tool_calls"
    assert final.usage.completion_tokens > 0


def completions():
    answer = client.completions.create(
        model=MODEL,
        prompt=[[72, 101], [72]],
        max_tokens=4,
        logprobs=1,
        seed=3,
        extra_body={"return_token_ids": True},
    )
    assert len(answer.choices) == 2
    for choice in answer.choices:
        assert len(choice.token_ids) == len(choice.logprobs.tokens)
        assert len(choice.rocstar["sampling_logprobs"]) == len(choice.token_ids)
    pieces = list(client.completions.create(model=MODEL, prompt="He", stream=True, max_tokens=4))
    assert pieces[-1].choices[0].finish_reason in ("stop", "length")


def errors():
    for arguments, kind in [
        ({"model": "other"}, openai.NotFoundError),
        ({"temperature": -1}, openai.BadRequestError),
        ({"response_format": {"type": "json_object"}}, openai.BadRequestError),
    ]:
        try:
            client.chat.completions.create(**{"model": MODEL, "messages": MESSAGES, **arguments})
        except kind as error:
            assert error.param == next(iter(arguments)), error
        else:
            raise AssertionError(f"{arguments} was accepted")


for check in (models, chat, tools, streaming, completions, errors):
    check()
    print("ok", check.__name__)
