/** What an agent without code of its own does: it asks its model, and has the tools called that the model asks for, turn by turn. */
import { type Agent, type AgentContext, type Completion, defineSkill, EffectError, type Json, type Message, type Skill, ToolRefused } from 'svcdb/agents'
import { Turn } from 'svcdb/lib/event-loop'
import { Type } from 'svcdb/lib/schema'

const MAX_TURNS = 10

/** @param capability one that the manifest provides and that has no skill. */
export function declaredSkill(agent: Agent, capability: string): Skill {
  const { metadata, spec } = agent.manifest
  const output = spec.output?.schema
  return defineSkill({
    capability,
    summary: metadata.description ?? `What agent "${metadata.name}" is declared to do`,
    input: Type.Unknown(),
    output: output === undefined ? Type.Unknown() : Type.Unsafe<Json>(output),
    // Its tools say themselves what becomes of a call; nothing says how to undo one.
    invoke: (ctx, input) => converse(agent, capability, ctx as AgentContext, input as Json),
  })
}

async function converse({ manifest }: Agent, capability: string, ctx: AgentContext, input: Json): Promise<Json> {
  const { execution, output, tools = [] } = manifest.spec
  const turns = execution?.kind === 'tool-calling' ? (execution.max_turns ?? MAX_TURNS) : 1
  const asked = output === undefined ? {} : { output: output.schema }
  const messages: Message[] = [
    ...(execution?.instructions === undefined ? [] : [{ role: 'system' as const, content: execution.instructions }]),
    { role: 'user', content: JSON.stringify({ task: capability, input }) },
  ]
  const loop = new Turn()
  for (let turn = 1; turn <= turns; turn++) {
    const callable = execution?.kind === 'tool-calling' ? tools.map(({ ref }) => ref) : []
    const answer = await ctx.complete({ messages: [...messages], tools: callable, ...asked })
    if (answer.tool_calls.length === 0) return resultOf(answer)
    messages.push({ role: 'assistant', content: answer.content, tool_calls: answer.tool_calls })
    // One after the other: the order in which they are asked for is the order in which they happen.
    for (const call of answer.tool_calls) {
      // Models ask for thousands, and those that are refused wait for nothing.
      if (loop.isOver) await loop.next()
      messages.push({ role: 'tool', tool_call_id: call.id, content: JSON.stringify(await answered(ctx, call)) })
    }
  }
  throw new Error(`the model still asks for tools after ${turns} turns; raise spec.execution.max_turns`)
}

function resultOf({ output, content, finish }: Completion): Json {
  if (finish === 'length') throw new Error('the answer of the model was cut at its longest')
  return output ?? { text: content }
}

/** What the model is told of a call: also that it was refused, or failed. Doubt does not get here: it sets the run aside. */
async function answered(ctx: AgentContext, { tool, arguments: args }: Completion['tool_calls'][number]): Promise<Json> {
  try {
    return { result: (await ctx.callTool(tool, args as never)) as Json }
  } catch (error) {
    if (error instanceof ToolRefused) return { refused: error.message, ...(error.advice === undefined ? {} : { advice: error.advice }) }
    if (error instanceof EffectError && error.disposition === 'did_not_happen') return { failed: error.message }
    throw error
  }
}
