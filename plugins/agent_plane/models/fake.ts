/** The provider `fake`: answers from a script, the same whenever it is asked the same. Without a script it says what it was told. */
import type { Completion, FakeReply, FakeScript, ModelProvider, ModelRequest } from 'svcdb/agents'
import { EffectError } from 'svcdb/agents'

/** About what a model takes. */
const CHARACTERS_PER_TOKEN = 4

export function fakeModel(script: FakeScript | undefined): ModelProvider {
  return {
    estimate: ({ messages }) => ({ tokens: tokens(messages.reduce((sum, { content }) => sum + content.length, 0)), minor_units: 0 }),
    async complete(request, call) {
      const turn = request.messages.filter(({ role }) => role === 'assistant').length
      const reply = replyOf(script, request, turn)
      if (reply === undefined)
        throw new EffectError(`the script of the fake model has no reply for turn ${turn + 1}`, { disposition: 'did_not_happen', permanent: true })
      const answer = completionOf(reply, request, turn)
      call.spend({ tokens: answer.usage.input_tokens + answer.usage.output_tokens })
      return answer
    },
  }
}

function replyOf(script: FakeScript | undefined, request: ModelRequest, turn: number): FakeReply | undefined {
  if (typeof script === 'function') return script(request, turn)
  if (script !== undefined) return script[turn]
  return request.messages.findLast(({ role }) => role === 'user')?.content ?? ''
}

function completionOf(reply: FakeReply, { messages }: ModelRequest, turn: number): Completion {
  const { content, tool_calls: calls = [], output, usage, finish } = typeof reply === 'string' ? { content: reply } : reply
  const text = content ?? (output === undefined ? '' : JSON.stringify(output))
  const said = messages.reduce((sum, message) => sum + message.content.length, 0)
  return {
    content: text,
    tool_calls: calls.map((one, i) => ({ id: `call_${turn + 1}_${i + 1}`, ...one })),
    finish: finish ?? (calls.length > 0 ? 'tool_calls' : 'stop'),
    usage: { input_tokens: usage?.input_tokens ?? tokens(said), output_tokens: usage?.output_tokens ?? tokens(text.length) },
  }
}

function tokens(characters: number): number {
  return Math.ceil(characters / CHARACTERS_PER_TOKEN)
}
