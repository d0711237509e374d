"""A caller on a2a-sdk 0.3.26: python client03.py URL block|stream TEXT

Sends TEXT as one text part and prints every event that came, as a JSON list on stdout.
"""

# mypy: ignore-errors
# It imports names that the 1.x library of this environment no longer has.

import asyncio
import json
import sys

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.client.helpers import create_text_message_object


async def main(url, way, text):
    async with httpx.AsyncClient(timeout=60) as http:
        card = await A2ACardResolver(http, url).get_agent_card()
        config = ClientConfig(httpx_client=http, streaming=way == "stream")
        client = ClientFactory(config).create(card)
        events = []
        async for event in client.send_message(create_text_message_object(content=text)):
            parts = event if isinstance(event, tuple) else (event,)
            events += [part.model_dump(mode="json", by_alias=True) for part in parts if part]
    print(json.dumps(events))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
