"""Write docs/images/report.png, the picture of the README: the report of a run on `notes`.

    .venv/bin/python scripts/readme_picture.py    # needs Chromium; ASSAY_CHROMIUM names another

Run it again after a change of the report page.
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

import assay

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "report.png"
WIDTH, HEIGHT = 1280, 820


def main() -> None:
    """Evaluate the reference retriever, open its page, and take the picture of its first screen."""
    browser_path = os.environ.get("ASSAY_CHROMIUM") or shutil.which("chromium")
    if browser_path is None:
        sys.exit("no Chromium found; install it, or name it in ASSAY_CHROMIUM")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        run = assay.evaluate("builtin:hybrid", "notes", baseline="builtin:bm25", out=folder)
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        page.goto(run.folder.page_file.as_uri())
        PICTURE.parent.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=PICTURE)
        browser.close()
    print(f"wrote {PICTURE}")


if __name__ == "__main__":
    main()
