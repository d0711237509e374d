"""The embedding model of agent-assay: `model.onnx` and `tokenizer.json` beside this file."""
