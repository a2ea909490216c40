/** What a step of an agent may ask beside what every step may: all of it is effects, tasks and waits of the bare context. */
import type { StateStore } from 'svcdb'
import {
  type Agent,
  type AgentContext,
  type AnyTool,
  type ChainLink,
  type Commission,
  type Completion,
  type CompletionRequest,
  type EffectCall,
  type EffectDescription,
  EffectError,
  type Json,
  type ModelProvider,
  type ModelRequest,
  ownProse,
  type Proposal,
  type RunRequest,
  type Sink,
  type TaskRequest,
  type ToolCall,
  ToolRefused,
  type ToolServices,
} from 'svcdb/agents'
import { COMMISSION, type RunJournal } from '../drive/run-journal.ts'
import type { OpenStep } from '../drive/step-context.ts'
import { checkWait } from '../drive/step-records.ts'
import { NotNow } from '../quota/gate.ts'
import { digest } from '../record/names.ts'
import { shortened } from '../record/text.ts'
import { type ChildEnd, type Parent, RUN_CONCLUDED, RUN_KEY } from '../store/children.ts'
import { problemOf } from './checked.ts'
import type { AgentRegistry } from './registry.ts'

/** Who asked, and agents that have commissioned. */
const MAX_CHAIN = 3
const MAX_NAME = 256
const MAX_REMEMBERED = 65_536
const TOOL_TIMEOUT_MS = 30_000
/** How the error begins of a run that may be commissioned later. */
const NOT_NOW = 'not now: '
const FIRST_PAUSE_MS = 1000
const MAX_PAUSE_MS = 60_000

/** What the plane of a tenant has for its agents. */
export interface AgentServices {
  state: StateStore
  registry: AgentRegistry
  now(): number
  services(agent: Agent): ToolServices
  /** @throws EffectError for a provider that there is none of. */
  model(agent: Agent): ModelProvider
  /** @param parent the run that commissions it. @throws Fenced. */
  begin(request: RunRequest, parent: Parent): Promise<{ run: string }>
}

export class AgentStep {
  private readonly context: OpenStep
  private readonly agent: Agent
  private readonly parts: AgentServices
  private readonly journal: RunJournal
  /** Several at one time are begun one after the other, each with its wait: else which of the waits is asked for first would be chance. */
  private commissioning: Promise<unknown> = Promise.resolve()
  /** Digests of values that a person has released to this step. */
  private readonly released = new Set<string>()
  readonly chain: readonly ChainLink[]

  constructor(context: OpenStep, agent: Agent, chain: readonly ChainLink[], journal: RunJournal, parts: AgentServices) {
    this.context = context
    this.agent = agent
    this.chain = chain
    this.journal = journal
    this.parts = parts
  }

  /** The bare context with what is here over it. */
  static over(context: OpenStep, agent: Agent, chain: readonly ChainLink[], journal: RunJournal, parts: AgentServices): AgentContext {
    const own = new AgentStep(context, agent, chain, journal, parts)
    return new Proxy(context, {
      get(target, name) {
        const from = name in own ? own : target
        const value: unknown = Reflect.get(from, name, from)
        return typeof value === 'function' ? value.bind(from) : value
      },
    }) as unknown as AgentContext
  }

  async callTool(ref: string, given: Json, proposal: Proposal = {}): Promise<Json> {
    const { context, agent, parts } = this
    const tool = this.toolOf(ref)
    this.check(tool, given)
    const { args, approved } = tool.requires_approval ? await this.approval(tool, given, proposal) : { args: given, approved: false }
    if (!approved) this.guard(tool, args)
    const services = parts.services(agent)
    const { mutates, recovery, maxAttempts, probe, timeoutMs = TOOL_TIMEOUT_MS } = tool
    const description: EffectDescription = {
      kind: 'tool.call',
      args: { tool: ref, arguments: args },
      mutates,
      grant: ref,
      ...(mutates ? { outboundBytes: Buffer.byteLength(JSON.stringify(args)) } : {}),
      ...(recovery === undefined ? {} : { recovery }),
      ...(maxAttempts === undefined ? {} : { maxAttempts }),
      ...(probe === undefined ? {} : { probe: (call: EffectCall) => probe(args, { ...call, services }) }),
    }
    return context.effect(description, async (call) => {
      const output = await withinTime(timeoutMs, (signal) => tool.call(args, { ...call, services, signal } satisfies ToolCall), mutates)
      const problem = tool.output === undefined ? undefined : problemOf(tool.output, output)
      if (problem !== undefined) throw new EffectError(`what tool "${ref}" gave is not as it says: ${problem}`, { disposition: 'landed', permanent: true })
      return (output ?? null) as Json
    })
  }

  private toolOf(ref: string): AnyTool {
    const tool = this.agent.tools.find((one) => one.ref === ref)
    if (tool === undefined) throw new ToolRefused(`agent "${this.agent.manifest.metadata.name}" has no tool ${JSON.stringify(ref.slice(0, 128))}`)
    return tool
  }

  private check(tool: AnyTool, args: Json): void {
    const problem = problemOf(tool.arguments, args)
    if (problem !== undefined) throw new ToolRefused(`the arguments of tool "${tool.ref}" are not as it says: ${problem}`)
  }

  private async approval(tool: AnyTool, given: Json, { summary, evidence, cost, confidence, ...own }: Proposal): Promise<{ args: Json; approved: true }> {
    const { context } = this
    const { metadata, spec } = this.agent.manifest
    const { roles, within_secs: within, escalate_to: escalation } = spec.oversight ?? {}
    const priority = own.priority ?? spec.oversight?.priority
    const decision = await context.task({
      kind: 'tool.approval',
      summary: summary ?? ownProse(shortened(`${metadata.name} wants to call ${tool.ref}: ${tool.description}`, 2048)),
      proposed_action: given,
      tool: tool.ref,
      schema: JSON.parse(JSON.stringify(tool.arguments)) as object,
      ...(evidence === undefined ? {} : { evidence }),
      ...(cost === undefined ? {} : { cost }),
      ...(confidence === undefined ? {} : { confidence }),
      ...(roles === undefined ? {} : { candidate_roles: roles }),
      ...(priority === undefined ? {} : { priority }),
      ...(within === undefined ? {} : { withinMs: within * 1000 }),
      ...(escalation === undefined ? {} : { on_expiry: { policy: 'escalate', escalate_to: escalation } }),
    })
    if (!decision.approved)
      throw new ToolRefused(`"${tool.ref}" was not approved by ${decision.decided_by}: ${decision.reason || 'no reason was given'}`, decision.amendment)
    const args = decision.amendment ?? given
    this.check(tool, args)
    return { args, approved: true }
  }

  /** Protected fields: nothing that may come from outside gets into them. */
  private guard({ ref, protected_fields: fields = [] }: AnyTool, args: Json): void {
    if (this.context.label.trust === 'trusted') return
    for (const field of fields) {
      const value = (args as Record<string, Json>)[field]
      if (value !== undefined && !this.released.has(digestOf(value)))
        throw new ToolRefused(`"${field}" of tool "${ref}" is protected, and what this step has read comes from outside; have a person release the value`)
    }
  }

  /** What a person has released may go anywhere. */
  sink<V extends Json>(sink: Sink, perform: (call: EffectCall) => Promise<V>): Promise<V> {
    const { label = this.context.label } = sink
    const isReleased = this.released.has(digestOf(sink.args))
    return this.context.sink(isReleased ? { ...sink, label: { ...label, trust: 'trusted', sensitivity: 'public' } } : sink, perform)
  }

  async complete({ messages, tools = [], output, ...rest }: CompletionRequest): Promise<Completion> {
    const { agent, parts } = this
    const used = agent.manifest.spec.models?.privileged
    if (used === undefined) throw new Error(`agent "${agent.manifest.metadata.name}" has no model; name one in spec.models.privileged`)
    const offered = tools.map((ref) => this.toolOf(ref)).map(({ ref, description, arguments: parameters }) => ({ ref, description, parameters }))
    const last = messages.findLastIndex(({ role }) => role === 'assistant')
    // The whole is named by its digest: what was said before is in the effects before.
    const args: Json = {
      ...used,
      request: digest('svc.model.request.v1', { messages, tools, output, ...rest }),
      news: messages.slice(last + 1) as unknown as Json,
    }
    const provider = parts.model(agent)
    const request: ModelRequest = { ...rest, messages, tools: offered, model: used.model, ...(output === undefined ? {} : { output }) }
    return this.context.effect(
      { kind: 'model.complete', args, mutates: false, grant: `model://${used.provider}/${used.model}`, spends: provider.estimate(request) },
      async (call) => {
        const answer = await provider.complete(request, call)
        return { ...answer, ...(output === undefined || answer.tool_calls.length > 0 ? {} : { output: outputOf(answer.content, output) }) } as unknown as Json
      },
    ) as unknown as Promise<Completion>
  }

  async commission({ capability, input, withinMs }: Commission): Promise<Json> {
    const { agent, parts, chain } = this
    const { metadata, spec } = agent.manifest
    const refuse = (why: string) => new Error(`cannot commission "${capability}": ${why}`)
    const other = parts.registry.of(capability)?.manifest.metadata.name
    if (other === undefined) throw refuse('no agent provides it')
    if (!(spec.security?.commissions ?? []).includes(other))
      throw refuse(`agent "${metadata.name}" may not commission "${other}"; name it in spec.security.commissions`)
    checkWait(withinMs)
    if (chain.length >= MAX_CHAIN) throw refuse(`a chain has ${MAX_CHAIN} principals at most`)
    const next: ChainLink[] = [...chain, { id: `agent:${metadata.name}`, scope: spec.identity?.scope ?? ['*'] }]
    const begun = this.commissioning.then(async () => {
      const { run, leftMs } = await this.begun(capability, input, { actor: this.asker, chain: next }, withinMs)
      return { run, end: this.context.awaitEvent({ kind: RUN_CONCLUDED, correlation: [{ namespace: RUN_KEY, value: run }], withinMs: leftMs }) }
    })
    this.commissioning = begun.catch(() => {})
    const { run, end } = await begun
    const event = await end
    const { status, output, reason } = event.payload as unknown as ChildEnd
    if (status !== 'succeeded')
      throw new Error(`the run "${run}" that was commissioned for "${capability}" is ${status}${reason === undefined ? '' : `: ${reason}`}`)
    return output ?? null
  }

  /** Who asked for this run, who need not be who it acts for: they do not decide about what it commissions either. */
  private get asker(): string {
    return (this.journal.last('RunAdmitted')?.payload.admitted_by as string | undefined) ?? this.chain[0].id
  }

  /** Where it may not begin yet, this run sleeps, and so gives its own slot back. @throws EffectError when it may not at all, or not in time. */
  private async begun(capability: string, input: Json, more: Pick<RunRequest, 'actor' | 'chain'>, withinMs: number): Promise<{ run: string; leftMs: number }> {
    for (let round = 0, leftMs = withinMs; ; round++) {
      try {
        return { run: await this.begin(capability, input, more), leftMs }
      } catch (error) {
        const pause = pauseOf(this.context.run, round)
        leftMs -= pause
        if (!(error instanceof EffectError) || !error.message.startsWith(NOT_NOW) || leftMs <= 0) throw error
        await this.context.sleep(pause)
      }
    }
  }

  private begin(capability: string, input: Json, more: Pick<RunRequest, 'actor' | 'chain'>): Promise<string> {
    return this.context.effect({ kind: COMMISSION, args: { capability, input }, mutates: true, recovery: 'idempotent' }, async ({ idempotencyKey }) => {
      try {
        return (await this.parts.begin({ capability, input, idempotencyKey, ...more }, this.journal)).run
      } catch (error) {
        const { code = '', message } = error as { code?: string; message: string }
        const isNotNow = error instanceof NotNow
        if (!isNotNow && !['BAD_REQUEST', 'FORBIDDEN'].includes(code)) throw error
        throw new EffectError(isNotNow ? `${NOT_NOW}${message}` : message, { disposition: 'did_not_happen', permanent: true })
      }
    })
  }

  async release(value: Json, { summary, withinMs }: { summary: string; withinMs?: number }): Promise<void> {
    const { context, agent } = this
    const { roles } = agent.manifest.spec.oversight ?? {}
    const label = context.label as unknown as Json
    const request: TaskRequest = {
      kind: 'data.release',
      summary,
      proposed_action: value,
      // Another value was not asked about.
      schema: { const: value },
      ...(roles === undefined ? {} : { candidate_roles: roles }),
      ...(withinMs === undefined ? {} : { withinMs }),
    }
    const decision = await context.task(request, { resource: agent.manifest.metadata.name, label: context.label })
    if (!decision.approved) throw new ToolRefused(`the value was not released by ${decision.decided_by}: ${decision.reason || 'no reason was given'}`)
    const by = { actor: decision.decided_by, basis: decision.basis }
    await context.mark('Released', { releaser: by, release: shortened(summary, 256), label, field_labels: {}, value: digestOf(value) })
    this.released.add(digestOf(value))
  }

  async remember(name: string, value: Json): Promise<void> {
    const key = this.memoryKey(name)
    if (JSON.stringify(value).length > MAX_REMEMBERED) throw new Error(`cannot remember "${name}": it has more than ${MAX_REMEMBERED} characters`)
    await this.context.effect({ kind: 'memory.put', args: { name, value }, mutates: true, recovery: 'idempotent' }, () =>
      this.parts.state.transaction((tx) => {
        tx.put(key, value)
        return null
      }),
    )
  }

  recall(name: string): Promise<Json> {
    const key = this.memoryKey(name)
    return this.context.effect({ kind: 'memory.get', args: { name }, mutates: false }, async () => (await this.parts.state.get<Json>(key)) ?? null)
  }

  private memoryKey(name: string): string {
    if (name === '' || name.length > MAX_NAME) throw new Error(`cannot keep "${name.slice(0, 64)}": a name has 1 to ${MAX_NAME} characters`)
    return `memory/${this.agent.manifest.metadata.name}/${name}`
  }
}

/** Doubled each time, half of it by a chance that follows from the run: several that wait for the same room do not ask at the same time. */
function pauseOf(run: string, round: number): number {
  const whole = Math.min(FIRST_PAUSE_MS * 2 ** round, MAX_PAUSE_MS)
  return Math.round(whole * (0.5 + Number.parseInt(digest('svc.commission.pause.v1', [run, round]).slice(0, 8), 16) / 2 ** 33))
}

function digestOf(value: Json): string {
  return digest('svc.released.v1', value)
}

/** @throws EffectError for what is no JSON of this shape: the model is asked again. */
function outputOf(content: string, schema: object): Json {
  const refuse = (why: string) => new EffectError(`the answer of the model is not as asked for: ${why}`, { disposition: 'did_not_happen' })
  let value: Json
  try {
    value = JSON.parse(content) as Json
  } catch (error) {
    throw refuse((error as Error).message)
  }
  const problem = problemOf(schema, value)
  if (problem !== undefined) throw refuse(problem)
  return value
}

/** What goes on after its time may still happen. */
async function withinTime<T>(ms: number, act: (signal: AbortSignal) => Promise<T>, mutates: boolean): Promise<T> {
  const signal = AbortSignal.timeout(ms)
  const late = new Promise<never>((_, reject) => {
    const fail = () => reject(new EffectError(`it took longer than ${ms} ms`, { disposition: mutates ? 'in_doubt' : 'did_not_happen' }))
    signal.addEventListener('abort', fail, { once: true })
  })
  // What throws before it gives a promise would leave the other one to nobody: that ends the process.
  return Promise.race([(async () => act(signal))(), late])
}
