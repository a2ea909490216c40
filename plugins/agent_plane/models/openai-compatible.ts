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
  type Spend,
  type Usage,
} from 'svcdb/agents'

const SECOND = 1000
const MILLION = 1_000_000
const MAX_SHOWN = 300
/** About what models take, and what they say where nobody bounds it. */
const CHARACTERS_PER_TOKEN = 3
const USUAL_OUTPUT = 1024
/** Of one answer: what is more was not counted. */
const MAX_COUNT = 1_000_000_000
/** Worth another attempt. */
const AGAIN = new Set([408, 409, 425, 429])

interface OpenAiOptions {
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

/** What is there of it, as far as it has this form: whoever answers may say anything. */
interface Answered {
  choices?: ({ message?: { content?: unknown; tool_calls?: unknown } | null; finish_reason?: unknown } | null)[]
  usage?: { prompt_tokens?: unknown; completion_tokens?: unknown } | null
  error?: { message?: unknown } | null
}

type AnsweredCall = { id?: unknown; function?: { name?: unknown; arguments?: unknown } | null } | null

export function openAiCompatible({ baseUrl, key, inputPrice, outputPrice, now, http }: OpenAiOptions): ModelProvider {
  const url = `${baseUrl.replace(/\/+$/, '')}/chat/completions`
  const costOf = ({ input_tokens: input, output_tokens: output }: Usage): Required<Spend> => ({
    tokens: input + output,
    minor_units: Math.ceil((input * inputPrice + output * outputPrice) / MILLION),
  })
  return {
    estimate: (request) => costOf(estimated(request)),
    async complete(request, call) {
      const secret = key()
      const headers = { 'content-type': 'application/json', ...(secret === undefined ? {} : { authorization: `Bearer ${secret}` }) }
      const answer = await http({ method: 'POST', url, headers, body: JSON.stringify(bodyOf(request)) })
      if (answer.status !== 200) throw refusal(answer, now())
      const parsed = parsedOf(answer.body)
      // It has cost something, whether or not it says what: else no budget would hold with a server that does not.
      const usage = ('value' in parsed ? usageOf(parsed.value) : undefined) ?? estimated(request)
      call.spend(costOf(usage))
      if ('problem' in parsed) throw unusable(parsed.problem)
      return completionOf(parsed.value, request, usage)
    },
  }
}

function estimated(request: ModelRequest): Usage {
  return {
    input_tokens: Math.ceil(JSON.stringify(bodyOf(request)).length / CHARACTERS_PER_TOKEN),
    output_tokens: request.maxTokens ?? USUAL_OUTPUT,
  }
}

/** @returns undefined for what is not said, or cannot be. */
function usageOf({ usage }: Answered): Usage | undefined {
  const { prompt_tokens: input, completion_tokens: output } = usage ?? {}
  return isCount(input) && isCount(output) ? { input_tokens: input, output_tokens: output } : undefined
}

function isCount(count: unknown): count is number {
  return Number.isInteger(count) && (count as number) >= 0 && (count as number) <= MAX_COUNT
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

function parsedOf(body: string): { value: Answered } | { problem: string } {
  try {
    return { value: (JSON.parse(body) ?? {}) as Answered }
  } catch (error) {
    return { problem: (error as Error).message }
  }
}

function completionOf({ choices }: Answered, { tools }: ModelRequest, usage: Usage): Completion {
  const choice = choices?.[0]
  if (typeof choice?.message !== 'object' || choice.message === null) throw unusable('it has no message')
  const { content, tool_calls: asked } = choice.message
  if (typeof (content ?? '') !== 'string') throw unusable('its content is no text')
  if (!Array.isArray(asked ?? [])) throw unusable('its calls of tools are no list')
  const refs = new Map(tools.map(({ ref }) => [nameOf(ref), ref]))
  const calls = ((asked ?? []) as AnsweredCall[]).map((call, i): ModelToolCall => {
    const { name, arguments: given } = call?.function ?? {}
    if (typeof name !== 'string') throw unusable('a call of a tool has no name')
    let args: unknown
    try {
      args = JSON.parse(String(given || '{}'))
    } catch (error) {
      throw unusable(`the arguments of "${name.slice(0, 128)}" are no JSON: ${(error as Error).message}`)
    }
    const id = typeof call?.id === 'string' ? call.id : `call_${i + 1}`
    // A tool that was not offered is refused when it is called, and the model is told.
    return { id, tool: refs.get(name) ?? name, arguments: args as ModelToolCall['arguments'] }
  })
  const finish = choice.finish_reason === 'length' ? 'length' : calls.length > 0 ? 'tool_calls' : 'stop'
  return { content: (content ?? '') as string, tool_calls: calls, finish, usage }
}

function refusal({ status, headers, body }: HttpAnswer, now: number): EffectError {
  let said = body
  try {
    const { error } = JSON.parse(body) as Answered
    if (typeof error?.message === 'string') said = error.message
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
