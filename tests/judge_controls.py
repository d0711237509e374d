"""What a judge of the tests replies to the self-test of a criterion, so that it is believed."""

import re

_CONTROL = re.compile(r'Respond (\S+) if the answer has the word "(\w+)", and (\S+) if not')


def control_reply(prompt: str) -> str | None:
    """The right level; None if the prompt is not a self-test."""
    control = _CONTROL.search(prompt)
    if control is None:
        return None
    (answer,) = re.findall(r"<answer \w+>\n(.*?)\n</answer", prompt, re.DOTALL)
    return control[1] if control[2] in answer else control[3]
