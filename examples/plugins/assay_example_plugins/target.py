"""`files:FOLDER` searches the text files of a folder, one document each."""

from pathlib import Path

from assay.targets.python_call import as_agent


def open_files(folder, context):
    texts = {path.stem: path.read_text(encoding="utf-8") for path in Path(folder).glob("*.txt")}

    def search(query, top_k):
        wanted = set(query.lower().split())
        shared = {name: len(wanted & set(text.lower().split())) for name, text in texts.items()}
        best = sorted((name for name in shared if shared[name]), key=lambda name: -shared[name])
        answer = texts[best[0]].partition("\n")[2].strip() if best else "I do not know."
        return {"doc_ids": best[:top_k], "answer": answer, "citations": best[:1]}

    return as_agent(search, name=f"files:{folder}")
