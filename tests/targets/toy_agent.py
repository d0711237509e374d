"""An agent of a kind that only a test knows."""

from assay.targets.protocol import AgentAnswer, AgentInfo
from assay.targets.target_kinds import OpenContext, Target


class ToyAgent:
    """Answers with its own address."""

    def __init__(self, address: str, track: str = "undeclared") -> None:
        self.info = AgentInfo(name=f"toy:{address}", protocol="toy", track=track)
        self._address = address

    @classmethod
    def from_target(cls, target: Target, context: OpenContext) -> "ToyAgent":
        return cls(target.address, context.track)

    async def open(self) -> None:
        pass

    async def ask(self, query: str, top_k: int) -> AgentAnswer:
        return AgentAnswer((self._address,)[:top_k])

    async def close(self) -> None:
        pass
