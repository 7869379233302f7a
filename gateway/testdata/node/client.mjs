// Asks models through the official packages: for every line in a line out, in
// whatever order. In: {"id":…,"api":…,"url":…,"stream":…}, the URL being the
// package's base URL. Out: {"id":…,"text":…} or {"id":…,"error":…}.
import { createInterface } from "node:readline";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";

const messages = [{ role: "user", content: "hi" }];

function chat(options) {
  const client = new OpenAI(options);
  return {
    async plain() {
      const answer = await client.chat.completions.create({ model: "m", messages });
      return answer.choices[0].message.content;
    },
    async *stream() {
      for await (const chunk of await client.chat.completions.create({ model: "m", messages, stream: true })) {
        yield [chunk.choices[0]?.delta?.content, chunk.choices[0]?.finish_reason === "stop"];
      }
    },
  };
}

function responses(options) {
  const client = new OpenAI(options);
  return {
    async plain() {
      const answer = await client.responses.create({ model: "m", input: "hi" });
      return answer.output_text;
    },
    async *stream() {
      for await (const event of await client.responses.create({ model: "m", input: "hi", stream: true })) {
        yield [event.type === "response.output_text.delta" ? event.delta : "", event.type === "response.completed"];
      }
    },
  };
}

function anthropic(options) {
  const client = new Anthropic(options);
  const question = { model: "m", max_tokens: 9, messages };
  return {
    async plain() {
      const answer = await client.messages.create(question);
      return answer.content[0].text;
    },
    async *stream() {
      for await (const event of await client.messages.create({ ...question, stream: true })) {
        yield [event.type === "content_block_delta" ? event.delta.text : "", event.type === "message_stop"];
      }
    },
  };
}

async function whole(stream) {
  let text = "";
  let finished = false;
  for await (const [piece, end] of stream) {
    text += piece ?? "";
    finished ||= end;
  }
  if (!finished) throw new Error("the stream ended without an end");
  return text;
}

async function answer({ id, api, url, stream }) {
  try {
    const client = { chat, responses, anthropic }[api]({ baseURL: url, apiKey: "of the client" });
    return { id, text: await (stream ? whole(client.stream()) : client.plain()) };
  } catch (error) {
    return { id, error: String(error) };
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  answer(JSON.parse(line)).then((said) => process.stdout.write(JSON.stringify(said) + "\n"));
}
