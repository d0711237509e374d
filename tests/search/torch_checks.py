"""Run by an interpreter that has PyTorch: makes a small model and prints what the embedder does."""

import json
import sys
from pathlib import Path

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules as parts
from tokenizers import Tokenizer, normalizers, pre_tokenizers, processors
from tokenizers.models import WordPiece
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from assay.errors import AssayError
from assay.search.embedding import EmbedderSettings, open_embedder
from assay.search.torch_embedding import TorchEmbedder

WORDS = ["green", "tea", "is", "steeped", "in", "hot", "water", "coffee", "bread", "baked"]


def make_model(folder: Path) -> None:
    torch.manual_seed(7)
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "query", "passage", ":", *WORDS]
    vocabulary += [f"##{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"]
    vocabulary += list("abcdefghijklmnopqrstuvwxyz0123456789.,")
    places = {word: at for at, word in enumerate(vocabulary)}
    tokenizer = Tokenizer(WordPiece(places, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
    )
    bert = folder.parent / "bert"
    BertModel(config).save_pretrained(bert)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        model_max_length=64,
    ).save_pretrained(bert)
    body = parts.Transformer(str(bert), max_seq_length=64)
    pooling = parts.Pooling(body.get_embedding_dimension())
    SentenceTransformer(
        modules=[body, pooling, parts.Normalize()],
        prompts={"query": "query: ", "document": "passage: "},
    ).save(str(folder))


def texts() -> list[str]:
    random = np.random.default_rng(3)
    drawn = [" ".join(random.choice(WORDS, size=int(random.integers(0, 90)))) for _ in range(300)]
    return [*drawn, "", "Émile, 7.5 %", "a" * 500]


def main() -> None:
    folder = Path(sys.argv[1]) / "tiny model"
    make_model(folder)
    embedder = open_embedder(EmbedderSettings(f"st:{folder}", device="cpu"))
    assert isinstance(embedder, TorchEmbedder)
    theirs = SentenceTransformer(str(folder), device="cpu").encode(texts(), prompt="")
    try:
        refused = open_embedder(EmbedderSettings(f"st:{folder.parent / 'missing'}")).name
    except AssayError as error:
        refused = str(error)
    found = {
        "name": embedder.name,
        "prompts": [embedder.prompts.query, embedder.prompts.document],
        "max_tokens": embedder.max_tokens,
        "cosine": float((embedder.embed(texts()) * theirs).sum(1).min()),
        "none": embedder.embed([]).shape,
        "no_model": refused,
    }
    print(json.dumps(found))


main()
