/** Emergency stops by scope. */
import type { HaltOperations } from 'svcdb/agents'
import { LIST_LIMIT, nonBlank, operation, type StoreNeed, shown } from '../operation.ts'
import { Refusal } from '../refusal.ts'
import { Basis, closed, named, orNull, Type } from '../schema.ts'

const SCOPE = /^(?:tenant|agent:[^\s\p{Cc}]{1,128}|revision:[0-9a-f]{64}|subject:(?=.*\S)[^\p{Cc}]{1,256})$/u

const HaltScope = named('HaltScope', Type.String({ description: 'tenant, agent:<name>, revision:<digest of the manifest> or subject:<principal>' }))
const seconds = () => Type.Integer({ description: 'Unix seconds' })

const HaltView = named(
  'HaltView',
  closed({
    scope: HaltScope,
    covers: Type.String({ description: 'What the scope covers, for people' }),
    reason: Type.String(),
    by: Type.String(),
    basis: Basis,
    thrown_at: seconds(),
  }),
)
const HaltLiftView = named(
  'HaltLiftView',
  closed({
    scope: HaltScope,
    by: Type.String(),
    basis: Basis,
    lifted_at: seconds(),
    reason: Type.String(),
    thrown_by: Type.String(),
    thrown_basis: Basis,
    thrown_at: seconds(),
    record: Type.String({ description: 'The run that says so' }),
  }),
)
const HaltList = named(
  'HaltList',
  closed({ halts: Type.Array(HaltView), lifted: Type.Array(HaltLiftView), truncated: Type.Boolean({ description: 'There are more than these' }) }),
)

const store: StoreNeed<HaltOperations> = { name: 'quota', of: ({ halts }) => halts }

/** @throws Refusal 400. */
function scoped(scope: string): string {
  if (!SCOPE.test(scope)) throw new Refusal(400, `${shown(scope)} is not a halt scope: it is tenant, agent:<name>, revision:<digest> or subject:<principal>`)
  return scope
}

export const halts = [
  operation({
    method: 'GET',
    path: '/halts',
    operationId: 'list_halts',
    action: 'api:halt.list',
    summary: 'Emergency stops that stand, or that were lifted',
    resource: '*',
    query: { state: Type.String({ default: 'standing', description: 'standing or lifted' }) },
    answer: HaltList,
    store,
    handle: async ({ store: of, query: { state } }) => {
      if (state === 'standing') return { halts: await of.standing(), lifted: [], truncated: false }
      if (state !== 'lifted') throw new Refusal(400, '`state` must be `standing` or `lifted`')
      const { rows, truncated } = await of.lifted(LIST_LIMIT)
      return { halts: [], lifted: rows, truncated }
    },
  }),
  operation({
    method: 'POST',
    path: '/halts',
    operationId: 'place_halt',
    action: 'api:halt.place',
    summary: 'Stops all that a scope covers; where it is stopped, the reason and the instant are new',
    resource: { body: 'scope' },
    body: named('PlaceHaltRequest', closed({ scope: HaltScope, reason: Type.String() })),
    answer: named(
      'PlaceHaltAnswer',
      closed({
        scope: HaltScope,
        halted: Type.Boolean(),
        reason: Type.String(),
        by: Type.String(),
        basis: Basis,
        reach: Type.String({ description: 'How far it reaches, for people' }),
      }),
    ),
    store,
    handle: ({ store: of, body: { scope, reason }, operator }) => of.place(scoped(scope), nonBlank(reason), operator),
  }),
  operation({
    method: 'POST',
    path: '/halts/lift',
    operationId: 'lift_halt',
    action: 'api:halt.lift',
    summary: 'Lifts the stop of a scope',
    resource: { body: 'scope' },
    body: named('LiftHaltRequest', closed({ scope: HaltScope })),
    answer: named(
      'LiftHaltAnswer',
      closed({
        scope: HaltScope,
        halted: Type.Boolean({ description: 'One stands now' }),
        was_standing: Type.Boolean(),
        by: Type.String(),
        basis: Basis,
        record: orNull(Type.String({ description: 'The run that says so' })),
        removed: Type.Boolean(),
      }),
    ),
    store,
    handle: ({ store: of, body: { scope }, operator }) => of.lift(scoped(scope), operator),
  }),
]
