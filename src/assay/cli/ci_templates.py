"""The files that `assay init` writes: assay.toml, and jobs for GitHub Actions and GitLab CI.

Words between `@` are replaced. A test runs what the jobs say in a sample project.
"""

from collections.abc import Mapping

SETTINGS = """\
# Defaults of `assay` in this folder: flags and variables win. All options: assay eval --help
dataset = @DATASET@  # @DATASET_IS@

[eval]
target = "app"
# A run must answer nearly all questions. Once you know your figures, add one: "ndcg@5>=0.60"
gate = ["success_rate>=0.99"]

[target.app]  # assay eval app
target = @TARGET@  # @TARGET_IS@
"""

_EVALUATE = """\
assay doctor app
assay eval app --compare-to @BRANCH@ --allow-first-run \\
  --junit assay-junit.xml --html assay.html --markdown @SUMMARY@
"""

GITHUB = """\
# Measures the target `app` of assay.toml on every pull request. Written by `assay init`.
name: assay
on:
  push:
    branches: [@BRANCH@]
  pull_request:
permissions:
  contents: read
jobs:
  assay:
    runs-on: ubuntu-latest
    timeout-minutes: 30
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with:
          python-version: "@PYTHON@"
      - run: @INSTALL@
      # The runs of @BRANCH@, which pull requests are compared with.
      - uses: actions/cache@v4
        with:
          path: runs
          key: assay-${{ github.ref_name }}-${{ github.run_id }}
          restore-keys: assay-@BRANCH@-
@START@      - name: Evaluate
        run: |
@EVALUATE@
      - uses: actions/upload-artifact@v4
        if: always()
        with:
          name: assay
          path: |
            assay.html
            assay-junit.xml
"""

GITLAB = """\
# Measures the target `app` of assay.toml on every merge request. Written by `assay init`.
assay:
  image: python:@PYTHON@
  timeout: 30 minutes
  rules:
    - if: $CI_PIPELINE_SOURCE == "merge_request_event"
    - if: $CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH
  # The runs of @BRANCH@, which merge requests are compared with.
  cache:
    key: assay-$CI_COMMIT_REF_SLUG
    fallback_keys: [assay-@BRANCH@]
    paths: [runs/]
  script:
    - @INSTALL@
@START@    - |
@EVALUATE@
  artifacts:
    when: always
    paths: [assay.html, assay.md]
    reports:
      junit: assay-junit.xml
"""

_START = {
    "github": """\
      # `app` is a service: start it here, in the background, and let it take its time.
      # - run: python server.py &
""",
    "gitlab": """\
    # `app` is a service: start it here, in the background, and let it take its time.
    # - python server.py &
""",
}


def fill(template: str, values: Mapping[str, str]) -> str:
    """The template with its words replaced."""
    for name, value in values.items():
        template = template.replace(f"@{name}@", value)
    return template


def render_ci(system: str, *, branch: str, python: str, install: str, service: bool) -> str:
    """The job for `github` or `gitlab`.

    Parameters:
        system: which of them.
        branch: the branch that others are compared with.
        python: the version of Python, such as 3.12.
        install: the command that installs Assay and the project.
        service: whether the target is a service that the job has to start.
    """
    summary = '"$GITHUB_STEP_SUMMARY"' if system == "github" else "assay.md"
    margin = " " * (10 if system == "github" else 6)
    script = fill(_EVALUATE, {"BRANCH": branch, "SUMMARY": summary})
    values = {
        "BRANCH": branch,
        "PYTHON": python,
        "INSTALL": install,
        "START": _START[system] if service else "",
        "EVALUATE": "\n".join(margin + line for line in script.splitlines()),
    }
    return fill(GITHUB if system == "github" else GITLAB, values)
