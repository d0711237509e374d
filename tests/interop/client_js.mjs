// A caller on @a2a-js/sdk: node client_js.mjs FOLDER URL block|stream TEXT
//
// FOLDER is where the library is installed. Sends TEXT as one text part and prints every event
// that came, as a JSON list on stdout.

import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [folder, url, way, text] = process.argv.slice(2);
const require = createRequire(pathToFileURL(`${folder}/`));
const { ClientFactory } = require("@a2a-js/sdk/client");
const { SendMessageRequest, StreamResponse, Task } = require("@a2a-js/sdk");

const client = await new ClientFactory().createFromUrl(url);
const request = SendMessageRequest.fromJSON({
  message: { messageId: crypto.randomUUID(), role: "ROLE_USER", parts: [{ text }] },
});
const events = [];
if (way === "stream") {
  for await (const event of client.sendMessageStream(request)) {
    events.push(StreamResponse.toJSON(event));
  }
} else {
  events.push({ task: Task.toJSON(await client.sendMessage(request)) });
}
console.log(JSON.stringify(events));
