import pytest

from assay.net.redact import mask_secrets, quote, redact_credentials, redact_known, redact_places


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("/srv/private/index is damaged", "index is damaged"),
        ("/srv/data/corpus.jsonl:12: no '_id'", "corpus.jsonl:12: no '_id'"),
        ("'/srv/my data/corpus' has no corpus.jsonl", "'corpus' has no corpus.jsonl"),
        ("cannot read ~/.cache/assay/model.onnx: gone", "cannot read model.onnx: gone"),
        (r"C:\Users\jane\index is damaged", "index is damaged"),
        ("the index in /srv/private/ is damaged", "the index in ... is damaged"),
        ("'http://key@10.0.0.3:6333/x?api_key=1' is away", "a URL from its settings is away"),
        ("10.0.0.3:6333 refused", "a URL from its settings refused"),
        ("set --dataset to a BEIR folder or zip", "set --dataset to a BEIR folder or zip"),
        ("split 'test' has no judgments", "split 'test' has no judgments"),
    ],
)
def test_only_folders_and_addresses_are_left_out(sentence: str, expected: str) -> None:
    assert redact_places(sentence) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("http://a:b@c and https://d@e:1/f?g@h", "http://***@c and https://***@e:1/f?g@h"),
        ("ask me@example.org", "ask me@example.org"),
    ],
)
def test_credentials_in_urls_are_left_out(text: str, expected: str) -> None:
    assert redact_credentials(text) == expected


@pytest.mark.parametrize("said", ["wrong key a/b+cdef", "GET /x?api_key=a%2Fb%2Bcdef&x=1"])
def test_a_secret_of_a_target_is_hidden_as_it_was_given_and_as_it_arrives(said: str) -> None:
    mask_secrets("rest:http://host/x?api_key=a%2Fb%2Bcdef")
    hidden = redact_known(said)
    assert "***" in hidden
    assert "cdef" not in hidden


@pytest.mark.parametrize(
    "name", ["AGENT_TOKEN", "MCP_SERVER_TOKEN", "ASSAY_EMBEDDER_KEY", "OPENAI_API_KEY"]
)
def test_a_repeated_token_is_hidden(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "hunter2 hunter2")
    monkeypatch.setenv("MODE_KEY", "off")
    monkeypatch.setenv("PWD", "/home/ann/work")  # no password
    assert quote(b'{"error": "unknown token hunter2 hunter2 in /home/ann/work, now off"}') == (
        "unknown token *** in /home/ann/work, now off"
    )
