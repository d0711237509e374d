// A text agent on @a2a-js/sdk: node stranger_js.mjs FOLDER
//
// FOLDER is where the library is installed. It prints the port that it listens on.

import { createServer } from "node:http";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [folder] = process.argv.slice(2);
const require = createRequire(pathToFileURL(`${folder}/`));
const { AgentCard, Message } = require("@a2a-js/sdk");
const {
  AgentEvent, DefaultRequestHandler, InMemoryTaskStore, JsonRpcTransportHandler, ServerCallContext,
} = require("@a2a-js/sdk/server");

const executor = {
  async execute(context, bus) {
    const asked = Message.toJSON(context.userMessage).parts.map((part) => part.text).join(" ");
    const text = `For ${asked} read [note-7] and then [note-2].`;
    const message = { messageId: crypto.randomUUID(), role: "ROLE_AGENT", parts: [{ text }] };
    bus.publish(AgentEvent.message(Message.fromJSON(message)));
    bus.finished();
  },
  async cancelTask() {},
};

const server = createServer(async (request, response) => {
  const url = `http://127.0.0.1:${server.address().port}/`;
  const card = {
    name: "JavaScript stranger", description: "answers in words", version: "0.1",
    capabilities: { streaming: false }, defaultInputModes: ["text/plain"],
    defaultOutputModes: ["text/plain"], skills: [],
    supportedInterfaces: [{ url, protocolBinding: "JSONRPC", protocolVersion: "1.0" }],
  };
  response.setHeader("Content-Type", "application/json");
  if (request.method === "GET") {
    response.statusCode = request.url === "/.well-known/agent-card.json" ? 200 : 404;
    response.end(JSON.stringify(card));
    return;
  }
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const store = new InMemoryTaskStore();
  const handler = new DefaultRequestHandler(AgentCard.fromJSON(card), store, executor);
  const transport = new JsonRpcTransportHandler(handler);
  const call = new ServerCallContext({ requestedVersion: "1.0" });
  const answer = await transport.handle(JSON.parse(Buffer.concat(chunks).toString()), call);
  response.end(JSON.stringify(answer));
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
