import pytest

from assay.net.redact import redact_credentials, redact_places, redact_url


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("/srv/private/index is damaged", "index is damaged"),
        ("/srv/data/corpus.jsonl:12: no '_id'", "corpus.jsonl:12: no '_id'"),
        ("'/srv/my data/corpus' has no corpus.jsonl", "'corpus' has no corpus.jsonl"),
        ("cannot read ~/.cache/assay/model.onnx: gone", "cannot read model.onnx: gone"),
        (r"C:\Users\jane\index is damaged", "index is damaged"),
        ("the index in /srv/private/ is damaged", "the index in ... is damaged"),
        (
            "Qdrant at 'http://key@10.0.0.3:6333/x?api_key=1' does not answer",
            "Qdrant at a URL from its settings does not answer",
        ),
        ("10.0.0.3:6333 refused", "a URL from its settings refused"),
        ("set --dataset to a BEIR folder or zip", "set --dataset to a BEIR folder or zip"),
        ("split 'test' has no judgments", "split 'test' has no judgments"),
    ],
)
def test_folders_and_addresses_are_left_out_and_the_rest_is_not(
    sentence: str, expected: str
) -> None:
    assert redact_places(sentence) == expected


def test_an_address_within_an_address_has_no_credentials_either() -> None:
    assert redact_url("https://proxy/https://user:secret@host/x") == "https://proxy/https://host/x"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mcp:http://me:pw@host/x failed", "mcp:http://***@host/x failed"),
        ("http://a:b@c and https://d@e:1/f?g@h", "http://***@c and https://***@e:1/f?g@h"),
        ("ask me@example.org", "ask me@example.org"),
    ],
)
def test_credentials_in_urls_are_left_out(text: str, expected: str) -> None:
    assert redact_credentials(text) == expected
