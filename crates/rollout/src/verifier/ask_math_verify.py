# Asks Math-Verify whether an answer is the gold one.
#
# Standard input: JSON with `gold`, `answer`, `precision`, `strict`, `allow_set_relation_comp`.
# Output: one JSON line with `opinion` and `why`. An exception of Math-Verify ends the program: its
# own "False on any error" is not taken for a verdict. Time is the sandbox's to keep, so its
# signals are off.
import json
import logging
import sys

logging.disable(logging.CRITICAL)
try:
    from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse, verify
except ImportError as error:
    print(json.dumps({"opinion": "absent", "why": str(error)}))
    sys.exit(0)

question = json.load(sys.stdin)


def read(text):
    kinds = [LatexExtractionConfig(), ExprExtractionConfig()]
    boxed = "\\boxed{" + text + "}"
    return parse(
        boxed, kinds, fallback_mode="no_fallback", parsing_timeout=None, raise_on_error=True
    )


def opinion():
    gold, answer = read(question["gold"]), read(question["answer"])
    for name, found in (("gold", gold), ("answer", answer)):
        if not found:
            return "undecided", f"the {name} side can't be read"
    same = verify(
        gold,
        answer,
        float_rounding=question["precision"],
        strict=question["strict"],
        allow_set_relation_comp=question["allow_set_relation_comp"],
        timeout_seconds=None,
        raise_on_error=True,
    )
    return ("right", "equal") if same else ("wrong", "not equal")


said, why = opinion()
print(json.dumps({"opinion": said, "why": why}))
