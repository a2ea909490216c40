/** One question to the policies, and the parts of its context: what each is to Cedar, and what it means for remembering the answer. */
import type { CallContext } from 'svcdb'
import { ipOf } from './ip-address.ts'
import { type Capability, type DataAction, SYSTEM } from './model.ts'

export interface Question {
  context: Pick<CallContext, 'principal' | 'roles' | 'method' | 'claims' | 'address' | 'requestId'>
  action: DataAction | Capability
  /** The namespace; undefined = the system. */
  namespace: string | undefined
  route: string
  /** Milliseconds since the Unix epoch. */
  now: number
}

interface ContextAttribute {
  /** Undefined = the call has none. @throws IllFormed */
  value(question: Question): unknown
  /** What the value depends on, as a part of the key under which a decision is remembered; without it no decision is. */
  key?(question: Question): string | number | undefined
}

/** Text that Cedar cannot hold, and which might become another caller's in the attempt. */
export class IllFormed extends Error {}

export const CONTEXT_ATTRIBUTES: Readonly<Record<string, ContextAttribute>> = {
  ip_address: {
    value: ({ context }) => extension('ip', ipOf(context.address)),
    key: ({ context }) => context.address,
  },
  request_id: { value: ({ context }) => text(context.requestId) },
  timestamp: { value: ({ now }) => extension('datetime', new Date(now).toISOString()) },
  hour: { value: hourOf, key: hourOf },
  // In the key anyhow: see keyOf.
  roles: { value: ({ context }) => context.roles.map(text), key: () => undefined },
  tenant: { value: (question) => optionalText(tenantOf(question)), key: tenantOf },
  method: { value: ({ context }) => text(context.method), key: ({ context }) => context.method },
  route: { value: ({ route }) => text(route), key: ({ route }) => route },
}

interface EntityUid {
  type: string
  id: string
}

/** A question as Cedar takes it. */
export interface Call {
  principal: EntityUid
  action: EntityUid
  resource: EntityUid
  context: Record<string, unknown>
  entities: { uid: EntityUid; attrs: Record<string, string>; parents: EntityUid[] }[]
}

/** No type has a blank in it. */
export function uidText({ type, id }: EntityUid): string {
  return `${type} ${id}`
}

/** @param used names of CONTEXT_ATTRIBUTES: what policies do not look at need not be told. @throws IllFormed */
export function callOf(question: Question, used: readonly string[]): Call {
  const { context, action, namespace } = question
  const principal = { type: 'Svc::User', id: text(context.principal) }
  const resource = namespace === undefined ? { type: 'Svc::System', id: SYSTEM } : { type: 'Svc::Namespace', id: text(namespace) }
  const asked = { type: 'Svc::Action', id: action }
  const parents = context.roles.map((role) => ({ type: 'Svc::Role', id: text(role) }))
  const facts: Record<string, unknown> = {}
  for (const name of used) {
    const value = CONTEXT_ATTRIBUTES[name].value(question)
    if (value !== undefined) facts[name] = value
  }
  return {
    principal,
    action: asked,
    resource,
    context: facts,
    entities: [
      { uid: principal, attrs: { name: context.principal }, parents },
      namespace === undefined
        ? { uid: asked, attrs: {}, parents: [{ type: 'Svc::Action', id: 'Admin' }] }
        : { uid: resource, attrs: { name: namespace }, parents: [] },
    ],
  }
}

/**
 * Two questions with one key have one answer: everything that policies may look at is in it. Who asks and for what always is; of the
 * context, what `used` names. Undefined where a part has no key, such as the time: each such question is asked anew.
 */
export function keyOf(question: Question, used: readonly string[]): string | undefined {
  const { context, action, namespace } = question
  const parts: unknown[] = [action, namespace, context.principal, context.roles]
  for (const name of used) {
    const { key } = CONTEXT_ATTRIBUTES[name]
    if (key === undefined) return undefined
    parts.push(key(question))
  }
  return JSON.stringify(parts)
}

function tenantOf({ context }: Question): string | undefined {
  const { tenant_id: tenant } = context.claims
  return typeof tenant === 'string' ? tenant : undefined
}

function hourOf({ now }: Question): number {
  return new Date(now).getUTCHours()
}

function extension(fn: string, arg: string | undefined): object | undefined {
  return arg === undefined ? undefined : { __extn: { fn, arg } }
}

function optionalText(value: string | undefined): string | undefined {
  return value === undefined ? undefined : text(value)
}

function text(value: string): string {
  if (!value.isWellFormed()) throw new IllFormed('the credential names something that is no Unicode text')
  return value
}
