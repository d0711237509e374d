"""Starts a public MCP server with counted words in place of its embedding model, a download.

python mcp_without_model.py qdrant|chroma [ARGUMENT...], with the server's folder in PYTHONPATH.
"""

# mypy: ignore-errors
# It imports packages that are not in this environment.

import sys
import zlib

SIZE = 64


def vector(text):
    counts = [0.01] * SIZE
    for word in text.lower().split():
        counts[zlib.crc32(word.strip(".,").encode()) % SIZE] += 1.0
    return counts


def qdrant():
    from mcp_server_qdrant.embeddings import factory
    from mcp_server_qdrant.embeddings.base import EmbeddingProvider

    class Words(EmbeddingProvider):
        async def embed_documents(self, documents):
            return [vector(each) for each in documents]

        async def embed_query(self, query):
            return vector(query)

        def get_vector_name(self):
            return "words"

        def get_vector_size(self):
            return SIZE

    factory.create_embedding_provider = lambda settings: Words()
    from mcp_server_qdrant.main import main

    main()


def chroma():
    import numpy
    from chromadb.utils.embedding_functions import ONNXMiniLM_L6_V2

    def embed(self, input):
        return [numpy.array(vector(each), dtype=numpy.float32) for each in input]

    ONNXMiniLM_L6_V2.__call__ = embed
    from chroma_mcp.server import main

    main()


if __name__ == "__main__":
    server = {"qdrant": qdrant, "chroma": chroma}[sys.argv.pop(1)]
    server()
