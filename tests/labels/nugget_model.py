"""A model for nuggets that reads its prompt: it copies facts, labels and supports by rules."""

import json
import re

DOCUMENT = re.compile(r"Document (\d+):\n<document \w+>\n(.*?)\n</document", re.DOTALL)
FACT = re.compile(r"Fact \d+:\n<fact \w+>\n(.*?)\n</fact", re.DOTALL)


def reply(prompt: str) -> str:
    """Every sentence with "tea" or "coffee" is a fact; one with a number is vital."""
    if prompt.startswith("Collect the facts"):
        return json.dumps({"facts": list(_facts(prompt))})
    if prompt.startswith("Decide for each of"):
        facts = FACT.findall(prompt)
        return json.dumps(["vital" if re.search(r"\d", each) else "okay" for each in facts])
    return "TRUE"


def _facts(prompt: str):  # type: ignore[no-untyped-def]
    for place, text in DOCUMENT.findall(prompt):
        for sentence in re.split(r"(?<=\.)\s+", text.partition("\n")[2]):
            if re.search("tea|coffee", sentence, re.IGNORECASE):
                yield {"text": sentence, "document": int(place), "quote": sentence}
