/**
 * Which policies can apply to a call, told from their scopes: what stands in the parentheses behind `permit` and `forbid`. A policy whose scope does not
 * fit has no part in a decision, not even by failing, and the engine takes more than a microsecond for each that it is given.
 */
import type { PolicyJson } from '@cedar-policy/cedar-wasm/nodejs'
import { type Call, uidText } from './request.ts'

/** All that are there must hold. */
interface Constraint {
  type?: string
  equals?: string
  /** The entity, or one that it is in, must be among them. */
  within?: readonly string[]
}

export interface Scope {
  principal: Constraint
  action: Constraint
  resource: Constraint
}

export function scopeOf({ principal, action, resource }: Pick<PolicyJson, 'principal' | 'action' | 'resource'>): Scope {
  return { principal: constraintOf(principal), action: constraintOf(action), resource: constraintOf(resource) }
}

/** @returns the indices of the scopes that fit, in order. */
export function fitting(scopes: readonly Scope[], { principal, action, resource, entities }: Call): number[] {
  const [caller, asked, about] = [principal, action, resource].map((uid): Named => {
    const self = uidText(uid)
    const parents = entities.find((entity) => uidText(entity.uid) === self)?.parents ?? []
    return { type: uid.type, self, ancestors: new Set([self, ...parents.map(uidText)]) }
  })
  const found: number[] = []
  for (let i = 0; i < scopes.length; i++) {
    const scope = scopes[i]
    if (fits(scope.action, asked) && fits(scope.resource, about) && fits(scope.principal, caller)) found.push(i)
  }
  return found
}

interface Named {
  type: string
  self: string
  /** Itself, and what it is in. */
  ancestors: ReadonlySet<string>
}

function fits({ type, equals, within }: Constraint, entity: Named): boolean {
  if (type !== undefined && type !== entity.type) return false
  if (equals !== undefined && equals !== entity.self) return false
  return within === undefined || within.some((uid) => entity.ancestors.has(uid))
}

interface Written {
  op: string
  entity?: unknown
  entities?: readonly unknown[]
  entity_type?: string
  in?: object
}

/** What is written in a form that is not known here constrains nothing: the engine is asked. */
function constraintOf(written: Written): Constraint {
  const { op, entity, entities, entity_type: type, in: inside } = written
  if (op === '==') return strict('equals', textOf(entity))
  if (op === 'in') return strict('within', allOf(entities ?? [entity]))
  if (op === 'is' && type !== undefined) return { type, ...(inside === undefined ? {} : strict('within', allOf([(inside as Written).entity]))) }
  return {}
}

function strict<K extends keyof Constraint>(key: K, value: Constraint[K] | undefined): Constraint {
  return value === undefined ? {} : { [key]: value }
}

function allOf(entities: readonly unknown[]): string[] | undefined {
  const texts = entities.map(textOf)
  return texts.every((text) => text !== undefined) ? texts : undefined
}

function textOf(entity: unknown): string | undefined {
  const { type, id } = ((entity as { __entity?: object } | undefined)?.__entity ?? entity ?? {}) as { type?: unknown; id?: unknown }
  return typeof type === 'string' && typeof id === 'string' ? uidText({ type, id }) : undefined
}
