"""The reference retriever: embed, index in Qdrant, search by words and meaning, fuse, learn."""
