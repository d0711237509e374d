import pytest

from assay.net.redact import (
    mask_secrets,
    quote,
    redact_credentials,
    redact_places,
    redact_secrets,
    redact_url,
    remove_secrets,
)


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


@pytest.mark.parametrize(
    "said",
    [
        "wrong password for user:p%40ss/word",
        "wrong password: p@ss/word",
        "wrong password: p%40ss%2Fword",
        "got Basic dXNlcjpwQHNzL3dvcmQ=",
        "key=a/b+cdef&x=1",
        "key=a%2Fb%2Bcdef",
    ],
)
def test_a_secret_is_hidden_in_every_form_in_which_it_travels(said: str) -> None:
    target = mask_secrets("rest:http://user:p%40ss%2Fword@host/x?api_key=a%2Fb%2Bcdef")
    hidden = remove_secrets(said.replace("%40ss/", "%40ss%2F"), [target])
    for secret in ("p@ss", "p%40ss", "dXNlcjp", "a/b", "a%2Fb"):
        assert secret not in hidden
    assert "***" in hidden


@pytest.mark.parametrize(
    "name", ["AGENT_TOKEN", "MCP_SERVER_TOKEN", "ASSAY_EMBEDDER_KEY", "OPENAI_API_KEY"]
)
def test_a_token_that_an_agent_repeats_is_in_no_quote(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "hunter2 hunter2")
    monkeypatch.setenv("MODE_KEY", "off")
    assert quote(b'{"error": "unknown token hunter2 hunter2, switched off"}') == (
        "unknown token ***, switched off"
    )
    assert quote("sent as aHVudGVyMiBodW50ZXIy") == "sent as ***"


@pytest.mark.parametrize(
    "key",
    [
        "sk-proj-0123456789ab",
        "ghp_0123456789abcdefghij",
        "xoxb-0123456789",
        "AKIA0123456789ABCD",
        "github_pat_0123456789abcdefghij",
        "glpat-0123456789abcdef",
        "hf_0123456789abcdefghij",
        "AIza0123456789abcdefghijklmnopqrstu",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln",
        "Bearer tok_1",
    ],
)
def test_a_key_of_a_known_form_is_in_no_target_and_in_no_quote(key: str) -> None:
    target = mask_secrets(f"rest:http://h/search?q={key}")
    assert key.removeprefix("Bearer ") not in target
    assert quote(f"refused {key} today") == "refused *** today"
    assert redact_secrets(f"refused {key} today") == "refused *** today"


def test_a_password_in_an_address_is_in_no_quote() -> None:
    assert quote("cannot reach https://user:pw@db/x") == "cannot reach https://***@db/x"


@pytest.mark.parametrize("words", ["api-version", "key_prefix", "api_gateway.example", "pk_column"])
def test_a_word_without_a_digit_is_no_key(words: str) -> None:
    assert quote(f"missing query parameter: {words}") == f"missing query parameter: {words}"
