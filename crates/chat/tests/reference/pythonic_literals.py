"""Writes pythonic_literals.json: Python literals and the JSON values that Python itself gives them.

A case without a value is refused: Python refuses it, or its value is none of JSON's (a tuple, a
set, bytes, a complex number, a key that is no string, an integer beyond 64 bits). A float is given as
text, so that reading it back can be exact.

    python3 crates/chat/tests/reference/pythonic_literals.py
"""

import ast
import json
import math
import pathlib
import warnings

LITERALS = [
    # Strings: quotes, prefixes, escapes.
    '"x"', "'x'", '""', "''", '"""x"""', "'''x'''", '""""""', "''''''", '"\'"', "'\"'",
    '"""a "b" \'c\' ""d"""', "'''a\nb'''", '"""a\r\nb\rc"""', '"a\nb"', "'a\rb'",
    r'"\\"', r'"\""', r"'\''", r'"\a\b\f\n\r\t\v"', r'"\0"', r'"\1\12\123\1234\400"', r'"\8"',
    r'"\x41"', r'"\x4"', r'"\xg1"', r'"\u00e9"', r'"\u00E"', r'"\U0001F600"', r'"\U00110000"',
    r'"\ud83d\ude00"', r'"\d\.\("', '"a\\\nb"', '"a\\\r\nb"', r'r"\n\d"', r"R'\'x'", r'r"\"',
    r'r"""a\"""', r'u"\u0041"', 'U"x"', '"é😀"', '"a', "'a", '"""a"', '"a\\',
    r'"\""', '"#"', '"]"', "'\t'", '"\x00"', '"\x07"',
    'b"x"', 'f"x"', 'f"{x}"', 'rb"x"', 'ru"x"', '"a" "b"',
    # Numbers.
    "0", "00", "0_0", "01", "1", "-1", "+1", "1_000", "1__0", "_1", "1_", "0x1F", "0X_1f", "0x", "0o17",
    "0b101", "0b2", "-0xff", "1.", ".5", ".", "1.5", "-1.5e-3", "1e9", "1E+9", "1e", "1_0.0_1e1_0",
    "01.5", "01e1", "1._5", "1.5_", "0.1", "1e22", "1e23", "123456789.123456789", "5e-324", "2.5e-400",
    "1.7976931348623157e308", "1e309", "9007199254740993.0",
    "18446744073709551615", "18446744073709551616", "-9223372036854775808", "-9223372036854775809",
    "0xFFFFFFFFFFFFFFFF", "0x1FFFFFFFFFFFFFFFF", "1j", "1+2j", "1+1", "- 1", "--1", "1e5.5", "0x1.8",
    "1if", "0xg", "1e+", "-0", "-0.0", "1.e5",
    # Words.
    "True", "False", "None", "true", "null", "nan", "inf", "x", "x.y", "True.x", "not True", "é",
    # Containers.
    "[]", "[ ]", "[1]", "[1,]", "[,]", "[1,,2]", "[1 2]", "[1, [2, [3]]]", "[\n1,\n2\n]", "[1", "[1)",
    "{}", "{ }", '{"a": 1}', '{"a": 1,}', '{"a": {"b": []}}', '{"a" : 1 , "b":2}', "{'a'}", '{1: 2}',
    '{None: 1}', '{"a": 1', '{"a"}', '{"a": }', '{"a" 1}', "()", "(1)", "(1,)", "(1, 2)", "[(1)]",
    "{**{}}", "[*[]]", "[x for x in []]", "[1 # one\n]", "f()", "[f()]", '"a".x', '"a"[0]', "lambda: 1",
    "...", "", " 1", "1 ",
]


def meaning(literal):
    """How the case says what the literal means."""
    try:
        [keyword] = ast.parse(f"f(a={literal}\n)", mode="eval").body.keywords
        value = ast.literal_eval(keyword.value)
    except (SyntaxError, ValueError):
        return {}
    if isinstance(value, float):
        return {"float": repr(value)} if is_json(value) else {}
    return {"value": value} if is_json(value) else {}


def is_json(value):
    match value:
        case bool() | None:
            return True
        case str():
            return not any(0xD800 <= ord(c) < 0xE000 for c in value)
        case int():
            return -(2**63) <= value < 2**64
        case float():
            return math.isfinite(value)
        case list():
            return all(map(is_json, value))
        case dict():
            return all(isinstance(key, str) for key in value) and all(map(is_json, value.values()))
        case _:
            return False


# What Python reads and we refuse on purpose.
REFUSED = ['"a" "b"', "- 1", "--1", "(1)", "[(1)]", "[1 # one\n]"]

warnings.simplefilter("ignore")  # Python warns of unknown escapes.
cases = []
for literal in LITERALS:
    cases.append({"literal": literal} | ({} if literal in REFUSED else meaning(literal)))
path = pathlib.Path(__file__).with_suffix(".json")
lines = ",\n".join(json.dumps(case) for case in cases)
path.write_text(f"[\n{lines}\n]\n")
print(f"{len(cases)} cases, {sum(len(case) > 1 for case in cases)} with a value")
