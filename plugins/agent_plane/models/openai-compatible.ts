/** The protocol of chat completions, as many model servers speak it: one request, one answer, no streaming. */
import {
  type Completion,
  EffectError,
  type HttpAnswer,
  type HttpCall,
  type Message,
  type ModelProvider,
  type ModelRequest,
  type ModelToolCall,
} from 'svcdb/agents'

const SECOND = 1000
const MILLION = 1_000_000
const MAX_SHOWN = 300
/** About what models take, and what they say where nobody bounds it. */
const CHARACTERS_PER_TOKEN = 3
const USUAL_OUTPUT = 1024
/** Worth another attempt. */
const AGAIN = new Set([408, 409, 425, 429])

export interface OpenAiOptions {
  /** Such as `https://api.example/v1`. */
  baseUrl: string
  /** Undefined = none is sent. */
  key(): string | undefined
  /** Minor units of a currency for a million tokens. */
  inputPrice: number
  outputPrice: number
  now(): number
  http(call: HttpCall): Promise<HttpAnswer>
}

interface Answered {
  choices?: {
    message?: { content?: string | null; tool_calls?: { id?: string; function?: { name?: string; arguments?: string } }[] }
    finish_reason?: string
  }[]
  usage?: { prompt_tokens?: number; completion_tokens?: number }
  error?: { message?: string }
}

export function openAiCompatible({ baseUrl, key, inputPrice, outputPrice, now, http }: OpenAiOptions): ModelProvider {
  const url = `${baseUrl.replace(/\/+$/, '')}/chat/completions`
  const price = (input: number, output: number): number => Math.ceil((input * inputPrice + output * outputPrice) / MILLION)
  return {
    estimate(request) {
      const input = Math.ceil(JSON.stringify(bodyOf(request)).length / CHARACTERS_PER_TOKEN)
      const output = request.maxTokens ?? USUAL_OUTPUT
      return { tokens: input + output, minor_units: price(input, output) }
    },
    async complete(request, call) {
      const secret = key()
      const headers = { 'content-type': 'application/json', ...(secret === undefined ? {} : { authorization: `Bearer ${secret}` }) }
      const answer = await http({ method: 'POST', url, headers, body: JSON.stringify(bodyOf(request)) })
      if (answer.status !== 200) throw refusal(answer, now())
      const parsed = parse(answer.body)
      const { prompt_tokens: input = 0, completion_tokens: output = 0 } = parsed.usage ?? {}
      call.spend({ tokens: whole(input) + whole(output), minor_units: price(whole(input), whole(output)) })
      return completionOf(parsed, request, { input_tokens: whole(input), output_tokens: whole(output) })
    },
  }
}

function whole(count: unknown): number {
  return Number.isSafeInteger(count) && (count as number) >= 0 ? (count as number) : 0
}

/** Names of functions have no slashes. */
function nameOf(ref: string): string {
  return ref.replace('tool://', '').replace('/', '__')
}

function bodyOf({ model, messages, tools, output, maxTokens, temperature }: ModelRequest): object {
  return {
    model,
    messages: messages.map(messageOf),
    stream: false,
    ...(tools.length === 0
      ? {}
      : { tools: tools.map(({ ref, description, parameters }) => ({ type: 'function', function: { name: nameOf(ref), description, parameters } })) }),
    ...(output === undefined ? {} : { response_format: { type: 'json_schema', json_schema: { name: 'answer', schema: output } } }),
    ...(maxTokens === undefined ? {} : { max_tokens: maxTokens }),
    ...(temperature === undefined ? {} : { temperature }),
  }
}

function messageOf(message: Message): object {
  if (message.role !== 'assistant' || message.tool_calls === undefined) return message
  const calls = message.tool_calls.map(({ id, tool, arguments: args }) => ({
    id,
    type: 'function',
    function: { name: nameOf(tool), arguments: JSON.stringify(args) },
  }))
  return { role: message.role, content: message.content, tool_calls: calls }
}

function unusable(why: string): EffectError {
  return new EffectError(`the answer of the model cannot be used: ${why}`, { disposition: 'did_not_happen' })
}

function parse(body: string): Answered {
  try {
    return JSON.parse(body) as Answered
  } catch (error) {
    throw unusable((error as Error).message)
  }
}

function completionOf({ choices }: Answered, { tools }: ModelRequest, usage: Completion['usage']): Completion {
  const choice = choices?.[0]
  if (choice?.message === undefined) throw unusable('it has no message')
  const refs = new Map(tools.map(({ ref }) => [nameOf(ref), ref]))
  const calls = (choice.message.tool_calls ?? []).map((call, i): ModelToolCall => {
    const name = call.function?.name ?? ''
    let args: unknown
    try {
      args = JSON.parse(call.function?.arguments || '{}')
    } catch (error) {
      throw unusable(`the arguments of "${name.slice(0, 128)}" are no JSON: ${(error as Error).message}`)
    }
    // A tool that was not offered is refused when it is called, and the model is told.
    return { id: call.id ?? `call_${i + 1}`, tool: refs.get(name) ?? name, arguments: args as ModelToolCall['arguments'] }
  })
  const finish = choice.finish_reason === 'length' ? 'length' : calls.length > 0 ? 'tool_calls' : 'stop'
  return { content: choice.message.content ?? '', tool_calls: calls, finish, usage }
}

function refusal({ status, headers, body }: HttpAnswer, now: number): EffectError {
  let said = body
  try {
    said = (JSON.parse(body) as Answered).error?.message ?? body
  } catch {}
  const wait = retryAfter(headers['retry-after'], now)
  const permanent = status < 500 && !AGAIN.has(status)
  const message = `the model server answered ${status}: ${said.slice(0, MAX_SHOWN)}`
  return new EffectError(message, { disposition: 'did_not_happen', permanent, ...(wait === undefined ? {} : { retryAfterMs: wait }) })
}

/** RFC 9110, 10.2.3: seconds, or a date. @returns milliseconds. */
export function retryAfter(text: string | undefined, now: number): number | undefined {
  if (text === undefined) return undefined
  if (/^\d+$/.test(text)) return Number(text) * SECOND
  const at = Date.parse(text)
  return Number.isNaN(at) ? undefined : Math.max(0, at - now)
}
