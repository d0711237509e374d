"""`command:PROGRAM ARGUMENTS`: a local program as a model, prompt on stdin, reply on stdout."""

import asyncio
import shlex

from assay.llm.providers.provider import Completion


class Command:
    def __init__(self, command):
        self.command = shlex.split(command)
        self.name = self.identity = f"command:{command}"

    async def complete(self, prompt, max_tokens):
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*self.command, stdin=pipe, stdout=pipe)
        reply, _ = await process.communicate(prompt.encode())
        return Completion(reply.decode().strip())

    async def close(self):
        """There is nothing to close."""
