// Asks a model through the official openai package: a line in, a line out.
// In: "plain" or "stream". Out: {"text":…} or {"error":…}.
import { createInterface } from "node:readline";
import OpenAI from "openai";

const client = new OpenAI({ baseURL: process.argv[2], apiKey: "of the client" });
const question = { model: "m", messages: [{ role: "user", content: "hi" }] };

async function plain() {
  const answer = await client.chat.completions.create(question);
  return answer.choices[0].message.content;
}

async function stream() {
  let text = "";
  let finished = false;
  for await (const chunk of await client.chat.completions.create({ ...question, stream: true })) {
    text += chunk.choices[0]?.delta?.content ?? "";
    finished ||= Boolean(chunk.choices[0]?.finish_reason);
  }
  if (!finished) throw new Error("the stream ended without an end");
  return text;
}

for await (const line of createInterface({ input: process.stdin })) {
  let answer;
  try {
    answer = { text: await (line === "stream" ? stream() : plain()) };
  } catch (error) {
    answer = { error: String(error) };
  }
  process.stdout.write(JSON.stringify(answer) + "\n");
}
