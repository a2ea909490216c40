/** Agents: a manifest, the tools that it declares, and skills that may use them. */

import { canonical } from '../lib/json/index.ts'
import type { Static, TSchema } from '../lib/schema/index.ts'
import type { ChainLink } from './control.ts'
import type { Json, StepContext } from './index.ts'
import { type AgentManifest, manifestDigest, manifestProblems, plainSchema, type ToolDeclaration } from './manifest.ts'
import type { Completion, CompletionRequest, FakeScript } from './models.ts'
import { defineSkill, type Skill, type SkillDefinition } from './skill.ts'
import type { TaskRequest } from './tasks.ts'
import type { AnyTool } from './tools.ts'

type Named<X, R extends string> = X extends { ref: infer Q } ? (R extends Q ? X : never) : never
type ToolOf<T extends readonly AnyTool[], R extends string> = Named<T[number], R>
type ArgumentsOf<T> = T extends { arguments: infer A extends TSchema } ? Static<A> : never
type OutputOf<T> = T extends { call(...args: never): Promise<infer O> } ? O : never

/** What the person is told who decides about a call that requires approval, instead of what tool it is alone. Of other calls it is left. */
export type Proposal = Partial<Pick<TaskRequest, 'summary' | 'evidence' | 'cost' | 'confidence' | 'priority'>>

/** What one agent has another do. */
export interface Commission {
  /** Of another agent's skill, which the manifest names in `spec.security.commissions`. */
  capability: string
  input: Json
  /** Milliseconds until the run must be over. It may begin later, for want of room or under a halt: that counts. */
  withinMs: number
}

/** What a step of an agent may ask beside what every step may. */
export interface AgentContext<T extends readonly AnyTool[] = readonly AnyTool[]> extends StepContext {
  /** What the run acts for, outermost first: whoever asked for it, and each agent that has commissioned. */
  readonly chain: readonly ChainLink[]
  /**
   * Calls a tool of the agent, once: its arguments are checked, and a person is asked where the manifest says so.
   * @throws EffectError when it failed for good, ToolRefused when a person rejected it, or an argument must not come from outside.
   */
  callTool<R extends T[number]['ref']>(ref: R, args: ArgumentsOf<ToolOf<T, R>>, proposal?: Proposal): Promise<OutputOf<ToolOf<T, R>>>
  /** Asks the model of the agent. What it costs counts against the budgets. @throws EffectError. */
  complete(request: CompletionRequest): Promise<Completion>
  /**
   * Has another agent do something, as a run of its own, and waits for it. A chain has three principals at most, who asked among them. When this run is cancelled
   * or fails before it has read the end of the other one, that is cancelled, and undone before this step. One that is only late goes on.
   * @throws Error when that run did not succeed in time.
   */
  commission(request: Commission): Promise<Json>
  /**
   * Has a person release a value, so that it may be used in protected fields by this step.
   * @throws ToolRefused when it was rejected, EffectError when the policies forbid it.
   */
  release(value: Json, asked: { summary: string; withinMs?: number }): Promise<void>
  /** Keeps a value for later runs of the agent, under a name of at most 256 characters. */
  remember(name: string, value: Json): Promise<void>
  /** What was kept last; null = nothing. */
  recall(name: string): Promise<Json>
}

/** A call that was not made: a person has rejected it, or one of its arguments must not come from outside. */
export class ToolRefused extends Error {
  /** What the person said. */
  readonly advice: Json | undefined

  constructor(message: string, advice?: Json) {
    super(message)
    this.name = 'ToolRefused'
    this.advice = advice
  }
}

/** A skill of an agent: its steps have the agent's tools, model and memory. */
export interface AgentSkillDefinition<T extends readonly AnyTool[], I extends TSchema, O extends TSchema>
  extends Omit<SkillDefinition<I, O>, 'invoke' | 'compensate'> {
  invoke(ctx: AgentContext<T>, input: Static<I>): Promise<Static<O>>
  compensate?(ctx: AgentContext<T>, input: Static<I>, output: Static<O> | undefined): Promise<void>
}

/** Makes a skill of the agent that is being defined. */
export type DefineAgentSkill<T extends readonly AnyTool[]> = <I extends TSchema, O extends TSchema>(definition: AgentSkillDefinition<T, I, O>) => Skill

/** What `defineAgent` is given. */
export interface AgentDefinition<T extends readonly AnyTool[] = readonly AnyTool[]> {
  /** Without `spec.tools` they are those of `tools`; with it both must say the same. */
  manifest: AgentManifest
  tools?: T
  /** One for each capability that it provides, made with the function given; those that are missing are what `execution` says. */
  skills?(skill: DefineAgentSkill<T>): Skill[]
  /** What the provider `fake` answers. */
  script?: FakeScript
}

const MARK = Symbol.for('svc.agent')

/** What `defineAgent` makes: checked, and with a digest. */
export interface Agent {
  /** Whole, with its tools. */
  readonly manifest: AgentManifest
  /** Of the manifest, 64 hexadecimal digits. */
  readonly digest: string
  readonly tools: readonly AnyTool[]
  readonly skills: readonly Skill[]
  readonly script?: FakeScript
  readonly [MARK]: true
}

/** Holds across copies of this package. */
export function isAgent(value: unknown): value is Agent {
  return typeof value === 'object' && value !== null && MARK in value
}

/** What a manifest says of a tool. */
export function declarationOf({ ref, mutates, description, arguments: args, requires_approval, protected_fields, rate_limit }: AnyTool): ToolDeclaration {
  return {
    ref,
    mutates,
    description,
    arguments: plainSchema(args),
    ...(requires_approval === undefined ? {} : { requires_approval }),
    ...(protected_fields === undefined ? {} : { protected_fields: [...protected_fields] }),
    ...(rate_limit === undefined ? {} : { rate_limit }),
  }
}

/** Checks and marks an agent. @throws Error saying where the manifest is wrong, and where tools or skills do not fit it. */
export function defineAgent<const T extends readonly AnyTool[] = readonly []>(definition: AgentDefinition<T>): Agent {
  const { tools = [] as unknown as T, skills: make, script } = definition
  const refuse = (why: string) => new Error(`cannot define agent "${definition.manifest?.metadata?.name ?? ''}": ${why}`)
  const given = definition.manifest
  const declared = tools.map(declarationOf)
  const isWritten = given?.spec?.tools !== undefined
  const manifest = isWritten || declared.length === 0 ? given : { ...given, spec: { ...given?.spec, tools: declared } }
  const problems = manifestProblems(manifest)
  if (problems.length > 0) throw refuse(problems.join('; '))
  const { spec } = manifest
  for (const one of spec.tools ?? []) {
    const own = declared.find(({ ref }) => ref === one.ref)
    if (own === undefined) throw refuse(`the manifest has the tool "${one.ref}", and nothing here does it; give it in tools`)
    if (canonical(own) !== canonical(one)) throw refuse(`the tool "${one.ref}" and the manifest say different things of it; write it once`)
  }
  const extra = declared.find(({ ref }) => !(spec.tools ?? []).some((one) => one.ref === ref))
  if (extra !== undefined) throw refuse(`the manifest does not have the tool "${extra.ref}"; add it to spec.tools`)
  const skills = make?.((one) => defineSkill(one as never)) ?? []
  for (const { capability } of skills)
    if (!spec.capabilities.provides.includes(capability)) throw refuse(`it has a skill "${capability}", which spec.capabilities.provides does not name`)
  const missing = spec.capabilities.provides.find((name) => !skills.some(({ capability }) => capability === name))
  if (missing !== undefined && spec.execution === undefined)
    throw refuse(`it provides "${missing}", and has no skill of that name; write one, or say in spec.execution how a model does it`)
  const copy = JSON.parse(canonical(manifest)) as AgentManifest
  return Object.freeze({ manifest: copy, digest: manifestDigest(copy), tools, skills, ...(script === undefined ? {} : { script }), [MARK]: true as const })
}
