"""Makes templates.json: what transformers renders for the templates of these tests.

Run in this folder with transformers 5.24 and jinja2 3.1.6: python templates.py
"""

import json
from pathlib import Path

from transformers.utils.chat_template_utils import _compile_jinja_template

HERE = Path(__file__).parent
SHIPPED = HERE / "../../src/template/built_in"
TESTED = HERE / "../text/templates"

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "run",
            "description": "Runs “code” <b>&'fast'</b>\n",
            "parameters": {
                "type": "object",
                "properties": {"z": {"type": "string"}, "a": {"type": "number", "default": 1e-7}},
                "required": ["z"],
            },
        },
    },
    {"type": "function", "function": {"name": "stop"}},
]


def call(name, arguments):
    return {"type": "function", "function": {"name": name, "arguments": arguments}}


ARGUMENTS = {"z": "a\"\\\n\t\u0001é語😀</tool_call>", "n": [1, -2.5, 1e22, 1e-5, 1.0, True, None], "o": {}}
CHAT = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "Hi  "},
    {"role": "assistant", "content": "Hello!\n"},
    {"role": "user", "content": "\n\nAgain\t"},
]
TOOL_CHAT = [
    {"role": "user", "content": "Sum?"},
    {"role": "assistant", "content": "I run.", "tool_calls": [call("run", ARGUMENTS), call("stop", {})]},
    {"role": "tool", "content": "3", "tool_call_id": "c1"},
    {"role": "tool", "content": "stopped", "name": "stop"},
    {"role": "assistant", "content": "", "tool_calls": [call("stop", {})]},
    {"role": "tool", "content": ""},
    {"role": "assistant", "content": "It is 3."},
]
THINKING = [
    {"role": "user", "content": "Q1"},
    {"role": "assistant", "content": "A1", "reasoning_content": "\nfirst\n"},
    {"role": "user", "content": "Q2"},
    {"role": "assistant", "content": "\nA2", "reasoning_content": "second", "tool_calls": [call("stop", {})]},
    {"role": "tool", "content": "ok"},
    {"role": "assistant", "content": "<think>\nthird\n</think>\n\nA3"},
]
OPENED = [
    {"role": "user", "content": "Q1"},
    {"role": "assistant", "content": "<reason>so</reason><answer>\\boxed{4}</answer>"},
    {"role": "user", "content": "Q2"},
    {"role": "assistant", "content": "more</reason>"},
]

# Small templates, one for each way in which jinja2 under transformers is particular.
QUIRKS = {
    "python text of values": "{{ true }} {{ none }} {{ 1.0 }} {{ 1e16 }} {{ 1e-5 }} {{ 7 }} {{ ['a', \"it's\", 2.5, none] }} {{ {'k': false} }}",
    "undefined is empty": "[{{ nothing }}][{{ messages[0].nothing }}]{% if nothing %}x{% endif %}",
    "blocks are trimmed": "  {% if true %}\n  a\n  {% endif %}\nb\n{# c #}\nd\n",
    "a block that keeps its space": "x\n  {%+ if true %}y{% endif +%}\nz\n",
    "last line end is dropped": "a\n\n",
    "methods of text": "{{ ' a b '.strip() }}|{{ 'xxaxx'.lstrip('x') }}|{{ 'a,b,c'.split(',')[-1] }}|{{ 'abc'.startswith('ab') }}|{{ 'aXbX'.replace('X', '-') }}|{{ 'one two'.title() }}|{{ 'é'.upper() }}",
    "methods of objects": "{% for key, value in messages[0].items() %}{{ key }}={{ value }};{% endfor %}{{ messages[0].get('role') }}{{ messages[0].get('x', 'y') }}",
    "slices and membership": "{{ messages[1:] | length }}{{ messages[::-1][0].role }}{{ 'content'[2:5] }}{{ 'er' in 'user' }}{{ 'role' in messages[0] }}",
    "namespace": "{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}",
    "loop controls": "{% for m in messages %}{% if loop.index == 2 %}{% continue %}{% endif %}{% if loop.index == 4 %}{% break %}{% endif %}{{ m.role }} {% endfor %}",
    "generation": "{% for m in messages %}{% generation %}{{ m.role }}\n{% endgeneration %}{% endfor %}.{%- generation -%} x {%- endgeneration -%}",
    "json": "{{ messages | tojson }}\n{{ {'b': 'é<&>\\'', 'a': [1, 2.0]} | tojson(indent=2) }}\n{{ {'b': 1, 'a': 'é'} | tojson(sort_keys=true, ensure_ascii=true, separators=(',', ':')) }}\n{{ [] | tojson(indent=4) }}",
    "tests": "{{ 'x' is string }}{{ {} is mapping }}{{ [] is iterable }}{{ none is iterable }}{{ 'x' is iterable }}{{ 1 is iterable }}{{ {} is iterable }}{{ x is iterable }}{{ tools is iterable and tools | length > 0 }}{{ 'x' is sequence }}{{ {} is sequence }}{{ 1 is sequence }}{{ [] is sequence }}{{ x is sequence }}{{ none is sequence }}{{ none is none }}{{ x is defined }}{{ 1 is number }}{{ false is false }}",
    "filters": "{{ [1, 2] | join(', ') }}{{ '  a ' | trim }}{{ messages | map(attribute='role') | join('/') }}{{ messages | selectattr('role', 'equalto', 'user') | list | length }}{{ x | default('d') }}{{ 'abc' | length }}{{ messages | last }}",
    "concatenation": "{{ 'n' ~ 1 ~ 'm' }}{{ 'a' + 'b' }}{{ 'x' * 3 }}",
    "macro with default": "{% macro m(a, b='z') %}{{ a }}{{ b }}{% endmacro %}{{ m('x') }}{{ m('x', b='y') }}",
    "conditional expression": "{{ 'a' if messages else 'b' }}{{ 'c' if false }}",
}


def render(source, **arguments):
    template = _compile_jinja_template(source)
    return template.render(documents=None, bos_token="<s>", eos_token="</s>", **arguments)


def cases():
    for name, source in QUIRKS.items():
        yield name, None, source, {"messages": CHAT, "tools": None, "add_generation_prompt": False}
    files = [SHIPPED / "rstar2.jinja", SHIPPED / "chatml.jinja", *sorted(TESTED.glob("*.jinja"))]
    for path in files:
        conversations = {"chat": (CHAT, None), "tool": (TOOL_CHAT, TOOLS), "thinking": (THINKING, TOOLS), "opened": (OPENED, None)}
        if path.stem == "other":
            conversations = {"strict": (CHAT[1:], None)}
        for name, (messages, tools) in conversations.items():
            for prompt in (False, True):
                arguments = {"messages": messages, "tools": tools, "add_generation_prompt": prompt}
                yield f"{path.stem} {name} {prompt}", path, path.read_text(), arguments


def main():
    out = []
    for name, path, source, arguments in cases():
        case = {"name": name, **arguments, "expected": render(source, **arguments)}
        case["source"] = f"{path.stem}.jinja" if path else source
        out.append(case)
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in out)
    (HERE / "templates.json").write_text(f"[\n{lines}\n]\n")


main()
