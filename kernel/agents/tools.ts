/** Tools: what an agent can do beside thinking. Each call is an effect; the manifest says which need a person. */
import type { Static, TSchema } from '../lib/schema/index.ts'
import type { EffectCall, Json, ProbeAnswer, RecoveryMode } from './index.ts'

/** A request. */
export interface HttpCall {
  method: string
  url: string
  headers?: Record<string, string>
  body?: string
}

/** An answer, whatever its status. Names of headers are lower case. */
export interface HttpAnswer {
  status: number
  headers: Record<string, string>
  body: string
}

/** A point to be written. Integers that are exact may be given as bigint. */
export interface ToolPoint {
  measurement: string
  tags?: Record<string, string>
  fields: Record<string, number | string | boolean | bigint>
  /** Milliseconds since the Unix epoch. */
  time: number
}

/** What tools have of the node: in the namespace of their agent, and nowhere else. */
export interface ToolServices {
  /** Calls a public address, or where the config allows it any. @throws EffectError saying whether the other side may have got it. */
  http(call: HttpCall): Promise<HttpAnswer>
  /** @param parameters values of `?` and `$1` in order. @throws EffectError, also where the engine has no SQL. */
  sql(query: string, parameters?: readonly (null | boolean | number | string)[]): Promise<{ columns: string[]; rows: Json[][]; truncated: boolean }>
  /** An instant query, or with `start`, `end` and `step` one over a range; seconds. @returns `data` of Prometheus' HTTP API. @throws EffectError. */
  promql(query: string, at?: { time?: number } | { start: number; end: number; step: number }): Promise<Json>
  /** Points that are written again are the same points. @returns how many were admitted. @throws EffectError. */
  write(points: readonly ToolPoint[]): Promise<{ written: number }>
  /** A variable of the node's environment. @throws EffectError when it is not set. */
  env(name: string): string
}

/** Of one call. */
export interface ToolCall extends EffectCall {
  readonly services: ToolServices
  /** Aborted when the time of the call is over. */
  readonly signal: AbortSignal
}

/** What `defineTool` is given: something that agents can do outside, by calls of which each is an effect. */
export interface ToolDefinition<R extends string = string, A extends TSchema = TSchema, O extends TSchema = TSchema> {
  /** `tool://server/name`, lower case. */
  ref: R
  /** For whoever chooses it: a model, a person. */
  description: string
  /** Of an object. */
  arguments: A
  /** Default: anything. */
  output?: O
  /** Whether it changes something outside. */
  mutates: boolean
  /** A person has to agree to each call. */
  requires_approval?: boolean
  /** Arguments that must not come from outside, unless a person has released the value or agreed to the call. */
  protected_fields?: readonly (keyof Static<A> & string)[]
  /** Calls of all runs of the tenant; a run that meets it is exhausted, and goes on when it is resumed later. */
  rate_limit?: { calls: number; per_secs: number }
  /** Default: `requires_operator` where it mutates, else `retry`. */
  recovery?: RecoveryMode
  /** Attempts in all; default 3. */
  maxAttempts?: number
  /** Milliseconds; default 30,000. */
  timeoutMs?: number
  /** @throws EffectError to say what became of it; any other error of a tool that mutates leaves the call in doubt. */
  call(args: Static<A>, call: ToolCall): Promise<Static<O>>
  /** For `reconcile`. */
  probe?(args: Static<A>, call: EffectCall & { services: ToolServices }): Promise<ProbeAnswer>
}

const MARK = Symbol.for('svc.tool')

/** What `defineTool` returns. */
export type Tool<R extends string = string, A extends TSchema = TSchema, O extends TSchema = TSchema> = ToolDefinition<R, A, O> & { readonly [MARK]: true }

/** One of a list of tools of different arguments. */
export interface AnyTool extends Omit<Tool, 'protected_fields' | 'call' | 'probe'> {
  protected_fields?: readonly string[]
  // biome-ignore lint/suspicious/noExplicitAny: arguments follow the schema of each
  call(args: any, call: ToolCall): Promise<any>
  // biome-ignore lint/suspicious/noExplicitAny: likewise
  probe?(args: any, call: EffectCall & { services: ToolServices }): Promise<ProbeAnswer>
}

/** @throws Error for a name that is none, and for a probe without recovery "reconcile", or the other way round. */
export function defineTool<const R extends string, A extends TSchema, O extends TSchema = TSchema>(definition: ToolDefinition<R, A, O>): Tool<R, A, O> {
  const { ref, recovery, probe } = definition
  const refuse = (why: string) => new Error(`cannot define tool "${ref}": ${why}`)
  if (!/^tool:\/\/[a-z][a-z0-9_-]{0,63}\/[a-z][a-z0-9_-]{0,63}$/.test(ref)) throw refuse('write tool://server/name in lower case letters, digits, "_" and "-"')
  if ((recovery === 'reconcile') !== (probe !== undefined)) throw refuse('a probe goes with recovery "reconcile", and only with it')
  return Object.freeze({ ...definition, [MARK]: true as const })
}
