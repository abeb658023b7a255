"""A session with the public client: handshake, list of tools, calls. Prints what came of it as JSON."""

import asyncio
import json
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


async def main():
    server = StdioServerParameters(command=sys.argv[1], args=["mcp", "--write"])
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        tools = [tool.name for tool in (await session.list_tools()).tools]

        async def call(name, arguments):
            result = await session.call_tool(name, arguments)
            return json.loads(result.content[0].text)

        found = await call("search", {"query": "otter", "mode": "words"})
        preview = await call("redrive_preview", {"run": "r1"})
        sent = await call("redrive_start", {"set": preview["set"]})
        wrong = await session.call_tool("runs", {"nonsense": 1})
        refused = wrong.is_error and json.loads(wrong.content[0].text)["error"]["code"]
        said = {"tools": tools, "hits": bool(found["hits"]), "previewed": preview["items"], "sent": sent["items"], "refused": refused}
        print(json.dumps(said))


asyncio.run(main())
