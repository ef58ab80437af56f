"""Calls, right and perturbed, with the verdict of the published checker.

Usage: python bfcl.py CHECKOUT DATA COUNT > bfcl_cases.jsonl

CHECKOUT is a checkout of github ShishirPatil/gorilla, DATA a folder with `BFCL_v3_*.json` and
`possible_answer/`, COUNT how many perturbed answers are made of each question. The checker's module is
loaded with stand-ins for what it imports, none of which it uses for Python.
"""

import glob
import importlib.util
import json
import os
import random
import sys
import types
from enum import Enum


class Language(Enum):
    PYTHON = "python"
    JAVA = "java"
    JAVASCRIPT = "javascript"


class Names(dict):
    """Every model keeps the dots in names."""

    def __missing__(self, name):
        return types.SimpleNamespace(underscore_to_dot=False)


def published_checker(checkout):
    converters = "bfcl_eval.eval_checker.ast_eval.type_convertor"
    stand_ins = {
        "bfcl_eval.constants.enums": {"Language": Language},
        "bfcl_eval.constants.model_config": {"MODEL_CONFIG_MAPPING": Names()},
        "bfcl_eval.constants.type_mappings": {"JAVA_TYPE_CONVERSION": {}, "JS_TYPE_CONVERSION": {}},
        converters + ".java_type_converter": {"java_type_converter": None},
        converters + ".js_type_converter": {"js_type_converter": None},
    }
    for name, content in stand_ins.items():
        parts = name.split(".")
        for depth in range(1, len(parts)):
            package = ".".join(parts[:depth])
            sys.modules.setdefault(package, types.ModuleType(package))
        module = types.ModuleType(name)
        module.__dict__.update(content)
        sys.modules[name] = module
    path = "berkeley-function-call-leaderboard/bfcl_eval/eval_checker/ast_eval/ast_checker.py"
    spec = importlib.util.spec_from_file_location("ast_checker", os.path.join(checkout, path))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.ast_checker


def pick(alternative, draw):
    """A value of an alternative: keys of objects hold alternatives themselves."""
    if isinstance(alternative, dict):
        picked = {key: draw.choice(values) for key, values in alternative.items()}
        return {key: value for key, value in picked.items() if value != ""}
    if isinstance(alternative, list) and alternative and all(isinstance(x, dict) for x in alternative):
        return [pick(item, draw) for item in alternative]
    return alternative


def answer_calls(category, question, truth, draw):
    calls = []
    for answer in truth:
        ((name, parameters),) = answer.items()
        if category in ("simple", "live_simple"):
            name = question["function"][0]["name"]
        doc = next(doc for doc in question["function"] if doc["name"] == name)
        arguments = {}
        for parameter, alternatives in parameters.items():
            must = parameter in doc["parameters"].get("required", [])
            value = draw.choice(alternatives or [[]])
            if value != "" or must:
                arguments[parameter] = pick(value, draw)
        calls.append([name, arguments])
    return calls


ODD = [None, True, False, 0, 1, -3, 2.5, 1.0, "", "x", "1", [], ["x"], [1], [1.0], {}, {"a": 1}, [{}]]


def changed(value, draw):
    """A value that is like another: often wrong, sometimes only written otherwise."""
    kind = draw.randrange(6)
    if kind == 0:
        return draw.choice(ODD)
    if isinstance(value, bool):
        return draw.choice([not value, int(value), str(value)])
    if isinstance(value, (int, float)):
        return draw.choice([value + 1, float(value), str(value), int(value), [value]])
    if isinstance(value, str):
        forms = [value.upper(), value + ".", value.replace(" ", ""), value + " more", "'" + value + "'"]
        return draw.choice(forms + [[value]])
    if isinstance(value, list) and value:
        index = draw.randrange(len(value))
        edited = list(value)
        edited[index] = changed(value[index], draw)
        return draw.choice([edited, value[:-1], value[::-1], value + value[:1], value[0]])
    if isinstance(value, dict) and value:
        key = draw.choice(sorted(value))
        less = {k: v for k, v in value.items() if k != key}
        return draw.choice([{**value, key: changed(value[key], draw)}, less, {**value, "extra": 1}])
    return draw.choice(ODD)


def perturbed(calls, question, draw):
    calls = [[name, dict(arguments)] for name, arguments in calls]
    kind = draw.randrange(9)
    index = draw.randrange(len(calls))
    name, arguments = calls[index]
    if kind == 0:
        draw.shuffle(calls)
    elif kind == 1:
        calls.pop(index)
    elif kind == 2:
        calls.append(draw.choice(calls))
    elif kind == 3:
        names = [doc["name"] for doc in question["function"]] + [name + "s", name.upper()]
        calls[index][0] = draw.choice(names)
    elif kind == 4:
        arguments[draw.choice(["extra", "unit", "x"])] = draw.choice(ODD)
    elif kind == 5 and arguments:
        del arguments[draw.choice(sorted(arguments))]
    elif arguments:
        parameter = draw.choice(sorted(arguments))
        arguments[parameter] = changed(arguments[parameter], draw)
    return calls


def main(checkout, data, count):
    check = published_checker(checkout)

    def lines(path):
        with open(path) as file:
            return [json.loads(line) for line in file if line.strip()]

    for path in sorted(glob.glob(os.path.join(data, "possible_answer", "*.json"))):
        category = os.path.basename(path)[len("BFCL_v3_"):-len(".json")]
        questions = {row["id"]: row for row in lines(path.replace("possible_answer" + os.sep, ""))}
        for row in lines(path):
            question, truth = questions[row["id"]], row["ground_truth"]
            draw = random.Random(row["id"])
            for number in range(count):
                calls = answer_calls(category, question, truth, draw)
                if number > 0:
                    calls = perturbed(calls, question, draw)
                shown = [{name: arguments} for name, arguments in calls]
                try:
                    result = check(
                        question["function"], shown, truth, Language.PYTHON, category, "model"
                    )
                    valid = result["valid"]
                except (AttributeError, IndexError, KeyError, TypeError):
                    # The checker falls over values of an unexpected shape.
                    valid = False
                case = {"category": category, "id": row["id"], "calls": shown, "valid": valid}
                print(json.dumps(case))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
