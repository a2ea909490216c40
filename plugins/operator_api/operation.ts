/**
 * One operation of the API, as it is declared in routes/<area>.ts. Routes, checks, the OpenAPI document and the tests of the gate are made from it.
 *
 *     operation({
 *       method: 'GET', path: '/things/{run}', operationId: 'get_thing', action: 'api:run.read', summary: '...',
 *       resource: { path: 'run' }, answer: ThingView, statuses: [404],
 *       handle: ({ plane, params }) => plane.runs.view(params.run),
 *     })
 *
 * `handle` is called when the caller is known, may do it, and what came is of the right shape. It gives the answer's body, or throws: SvcError, whose code has the
 * status, or `Refusal`. What it throws has to be one of the statuses that are listed; anything else is answered 500.
 */
import type { OperatedPlane, Operator } from 'svcdb/agents'
import type { JsonBounds } from 'svcdb/lib/json'
import type { ActionLabel } from './actions.ts'
import { Refusal } from './refusal.ts'
import type { Static, TSchema } from './schema.ts'
import type { Caller } from './tokens.ts'

/** What the policies are asked about: a word; or what the path, the query or a text member of the body names, as it was written. */
type Resource = string | { path: string } | { query: string } | { body: string }

/** Rows of a list. */
export const LIST_LIMIT = 100
/** Records of a history. */
export const HISTORY_LIMIT = 200

export interface Call<Query = Record<string, never>, Body = undefined, Store = undefined> {
  plane: OperatedPlane
  caller: Caller
  /** The caller, as records name who did it. */
  operator: Operator
  /** What the path names, of the right form. */
  params: Readonly<Record<string, string>>
  query: Query
  body: Body
  /** Of the plane, where `store` is declared. */
  store: Store
}

/** A store that a plane may have been built without. */
export interface StoreNeed<Store> {
  /** As in "the plane has no case store". */
  name: string
  /** How the plane would have it. */
  hint?: string
  of(plane: OperatedPlane): Store | undefined
}

interface Definition<Q extends Record<string, TSchema>, B extends TSchema | undefined, S> {
  method: 'GET' | 'POST'
  /** With `{run}`, `{case}` or `{task}`: see PARAMETERS. */
  path: string
  operationId: string
  action: ActionLabel
  summary: string
  resource: Resource
  /** Each with what it defaults to; text is converted. What is not declared is not looked at. */
  query?: Q
  /** A closed object: members that it does not have are refused. */
  body?: B
  /** Default 200. */
  status?: 200 | 202 | 204
  /** Absent for 204 alone. */
  answer?: TSchema
  /** Beyond 401, 403 and 500, 501 for `store`, 400 for a path or a query, and 400, 413, 415 and 422 for a body. */
  statuses?: readonly number[]
  /** Answered 501 where the plane has it not. */
  store?: StoreNeed<S>
  /** Of the document: what a server may be built without. */
  feature?: string
  handle(call: Call<{ [K in keyof Q]: Static<Q[K]> }, B extends TSchema ? Static<B> : undefined, S>): unknown
}

/** With its types erased: what the gate works with. */
export interface Operation extends Omit<Definition<Record<string, TSchema>, TSchema | undefined, unknown>, 'handle' | 'status'> {
  status: 200 | 202 | 204
  /** Names in the path, in order. */
  parameters: readonly string[]
  /** All but the success. */
  refusals: ReadonlySet<number>
  /** Reads what came by itself, and asks the policies itself: the delivery of events. */
  envelope?: Envelope
  handle(call: Call<never, never, never>): unknown
}

/** For the one operation whose resource is within what has to be parsed. */
interface Envelope {
  /** @throws Refusal 400. */
  parse(raw: { headers: readonly [string, string][]; body: Buffer }, bounds: JsonBounds): { resource: string; body: unknown }
  /** Of the document. */
  content: Record<string, TSchema>
}

interface Parameter {
  pattern: RegExp
  /** As in "is not a run id". */
  what: string
  /** How one looks. */
  form: string
  description: string
  /** The one form of several that policies and operations are given. */
  canonical?(text: string): string
}

export const PARAMETERS: Readonly<Record<string, Parameter>> = {
  run: { pattern: /^run_[0-9A-HJKMNP-TV-Z]{26}$/, what: 'a run id', form: 'run_ and a ULID of 26 digits', description: 'Of a run: run_ and a ULID' },
  case: { pattern: /^case_[0-9A-HJKMNP-TV-Z]{26}$/, what: 'a case id', form: 'case_ and a ULID of 26 digits', description: 'Of a case: case_ and a ULID' },
  task: {
    pattern: /^(?:task_)?[0-9a-f]{64}$/,
    what: 'a task id',
    form: '64 hexadecimal digits',
    description: 'Of a task: 64 hexadecimal digits, with or without task_ before them',
    canonical: (text) => text.replace(/^task_(?=[0-9a-f]{64}$)/, ''),
  },
}

export function operation<Q extends Record<string, TSchema> = Record<never, TSchema>, B extends TSchema | undefined = undefined, S = undefined>(
  definition: Definition<Q, B, S> & { envelope?: Envelope },
): Operation {
  const { path, query, body, store, statuses = [], envelope, status = 200 } = definition
  const parameters = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name)
  const unknown = parameters.find((name) => !Object.hasOwn(PARAMETERS, name))
  if (unknown !== undefined) throw new Error(`cannot declare ${path}: there is no parameter "${unknown}"; add it to PARAMETERS`)
  const refusals = new Set([401, 403, 500, ...statuses])
  if (parameters.length > 0 || query !== undefined) refusals.add(400)
  if (body !== undefined) for (const one of [400, 413, 415, 422]) refusals.add(one)
  if (envelope !== undefined) for (const one of [400, 413]) refusals.add(one)
  if (store !== undefined) refusals.add(501)
  return { ...definition, status, parameters, refusals } as unknown as Operation
}

/** What is named by a text that a caller gives, where it is no part of the path. @throws Refusal 400. */
export function identifier(kind: keyof typeof PARAMETERS, text: string): string {
  const { pattern, what, form } = PARAMETERS[kind]
  if (!pattern.test(text)) throw new Refusal(400, `${shown(text)} is not ${what}: it is ${form}`)
  return text
}

/** @throws Refusal 400. */
export function nonBlank(text: string, member = 'reason'): string {
  if (text.trim() === '') throw new Refusal(400, `a non-empty \`${member}\` is needed`)
  return text
}

/** What a caller wrote, on one line and not too long. */
export function shown(text: string): string {
  return JSON.stringify((text.length > 64 ? `${text.slice(0, 64)}...` : text).toWellFormed())
}
